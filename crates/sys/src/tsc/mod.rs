//! The processor's time counter (TSC on x86-64, `CNTVCT_EL0` on AArch64) and the kernel's clocks,
//! for the crate `clock` and its preload library.
//!
//! Nothing here uses libc's own `clock_gettime`: the preload library *is* the `clock_gettime` of
//! the programs under which it is loaded, and would call itself. The kernel's clock is read through
//! the vDSO (located by hand, `vdso.rs`) or by a raw system call (`raw.rs`), which also leaves
//! `errno` alone and is safe in a signal handler.
//!
//! | file | content |
//! |---|---|
//! | `counter.rs` | reading the counter, and the processor's properties of it |
//! | `page.rs` | a page of atomic words that reads as zeros in a forked child |
//! | `vdso.rs` | the kernel's clock functions in the vDSO |
//! | `abi.rs` | the kernel's clock numbers and time structures |
//! | `raw.rs` | raw system calls without `errno` |
//! | `cpus.rs` | pinning threads, to test the counters of all processors against each other |

mod abi;
mod counter;
mod cpus;
mod page;
mod raw;
mod vdso;

pub use abi::{
    BOOTTIME, MONOTONIC, MONOTONIC_COARSE, MONOTONIC_RAW, REALTIME, REALTIME_COARSE, Timespec,
    Timeval,
};
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
