//! Film traffic as one would implement it without Reelway: one thread, absolute times, files in the
//! page cache. Streams are sent in slices every 20 ms (8 packets, then 7: 4 Mb/s), like Reelway's.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use anyhow::{Context, bail};
use nix::sys::sendfile::sendfile;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, send, sendmsg, sendto};
use nix::sys::uio::preadv;

use super::reel::PACKET;
use super::sessions::{HEADER, header, more, sleep_until};
use super::task::{Account, Late, MEASURING, Outcome, Traffic, Way};
use crate::bed::machine;

const TURN: u64 = 1_000_000;
/// Turns between two slices of a stream.
const TURNS: u64 = 20;
const PAYLOAD: usize = PACKET - HEADER;

struct Stream {
    film: usize,
    ssrc: u32,
    number: u32,
    offset: u64,
}

/// Everything that a thread needs to send.
struct Hands<'a> {
    way: &'a Way,
    socket: UdpSocket,
    to: SockaddrStorage,
    films: Vec<(File, u64)>,
    buffer: Vec<u8>,
}

/// Sends all streams for the task's duration; returns the outcome.
pub fn run(task: &Traffic) -> anyhow::Result<Outcome> {
    let socket = UdpSocket::bind(SocketAddr::new(task.from, 0))?;
    let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::SndBuf, &(4 << 20));
    if task.way == Way::Sendfile {
        // sendfile takes no address.
        socket.connect(task.to)?;
    }
    let mut films = Vec::new();
    for path in &task.films {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let bytes = file.metadata()?.len();
        films.push((file, bytes));
    }
    let burst = match task.way {
        Way::Batched { burst } => usize::from(burst),
        _ => 1,
    };
    let mut hands = Hands {
        way: &task.way,
        socket,
        to: task.to.into(),
        films,
        buffer: vec![0; PACKET * burst.max(1)],
    };
    // By the turn in which each is due.
    let mut streams: Vec<Vec<Stream>> = (0..TURNS).map(|_| Vec::new()).collect();
    for ssrc in 0..task.streams {
        let film = ssrc as usize % hands.films.len();
        // Positions spread over the films.
        let offset =
            hands.films[film].1 * u64::from(ssrc) / u64::from(task.streams.max(1)) / 4096 * 4096;
        streams[(u64::from(ssrc) % TURNS) as usize].push(Stream {
            film,
            ssrc,
            number: 0,
            offset,
        });
    }

    let began = reelway_clock::now().nanos() / TURN + 2;
    let warm = began + (task.warm_up * 1e3) as u64;
    let end = warm + (task.seconds * 1e3) as u64;
    let (mut account, mut packets, mut refused, mut lates) = (None, 0, 0, Vec::new());
    for turn in began..end {
        if turn == warm {
            println!("{MEASURING}");
            account = Some(Account::open()?);
            (packets, refused) = (0, 0);
            lates.clear();
        }
        sleep_until(turn * TURN);
        for stream in &mut streams[(turn % TURNS) as usize] {
            let count = 8 - (turn / TURNS % 2) as u32;
            let sent = hands.slice(stream, count)?;
            packets += u64::from(sent);
            refused += u64::from(count - sent);
            lates.push(reelway_clock::now().nanos() as i64 - (turn * TURN) as i64);
        }
    }
    let Some(account) = account else {
        bail!("nothing was measured")
    };
    let mut outcome = account.close()?;
    (outcome.packets, outcome.refused) = (packets, refused);
    outcome.late = Late::of(lates);
    outcome.descriptors = machine::descriptors();
    outcome.memory = machine::memory_of(std::process::id())?.0;
    Ok(outcome)
}

impl Hands<'_> {
    /// Sends a slice; returns the number of packets that the kernel accepted.
    fn slice(&mut self, stream: &mut Stream, count: u32) -> anyhow::Result<u32> {
        let (file, bytes) = &self.films[stream.film];
        if stream.offset + u64::from(count) * PAYLOAD as u64 > *bytes {
            stream.offset = 0;
        }
        let mut sent = 0;
        let mut left = count;
        while left > 0 {
            let run = match self.way {
                Way::Batched { burst } => left.min(u32::from(*burst)),
                _ => 1,
            };
            let taken = match self.way {
                Way::Batched { .. } => {
                    let buffer = &mut self.buffer[..run as usize * PACKET];
                    let mut parts: Vec<IoSliceMut> = Vec::with_capacity(run as usize);
                    for (nth, packet) in buffer.chunks_mut(PACKET).enumerate() {
                        let (head, payload) = packet.split_at_mut(HEADER);
                        head.copy_from_slice(&header(
                            stream.ssrc,
                            stream.number + nth as u32,
                            3600,
                        ));
                        parts.push(IoSliceMut::new(payload));
                    }
                    preadv(file, &mut parts, stream.offset as i64)?;
                    let size = PACKET as u16;
                    let cut = [ControlMessage::UdpGsoSegments(&size)];
                    sendmsg(
                        self.socket.as_raw_fd(),
                        &[IoSlice::new(buffer)],
                        &cut,
                        MsgFlags::MSG_DONTWAIT,
                        Some(&self.to),
                    )
                }
                Way::Sendfile => {
                    let head = header(stream.ssrc, stream.number, 3600);
                    let mut offset = stream.offset as i64;
                    match send(
                        self.socket.as_raw_fd(),
                        &head,
                        more() | MsgFlags::MSG_DONTWAIT,
                    ) {
                        Ok(_) => sendfile(&self.socket, file, Some(&mut offset), PAYLOAD),
                        Err(error) => Err(error),
                    }
                }
                _ => {
                    let packet = &mut self.buffer[..PACKET];
                    packet[..HEADER].copy_from_slice(&header(stream.ssrc, stream.number, 3600));
                    file.read_exact_at(&mut packet[HEADER..], stream.offset)?;
                    sendto(
                        self.socket.as_raw_fd(),
                        packet,
                        &self.to,
                        MsgFlags::MSG_DONTWAIT,
                    )
                }
            };
            match taken {
                Ok(_) => sent += run,
                Err(nix::Error::EAGAIN | nix::Error::ENOBUFS | nix::Error::ECONNREFUSED) => {}
                Err(error) => return Err(error.into()),
            }
            stream.number += run;
            stream.offset += u64::from(run) * PAYLOAD as u64;
            left -= run;
        }
        Ok(sent)
    }
}
