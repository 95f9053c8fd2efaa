//! Core 0 is for the server and everything that is meant to disturb it; the other cores are for the
//! viewers and this program. On a machine with one core, all share it.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Returns the server's core in the format of `taskset -c`.
pub fn server() -> String {
    "0".to_owned()
}

/// Returns the viewers' cores in the format of `taskset -c`.
pub fn viewers() -> String {
    match configured() {
        0 | 1 => "0".to_owned(),
        cores => format!("1-{}", cores - 1),
    }
}

/// Returns the number of the machine's cores, including those that this process may not use.
pub fn configured() -> usize {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_core = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    stat.lines().filter(is_core).count()
}

/// Moves this thread, and the threads that it starts, off the server's core.
pub fn leave_the_servers() {
    let cores = configured();
    let mut set = CpuSet::new();
    for core in 1..cores {
        let _ = set.set(core);
    }
    if cores > 1 {
        // If this is not permitted, the experiment continues with less accuracy.
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}
