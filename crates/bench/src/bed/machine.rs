//! What the whole machine and single processes spend, as the kernel accounts it.

use std::time::Duration;

use anyhow::Context;
use reelway_clock::Monotonic;

/// How long each core has been idle so far.
///
/// Idle time is counted exactly, busy time by looking at every tick what runs, which a server that
/// wakes with the tick deceives: so busy is what is left of the time.
#[derive(Clone, Debug)]
pub struct Idle {
    at: Monotonic,
    /// Seconds idle, waiting for a disk, or taken by the host, of each core.
    cores: Vec<f64>,
}

impl Idle {
    /// As of now.
    pub fn now() -> anyhow::Result<Idle> {
        let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
        Ok(Idle {
            at: reelway_clock::now(),
            cores: idle_of(&stat),
        })
    }

    /// Seconds that each core was busy since `before`.
    pub fn busy_since(&self, before: &Idle) -> Vec<f64> {
        let seconds = self.seconds_since(before);
        let idle = self.cores.iter().zip(&before.cores);
        idle.map(|(after, before)| (seconds - (after - before)).max(0.0))
            .collect()
    }

    /// Seconds since `before`.
    pub fn seconds_since(&self, before: &Idle) -> f64 {
        self.at.since(before.at).as_secs_f64()
    }
}

/// USER_HZ is 100 on every Linux there is.
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

/// CPU time of a process, user and system, of all its threads, and of children it has waited for.
///
/// Threads that live are read to the nanosecond, the rest to 10 ms.
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
    // Threads that have ended are in the coarse figure only.
    Ok(if coarse > fine + Duration::from_millis(40) {
        coarse
    } else {
        fine
    })
}

/// CPU seconds of all processes but those given and the kernel's threads for interrupts, to 10 ms each; what ended
/// meanwhile is in its parent's account.
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
        // It may be gone by now.
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else {
            continue;
        };
        if !ours.contains(&pid) && !stat.contains("(ksoftirqd/") {
            sum += accounted(&stat).unwrap_or(0.0);
        }
    }
    Ok(sum)
}

/// User and system seconds of a process and its children that have ended, out of its `stat`.
fn accounted(stat: &str) -> Option<f64> {
    // The name in brackets may hold anything; what follows is numbers.
    let (_, numbers) = stat.rsplit_once(')')?;
    let ticks: f64 = numbers
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|text| text.parse::<f64>().ok())
        .sum();
    Some(ticks / TICKS)
}

/// What else the machine did during an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    at: Monotonic,
    others: f64,
    stolen: f64,
}

impl Disturbance {
    /// Begins to look. To be called before anything is started.
    pub fn watch() -> anyhow::Result<Disturbance> {
        let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
        Ok(Disturbance {
            at: reelway_clock::now(),
            // What was started and has ended is in this process's account.
            others: cpu_of_others(&[std::process::id()])?,
            stolen: stolen(&stat),
        })
    }

    /// What was seen since, in a sentence.
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

/// Seconds that the host of a virtual machine took from all cores.
fn stolen(stat: &str) -> f64 {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    all.and_then(|line| line.split_whitespace().nth(7)?.parse::<f64>().ok())
        .unwrap_or(0.0)
        / TICKS
}

/// Memory in use that is a process's own or shared, and the most there was, in bytes.
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

/// Open descriptors of this process.
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
        // Several of the kernel's ticks.
        for n in 0..200_000_000_u64 {
            std::hint::black_box(n);
        }
        assert!(cpu_of(std::process::id()).unwrap() > before);
        assert!(memory_of(std::process::id()).unwrap().0 > 0 && descriptors() > 0);
    }
}
