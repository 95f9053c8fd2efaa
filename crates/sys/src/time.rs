//! The kernel's clocks, read directly.

/// Reads a clock in nanoseconds. The clocks read here always exist, so there is no error to report.
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

/// `CLOCK_MONOTONIC` in ns: the clock of sleeps and departure times.
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

/// The minute of the day, 0 to 1439, at `seconds` since 1970 in this machine's time zone: that of
/// `TZ`, or of `/etc/localtime`. UTC for times that the C library cannot convert.
pub fn minute_of_day(seconds: u64) -> u32 {
    let at = libc::time_t::try_from(seconds).unwrap_or_default();
    // SAFETY: a tm is plain numbers, and a pointer that is only written here.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: the function reads and writes these two; unlike localtime it shares nothing with
    // other threads.
    let is_known = unsafe { !libc::localtime_r(&at, &mut local).is_null() };
    match is_known {
        true => (local.tm_hour * 60 + local.tm_min).clamp(0, 1439) as u32,
        false => (seconds / 60 % 1440) as u32,
    }
}

/// Makes the calling thread's sleeps end as precisely as the kernel can: otherwise it may delay
/// them by 50 µs to save wake-ups (prctl(2), `PR_SET_TIMERSLACK`).
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

    #[test]
    fn a_day_has_1440_minutes_in_every_time_zone() {
        let start = 1_800_000_000;
        let first = super::minute_of_day(start);
        for minutes in 0..1440 {
            let minute = super::minute_of_day(start + minutes * 60);
            assert_eq!(minute, (first + minutes as u32) % 1440);
        }
    }
}
