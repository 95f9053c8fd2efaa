//! What is known of a film: shortly, for lists ([`Entry`]), and wholly, for playing ([`Film`]).

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use reelway_media::{
    Codec, Kind, Nanos, Sample, Samples, SamplesError, Title, Track, ticks_to_nanos,
};
use reelway_rtp::Payload;
use reelway_sys::FileIdentity;
use serde::{Deserialize, Serialize};

use crate::growth::{First, Growing, Growth};
use crate::progress::Progress;
use crate::sets::Set;
use crate::subtitles::SubtitleFile;

/// A film ready to be played.
#[derive(Debug)]
pub struct Film {
    /// TITLE in addresses.
    pub name: String,
    /// Where the file is.
    pub path: PathBuf,
    /// Which file it was when it was indexed; bytes of another must not be sent.
    pub identity: FileIdentity,
    /// Tracks, groups, times.
    pub title: Arc<Title>,
    /// The sample records.
    pub samples: Arc<dyn Samples>,
    /// How its file may grow, and has grown.
    pub growth: Growth,
}

impl Film {
    /// Which file it was when it was first indexed: a recording that grows stays the same film.
    pub fn edition(&self) -> FileIdentity {
        self.growth
            .first
            .map_or(self.identity, |first| first.identity)
    }

    /// The same file as a transport stream that is sent as it is; `None`: it is none, or cannot be.
    pub fn as_transport_stream(&self) -> Option<Film> {
        let samples = Behind {
            samples: Arc::clone(&self.samples),
            tracks: self.title.tracks.len(),
        };
        Some(Film {
            name: self.name.clone(),
            path: self.path.clone(),
            identity: self.identity,
            title: Arc::new(self.title.as_transport_stream()?),
            samples: Arc::new(samples),
            growth: self.growth,
        })
    }

    /// Which bytes its samples are ranges of: its file's, or those of a view of it. What is kept of a film is kept by this.
    pub fn bytes_identity(&self) -> FileIdentity {
        match self.title.view {
            Some(view) => self.identity.of_view(view.bytes),
            None => self.identity,
        }
    }

    /// Bytes a second, on average.
    pub fn rate(&self) -> u64 {
        let bytes: u64 = self.title.tracks.iter().map(|track| track.bytes).sum();
        let millis = (self.title.duration / 1_000_000).max(1) as u64;
        bytes.saturating_mul(1000) / millis
    }
}

/// The records of a film's tracks that come after so many others.
#[derive(Debug)]
struct Behind {
    samples: Arc<dyn Samples>,
    tracks: usize,
}

impl Samples for Behind {
    fn read(
        &self,
        track: usize,
        range: Range<u32>,
        out: &mut Vec<Sample>,
    ) -> Result<(), SamplesError> {
        self.samples.read(track + self.tracks, range, out)
    }
}

/// A film in the list.
#[derive(Clone, Debug)]
pub struct Entry {
    /// TITLE in addresses.
    pub name: String,
    /// Where the file is.
    pub path: PathBuf,
    /// Path below its film directory, for people.
    pub file: String,
    /// Which file it is.
    pub identity: FileIdentity,
    /// By which servers it comes here, the nearest first: their ids.
    pub via: Vec<String>,
    /// Files of subtitles beside it.
    pub subtitles: Vec<SubtitleFile>,
    /// The other renditions of it, or the film that it is one of.
    pub set: Set,
    /// Whether it plays.
    pub state: State,
    /// The recording as it was first indexed; `None`: it has not grown since.
    pub first: Option<First>,
    /// When it was last seen to grow, by this process.
    pub growing: Option<Growing>,
    /// How much of its file was read so far, while it is being indexed.
    pub progress: Arc<Progress>,
}

impl Entry {
    /// Whether only the beginning of its file was indexed so far: the file is not served before all of it was.
    pub fn is_begun(&self) -> bool {
        self.growing.is_some_and(|growing| growing.is_begun)
    }

    /// Why it does not play, if it does not and that is known.
    pub fn reason(&self) -> Option<&String> {
        match &self.state {
            State::NotReady { reason } | State::Unplayable { reason } => Some(reason),
            State::Indexing | State::Ready(_) => None,
        }
    }
}

/// Whether a film plays.
#[derive(Clone, Debug)]
pub enum State {
    /// Being read.
    Indexing,
    /// Not whole yet, as while it is being copied; looked at again when it changes.
    NotReady {
        /// In words.
        reason: String,
    },
    /// Cannot be played by any protocol.
    Unplayable {
        /// In words.
        reason: String,
    },
    /// Plays.
    Ready(Arc<Summary>),
}

