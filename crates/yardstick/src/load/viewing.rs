//! Reception by one virtual viewer: their streams together, and what a player with a buffer would
//! show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::packet::Header;
use crate::playback::{OnlinePlayer, Playback};
use crate::stream::{StreamMeter, Tally};

/// Maximum number of packets of a stream that are held back until it is known which of them belong
/// to the request: a few seconds.
const MOST_HELD: usize = 8192;

/// State of the reception that the viewer's task reads without asking.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Arrival of the latest packet in ns since 1970; 0: none yet.
    pub last: AtomicU64,
    /// The film's time of the newest packet in nanoseconds.
    pub newest: AtomicI64,
    /// Whether every stream has sent BYE.
    pub bye: AtomicBool,
}

/// The results of one viewer.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewerResult {
    /// Time from the request to play to the first packet.
    pub start: Option<Duration>,
    pub tally: Tally,
    /// Maximum number of packets of a stream within a millisecond.
    pub burst: u32,
    pub playback: Playback,
}

/// A packet that is held back.
#[derive(Debug)]
struct HeldPacket {
    header: Header,
    bytes: usize,
    at: u64,
}

/// A stream of a viewer.
#[derive(Debug)]
struct Stream {
    meter: StreamMeter,
    bye: bool,
    held: Vec<HeldPacket>,
}

/// State of a viewer's reception.
#[derive(Debug)]
pub(super) struct Viewing {
    streams: Vec<Stream>,
    /// Whether packets are held back.
    holding: bool,
    live: Arc<Live>,
    tally: Tally,
    burst: u32,
    player: OnlinePlayer,
    asked: u64,
    start: Option<Duration>,
    newest: i64,
}

/// The server's answer to PLAY.
#[derive(Clone, Debug)]
pub(super) struct PlayAnswer {
    /// Time of the request in ns since 1970.
    pub asked: u64,
    /// Start of the range in the film, in nanoseconds.
    pub from: i64,
    /// RTP-Info of each track: first sequence number, and timestamp of `from`.
    pub tracks: Vec<(Option<u16>, Option<u32>)>,
}

impl Viewing {
    /// Creates the state for streams (video or not) with these clock rates. Packets are held back
    /// until the place is known.
    pub fn new(clocks: &[(bool, u32)], depth: Duration, live: Arc<Live>) -> Viewing {
        let stream = |(is_video, rate): &(bool, u32)| Stream {
            meter: StreamMeter::new(*is_video, *rate),
            bye: false,
            held: Vec::new(),
        };
        Viewing {
            streams: clocks.iter().map(stream).collect(),
            holding: true,
            live,
            tally: Tally::default(),
            burst: 0,
            player: OnlinePlayer::new(depth),
            asked: 0,
            start: None,
            newest: 0,
        }
    }

    /// Whether there is a fault that the viewer would notice.
    pub fn is_harmed(&self) -> bool {
        self.tally.lost > 0 || !self.player.shown().is_smooth()
    }

    /// Returns the counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Holds back packets from now on, as the viewer is about to make another request.
    pub fn hold(&mut self) {
        if !self.holding {
            self.holding = true;
            for stream in &mut self.streams {
                stream.meter.finish(&mut self.tally);
                while let Some(unit) = stream.meter.next() {
                    self.player.unit(unit);
                }
            }
        }
    }

    /// Starts to judge what was requested, including the packets that were held back.
    pub fn play(&mut self, place: &PlayAnswer) {
        self.holding = false;
        self.asked = place.asked;
        self.newest = place.from;
        self.player.begin(place.from);
        for number in 0..self.streams.len() {
            let (seq, rtp_time) = place.tracks.get(number).copied().unwrap_or_default();
            let stream = &mut self.streams[number];
            stream.bye = false;
            stream
                .meter
                .announce(seq, rtp_time, place.from, &mut self.tally);
            for held in std::mem::take(&mut stream.held) {
                // Some packets of the previous place were still under way.
                let belongs = match seq {
                    Some(seq) => held.header.seq.wrapping_sub(seq) < 0x8000,
                    None => held.at >= place.asked,
                };
                if belongs {
                    self.judge(number, &held.header, held.bytes, held.at);
                }
            }
        }
        self.live.bye.store(false, Ordering::Relaxed);
        self.live
            .last
            .fetch_max(reelway_clock::real().nanos(), Ordering::Relaxed);
    }

    /// Takes a packet.
    pub fn packet(&mut self, stream: usize, header: Header, bytes: usize, at: u64) {
        if !self.holding {
            return self.judge(stream, &header, bytes, at);
        }
        if let Some(stream) = self.streams.get_mut(stream)
            && stream.held.len() < MOST_HELD
        {
            stream.held.push(HeldPacket { header, bytes, at });
        }
    }

    fn judge(&mut self, number: usize, header: &Header, bytes: usize, at: u64) {
        let Some(stream) = self.streams.get_mut(number) else {
            return;
        };
        let closed = stream.meter.packet(header, bytes, at, &mut self.tally);
        self.burst = self.burst.max(stream.meter.within());
        self.live.last.store(at, Ordering::Relaxed);
        self.player.came(at);
        if self.start.is_none() {
            self.start = Some(Duration::from_nanos(at.saturating_sub(self.asked)));
        }
        while let Some(unit) = stream.meter.next() {
            self.player.unit(unit);
        }
        if let Some(media) = closed {
            self.newest = self.newest.max(media);
            self.live.newest.store(self.newest, Ordering::Relaxed);
        }
    }

    /// Records the BYE of a stream.
    pub fn bye(&mut self, stream: usize) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.bye = true;
        }
        if !self.holding && self.streams.iter().all(|stream| stream.bye) {
            self.live.bye.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the results.
    pub fn finish(mut self) -> ViewerResult {
        self.hold();
        ViewerResult {
            start: self.start,
            tally: self.tally,
            burst: self.burst,
            playback: self.player.shown().clone(),
        }
    }
}
