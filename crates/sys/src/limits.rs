//! Limits the system sets on a process.

use std::io;

use crate::check;

/// Raises the number of descriptors this process may open to the most it may ask for (its hard
/// limit), and returns that number.
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

/// How much memory this process may lock, in bytes; `u64::MAX` without a limit.
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

/// Gives the calling thread this nice value, -20 (goes first) to 19, where the process may
/// (`CAP_SYS_NICE` or RLIMIT_NICE for one below its present value).
pub fn set_thread_nice(nice: i32) -> io::Result<()> {
    // SAFETY: takes numbers only; 0 is the calling thread.
    check(i64::from(unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, nice)
    }))
    .map(drop)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_descriptor_limit_is_raised_to_the_hard_limit() {
        let first = super::raise_descriptors().expect("may always be raised to the hard limit");
        assert_eq!(super::raise_descriptors().unwrap(), first);
    }
}
