//! What the state machine needs of the world, named so that tests can stand in for it: films that
//! can be described, streams that can be started and moved, and the jobs in which it asks for them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reelway_media::Nanos;
use reelway_rtp::sdp::Profile;
use reelway_session::{NewSession, Refusal};
use reelway_timetable::{Demand, Schedule};

use crate::watch::Watch;

/// A film as RTSP sees it.
pub trait Film: Send + Sync + fmt::Debug {
    /// TITLE, as in URLs, not encoded.
    fn title(&self) -> &str;

    /// Its length.
    fn duration(&self) -> Nanos;

    /// The tracks that can be had over RTP, in the order of the description. Never empty.
    fn tracks(&self) -> &[FilmTrack];

    /// The film as the catalogue has it; none if it is of a test's making.
    fn in_catalogue(&self) -> Option<Arc<reelway_catalogue::Film>> {
        None
    }

    /// The session description (SDP), for a client that reached the server at `server`, with its
    /// tracks offered in this profile.
    fn sdp(&self, server: IpAddr, profile: Profile) -> String;

    /// What it needs, for admission; none if that is not known.
    fn demand(&self) -> Option<Arc<Demand>> {
        None
    }
}

/// A track that can be had over RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilmTrack {
    /// The N of its URL, which ends in `track=N`.
    pub number: u32,
    /// RTP payload type.
    pub payload_type: u8,
    /// Ticks a second of its RTP timestamps.
    pub clock_rate: u32,
}

impl FilmTrack {
    /// RTP payload type of what is sent again (RFC 4588): another than the track's own.
    pub fn rtx_type(&self) -> u8 {
        self.payload_type ^ 16
    }
}

/// Something that will be known soon.
pub type Soon<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// A stream of a film to one viewer. Where it fails it says why in words.
pub trait Playback: Send + Sync {
    /// Lets it flow: after it was made, moved or resumed, when the answer has been queued.
    fn go(&self);

    /// Sends it by this schedule from where it waits for [`Playback::go`] on; `None`: by the film's own time.
    fn send_by(&self, schedule: Option<Arc<Schedule>>);

    /// Moves it to the sync sample at or before `start`, where it waits for [`Playback::go`].
    /// Nothing of the old place is sent after that.
    fn seek(&self, start: Nanos, end: Nanos) -> Soon<PlayInfo>;

    /// Holds it: nothing is sent after that. Says where it stands.
    fn pause(&self) -> Soon<Nanos>;

    /// Prepares it to go on where it stands, to the end it had; it waits for [`Playback::go`].
    fn resume(&self) -> Soon<PlayInfo>;

    /// Takes RTCP of its viewer's that came interleaved in the connection.
    fn rtcp(&self, data: &[u8]);

    /// Ends it with an RTCP BYE, which says why where the viewer did not ask for it. Nothing of it is sent
    /// afterwards.
    fn stop(&self, why: Option<&str>);

    /// Whether it has come to its end and was not moved since.
    fn is_finished(&self) -> bool;

    /// Where it stands and what it has sent.
    fn progress(&self) -> Sent;
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// Presentation time now being sent.
    pub position: Nanos,
    /// Bytes of RTP, headers included.
    pub bytes: u64,
    /// RTP packets.
    pub packets: u64,
    /// 99th percentile of lateness in milliseconds.
    pub late_p99_ms: f64,
    /// Greatest lateness in milliseconds.
    pub late_max_ms: f64,
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
pub struct PlayOrder<W> {
    /// Whose: events of the stream name it.
    pub session: String,
    /// Of what.
    pub film: Arc<dyn Film>,
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

/// Something that takes a while. The connection it is done for reads no further request until
/// [`crate::machine::Event::Done`].
pub enum Job<W> {
    /// Get the first of these films that exists.
    Film {
        /// Their titles.
        titles: Vec<String>,
    },
    /// Ask whether this viewer may come in. Admission and access rules answer here.
    Admit(Box<NewSession>),
    /// Make a stream that waits for [`Playback::go`].
    Play(Box<PlayOrder<W>>),
    /// Move a stream: nothing of the old place is sent after this is done.
    Seek {
        /// Which.
        playback: Arc<dyn Playback>,
        /// Whose.
        session: String,
        /// Presentation time wished for.
        start: Nanos,
        /// Where to end.
        end: Nanos,
    },
    /// Prepare a paused stream to go on where it stands.
    Resume {
        /// Which.
        playback: Arc<dyn Playback>,
        /// Whose.
        session: String,
        /// Where to end.
        end: Nanos,
    },
    /// Hold a stream: nothing is sent after this is done.
    Pause {
        /// Which.
        playback: Arc<dyn Playback>,
        /// Whose.
        session: String,
    },
}

/// What became of a [`Job`].
pub enum Outcome {
    /// Of [`Job::Film`].
    Film(Result<Arc<dyn Film>, FilmError>),
    /// Of [`Job::Admit`]: who it is from now on.
    Admitted(Result<Admission, Refusal>),
    /// Of [`Job::Play`].
    Made(Result<(Arc<dyn Playback>, PlayInfo), String>),
    /// Of [`Job::Seek`] and [`Job::Resume`].
    Moved(Result<PlayInfo, String>),
    /// Of [`Job::Play`], [`Job::Seek`] and [`Job::Resume`]: there is no room. A stream that was there before is as it
    /// was.
    Refused(Refusal),
    /// Of [`Job::Pause`]: where it stands.
    Paused(Result<Nanos, String>),
}

/// A viewer who may come in.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The session's identifier in RTSP, not to be guessed.
    pub session: String,
    /// Where its progress is noted for others to see.
    pub watch: Arc<Watch>,
}

/// Why a film cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilmError {
    /// There is none of this name.
    Unknown(String),
    /// It may come later.
    NotReady(String),
    /// It does not go over RTSP.
    Unplayable(String),
    /// It should be there, but reading fails.
    Failed(String),
}
