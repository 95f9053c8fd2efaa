//! Streams to be sent, and their events and progress.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reelway_library::OpenFilm;
use reelway_media::Nanos;
use reelway_playout::{Again, State};
use reelway_store::Source;

use crate::histogram::Lateness;
use crate::writer::FrameWriter;

/// A stream to be sent: handed over once, after which its owner may sleep.
pub struct Stream {
    /// What to send, and where.
    pub what: StreamKind,
    /// Called for events, on a sender thread: it must be quick and must not block.
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
    /// The tracks to send, and their destinations.
    pub tracks: Vec<TrackOut>,
    /// Start; the picture starts at the sync sample at or before it.
    pub start: Nanos,
    /// End; `None` is the film's end. Samples decoded from here on are not sent.
    pub end: Option<Nanos>,
    /// The limited links that its packets pass, by their numbers in [`crate::SenderConfig::links`].
    pub links: Vec<u8>,
}

/// A viewer's track.
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
    /// How lost packets are retransmitted; `None` if they are not.
    pub again: Option<Again>,
    /// Destination of its packets.
    pub out: Out,
}

/// A file from a position on, in packets of equal size at equal intervals (the MSSC paper's
/// stream).
#[derive(Debug)]
pub struct FileStream {
    /// The file.
    pub source: Arc<Source>,
    /// First byte to send.
    pub position: u64,
    /// Payload size of a packet in bytes; at least 1 and at most what a datagram holds.
    pub packet_bytes: u16,
    /// Time between the departures of two packets.
    pub interval: Duration,
    /// Number of packets; `None` for all up to the file's end. The last may be shorter.
    pub packets: Option<u64>,
    /// Increment of the RTP timestamp per packet.
    pub timestamp_step: u32,
    /// RTP header fields and destination; `track` is not used, `rtp_base` is the first timestamp.
    pub out: TrackOut,
}

/// Destination of packets.
#[derive(Clone, Debug)]
pub enum Out {
    /// To a pair of UDP ports.
    Udp {
        /// The address of this machine that received the viewer's request, from which media is
        /// sent. `None` lets the system choose.
        from: Option<IpAddr>,
        /// Destination of RTP.
        rtp: SocketAddr,
        /// Destination of RTCP.
        rtcp: SocketAddr,
    },
    /// To a UDP port without RTP: only the payloads, and no reports.
    Plain {
        /// As for `Udp`.
        from: Option<IpAddr>,
        /// Destination.
        to: SocketAddr,
    },
    /// Interleaved in the RTSP connection (RFC 2326 section 10.12).
    Tcp {
        /// Write side of the connection.
        conn: Arc<FrameWriter>,
        /// Channel of RTP.
        rtp: u8,
        /// Channel of RTCP.
        rtcp: u8,
    },
}

/// Events of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The end of the range was reached and BYE sent; a seek makes it play again.
    Ended,
    /// It cannot continue. Nothing more is sent; drop the handle.
    Failed(String),
    /// A receiver report arrived: the viewer is alive.
    Report(Reception),
    /// RTCP without a report arrived: the viewer is alive.
    Alive,
    /// The receivers of all its tracks have sent BYE (over UDP).
    Left,
}

/// Reception of a track, as reported by its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reception {
    /// Index among the stream's tracks.
    pub track: usize,
    /// Packets lost since the beginning; negative if there are duplicates.
    pub lost: i32,
    /// Fraction of packets lost since the previous report, 0 to 1.
    pub fraction_lost: f32,
    /// Interarrival jitter.
    pub jitter: Duration,
    /// Round-trip time between sender and receiver, if known.
    pub round_trip: Option<Duration>,
}

/// Progress of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Current state.
    pub state: State,
    /// Position, in presentation time of the film.
    pub position: Nanos,
    /// RTP packets sent.
    pub packets: u64,
    /// Bytes of RTP sent, including RTP headers but not IP and UDP.
    pub bytes: u64,
    /// Lateness of packets.
    pub late: Lateness,
    /// How far it is currently behind (because of a slow TCP reader).
    pub behind: Duration,
    /// Packets that the kernel refused; they are lost.
    pub refused: u64,
    /// Number of times that its timetable was shifted after a stall.
    pub shifts: u32,
    /// Frames dropped because they would have come too late and no other frame needs them.
    pub dropped: u64,
    /// Packets retransmitted; not included in `packets` and `bytes`.
    pub resent: u64,
    /// Reception of each track from its receiver's last report; in the order of the tracks.
    pub reception: Vec<Option<Reception>>,
}
