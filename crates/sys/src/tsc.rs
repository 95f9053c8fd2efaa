//! The processor's time-stamp counter and the kernel's clocks, for the `clock` room.

/// The kernel's clocks that Reelway reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelClockId {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_REALTIME`.
    Real,
}

/// The kernel's time in nanoseconds since the clock's zero; times before it are zero.
pub fn kernel_nanos(clock: KernelClockId) -> u64 {
    let id = match clock {
        KernelClockId::Monotonic => libc::CLOCK_MONOTONIC,
        KernelClockId::Real => libc::CLOCK_REALTIME,
    };
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the write; these two clocks exist on every Linux, so the call
    // cannot fail.
    unsafe { libc::clock_gettime(id, &mut time) };
    u64::try_from(time.tv_sec).map_or(0, |s| s * 1_000_000_000 + time.tv_nsec as u64)
}
