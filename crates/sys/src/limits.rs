//! Resource limits, priorities and processors of processes and threads.

use std::io;
use std::time::Duration;

use crate::check;

/// Raises the number of descriptors that this process may open to its hard limit, and returns that
/// number.
pub fn raise_descriptors() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is an rlimit to be written.
    check(i64::from(unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit)
    }))?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is an rlimit to be read.
        check(i64::from(unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit)
        }))?;
    }
    Ok(limit.rlim_cur)
}

/// The amount of memory that this process may lock, in bytes; `u64::MAX` if unlimited.
pub fn locked_memory() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is an rlimit to be written.
    match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } {
        0 => limit.rlim_cur,
        _ => 0,
    }
}

/// The memory available to this process, in bytes: that of the machine, or less if its control
/// group (version 2) or a parent group has a lower limit. `None` if it cannot be determined.
pub fn memory() -> Option<u64> {
    let read = |path: &std::path::Path| std::fs::read_to_string(path).ok();
    let information = read("/proc/meminfo".as_ref())?;
    let line = information
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = line?.split_whitespace().next()?.parse().ok()?;
    let mut most = kib.checked_mul(1024)?;
    let groups = read("/proc/self/cgroup".as_ref()).unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let root = std::path::Path::new("/sys/fs/cgroup");
    let mut directory = root.join(group.unwrap_or_default());
    // `max` is not a number and means no limit.
    while directory.starts_with(root) {
        let limit = read(&directory.join("memory.max")).and_then(|text| text.trim().parse().ok());
        most = most.min(limit.unwrap_or(u64::MAX));
        if !directory.pop() {
            break;
        }
    }
    Some(most)
}

/// Gives the calling thread this nice value, -20 (highest priority) to 19, if the process may set
/// it (lower values than now need `CAP_SYS_NICE` or RLIMIT_NICE).
pub fn set_thread_nice(nice: i32) -> io::Result<()> {
    // SAFETY: takes numbers only; 0 is the calling thread.
    check(i64::from(unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, nice)
    }))
    .map(drop)
}

/// Requests time slices of this length, 0.1 ms to 100 ms, for the calling thread if it is an
/// ordinary one (Linux 6.12 or later; earlier kernels ignore it). A thread with short slices waits
/// less when it wakes: the scheduler chooses by the end of the slice (EEVDF). The nice value stays,
/// and so does a real-time priority, with which a thread never waits for ordinary ones.
///
/// # Errors
///
/// `EPERM` if the thread's scheduling may not be changed.
pub fn set_thread_slice(slice: Duration) -> io::Result<()> {
    // SAFETY: takes numbers only; 0 is the calling thread.
    let policy = check(i64::from(unsafe { libc::sched_getscheduler(0) }))?;
    if policy & !i64::from(libc::SCHED_RESET_ON_FORK) != i64::from(libc::SCHED_OTHER) {
        return Ok(());
    }
    // SAFETY: takes numbers only; 0 is the calling thread. `errno` need not be checked: every
    // thread has a nice value.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: slice.as_nanos().try_into().unwrap_or(u64::MAX),
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: `attributes` is a sched_attr of the stated size, to be read; 0 is the calling thread.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) }).map(drop)
}

/// Gives the calling thread this real-time priority (`SCHED_FIFO`, 1 to 99): it runs before all
/// ordinary threads and real-time ones of lower priority, as long as it wants to. Its children are
/// ordinary again.
///
/// # Errors
///
/// `EPERM` if the process lacks the privilege (`CAP_SYS_NICE`, or RLIMIT_RTPRIO), `EINVAL` for an
/// invalid priority.
pub fn set_thread_realtime(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority.into(),
    };
    // SAFETY: `parameters` is a sched_param to be read; 0 is the calling thread.
    check(i64::from(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    }))
    .map(drop)
}

/// The number of processors that [`set_thread_core`] can address.
pub const MAX_CORES: usize = libc::CPU_SETSIZE as usize;

/// Pins the calling thread to this processor, counted from 0 as the kernel does.
///
/// # Errors
///
/// `EINVAL` if the processor does not exist, or the process may not use it.
pub fn set_thread_core(core: usize) -> io::Result<()> {
    if core >= MAX_CORES {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all-zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number lies within the set.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: a set of the size given, to be read; 0 is the calling thread.
    check(i64::from(unsafe {
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    }))
    .map(drop)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    /// The processors that the calling thread may run on, as the kernel shows them.
    fn allowed() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list:"));
        line.unwrap().split_whitespace().nth(1).unwrap().to_owned()
    }

    #[test]
    fn a_thread_is_held_to_a_processor_and_one_that_there_is_not_is_refused() {
        std::thread::spawn(|| {
            let before = allowed();
            let core: usize = before.split([',', '-']).next().unwrap().parse().unwrap();
            let error = super::set_thread_core(super::MAX_CORES).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
            assert_eq!(allowed(), before);
            super::set_thread_core(core).unwrap();
            assert_eq!(allowed(), core.to_string());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_of_short_slices_keeps_its_nice_value() {
        std::thread::spawn(|| {
            super::set_thread_nice(3).unwrap();
            super::set_thread_slice(Duration::from_micros(500)).unwrap();
            // SAFETY: an all-zero sched_attr is valid.
            let mut read: libc::sched_attr = unsafe { std::mem::zeroed() };
            let size = size_of::<libc::sched_attr>();
            // SAFETY: `read` is a sched_attr of `size` bytes, to be written.
            let result =
                unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut read, size, 0) };
            assert_eq!((result, read.sched_nice), (0, 3));
            // An older kernel does not report what it does not know.
            assert!(
                [0, 500_000].contains(&read.sched_runtime),
                "{}",
                read.sched_runtime
            );
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_goes_first_or_is_told_that_it_may_not() {
        std::thread::spawn(|| match super::set_thread_realtime(1) {
            Ok(()) => {
                super::set_thread_slice(Duration::from_micros(500)).unwrap();
                let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
                // After the name, which may contain anything: fields 40 and 41, rt_priority and
                // policy.
                let fields: Vec<&str> = stat
                    .rsplit(')')
                    .next()
                    .unwrap()
                    .split_whitespace()
                    .collect();
                assert_eq!((fields[37], fields[38]), ("1", "1"), "SCHED_FIFO at 1");
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EPERM));
                reelway_skip::skipped!("no right to a real-time priority: {error}");
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_descriptor_limit_is_raised_to_the_hard_limit() {
        let first = super::raise_descriptors().expect("may always be raised to the hard limit");
        assert_eq!(super::raise_descriptors().unwrap(), first);
    }
}
