//! The paper's sessions as they were and as they could have been: a thread each, a packet at a time.

use std::fs::File;
use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nix::sys::sendfile::sendfile;
use nix::sys::socket::{MsgFlags, send};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use super::task::{Account, Late, Outcome, Sessions, Way};

/// A timer tick of Linux 2.2 on a PC.
const TICK: u64 = 10_000_000;
/// Bytes of an RTP header (RFC 3550 section 5.1).
pub const HEADER: usize = 12;

/// The header of packet number `number` of session `ssrc`.
pub fn header(ssrc: u32, number: u32, step: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = 0x80;
    header[1] = 96;
    header[2..4].copy_from_slice(&(number as u16).to_be_bytes());
    header[4..8].copy_from_slice(&number.wrapping_mul(step).to_be_bytes());
    header[8..].copy_from_slice(&ssrc.to_be_bytes());
    header
}

/// What follows belongs to the same datagram.
pub fn more() -> MsgFlags {
    MsgFlags::from_bits_retain(nix::libc::MSG_MORE)
}

/// Sleeps to a moment of `CLOCK_MONOTONIC`, ns.
pub fn sleep_until(at: u64) {
    let at = TimeSpec::new((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
    // Only a signal ends it early, and then the packet leaves early.
    let _ = clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::TIMER_ABSTIME,
        &at,
    );
}

fn now() -> u64 {
    reelway_clock::now().nanos()
}

/// When the thread of a session goes on after a packet sent.
fn rest(way: &Way, began: u64, number: u32, interval: u64) {
    match way {
        // 30 ms were 3 ticks, and one more because the running one had begun: so 2.2 slept.
        Way::Ticks => sleep_until((now() / TICK + interval.div_ceil(TICK) + 1) * TICK),
        Way::Relative => std::thread::sleep(Duration::from_nanos(interval)),
        _ => sleep_until(began + u64::from(number + 1) * interval),
    }
}

/// Sends all sessions, and says what it took.
pub fn run(task: &Sessions) -> anyhow::Result<Outcome> {
    let start = &Barrier::new(task.sessions as usize);
    let account = Account::open()?;
    let lates = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..task.sessions)
            .map(|ssrc| scope.spawn(move || one(task, ssrc, start)))
            .collect();
        let all = threads.into_iter().map(|thread| {
            thread
                .join()
                .map_err(|_| anyhow!("a session's thread panicked"))?
        });
        all.collect::<anyhow::Result<Vec<_>>>()
    })?;
    let mut outcome = account.close()?;
    outcome.packets = lates.iter().map(|late| late.len() as u64).sum();
    outcome.late = Late::of(lates.concat());
    outcome.descriptors = crate::bed::machine::descriptors();
    outcome.memory = crate::bed::machine::memory_of(std::process::id())?.0;
    Ok(outcome)
}

/// One session; how late each packet left against the session's own schedule.
fn one(task: &Sessions, ssrc: u32, start: &Barrier) -> anyhow::Result<Vec<i64>> {
    let mut file = File::open(&task.file).with_context(|| task.file.display().to_string())?;
    let any = if task.to.is_ipv4() { "0.0.0.0" } else { "::" };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(task.to)?;
    let interval = task.interval_us * 1000;
    let step = (task.interval_us * 9 / 100) as u32;
    let mut packet = vec![0; HEADER + usize::from(task.bytes)];
    let mut lates = Vec::with_capacity(task.packets as usize);
    let mut offset = 0;
    start.wait();
    let began = now();
    for number in 0..task.packets {
        let header = header(ssrc, number, step);
        if task.way == Way::Sendfile {
            send(socket.as_raw_fd(), &header, more())?;
            sendfile(&socket, &file, Some(&mut offset), task.bytes.into())?;
        } else {
            packet[..HEADER].copy_from_slice(&header);
            file.read_exact(&mut packet[HEADER..])?;
            socket.send(&packet)?;
        }
        lates.push((now() - began) as i64 - (u64::from(number) * interval) as i64);
        if number + 1 < task.packets {
            rest(&task.way, began, number, interval);
        }
    }
    Ok(lates)
}
