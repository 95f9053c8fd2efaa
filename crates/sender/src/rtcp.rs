//! RTCP from viewers: one socket per address for all of them, assigned by SSRC.
//!
//! Reports and requests for lost packets are accepted only from the address to which that stream's
//! media is sent.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_rtp::rtcp::{self, Packet};
use reelway_supervise as supervise;
use reelway_sys::udp::UdpSocket;

use crate::inbox::{Command, Inbox};
use crate::shared::Shared;
use crate::stream::StreamEvent;

/// Maximum size of an RTCP datagram in bytes; compound packets of receivers are far smaller.
const LONGEST: usize = 2048;

/// Approximate maximum number of sequence numbers that one datagram may request: more than a player
/// requests at a time.
const MOST_LOST: usize = 128;

/// Finds streams by SSRC and by address. Each change of a map is one insertion or removal.
#[derive(Default)]
pub(crate) struct Directory {
    by_ssrc: RwLock<HashMap<u32, Entry>>,
    /// Number of packets that receivers reported missing.
    missed: AtomicU64,
    /// For packets that contain no SSRC of a stream.
    by_address: RwLock<HashMap<SocketAddr, Weak<Shared>>>,
}

/// A stream, by the SSRC of one of its tracks.
struct Entry {
    stream: Weak<Shared>,
    /// Address that its media is sent to.
    to: IpAddr,
    /// Inbox of the thread that had it first.
    inbox: Inbox,
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Directory {
    /// Adds a stream of a thread; track `n` sends its RTCP to the `n`th address.
    pub fn enter(&self, stream: &Arc<Shared>, inbox: &Inbox) {
        let mut by_ssrc = supervise::whole(self.by_ssrc.write());
        for (ssrc, to) in stream.ssrcs().zip(&stream.addresses) {
            let entry = Entry {
                stream: Arc::downgrade(stream),
                to: to.ip().to_canonical(),
                inbox: inbox.clone(),
            };
            by_ssrc.insert(ssrc, entry);
        }
        drop(by_ssrc);
        let mut by_address = supervise::whole(self.by_address.write());
        for to in &stream.addresses {
            by_address.insert(canonical(*to), Arc::downgrade(stream));
        }
    }

    /// Removes a stream.
    pub fn leave(&self, stream: &Shared) {
        let is_it =
            |other: &Weak<Shared>| other.upgrade().is_none_or(|other| other.id == stream.id);
        let mut by_ssrc = supervise::whole(self.by_ssrc.write());
        for ssrc in stream.ssrcs() {
            if by_ssrc.get(&ssrc).is_some_and(|entry| is_it(&entry.stream)) {
                by_ssrc.remove(&ssrc);
            }
        }
        drop(by_ssrc);
        let mut by_address = supervise::whole(self.by_address.write());
        for to in stream.addresses.iter().map(|to| canonical(*to)) {
            if by_address.get(&to).is_some_and(is_it) {
                by_address.remove(&to);
            }
        }
    }

    /// Returns the number of packets that receivers reported missing.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the stream of an SSRC, if its media is sent to this address.
    fn of_ssrc(&self, ssrc: u32, from: SocketAddr) -> Option<Arc<Shared>> {
        let by_ssrc = supervise::whole(self.by_ssrc.read());
        let entry = by_ssrc.get(&ssrc).filter(|entry| entry.to == from.ip())?;
        entry.stream.upgrade()
    }

    /// Handles lost packets of the track with this SSRC, as reported from this address: those
    /// allowed for retransmission are passed to the stream's thread.
    fn lost(&self, ssrc: u32, from: SocketAddr, mut lost: Vec<u16>, now: u64) {
        let Some(stream) = self.of_ssrc(ssrc, from) else {
            return;
        };
        let (track, may) = stream.may_miss(ssrc, lost.len(), now);
        self.missed.fetch_add(may as u64, Ordering::Relaxed);
        lost.truncate(may);
        let by_ssrc = supervise::whole(self.by_ssrc.read());
        if let Some((track, entry)) = track.zip(by_ssrc.get(&ssrc))
            && may > 0
        {
            entry.inbox.send(Command::Missed {
                stream: stream.id,
                track,
                lost,
            });
        }
    }

    fn heard(&self, datagram: &[u8], from: SocketAddr) {
        let Ok(packets) = rtcp::read(datagram) else {
            return;
        };
        let (ntp, now) = (reelway_clock::real().ntp(), reelway_clock::now().nanos());
        let mut reported = false;
        let mut lost: Option<(u32, Vec<u16>)> = None;
        for packet in &packets {
            match packet {
                Packet::Report(report) => {
                    let stream = self.of_ssrc(report.source, from);
                    reported |= stream.is_some_and(|stream| stream.reported(report, ntp, now));
                }
                // The requests of one datagram are passed on together; they are about one track.
                Packet::Nack(nack) => {
                    let (source, lost) = lost.get_or_insert((nack.source, Vec::new()));
                    if *source == nack.source && lost.len() < MOST_LOST {
                        lost.extend(nack.lost());
                    }
                }
                _ => {}
            }
        }
        if let Some((source, lost)) = lost {
            self.lost(source, from, lost, now);
        }
        let byes = packets.iter().filter_map(|packet| match packet {
            Packet::Bye { from, .. } => Some(*from),
            _ => None,
        });
        let mut byes = byes.peekable();
        if packets.is_empty() || (reported && byes.peek().is_none()) {
            return;
        }
        let by_address = supervise::whole(self.by_address.read());
        let stream = by_address.get(&from).and_then(Weak::upgrade);
        drop(by_address);
        let Some(stream) = stream else {
            return;
        };
        if !reported {
            stream.hears(StreamEvent::Alive, now);
        }
        let is_its = |to: &SocketAddr| canonical(*to) == from;
        if let Some(track) = stream.addresses.iter().position(is_its) {
            byes.for_each(|ssrc| stream.said_bye(track, ssrc));
        }
    }
}

/// Takes in RTCP that arrived over a stream's own RTSP connection.
pub(crate) fn heard_by(stream: &Shared, data: &[u8]) {
    let Ok(packets) = rtcp::read(data) else {
        return;
    };
    let (ntp, now) = (reelway_clock::real().ntp(), reelway_clock::now().nanos());
    let mut reported = false;
    for packet in &packets {
        if let Packet::Report(report) = packet {
            reported |= stream.reported(report, ntp, now);
        }
    }
    if !reported && !packets.is_empty() {
        stream.hears(StreamEvent::Alive, now);
    }
}

/// When each listening thread was last awake.
#[derive(Default)]
pub(crate) struct Beats(Vec<AtomicU64>);

impl Beats {
    fn beat(&self, number: usize) {
        if let Some(beat) = self.0.get(number) {
            beat.store(reelway_clock::now().nanos(), Ordering::Relaxed);
        }
    }

