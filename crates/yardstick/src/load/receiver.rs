//! A thread that receives for thousands of viewers: through one pair of sockets if the server
//! announces each stream's SSRC, else through one pair per stream.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Queue, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use tokio::sync::oneshot;

use super::viewing::{Live, PlayAnswer, ViewerResult, Viewing};
use crate::histogram::Histogram;
use crate::packet::{Header, parse};
use crate::reports;
use crate::socket::{Inbox, pair};

/// Receive buffer of the shared socket in bytes: a quarter of a second of some thousand streams, as
/// far as the kernel grants it.
const SHARED_BUFFER: usize = 256 << 20;
/// Receive buffer of a stream's own socket in bytes: a second of 16 Mb/s.
const OWN_BUFFER: usize = 2 << 20;
/// Datagrams (or GRO runs of them) that are read from a socket before the others have their turn.
const TURN: usize = 64;
/// Maximum wait of a command while no packets arrive.
const TICK_MS: u8 = 10;

/// How a viewer's packets are distinguished from those of others.
#[derive(Debug)]
pub(super) enum Way {
    /// They arrive through the shared pair, with these SSRCs.
    Shared(Vec<u32>),
    /// Each track has a pair of sockets of its own.
    Own(Vec<(UdpSocket, UdpSocket)>),
    /// The viewer's own task passes them on with [`Receiver::packet`].
    HandedIn,
}

#[derive(Debug)]
enum Command {
    Add {
        viewer: usize,
        clocks: Vec<(bool, u32)>,
        way: Way,
        depth: Duration,
        live: Arc<Live>,
        taken: oneshot::Sender<bool>,
    },
    Packet(usize, usize, Header, usize, u64),
    Bye(usize, usize),
    Hold(usize),
    Play(usize, PlayAnswer),
    End(usize, oneshot::Sender<ViewerResult>),
    Sample(oneshot::Sender<Sampled>),
    Stop,
}

/// What all viewers of a thread have received so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampled {
    pub packets: u64,
    pub bytes: u64,
    pub lost: u64,
    pub late: Histogram,
    /// Current viewers who have been harmed.
    pub harmed: usize,
    /// Packets that the yardstick's own sockets had no room for.
    pub dropped: u64,
}

/// A receiving thread.
#[derive(Debug)]
pub(super) struct Receiver {
    commands: Sender<Command>,
    port: u16,
    thread: JoinHandle<io::Result<()>>,
}

impl Receiver {
    /// Starts to receive on free ports of all addresses.
    pub fn start() -> io::Result<Receiver> {
        let (rtp, rtcp) = open_pair(SHARED_BUFFER)?;
        let port = rtp.local_addr()?.port();
        let (commands, queue) = channel();
        let mut state = State::new(rtp, rtcp)?;
        let thread = std::thread::Builder::new()
            .name("receiver".to_owned())
            .spawn(move || state.receive(&queue))?;
        Ok(Receiver {
            commands,
            port,
            thread,
        })
    }

    /// Returns the shared RTP port; RTCP uses the next one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts to receive for a viewer. Returns whether their SSRCs were unused.
    pub async fn add(
        &self,
        viewer: usize,
        clocks: Vec<(bool, u32)>,
        way: Way,
        depth: Duration,
        live: Arc<Live>,
    ) -> bool {
        let (taken, answer) = oneshot::channel();
        self.command(Command::Add {
            viewer,
            clocks,
            way,
            depth,
            live,
            taken,
        });
        answer.await.unwrap_or(false)
    }

    /// Passes on a packet with `bytes` of payload that arrived for a viewer's track at `at`, in ns
    /// since 1970.
    pub fn packet(&self, viewer: usize, track: usize, header: Header, bytes: usize, at: u64) {
        self.command(Command::Packet(viewer, track, header, bytes, at));
    }

    /// Records the BYE of a viewer's track.
    pub fn bye(&self, viewer: usize, track: usize) {
        self.command(Command::Bye(viewer, track));
    }

    /// Holds back the viewer's packets, as they are about to make another request.
    pub fn hold(&self, viewer: usize) {
        self.command(Command::Hold(viewer));
    }

    /// Records the place from which the viewer plays.
    pub fn play(&self, viewer: usize, place: PlayAnswer) {
        self.command(Command::Play(viewer, place));
    }

    /// Ends reception for a viewer and returns the results.
    pub async fn end(&self, viewer: usize) -> ViewerResult {
        let (seen, answer) = oneshot::channel();
        self.command(Command::End(viewer, seen));
        answer.await.unwrap_or_default()
    }

    /// Returns what all viewers have received.
    pub async fn sample(&self) -> Sampled {
        let (sampled, answer) = oneshot::channel();
        self.command(Command::Sample(sampled));
        answer.await.unwrap_or_default()
    }

