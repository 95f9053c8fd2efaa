//! The processor's time counter (TSC on x86-64, `CNTVCT_EL0` on AArch64) and the kernel's clocks,
//! for the `clock` room and its preload library.
//!
//! Nothing here goes through libc's own `clock_gettime`: the preload library *is* libc's
//! `clock_gettime` in the programs it is put under, and would call itself. The kernel's clock is
//! read through the vDSO (found by hand, `vdso.rs`) or by a raw system call (`raw.rs`), which also
//! leaves `errno` alone and is safe in a signal handler.
//!
//! | file | what lives there |
//! |---|---|
//! | `counter.rs` | reading the counter, and what the processor says about it |
//! | `page.rs` | a page of atomic words that a fork gives to the child as zeros |
//! | `vdso.rs` | the kernel's clock functions in the vDSO |
//! | `raw.rs` | raw system calls without `errno` |
//! | `cpus.rs` | pinning threads, to test the counters of all processors against each other |

mod counter;
mod cpus;
mod page;
mod raw;
mod vdso;

pub use counter::{
    Halves, counter, counter_halves, counter_ordered, counter_ordered_halves, frequency_hint,
    hypervisor, invariant, readable,
};
pub use cpus::CpuSet;
pub use page::{ForkPage, WORDS};
pub use raw::{
    append, clock_gettime_into, environment, gettimeofday_into, read_link, read_small_file,
    write_stderr,
};
pub use vdso::{
    has_vdso, kernel_nanos, kernel_time, vdso_clock_gettime, vdso_gettimeofday, vdso_time,
};

/// The kernel's number of `CLOCK_REALTIME`.
pub const REALTIME: i32 = 0;
/// The kernel's number of `CLOCK_MONOTONIC`.
pub const MONOTONIC: i32 = 1;
/// The kernel's number of `CLOCK_MONOTONIC_RAW`.
pub const MONOTONIC_RAW: i32 = 4;
/// The kernel's number of `CLOCK_REALTIME_COARSE`.
pub const REALTIME_COARSE: i32 = 5;
/// The kernel's number of `CLOCK_MONOTONIC_COARSE`.
pub const MONOTONIC_COARSE: i32 = 6;
/// The kernel's number of `CLOCK_BOOTTIME`.
pub const BOOTTIME: i32 = 7;

/// `struct timespec` of a 64-bit Linux, as the kernel writes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timespec {
    /// Seconds since the clock's zero.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: i64,
}

/// `struct timeval` of a 64-bit Linux.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeval {
    /// Seconds since the clock's zero.
    pub sec: i64,
    /// Microseconds, 0 to 999,999.
    pub usec: i64,
}
