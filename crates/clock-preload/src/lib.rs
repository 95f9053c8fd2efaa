//! `libreelway_clock_preload.so`: libc's clock functions, implemented with the processor's counter.
//!
//! ```sh
//! LD_PRELOAD=/path/to/libreelway_clock_preload.so program
//! ```
//!
//! The functions of this file replace libc's in a program that is unaware of them: same arguments,
//! same results, same `errno`. They must work before `main` (constructors of other libraries), in
//! signal handlers, in children of `fork` and `vfork`, under a system call filter, and in any
//! thread. So nothing here allocates, locks, or needs initialisation; `docs/guide/clock.md`
//! describes the behaviour for users.
//!
//! | file | content |
//! |---|---|
//! | `lib.rs` | the functions that read the time |
//! | `setters.rs` | the functions that set it: passed on, after which the clock is compared again |
//! | `mode.rs` | settings from the environment; start and end of the program |
//! | `guard.rs` | stores that return EFAULT for bad addresses, if enabled |
//! | `unwind.rs` | empty symbols in place of a library that is not needed |
//!
//! Besides `sys`, this is the only crate with `unsafe` code: its arguments are raw pointers of C
//! programs.

mod errno;
mod guard;
mod mode;
mod setters;
#[cfg(panic = "abort")]
mod unwind;

use libc::{c_int, time_t, timezone};
use reelway_clock::process::{
    BOOT, MONOTONIC, RAW, REAL, fast_second_micros, fast_second_nanos, second_micros, second_nanos,
};
use reelway_sys::tsc::{self, Timespec, Timeval};

use errno::libc_answer;
use mode::{Call, Mode};

/// Whether a program may store a `T` at `address`, judging by the address alone: not near zero
/// (where `mmap` maps nothing), not in the kernel's half, not in between. One comparison; the rest
/// is left to the processor's memory protection (or [`guard`]).
#[inline(always)]
fn plausible<T>(address: *const T) -> bool {
    /// Nothing is mapped below this address (`vm.mmap_min_addr`).
    const LOWEST: usize = 0x1_0000;
    /// The end of the address space that a program gets by default (5-level tables).
    #[cfg(target_arch = "x86_64")]
    const END: usize = 0x7fff_ffff_f000;
    #[cfg(target_arch = "aarch64")]
    const END: usize = 0x1_0000_0000_0000;
    let address = address as usize;
    // AArch64 ignores the top byte of an address: a program may keep a tag there.
    #[cfg(target_arch = "aarch64")]
    let address = address & 0x00ff_ffff_ffff_ffff;
    address.wrapping_sub(LOWEST) < END - LOWEST - size_of::<T>()
}

/// Stores two words at `place`; returns 0 or `-EFAULT`.
///
/// # Safety
/// As for the libc function that was given `place`.
#[inline(always)]
unsafe fn store<T>(mode: Mode, place: *mut T, value: T) -> i32 {
    const { assert!(size_of::<T>() == 16) };
    if mode.guards() {
        // SAFETY: the guard handles any address; the caller permits overwriting its memory.
        return unsafe { guard::store(place.cast(), &raw const value as *const [u64; 2]) };
    }
    // SAFETY: guaranteed by the caller. Unaligned, because the kernel accepts that too.
    unsafe { place.write_unaligned(value) };
    0
}

/// `clock_gettime(2)`.
///
/// # Safety
/// As for libc's function, but NULL and addresses outside the program's half return EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    if plausible(time) && mode::is_plain() {
        let read = match clock {
            tsc::MONOTONIC => fast_second_nanos::<MONOTONIC, true>(),
            tsc::REALTIME => fast_second_nanos::<REAL, true>(),
            tsc::BOOTTIME => fast_second_nanos::<BOOT, true>(),
            tsc::MONOTONIC_RAW => fast_second_nanos::<RAW, true>(),
            _ => None,
        };
        if let Some((second, nanos)) = read {
            let value = Timespec {
                sec: second as i64,
                nsec: nanos as i64,
            };
            // SAFETY: the caller guarantees room for a `timespec`.
            unsafe { time.write_unaligned(value) };
            return 0;
        }
    }
    // SAFETY: guaranteed by the caller.
    unsafe { clock_gettime_otherwise(clock, time) }
}

/// The remaining cases of `clock_gettime` after the fast path.
///
/// # Safety
/// As for [`clock_gettime`].
#[inline(never)]
unsafe fn clock_gettime_otherwise(clock: c_int, time: *mut Timespec) -> c_int {
    let mode = mode::mode();
    if !plausible(time) {
        mode.count(Call::ToKernel);
        // SAFETY: the kernel checks the clock, and then the address.
        return libc_answer(unsafe { tsc::clock_gettime_into(clock, time) });
    }
    let followed = match clock {
        _ if mode.is_off() => None,
        tsc::MONOTONIC => Some(read::<MONOTONIC>(mode)),
        tsc::REALTIME => Some(read::<REAL>(mode)),
        tsc::BOOTTIME => Some(read::<BOOT>(mode)),
        tsc::MONOTONIC_RAW => Some(read::<RAW>(mode)),
        _ => None,
    };
    if let Some((second, nanos)) = followed {
        mode.count(Call::ClockGettime);
        let value = Timespec {
            sec: second as i64,
            nsec: nanos as i64,
        };
        // SAFETY: guaranteed by the caller.
        return libc_answer(unsafe { store(mode, time, value) });
    }
    // The coarse clocks (a plain load in the vDSO), TAI, CPU time, device clocks, and invalid
    // clocks: as in libc.
    mode.count(Call::ToKernel);
    if mode.guards() {
        // SAFETY: the kernel checks the address.
        return libc_answer(unsafe { tsc::clock_gettime_into(clock, time) });
    }
    // SAFETY: guaranteed by the caller.
    match unsafe { tsc::vdso_clock_gettime(clock, time) } {
        0 => 0,
        error => libc_answer(error),
    }
}