    /// Returns the time at which all of them were last known to be awake.
    pub fn all(&self) -> Monotonic {
        let beats = self.0.iter().map(|beat| beat.load(Ordering::Relaxed));
        let first = beats.min().map(Monotonic::from_nanos);
        first.unwrap_or_else(reelway_clock::now)
    }
}

/// How long to let reports accumulate: a wake-up for each costs more than everything else.
const GATHER: Duration = Duration::from_millis(5);

/// Starts a thread per socket; the threads end soon after `closed` is set.
pub(crate) fn listen(
    sockets: &Arc<Vec<UdpSocket>>,
    directory: &Arc<Directory>,
    closed: &Arc<AtomicBool>,
) -> io::Result<Arc<Beats>> {
    let now = || AtomicU64::new(reelway_clock::now().nanos());
    let beats = Arc::new(Beats(sockets.iter().map(|_| now()).collect()));
    for number in 0..sockets.len() {
        sockets[number].set_receive_timeout(Duration::from_millis(500))?;
        let (sockets, directory, closed) = (
            Arc::clone(sockets),
            Arc::clone(directory),
            Arc::clone(closed),
        );
        let beats = Arc::clone(&beats);
        supervise::thread(format!("rtcp-{number}"), move || {
            let mut buffer = [0; LONGEST];
            let is_open = || !closed.load(Ordering::Relaxed);
            while is_open() {
                beats.beat(number);
                if let Ok((bytes, from)) = sockets[number].receive(&mut buffer) {
                    supervise::inject("rtcp");
                    directory.heard(&buffer[..bytes], from);
                }
                if is_open() && !sockets[number].has_waiting() {
                    std::thread::sleep(GATHER);
                }
            }
        })?;
    }
    Ok(beats)
}
