//! The interface between the state machine and the server around it, as plain values, so that tests
//! can replace the server. `W` is the write side of a connection and `F` the server's handle of a
//! film; the machine stores both and passes them back unchanged. A session has at most one stream,
//! which is identified by the session's name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reelway_media::Nanos;

use crate::film::{Film, FilmError, FilmTrack, Form};

/// A viewer who requests admission.
#[derive(Clone, Debug)]
pub struct Newcomer<F> {
    /// Address of the viewer.
    pub peer: SocketAddr,
    /// Number of their connection.
    pub connection: u64,
    /// The requested film.
    pub film: Arc<Film<F>>,
    /// How it is carried to them.
    pub carriage: Carriage,
    /// User-Agent of their player, already cut to a sane length.
    pub user_agent: Option<String>,
    /// The part of the requested URL after `?`, which may identify the viewer.
    pub query: Option<String>,
}

/// Why a viewer is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Explanation for the viewer.
    pub reason: String,
    /// When to ask again; `None` if asking again is pointless.
    pub retry_after: Option<Duration>,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The viewer left (TEARDOWN, RTCP BYE).
    Left,
    /// The viewer's connection closed.
    Disconnected,
    /// No sign of life within the timeout.
    Expired,
    /// Its stream cannot continue; with the reason.
    Failed(String),
    /// The server ended it from outside the machine; with an explanation for the viewer, if they
    /// should get one.
    Ended(Option<String>),
}

impl EndReason {
    /// Returns the explanation for the viewer, unless they ended the session themselves.
    pub fn words(&self) -> Option<String> {
        match self {
            EndReason::Left | EndReason::Disconnected | EndReason::Expired => None,
            EndReason::Failed(words) => Some(words.clone()),
            EndReason::Ended(words) => words.clone(),
        }
    }
}

/// What a viewer is doing, as shown to others. A new session is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Set up, not yet playing.
    #[default]
    Ready,
    /// Media is being sent.
    Playing,
    /// Paused, or the end was reached.
    Paused,
}

/// What a client reports about the reception of a track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reception {
    /// The track's SSRC.
    pub ssrc: u32,
    /// Packets lost since the beginning.
    pub lost: u64,
    /// Interarrival jitter in milliseconds.
    pub jitter_ms: f64,
}

/// How a stream begins, known before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayInfo {
    /// Presentation time at which it begins: that of a sync sample, or where it was paused.
    pub start: Nanos,
    /// One entry per track in the order of [`PlayOrder::tracks`].
    pub tracks: Vec<FirstPacket>,
}

/// How a track begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstPacket {
    /// Sequence number of its first packet.
    pub seq: u16,
    /// The RTP timestamp of [`PlayInfo::start`].
    pub rtp_time: u32,
}

/// An order for a stream.
#[derive(Clone, Debug)]
pub struct PlayOrder<W, F> {
    /// Name of the session, which events of the stream refer to.
    pub session: String,
    /// The film.
    pub film: Arc<Film<F>>,
    /// Its tracks, in the order of the description.
    pub tracks: Vec<TrackOrder<W>>,
    /// Requested presentation time.
    pub start: Nanos,
    /// Presentation time of the end.
    pub end: Nanos,
}

/// An order for a track of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackOrder<W> {
    /// The track.
    pub track: FilmTrack,
    /// SSRC of its packets.
    pub ssrc: u32,
    /// First sequence number of the stream.
    pub seq: u16,
    /// RTP timestamp of presentation time 0.
    pub rtp_base: u32,
    /// How lost packets are retransmitted; `None` if they are not.
    pub again: Option<Again>,
    /// Destination.
    pub out: Out<W>,
}

/// The stream of retransmitted packets (RFC 4588).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// RTP payload type.
    pub payload_type: u8,
    /// SSRC of its packets.
    pub ssrc: u32,
    /// Its first sequence number.
    pub seq: u16,
}