#[inline(always)]
fn read<const KIND: usize>(mode: Mode) -> (u64, u64) {
    if mode.is_unordered() {
        second_nanos::<KIND, false>()
    } else {
        second_nanos::<KIND, true>()
    }
}

/// `gettimeofday(2)`.
///
/// # Safety
/// As for libc's function, but addresses outside the program's half return EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut Timeval, zone: *mut timezone) -> c_int {
    if plausible(time)
        && zone.is_null()
        && mode::is_plain()
        && let Some((second, micros)) = fast_second_micros::<REAL, true>()
    {
        let value = Timeval {
            sec: second as i64,
            usec: micros as i64,
        };
        // SAFETY: the caller guarantees room for a `timeval`.
        unsafe { time.write_unaligned(value) };
        return 0;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { gettimeofday_otherwise(time, zone) }
}

/// The remaining cases of `gettimeofday` after the fast path.
///
/// # Safety
/// As for [`gettimeofday`].
#[inline(never)]
unsafe fn gettimeofday_otherwise(time: *mut Timeval, zone: *mut timezone) -> c_int {
    let mode = mode::mode();
    let zone = zone.cast::<[i32; 2]>();
    let good = |good: bool, null: bool| good || null;
    if !good(plausible(time), time.is_null()) || !good(plausible(zone), zone.is_null()) {
        mode.count(Call::ToKernel);
        // SAFETY: the kernel checks the addresses.
        return libc_answer(unsafe { tsc::gettimeofday_into(time, zone) });
    }
    if mode.is_off() || (mode.guards() && !zone.is_null()) {
        mode.count(Call::ToKernel);
        // SAFETY: guaranteed by the caller; with the guard, the kernel checks the addresses.
        let answer = unsafe {
            if mode.guards() {
                tsc::gettimeofday_into(time, zone)
            } else {
                tsc::vdso_gettimeofday(time, zone)
            }
        };
        return libc_answer(answer);
    }
    mode.count(Call::Gettimeofday);
    if !time.is_null() {
        let (second, micros) = if mode.is_unordered() {
            second_micros::<REAL, false>()
        } else {
            second_micros::<REAL, true>()
        };
        let value = Timeval {
            sec: second as i64,
            usec: micros as i64,
        };
        // SAFETY: guaranteed by the caller.
        let answer = unsafe { store(mode, time, value) };
        if answer != 0 {
            return libc_answer(answer);
        }
    }
    if !zone.is_null() {
        // The kernel's time zone, which only the kernel knows.
        // SAFETY: guaranteed by the caller.
        return libc_answer(unsafe { tsc::vdso_gettimeofday(std::ptr::null_mut(), zone) });
    }
    0
}

/// `time(2)`: as in libc, the second of the kernel's last tick, a load in the vDSO; it may lag
/// `clock_gettime` by a tick.
///
/// # Safety
/// As for libc's function, but addresses outside the program's half return EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(place: *mut time_t) -> time_t {
    let mode = mode::mode();
    mode.count(Call::Time);
    let now = tsc::vdso_time();
    if !place.is_null() {
        let stored = if !plausible(place) {
            -libc::EFAULT
        } else if mode.guards() {
            // SAFETY: the guard handles any address.
            unsafe { guard::store_one(place.cast(), now as u64) }
        } else {
            // SAFETY: the caller guarantees room for a `time_t`.
            unsafe { place.write_unaligned(now) };
            0
        };
        if stored != 0 {
            return libc_answer(stored).into();
        }
    }
    now
}

/// `ftime(3)`: real time in milliseconds; time zone and daylight saving are zero, as in libc.
///
/// # Safety
/// As for libc's function, but NULL and addresses outside the program's half return EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftime(place: *mut Timeb) -> c_int {
    let mode = mode::mode();
    mode.count(Call::Ftime);
    if !plausible(place) {
        return libc_answer(-libc::EFAULT);
    }
    let (second, nanos) = real(mode);
    let value = Timeb {
        second,
        milli: (nanos / 1_000_000) as u16,
        zone: 0,
        daylight: 0,
        padding: 0,
    };
    // SAFETY: guaranteed by the caller.
    libc_answer(unsafe { store(mode, place, value) })
}

/// `struct timeb` of `<sys/timeb.h>`.
#[repr(C)]
pub struct Timeb {
    second: u64,
    milli: u16,
    zone: i16,
    daylight: i16,
    padding: u16,
}

/// `timespec_get(3)` of C11.
///
/// # Safety
/// As for libc's function, but NULL and addresses outside the program's half return 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timespec_get(place: *mut Timespec, base: c_int) -> c_int {
    /// C11's base, the only one in libc 2.36.
    const TIME_UTC: c_int = 1;
    let mode = mode::mode();
    if base != TIME_UTC {
        // Bases of later libc versions.
        return setters::next_timespec_get(place, base);
    }
    mode.count(Call::TimespecGet);
    if !plausible(place) {
        return 0;
    }
    let (second, nanos) = real(mode);
    let value = Timespec {
        sec: second as i64,
        nsec: nanos as i64,
    };
    // SAFETY: guaranteed by the caller.
    if unsafe { store(mode, place, value) } == 0 {
        base
    } else {
        0
    }
}

/// The real time, in any mode.
fn real(mode: Mode) -> (u64, u64) {
    if mode.is_off() {
        let time = tsc::kernel_time(tsc::REALTIME).unwrap_or_default();
        (time.sec as u64, time.nsec as u64)
    } else {
        read::<REAL>(mode)
    }
}
