//! Core 0 is the server's, and of everything that shall disturb it; the other cores are the viewers'
//! and this program's. On a machine with one core all share it.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The server's core, as `taskset -c` takes it.
pub fn server() -> String {
    "0".to_owned()
}

/// The viewers' cores, as `taskset -c` takes them.
pub fn viewers() -> String {
    match configured() {
        0 | 1 => "0".to_owned(),
        cores => format!("1-{}", cores - 1),
    }
}

/// Cores of the machine, whatever this process may use at the moment.
pub fn configured() -> usize {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_core = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    stat.lines().filter(is_core).count()
}

/// Leaves the server's core alone: this thread, and the threads it starts, use the others.
pub fn leave_the_servers() {
    let cores = configured();
    let mut set = CpuSet::new();
    for core in 1..cores {
        let _ = set.set(core);
    }
    if cores > 1 {
        // Where it is not allowed the experiment is less exact, and goes on.
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}
