//! What is handed over to be sent.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reelway_library::OpenFilm;
use reelway_media::Nanos;
use reelway_playout::{Again, State};
use reelway_store::Source;

use crate::histogram::Lateness;
use crate::writer::FrameWriter;

/// Something to send: handed over once, after which its owner may sleep.
pub struct Stream {
    /// What to send, and where to.
    pub what: StreamKind,
    /// Called when something happens, on a sender thread: it must be quick and must not wait.
    pub events: Box<dyn Fn(StreamEvent) + Send + Sync>,
}

/// Kinds of streams.
#[derive(Debug)]
pub enum StreamKind {
    /// A film on its timetable.
    Film(FilmStream),
    /// Any file, packet by packet at a fixed interval.
    File(FileStream),
}

/// A film on its timetable.
#[derive(Debug)]
pub struct FilmStream {
    /// The film.
    pub film: OpenFilm,
    /// Which tracks to send, and where to.
    pub tracks: Vec<TrackOut>,
    /// Where to start; the picture starts at the sync sample at or before it.
    pub start: Nanos,
    /// Where to end; `None`: at the film's end. Samples decoded from here on are not sent.
    pub end: Option<Nanos>,
    /// The limited links that its packets pass, by their numbers in [`crate::SenderConfig::links`].
    pub links: Vec<u8>,
}

/// A track of a viewer.
#[derive(Clone, Debug)]
pub struct TrackOut {
    /// Index in `Title::tracks`.
    pub track: usize,
    /// RTP payload type, below 128.
    pub payload_type: u8,
    /// RTP synchronisation source: unpredictable, and different for every track of every viewer.
    pub ssrc: u32,
    /// Sequence number of the first packet.
    pub seq: u16,
    /// RTP timestamp of the film's presentation time 0.
    pub rtp_base: u32,
    /// How packets that its receiver misses are sent again; `None`: they are not.
    pub again: Option<Again>,
    /// Where packets go.
    pub out: Out,
}

/// Any file from a position on, in packets of equal size at equal intervals (the MSSC paper's stream).
#[derive(Debug)]
pub struct FileStream {
    /// The file.
    pub source: Arc<Source>,
    /// First byte to send.
    pub position: u64,
    /// Payload bytes of a packet; at least 1 and at most what a datagram holds.
    pub packet_bytes: u16,
    /// From one packet's departure to the next one's.
    pub interval: Duration,
    /// How many packets; `None`: to the file's end. The last may be shorter.
    pub packets: Option<u64>,
    /// What is added to the RTP timestamp with each packet.
    pub timestamp_step: u32,
    /// RTP header fields and where to; `track` is not used, `rtp_base` is the first timestamp.
    pub out: TrackOut,
}

/// Where packets go.
#[derive(Clone, Debug)]
pub enum Out {
    /// To a pair of UDP ports.
    Udp {
        /// The address of this machine that the viewer's request came to: media leaves from there.
        /// `None`: as the system chooses.
        from: Option<IpAddr>,
        /// Where RTP goes.
        rtp: SocketAddr,
        /// Where RTCP goes.
        rtcp: SocketAddr,
    },
    /// To a UDP port without RTP: only the payloads, and no reports.
    Plain {
        /// As for RTP.
        from: Option<IpAddr>,
        /// Where to.
        to: SocketAddr,
    },
    /// Interleaved into the RTSP connection (RFC 2326 section 10.12).
    Tcp {
        /// The connection's writing side.
        conn: Arc<FrameWriter>,
        /// Channel of RTP.
        rtp: u8,
        /// Channel of RTCP.
        rtcp: u8,
    },
}

/// What happens to a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The range's end was reached and BYE sent; a seek makes it play again.
    Ended,
    /// It cannot go on. Nothing more is sent; drop the handle.
    Failed(String),
    /// A receiver report arrived: the viewer is alive.
    Report(Reception),
    /// RTCP without a report arrived: the viewer is alive.
    Alive,
    /// The receivers of all its tracks have said BYE (over UDP).
    Left,
}

/// How a track arrives, as its receiver says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reception {
    /// Index among the stream's tracks.
    pub track: usize,
    /// Packets lost since the beginning; negative with duplicates.
    pub lost: i32,
    /// Share of packets lost since the report before, 0 to 1.
    pub fraction_lost: f32,
    /// Interarrival jitter.
    pub jitter: Duration,
    /// From a sender report to its receiver and back, where that can be told.
    pub round_trip: Option<Duration>,
}

/// How a stream gets on.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What it does.
    pub state: State,
    /// Where it is, in presentation time of the film.
    pub position: Nanos,
    /// RTP packets sent.
    pub packets: u64,
    /// Bytes of RTP sent, headers included, IP and UDP not.
    pub bytes: u64,
    /// How late packets left.
    pub late: Lateness,
    /// How far it is behind now (a slow TCP reader).
    pub behind: Duration,
    /// Packets the kernel refused: lost.
    pub refused: u64,
    /// Times its timetable was moved after a stall.
    pub shifts: u32,
    /// Frames left out because they came too late and no other frame needs them.
    pub dropped: u64,
    /// Packets sent again; `packets` and `bytes` are without them.
    pub resent: u64,
    /// How each track arrives, by the last report of its receiver; in the order of the tracks.
    pub reception: Vec<Option<Reception>>,
}