/// Destination of a track's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out<W> {
    /// Over UDP to these addresses.
    Udp {
        /// The server's address that the viewer connected to, which is the source of media.
        from: IpAddr,
        /// Address for RTP.
        rtp: SocketAddr,
        /// Address for RTCP.
        rtcp: SocketAddr,
    },
    /// Over UDP without RTP: the bytes of a transport stream.
    Plain {
        /// The server's address that the viewer connected to, which is the source of media.
        from: IpAddr,
        /// Destination.
        to: SocketAddr,
    },
    /// Interleaved in an RTSP connection.
    Tcp {
        /// Write side of the connection.
        writer: W,
        /// Channel for RTP.
        rtp: u8,
        /// Channel for RTCP.
        rtcp: u8,
    },
}

/// How a track is carried to its viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// UDP over IPv4.
    UdpV4,
    /// UDP over IPv6.
    UdpV6,
    /// Interleaved in an RTSP connection.
    Tcp,
}

impl<W> Out<W> {
    /// Returns how the track is carried.
    pub fn carriage(&self) -> Carriage {
        match self {
            Out::Udp { rtp: to, .. } | Out::Plain { to, .. } if to.is_ipv4() => Carriage::UdpV4,
            Out::Udp { .. } | Out::Plain { .. } => Carriage::UdpV6,
            Out::Tcp { .. } => Carriage::Tcp,
        }
    }
}

/// A task that takes a while. No further request is read from its connection until
/// [`crate::machine::Event::Done`].
pub enum Job<W, F> {
    /// Opens the first of these films that exists.
    Film {
        /// Titles of the films.
        titles: Vec<String>,
        /// How the film is to be sent.
        form: Form,
        /// Whether the viewer may be redirected to another server ([`FilmError::Elsewhere`]): they
        /// have only just begun, and were not redirected here.
        may_leave: bool,
    },
    /// Asks whether this viewer is admitted. Admission and access rules decide.
    Admit(Box<Newcomer<F>>),
    /// Asks whether a session that never played still has its place, as it may have had to make
    /// room for others. From now on it is not among the first to be evicted.
    Claim {
        /// Name of the session.
        session: String,
        /// Numbers of its tracks.
        tracks: Vec<u32>,
        /// How they are carried to the viewer.
        carriage: Carriage,
    },
    /// Makes a stream that waits for [`crate::machine::Action::Go`].
    Make(Box<PlayOrder<W, F>>),
    /// Asks for the position of a stream.
    Locate {
        /// Name of the session.
        session: String,
    },
    /// Asks whether there is capacity to send this range instead of the current one. If so, it is
    /// booked; if not, the previous booking remains.
    Judge {
        /// Name of the session.
        session: String,
        /// Presentation time at which it begins.
        from: Nanos,
        /// Presentation time at which it ends.
        to: Nanos,
    },
    /// Moves a stream to the sync sample at or before `start`, where it waits for
    /// [`crate::machine::Action::Go`]. Once this is done, nothing from the old position is sent any
    /// more.
    Seek {
        /// Name of the session.
        session: String,
        /// Requested presentation time.
        start: Nanos,
        /// Presentation time of the end.
        end: Nanos,
    },
    /// Prepares a paused stream to continue at its position, with the same end; it waits for
    /// [`crate::machine::Action::Go`].
    Resume {
        /// Name of the session.
        session: String,
    },
    /// Pauses a stream: once this is done, nothing is sent any more.
    Pause {
        /// Name of the session.
        session: String,
    },
}

/// Result of a [`Job`]; failures contain the reason in words.
pub enum Outcome<F> {
    /// Result of [`Job::Film`].
    Film(Result<Arc<Film<F>>, FilmError>),
    /// Result of [`Job::Admit`]: the session's name, which cannot be guessed.
    Admitted(Result<String, Refusal>),
    /// Result of [`Job::Claim`].
    Claimed(Result<(), Refusal>),
    /// Result of [`Job::Make`].
    Made {
        /// Name of the session.
        session: String,
        /// How the stream begins.
        info: Result<PlayInfo, String>,
    },
    /// Result of [`Job::Locate`]: the presentation time being sent.
    Located(Nanos),
    /// Result of [`Job::Judge`].
    Judged(Result<(), Refusal>),
    /// Result of [`Job::Seek`] and [`Job::Resume`].
    Moved(Result<PlayInfo, String>),
    /// Result of [`Job::Pause`]: the position.
    Paused(Result<Nanos, String>),
}
