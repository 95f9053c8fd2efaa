//! CPU time and memory of the machine and of single processes, as the kernel accounts for them.

use std::time::Duration;

use anyhow::Context;
use reelway_clock::Monotonic;

/// The idle time of each core so far.
///
/// The kernel counts idle time exactly, but samples busy time at every tick, which is wrong for a
/// server that wakes with the tick. So busy time is calculated as the rest.
#[derive(Clone, Debug)]
pub struct Idle {
    at: Monotonic,
    /// Seconds that each core was idle, waiting for a disk, or taken by the host.
    cores: Vec<f64>,
}

impl Idle {
    /// Reads the current values.
    pub fn now() -> anyhow::Result<Idle> {
        let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
        Ok(Idle {
            at: reelway_clock::now(),
            cores: idle_of(&stat),
        })
    }

    /// Returns the seconds that each core was busy since `before`.
    pub fn busy_since(&self, before: &Idle) -> Vec<f64> {
        let seconds = self.seconds_since(before);
        let idle = self.cores.iter().zip(&before.cores);
        idle.map(|(after, before)| (seconds - (after - before)).max(0.0))
            .collect()
    }

    /// Returns the seconds since `before`.
    pub fn seconds_since(&self, before: &Idle) -> f64 {
        self.at.since(before.at).as_secs_f64()
    }
}

/// USER_HZ, which is 100 on all current Linux systems.
const TICKS: f64 = 100.0;

fn idle_of(stat: &str) -> Vec<f64> {
    let mut cores = Vec::new();
    for line in stat.lines() {
        let Some(rest) = line.strip_prefix("cpu") else {
            continue;
        };
        if !rest.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        // user nice system idle iowait irq softirq steal
        let field = |number: usize| {
            rest.split_whitespace()
                .nth(number)
                .and_then(|text| text.parse::<f64>().ok())
        };
        cores.push(
            (field(4).unwrap_or(0.0) + field(5).unwrap_or(0.0) + field(8).unwrap_or(0.0)) / TICKS,
        );
    }
    cores
}

/// Returns the CPU time of a process, user and system, of all its threads and of children that it
/// has waited for.
///
/// Live threads are accurate to the nanosecond, the rest to 10 ms.
pub fn cpu_of(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid}"))?;
    let coarse = Duration::from_secs_f64(accounted(&stat).context("/proc/PID/stat")?);
    let mut fine = Duration::ZERO;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        fine += Duration::from_nanos(
            text.split(' ')
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
        );
    }
    // The time of threads that have ended is in the coarse figure only.
    Ok(if coarse > fine + Duration::from_millis(40) {
        coarse
    } else {
        fine
    })
}

/// Returns the CPU seconds of all processes except `ours` and the kernel's softirq threads, to
/// 10 ms each. Processes that have ended are included in their parents.
pub fn cpu_of_others(ours: &[u32]) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for process in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        // The process may have ended by now.
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else {
            continue;
        };
        if !ours.contains(&pid) && !stat.contains("(ksoftirqd/") {
            sum += accounted(&stat).unwrap_or(0.0);
        }
    }
    Ok(sum)
}

/// Parses `stat`: user and system seconds of a process and of its children that have ended.
fn accounted(stat: &str) -> Option<f64> {
    // The name in brackets may contain anything; only numbers follow it.
    let (_, numbers) = stat.rsplit_once(')')?;
    let ticks: f64 = numbers
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|text| text.parse::<f64>().ok())
        .sum();
    Some(ticks / TICKS)
}

/// Other load on the machine during an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    at: Monotonic,
    others: f64,
    stolen: f64,
}

impl Disturbance {
    /// Begins to measure. Must be called before any program is started.
    pub fn watch() -> anyhow::Result<Disturbance> {
        let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
        Ok(Disturbance {
            at: reelway_clock::now(),
            // Programs that this process started and that have ended count as its own.
            others: cpu_of_others(&[std::process::id()])?,
            stolen: stolen(&stat),
        })
    }

    /// Describes the load since then in a sentence.
    pub fn describe(&self) -> anyhow::Result<String> {
        let now = Disturbance::watch()?;
        let seconds = now.at.since(self.at).as_secs_f64().max(1e-9);
        Ok(format!(
            "Meanwhile other programs took {:.0}% of a core, and the host {:.0}%.",
            (now.others - self.others).max(0.0) * 100.0 / seconds,
            (now.stolen - self.stolen).max(0.0) * 100.0 / seconds
        ))
    }
}

/// Returns the seconds that a virtual machine's host took from all cores.
fn stolen(stat: &str) -> f64 {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    all.and_then(|line| line.split_whitespace().nth(7)?.parse::<f64>().ok())
        .unwrap_or(0.0)
        / TICKS
}

/// Returns the resident memory of a process, including shared memory, and its peak, in bytes.
pub fn memory_of(pid: u32) -> anyhow::Result<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid}"))?;
    let kilobytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
            .unwrap_or(0)
            * 1024
    };
    Ok((kilobytes("VmRSS:"), kilobytes("VmHWM:")))
}

/// Returns the number of this process's open descriptors.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_idle_waiting_and_stolen_of_each_core() {
        assert_eq!(
            accounted("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 50 25 25 20 0"),
            Some(2.0)
        );
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 400 50 6 7 8 0 0\ncpu1 1 2 3 100 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(idle_of(stat), [4.58, 1.0]);
    }

    #[test]
    fn a_process_that_works_spends_time() {
        let before = cpu_of(std::process::id()).unwrap();
        // This takes several of the kernel's ticks.
        for n in 0..200_000_000_u64 {
            std::hint::black_box(n);
        }
        assert!(cpu_of(std::process::id()).unwrap() > before);
        assert!(memory_of(std::process::id()).unwrap().0 > 0 && descriptors() > 0);
    }
}
