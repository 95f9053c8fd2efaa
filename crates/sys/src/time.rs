//! The kernel's clocks, read directly.

/// Nanoseconds of a clock. The clocks read here always exist, so there is no error to report.
fn read(clock: libc::clockid_t) -> u64 {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `at` is a timespec to be written.
    unsafe { libc::clock_gettime(clock, &mut at) };
    (at.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(at.tv_nsec as u64)
}

/// `CLOCK_MONOTONIC` in ns: what sleeps and departure times are counted in.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` in ns since 1970.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time of this process, user and system, in ns.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread, user and system, in ns.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Lets the calling thread's sleeps end as exactly as the kernel can: it may otherwise put them off
/// by 50 µs to save wake-ups (prctl(2), `PR_SET_TIMERSLACK`).
pub fn precise_timers() {
    // SAFETY: takes a number and touches no memory. It cannot fail for a slack of 1 ns.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn clocks_run_forward() {
        let before = (super::monotonic_ns(), super::thread_cpu_ns());
        assert!(super::monotonic_ns() >= before.0 && super::thread_cpu_ns() >= before.1);
        assert!(super::realtime_ns() > 1_700_000_000 * 1_000_000_000);
        assert!(super::process_cpu_ns() > 0);
    }
}
