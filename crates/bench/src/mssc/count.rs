//! Counts for the paper's claim: system calls per packet, by name; and the kinds of source from
//! which each way can send.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::receive::Receiver;
use super::run::{on_servers_core, run};
use super::task::{Sessions, Task, Way};
use super::toy::{BYTES, SESSIONS, ways};
use crate::bed::Child;
use crate::bed::children::is_installed;

/// System calls per packet of one way.
#[derive(Clone, Debug, Serialize)]
pub struct Calls {
    /// The way of sending.
    pub way: Way,
    /// System calls per packet, by name; those made for fewer than one packet in 200 are left out.
    pub calls: BTreeMap<String, f64>,
    /// Sum of all calls per packet.
    pub total: f64,
}

/// Counts with `strace`, in runs of two lengths, whose difference is due to the packets alone.
pub fn calls(folder: &Path, file: &Path) -> anyhow::Result<Vec<Calls>> {
    const SHORT: u32 = 30;
    const LONG: u32 = 130;
    let mut all = Vec::new();
    if !is_installed("strace") {
        return Ok(all);
    }
    for way in ways() {
        let mut counts = Vec::new();
        for packets in [SHORT, LONG] {
            let table = folder.join("strace");
            let mut command = Command::new("strace");
            command
                .args(["-c", "-f", "-o"])
                .arg(&table)
                .arg(std::env::current_exe()?);
            let receiver = Receiver::start(SESSIONS)?;
            let task = Sessions {
                way: way.clone(),
                packets,
                ..short(file, receiver.address())
            };
            run(
                command,
                &Task::Sessions(task),
                Duration::from_secs(60),
                |_| {},
            )?;
            receiver.stop()?;
            counts.push(read_table(&std::fs::read_to_string(&table)?));
        }
        let (Some(long), Some(short)) = (counts.pop(), counts.pop()) else {
            continue;
        };
        let packets = f64::from((LONG - SHORT) * SESSIONS);
        let a_packet = |(name, calls): (&String, &u64)| {
            let more = calls.saturating_sub(short.get(name).copied().unwrap_or(0)) as f64 / packets;
            (name.clone(), more)
        };
        let calls: BTreeMap<String, f64> = long
            .iter()
            .map(a_packet)
            .filter(|(_, calls)| *calls >= 0.005)
            .collect();
        all.push(Calls {
            total: calls.values().sum(),
            way,
            calls,
        });
    }
    Ok(all)
}

fn short(file: &Path, to: std::net::SocketAddr) -> Sessions {
    Sessions {
        way: Way::Absolute,
        sessions: SESSIONS,
        packets: 0,
        bytes: BYTES,
        interval_us: 10_000,
        normal_priority: false,
        file: file.to_owned(),
        to,
    }
}

/// Parses the table of `strace -c`: calls by name.
fn read_table(table: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // % time, seconds, usecs/call, calls, [errors], syscall
        if let [share, _, _, calls, .., name] = words[..]
            && share.parse::<f64>().is_ok()
            && name != "total"
            && let Ok(calls) = calls.parse()
        {
            all.insert(name.to_owned(), calls);
        }
    }
    all
}

/// The kinds of source from which a way can send.
#[derive(Clone, Debug, Serialize)]
pub struct Sources {
    /// The way of sending.
    pub way: Way,
    /// Kinds tried, and whether packets arrived.
    pub sources: Vec<(&'static str, bool)>,
}

/// Tries each way with a file on disk, one in memory, a pipe and a character device.
pub fn sources(folder: &Path, file: &Path) -> anyhow::Result<Vec<Sources>> {
    let in_memory = PathBuf::from(format!("/dev/shm/reelway-mssc-{}", std::process::id()));
    let pipe = folder.join("pipe");
    nix::unistd::mkfifo(
        &pipe,
        nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR,
    )?;
    let has_memory = std::fs::copy(file, &in_memory).is_ok();
    let mut all = Vec::new();
    for way in ways() {
        let mut sources = vec![("file on disk", one(&way, file))];
        if has_memory {
            sources.push(("file in memory (tmpfs)", one(&way, &in_memory)));
        }
        // A program that writes into the pipe as long as it is read.
        let mut writer = Command::new("timeout");
        writer
            .args(["10", "dd", "if=/dev/zero", "bs=4096", "count=64"])
            .arg(format!("of={}", pipe.display()));
        let writer = Child::start_quiet(&mut writer)?;
        sources.push(("pipe", one(&way, &pipe)));
        drop(writer);
        sources.push((
            "character device (/dev/zero)",
            one(&way, Path::new("/dev/zero")),
        ));
        all.push(Sources { way, sources });
    }
    let _ = std::fs::remove_file(&in_memory);
    Ok(all)
}

/// Whether three packets arrive.
fn one(way: &Way, file: &Path) -> bool {
    let attempt = || -> anyhow::Result<usize> {
        let receiver = Receiver::start(1)?;
        let task = Sessions {
            way: way.clone(),
            sessions: 1,
            packets: 3,
            ..short(file, receiver.address())
        };
        let mut command = on_servers_core(false)?;
        command.stderr(std::process::Stdio::null());
        let outcome = run(
            command,
            &Task::Sessions(task),
            Duration::from_secs(5),
            |_| {},
        );
        let arrivals = receiver.stop()?;
        outcome?;
        Ok(arrivals.iter().map(Vec::len).sum())
    };
    attempt().is_ok_and(|packets| packets == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_with_and_without_errors() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n \
                     41.18    0.000007           7         1           read\n  \
                     5.00    0.000001           0        12         3 openat\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.000017           8        13         3 total\n";
        let calls = read_table(table);
        assert_eq!(calls.len(), 2);
        assert_eq!((calls["read"], calls["openat"]), (1, 12));
    }
}