    /// Ends the thread.
    pub fn stop(self) -> io::Result<()> {
        self.command(Command::Stop);
        let panicked = || io::Error::other("the receiving thread panicked");
        self.thread.join().map_err(|_| panicked())?
    }

    fn command(&self, command: Command) {
        // The error of a failed thread is returned by `stop`.
        let _ = self.commands.send(command);
    }
}

/// Opens a pair of sockets on all addresses.
fn open_pair(buffer: usize) -> io::Result<(UdpSocket, UdpSocket)> {
    pair(Ipv6Addr::UNSPECIFIED.into(), 0, buffer)
        .or_else(|_| pair(Ipv4Addr::UNSPECIFIED.into(), 0, buffer))
}

/// Opens a pair of sockets for one stream.
pub(super) fn own_pair() -> io::Result<(UdpSocket, UdpSocket)> {
    open_pair(OWN_BUFFER)
}

/// A socket and the viewer and track that own it; the shared sockets have no owner.
#[derive(Debug)]
struct Port {
    socket: UdpSocket,
    is_rtcp: bool,
    owner: Option<(usize, usize)>,
    /// The kernel's count of packets that the socket dropped.
    dropped: u32,
}

struct State {
    epoll: Epoll,
    ports: HashMap<u64, Port>,
    next_port: u64,
    viewers: HashMap<usize, (Viewing, Vec<u32>, Vec<u64>)>,
    /// Viewer and track of each SSRC on the shared pair.
    ssrcs: HashMap<u32, (usize, usize)>,
    /// BYEs: time of arrival, viewer and track. They take effect when all earlier packets have been
    /// read.
    byes: Vec<(u64, usize, usize)>,
    /// Totals of viewers who have left.
    gone: Sampled,
}

impl State {
    fn new(rtp: UdpSocket, rtcp: UdpSocket) -> io::Result<State> {
        let mut state = State {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            ports: HashMap::new(),
            next_port: 0,
            viewers: HashMap::new(),
            ssrcs: HashMap::new(),
            byes: Vec::new(),
            gone: Sampled::default(),
        };
        state.open(rtp, false, None)?;
        state.open(rtcp, true, None)?;
        Ok(state)
    }

    fn open(
        &mut self,
        socket: UdpSocket,
        is_rtcp: bool,
        owner: Option<(usize, usize)>,
    ) -> io::Result<u64> {
        let number = self.next_port;
        self.next_port += 1;
        self.epoll
            .add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        let port = Port {
            socket,
            is_rtcp,
            owner,
            dropped: 0,
        };
        self.ports.insert(number, port);
        Ok(number)
    }