impl State {
    /// All names of states, as the API and the metrics have them.
    pub const NAMES: [&'static str; 4] = ["ready", "indexing", "not_ready", "unplayable"];

    /// The state's name.
    pub fn name(&self) -> &'static str {
        match self {
            State::Ready(_) => "ready",
            State::Indexing => "indexing",
            State::NotReady { .. } => "not_ready",
            State::Unplayable { .. } => "unplayable",
        }
    }
}

/// What lists show of a film that plays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Presentation length.
    pub duration: Nanos,
    /// The title the file itself carries.
    pub title: Option<String>,
    /// Tracks in file order.
    pub tracks: Vec<TrackSummary>,
    /// By which protocols it plays.
    pub protocols: Protocols,
}

/// What lists show of a track.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrackSummary {
    /// Picture or sound.
    pub kind: Kind,
    /// RFC 6381 name.
    pub codec: String,
    /// Name for people.
    pub name: String,
    /// ISO 639 or BCP 47 language.
    pub language: Option<String>,
    /// Pixels, for pictures: width and height.
    pub size: Option<(u16, u16)>,
    /// Mean pictures a second, for pictures.
    pub frame_rate: Option<f64>,
    /// Channels and rate in Hz, for sound.
    pub sound: Option<(u16, u32)>,
    /// For AAC the number of its channels' order; 0: there is none.
    pub channel_configuration: Option<u8>,
    /// Media bytes.
    pub bytes: u64,
}

/// For each protocol `None` where the film plays over it, else why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocols {
    /// RTSP/RTP.
    pub rtsp: Option<String>,
    /// HTTP Live Streaming.
    pub hls: Option<String>,
    /// MPEG-DASH.
    pub dash: Option<String>,
}

impl Summary {
    /// The summary of a title.
    pub fn of(title: &Title) -> Summary {
        Summary {
            duration: title.duration,
            title: title.name.clone(),
            tracks: title.tracks.iter().map(TrackSummary::of).collect(),
            protocols: Protocols::of(title),
        }
    }

    /// The first picture track.
    pub fn video(&self) -> Option<&TrackSummary> {
        self.tracks.iter().find(|track| track.kind == Kind::Video)
    }

    /// Mean bits a second of all tracks together.
    pub fn bitrate(&self) -> u64 {
        let bytes: u64 = self.tracks.iter().map(|track| track.bytes).sum();
        let nanos = u128::try_from(self.duration.max(1)).unwrap_or(1);
        (u128::from(bytes) * 8 * 1_000_000_000 / nanos) as u64
    }
}

impl TrackSummary {
    fn of(track: &Track) -> TrackSummary {
        let seconds = ticks_to_nanos(track.duration as i64, track.timescale) as f64 / 1e9;
        TrackSummary {
            kind: track.kind,
            codec: track.codec.rfc6381(),
            name: track.codec.name(),
            language: track.language.clone(),
            size: track
                .picture
                .as_ref()
                .map(|picture| (picture.width, picture.height)),
            frame_rate: (track.kind == Kind::Video && seconds > 0.0)
                .then(|| f64::from(track.samples) / seconds),
            sound: track
                .sound
                .as_ref()
                .map(|sound| (sound.channels, sound.rate)),
            channel_configuration: match &track.codec {
                Codec::Aac(aac) => Some(aac.channel_configuration()),
                _ => None,
            },
            bytes: track.bytes,
        }
    }
}

impl Protocols {
    /// By which protocols a title plays.
    pub fn of(title: &Title) -> Protocols {
        let rtsp = title
            .tracks
            .iter()
            .find_map(|track| Some((track, Payload::refused(&track.codec)?)))
            .and_then(|(odd, why)| {
                let left = title
                    .tracks
                    .iter()
                    .any(|track| track.kind == odd.kind && Payload::carries(&track.codec));
                (!left).then(|| {
                    format!(
                        "{} cannot be sent over RTP ({why}); use HLS, DASH or the file",
                        odd.codec.name()
                    )
                })
            });
        Protocols {
            rtsp,
            hls: None,
            dash: None,
        }
    }
}

/// Why a film cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// No such film.
    #[error("there is no film '{0}'")]
    Unknown(String),
    /// It may be there later.
    #[error("film '{name}' is not ready: {reason}")]
    NotReady {
        /// TITLE.
        name: String,
        /// In words.
        reason: String,
    },
    /// It will never play as it is.
    #[error("film '{name}' cannot be played: {reason}")]
    Unplayable {
        /// TITLE.
        name: String,
        /// In words.
        reason: String,
    },
}
