//! What the state machine wants of the server around it, and what it learns from it: values, so that tests stand in for
//! the server. `W` is a connection's write side, `F` the server's own of a film; the machine keeps both and hands them
//! back, unopened. A session has at most one stream, which goes by the session's name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reelway_media::Nanos;

use crate::film::{Film, FilmError, FilmTrack, Form};

/// A viewer who asks to come in.
#[derive(Clone, Debug)]
pub struct Newcomer<F> {
    /// Their address.
    pub peer: SocketAddr,
    /// The number of their connection.
    pub connection: u64,
    /// What they want to see.
    pub film: Arc<Film<F>>,
    /// How it gets to them.
    pub carriage: Carriage,
    /// What their program calls itself, already cut to a sane length.
    pub user_agent: Option<String>,
    /// What follows `?` in the address they asked with: it may say who they are.
    pub query: Option<String>,
}

/// Why there is no room for a viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In words, for the viewer.
    pub reason: String,
    /// When it is worth asking again; `None`: never.
    pub retry_after: Option<Duration>,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The viewer said goodbye (TEARDOWN, RTCP BYE).
    Left,
    /// The viewer's connection closed.
    Disconnected,
    /// No sign of life within the limit.
    Expired,
    /// Its stream cannot go on; in words.
    Failed(String),
    /// The server ended it before the machine learned of it; in words for the viewer, if they are to know.
    Ended(Option<String>),
}

impl EndReason {
    /// What the viewer learns, if it was not their own doing.
    pub fn words(&self) -> Option<String> {
        match self {
            EndReason::Left | EndReason::Disconnected | EndReason::Expired => None,
            EndReason::Failed(words) => Some(words.clone()),
            EndReason::Ended(words) => words.clone(),
        }
    }
}

/// What a viewer is doing, as others see it. A new session is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Set up, not yet playing.
    #[default]
    Ready,
    /// Media is being sent.
    Playing,
    /// Paused, or at its end.
    Paused,
}

/// What a client says of how a track arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reception {
    /// The track's SSRC.
    pub ssrc: u32,
    /// Packets lost since it began.
    pub lost: u64,
    /// Interarrival jitter in milliseconds.
    pub jitter_ms: f64,
}

/// What will be sent, known before it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayInfo {
    /// Presentation time at which it begins: of a sync sample, or where it was paused.
    pub start: Nanos,
    /// For each track in the order of [`PlayOrder::tracks`].
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

/// A stream that is wanted.
#[derive(Clone, Debug)]
pub struct PlayOrder<W, F> {
    /// Whose: events of the stream name it.
    pub session: String,
    /// Of what.
    pub film: Arc<Film<F>>,
    /// Its tracks, in the order of the description.
    pub tracks: Vec<TrackOrder<W>>,
    /// Presentation time wished for.
    pub start: Nanos,
    /// Where to end.
    pub end: Nanos,
}

/// A track that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackOrder<W> {
    /// Which.
    pub track: FilmTrack,
    /// What its packets are marked with.
    pub ssrc: u32,
    /// First sequence number of the stream.
    pub seq: u16,
    /// RTP timestamp of presentation time 0.
    pub rtp_base: u32,
    /// How lost packets are sent again; `None`: they are not.
    pub again: Option<Again>,
    /// Where to.
    pub out: Out<W>,
}

/// The stream in which lost packets are sent again (RFC 4588).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// RTP payload type.
    pub payload_type: u8,
    /// What its packets are marked with.
    pub ssrc: u32,
    /// Its first sequence number.
    pub seq: u16,
}

/// Where a track's packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out<W> {
    /// Over UDP to these addresses.
    Udp {
        /// The address of ours that the viewer speaks to: media leaves from there.
        from: IpAddr,
        /// For RTP.
        rtp: SocketAddr,
        /// For RTCP.
        rtcp: SocketAddr,
    },
    /// Over UDP, without RTP: the bytes of a transport stream.
    Plain {
        /// The address of ours that the viewer speaks to: media leaves from there.
        from: IpAddr,
        /// Where to.
        to: SocketAddr,
    },
    /// Into an RTSP connection.
    Tcp {
        /// The connection's write side.
        writer: W,
        /// Channel for RTP.
        rtp: u8,
        /// Channel for RTCP.
        rtcp: u8,
    },
}

/// How a track gets to its viewer.
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
    /// How it gets there.
    pub fn carriage(&self) -> Carriage {
        match self {
            Out::Udp { rtp: to, .. } | Out::Plain { to, .. } if to.is_ipv4() => Carriage::UdpV4,
            Out::Udp { .. } | Out::Plain { .. } => Carriage::UdpV6,
            Out::Tcp { .. } => Carriage::Tcp,
        }
    }
}

/// Something that takes a while. The connection it is done for reads no further request until
/// [`crate::machine::Event::Done`].
pub enum Job<W, F> {
    /// Get the first of these films that exists.
    Film {
        /// Their titles.
        titles: Vec<String>,
        /// How it is to be sent.
        form: Form,
        /// The viewer may be sent to another server ([`FilmError::Elsewhere`]): they have only begun, and were not sent
        /// here themselves.
        may_leave: bool,
    },
    /// Ask whether this viewer may come in. Admission and access rules answer here.
    Admit(Box<Newcomer<F>>),
    /// Ask whether a session that never played still has its place: others may have needed the room. From now on it is
    /// not among the first to go.
    Claim {
        /// Which.
        session: String,
        /// The numbers of the tracks that it takes.
        tracks: Vec<u32>,
        /// How they get to the viewer.
        carriage: Carriage,
    },
    /// Make a stream that waits for [`crate::machine::Action::Go`].
    Make(Box<PlayOrder<W, F>>),
    /// Ask where a stream stands.
    Locate {
        /// Whose.
        session: String,
    },
    /// Ask whether there is room to send this, instead of what is sent now. If there is, it is booked; if not, what was
    /// booked before is as it was.
    Judge {
        /// Whose.
        session: String,
        /// Presentation time at which it begins.
        from: Nanos,
        /// Where it ends.
        to: Nanos,
    },
    /// Move a stream to the sync sample at or before `start`, where it waits for [`crate::machine::Action::Go`]. Nothing
    /// of the old place is sent after this is done.
    Seek {
        /// Whose.
        session: String,
        /// Presentation time wished for.
        start: Nanos,
        /// Where to end.
        end: Nanos,
    },
    /// Prepare a paused stream to go on where it stands, to the end it had; it waits for [`crate::machine::Action::Go`].
    Resume {
        /// Whose.
        session: String,
    },
    /// Hold a stream: nothing is sent after this is done.
    Pause {
        /// Whose.
        session: String,
    },
}

/// What became of a [`Job`]. Where it failed, it says why in words.
pub enum Outcome<F> {
    /// Of [`Job::Film`].
    Film(Result<Arc<Film<F>>, FilmError>),
    /// Of [`Job::Admit`]: the session's name, not to be guessed.
    Admitted(Result<String, Refusal>),
    /// Of [`Job::Claim`].
    Claimed(Result<(), Refusal>),
    /// Of [`Job::Make`].
    Made {
        /// Whose stream.
        session: String,
        /// How it begins.
        info: Result<PlayInfo, String>,
    },
    /// Of [`Job::Locate`]: presentation time now being sent.
    Located(Nanos),
    /// Of [`Job::Judge`].
    Judged(Result<(), Refusal>),
    /// Of [`Job::Seek`] and [`Job::Resume`].
    Moved(Result<PlayInfo, String>),
    /// Of [`Job::Pause`]: where it stands.
    Paused(Result<Nanos, String>),
}
