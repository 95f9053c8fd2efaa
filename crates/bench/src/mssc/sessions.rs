//! The paper's sessions, conventional and improved: one thread per session, one packet at a time.

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

/// Timer tick of Linux 2.2 on a PC, ns.
const TICK: u64 = 10_000_000;
/// Size of an RTP header in bytes (RFC 3550 section 5.1).
pub const HEADER: usize = 12;

/// Returns the header of packet `number` of session `ssrc`.
pub fn header(ssrc: u32, number: u32, step: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = 0x80;
    header[1] = 96;
    header[2..4].copy_from_slice(&(number as u16).to_be_bytes());
    header[4..8].copy_from_slice(&number.wrapping_mul(step).to_be_bytes());
    header[8..].copy_from_slice(&ssrc.to_be_bytes());
    header
}

/// Returns the flag for more data of the same datagram.
pub fn more() -> MsgFlags {
    MsgFlags::from_bits_retain(nix::libc::MSG_MORE)
}

/// Sleeps until a time of `CLOCK_MONOTONIC`, ns.
pub fn sleep_until(at: u64) {
    let at = TimeSpec::new((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
    // Only a signal interrupts the sleep; the packet then leaves early.
    let _ = clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::TIMER_ABSTIME,
        &at,
    );
}

fn now() -> u64 {
    reelway_clock::now().nanos()
}

/// Sleeps after a packet until the thread of the session continues.
fn rest(way: &Way, began: u64, number: u32, interval: u64) {
    match way {
        // Linux 2.2 slept 3 ticks for 30 ms, and one more because the current tick had begun.
        Way::Ticks => sleep_until((now() / TICK + interval.div_ceil(TICK) + 1) * TICK),
        Way::Relative => std::thread::sleep(Duration::from_nanos(interval)),
        _ => sleep_until(began + u64::from(number + 1) * interval),
    }
}

/// Sends all sessions; returns the outcome.
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

/// Sends one session; returns the lateness of each packet in ns against the session's own schedule.
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