    fn receive(&mut self, queue: &Queue<Command>) -> io::Result<()> {
        let mut inbox = Inbox::new();
        let mut events = vec![EpollEvent::empty(); 256];
        loop {
            let ready = match self.epoll.wait(&mut events, EpollTimeout::from(TICK_MS)) {
                Ok(ready) => ready,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            // Commands come first, so that viewers are known before their packets are read.
            loop {
                match queue.try_recv() {
                    Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return Ok(()),
                    Ok(command) => self.command(command)?,
                    Err(TryRecvError::Empty) => break,
                }
            }
            let mut behind = None;
            for event in &events[..ready] {
                if let Some(at) = self.take(event.data(), &mut inbox)? {
                    behind = Some(behind.map_or(at, |behind: u64| behind.min(at)));
                }
            }
            self.say_goodbye(behind);
        }
    }

    fn command(&mut self, command: Command) -> io::Result<()> {
        match command {
            Command::Add {
                viewer,
                clocks,
                way,
                depth,
                live,
                taken,
            } => {
                let (mut ssrcs, mut ports) = (Vec::new(), Vec::new());
                match way {
                    Way::Shared(all) => {
                        if all.iter().any(|ssrc| self.ssrcs.contains_key(ssrc)) {
                            let _ = taken.send(false);
                            return Ok(());
                        }
                        for (track, ssrc) in all.iter().enumerate() {
                            self.ssrcs.insert(*ssrc, (viewer, track));
                        }
                        ssrcs = all;
                    }
                    Way::Own(pairs) => {
                        for (track, (rtp, rtcp)) in pairs.into_iter().enumerate() {
                            ports.push(self.open(rtp, false, Some((viewer, track)))?);
                            ports.push(self.open(rtcp, true, Some((viewer, track)))?);
                        }
                    }
                    Way::HandedIn => {}
                }
                let viewing = Viewing::new(&clocks, depth, live);
                self.viewers.insert(viewer, (viewing, ssrcs, ports));
                let _ = taken.send(true);
            }
            Command::Packet(viewer, track, header, bytes, at) => {
                if let Some((viewing, ..)) = self.viewers.get_mut(&viewer) {
                    viewing.packet(track, header, bytes, at);
                }
            }
            Command::Bye(viewer, track) => {
                if let Some((viewing, ..)) = self.viewers.get_mut(&viewer) {
                    viewing.bye(track);
                }
            }
            Command::Hold(viewer) => {
                if let Some((viewing, ..)) = self.viewers.get_mut(&viewer) {
                    viewing.hold();
                }
            }
            Command::Play(viewer, place) => {
                if let Some((viewing, ..)) = self.viewers.get_mut(&viewer) {
                    viewing.play(&place);
                }
            }
            Command::End(viewer, answer) => {
                let _ = answer.send(self.end(viewer));
            }
            Command::Sample(answer) => {
                let mut sampled = self.gone.clone();
                let own: u64 = self
                    .ports
                    .values()
                    .map(|port| u64::from(port.dropped))
                    .sum();
                sampled.dropped += own;
                for (viewing, ..) in self.viewers.values() {
                    sampled.packets += viewing.tally().packets;
                    sampled.bytes += viewing.tally().bytes;
                    sampled.lost += viewing.tally().lost;
                    sampled.late.merge(&viewing.tally().late);
                    sampled.harmed += usize::from(viewing.is_harmed());
                }
                let _ = answer.send(sampled);
            }
            Command::Stop => {}
        }
        Ok(())
    }

    fn end(&mut self, viewer: usize) -> ViewerResult {
        let Some((viewing, ssrcs, ports)) = self.viewers.remove(&viewer) else {
            return ViewerResult::default();
        };
        for ssrc in ssrcs {
            self.ssrcs.remove(&ssrc);
        }
        for port in ports {
            if let Some(port) = self.ports.remove(&port) {
                self.gone.dropped += u64::from(port.dropped);
                // Redundant, as closing the socket does the same.
                let _ = self.epoll.delete(&port.socket);
            }
        }
        let seen = viewing.finish();
        self.gone.packets += seen.tally.packets;
        self.gone.bytes += seen.tally.bytes;
        self.gone.lost += seen.tally.lost;
        self.gone.late.merge(&seen.tally.late);
        seen
    }

    /// Reads what a socket has, for one turn at most. If more may be left, returns the arrival time
    /// of the last packet read.
    fn take(&mut self, port: u64, inbox: &mut Inbox) -> io::Result<Option<u64>> {
        let mut latest = None;
        for _ in 0..TURN {
            let Some(open) = self.ports.get_mut(&port) else {
                return Ok(None);
            };
            let received = match inbox.receive(open.socket.as_raw_fd()) {
                Ok(received) => received,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    // Reports that nobody reads cause this error.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused => continue,
                    _ => return Err(error),
                },
            };
            if let Some(dropped) = received.dropped {
                open.dropped = dropped;
            }
            let (owner, is_rtcp) = (open.owner, open.is_rtcp);
            let mut datagrams = inbox.datagrams(&received);
            if is_rtcp {
                datagrams.for_each(|datagram| self.report(datagram, owner, received.at));
                continue;
            }
            latest = Some(received.at);
            // Consecutive packets are mostly of one stream, so it is looked up only when it
            // changes.
            let mut run: Option<(u32, usize, &mut Viewing)> = None;
            for (header, payload) in datagrams.by_ref().filter_map(parse) {
                if run.as_ref().is_none_or(|(ssrc, ..)| *ssrc != header.ssrc) {
                    let whose = owner.or_else(|| self.ssrcs.get(&header.ssrc).copied());
                    run = whose.and_then(|(viewer, track)| {
                        let (viewing, ..) = self.viewers.get_mut(&viewer)?;
                        Some((header.ssrc, track, viewing))
                    });
                }
                if let Some((_, track, viewing)) = &mut run {
                    viewing.packet(*track, header, payload.len(), received.at);
                }
            }
        }
        Ok(latest)
    }

    fn report(&mut self, datagram: &[u8], owner: Option<(usize, usize)>, at: u64) {
        // The sender of a compound packet is in its first packet, of whatever type (RFC 3550
        // section 6.4).
        let sender = datagram
            .get(4..8)
            .map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let whose = owner.or_else(|| self.ssrcs.get(&sender?).copied());
        if let (Some((viewer, track)), Ok(compound)) = (whose, reports::parse(datagram))
            && compound.bye
            && !self
                .byes
                .iter()
                .any(|bye| (bye.1, bye.2) == (viewer, track))
        {
            self.byes.push((at, viewer, track));
        }
    }

    /// Applies the BYEs that arrived before `behind`, up to which all packets have been read;
    /// `None`: all BYEs. Otherwise BYEs would overtake packets after a standstill of this thread.
    fn say_goodbye(&mut self, behind: Option<u64>) {
        let State { byes, viewers, .. } = self;
        byes.retain(|(at, viewer, track)| {
            let waits = behind.is_some_and(|behind| behind <= *at);
            if !waits && let Some((viewing, ..)) = viewers.get_mut(viewer) {
                viewing.bye(*track);
            }
            waits
        });
    }
}
