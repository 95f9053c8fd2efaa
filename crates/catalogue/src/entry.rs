//! What is known of a film: a short form for lists ([`Entry`]), and the complete one for playback
//! ([`Film`]).

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
    /// The film's title in addresses.
    pub name: String,
    /// The file's path or address.
    pub path: PathBuf,
    /// The file's identity when it was indexed. Bytes of another file must not be sent.
    pub identity: FileIdentity,
    /// Tracks, groups, times.
    pub title: Arc<Title>,
    /// The sample records.
    pub samples: Arc<dyn Samples>,
    /// How the file may grow, and has grown.
    pub growth: Growth,
}

impl Film {
    /// Returns the file's identity when it was first indexed: a recording that grows stays the same
    /// film.
    pub fn edition(&self) -> FileIdentity {
        self.growth
            .first
            .map_or(self.identity, |first| first.identity)
    }

    /// Returns the same file as a transport stream that is sent unchanged. `None`: the file is not
    /// a transport stream, or cannot be sent unchanged.
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

    /// Returns the identity of the bytes that the samples are ranges of: those of the file or of
    /// its view. It is the key under which a film's data are kept.
    pub fn bytes_identity(&self) -> FileIdentity {
        match self.title.view {
            Some(view) => self.identity.of_view(view.bytes),
            None => self.identity,
        }
    }

    /// Returns the average rate in bytes per second.
    pub fn rate(&self) -> u64 {
        let bytes: u64 = self.title.tracks.iter().map(|track| track.bytes).sum();
        let millis = (self.title.duration / 1_000_000).max(1) as u64;
        bytes.saturating_mul(1000) / millis
    }
}

/// The sample records of the tracks behind the first `tracks`.
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

/// A film in the catalogue's list.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The film's title in addresses.
    pub name: String,
    /// The file's path or address.
    pub path: PathBuf,
    /// Path below its film directory, for display.
    pub file: String,
    /// The file's identity.
    pub identity: FileIdentity,
    /// Ids of the servers on the way from the film's origin, nearest first.
    pub via: Vec<String>,
    /// Subtitle files beside it.
    pub subtitles: Vec<SubtitleFile>,
    /// The other renditions of the film, or the film of which it is a rendition.
    pub set: Set,
    /// Whether it plays.
    pub state: State,
    /// The recording as it was first indexed. `None`: it has not grown since then.
    pub first: Option<First>,
    /// When this process last saw it grow.
    pub growing: Option<Growing>,
    /// How much of the file has been read, while it is being indexed.
    pub progress: Arc<Progress>,
}

impl Entry {
    /// Returns whether only the beginning of the file has been indexed so far. Such a file is not
    /// served until all of it has been indexed.
    pub fn is_begun(&self) -> bool {
        self.growing.is_some_and(|growing| growing.is_begun)
    }

    /// Returns why the film does not play, if it does not and the reason is known.
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
    /// Incomplete, for example because it is still being copied. It is looked at again when it
    /// changes.
    NotReady {
        /// The reason, as a message.
        reason: String,
    },
    /// Cannot be played over any protocol.
    Unplayable {
        /// The reason, as a message.
        reason: String,
    },
    /// Plays.
    Ready(Arc<Summary>),
}

impl State {
    /// All state names, as used by the API and the metrics.
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

/// What lists show of a playable film.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Presentation length.
    pub duration: Nanos,
    /// The title stored in the file itself.
    pub title: Option<String>,
    /// Tracks in file order.
    pub tracks: Vec<TrackSummary>,
    /// The protocols over which it plays.
    pub protocols: Protocols,
}

/// What lists show of a track.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrackSummary {
    /// Video or audio.
    pub kind: Kind,
    /// Codec string (RFC 6381).
    pub codec: String,
    /// Codec name for display.
    pub name: String,
    /// Language (ISO 639 or BCP 47).
    pub language: Option<String>,
    /// Width and height in pixels, for video.
    pub size: Option<(u16, u16)>,
    /// Average pictures per second, for video.
    pub frame_rate: Option<f64>,
    /// Number of channels and sampling rate in Hz, for audio.
    pub sound: Option<(u16, u32)>,
    /// The AAC channel configuration. 0: the channels have no predefined layout.
    pub channel_configuration: Option<u8>,
    /// Media bytes.
    pub bytes: u64,
}

/// For each protocol `None` if the film plays over it, otherwise the reason why not.
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
    /// Summarises a title.
    pub fn of(title: &Title) -> Summary {
        Summary {
            duration: title.duration,
            title: title.name.clone(),
            tracks: title.tracks.iter().map(TrackSummary::of).collect(),
            protocols: Protocols::of(title),
        }
    }

    /// Returns the first video track.
    pub fn video(&self) -> Option<&TrackSummary> {
        self.tracks.iter().find(|track| track.kind == Kind::Video)
    }

    /// Returns the average bit rate of all tracks together, in bits per second.
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
    /// Determines over which protocols a title plays.
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

/// Why a film cannot be provided.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// There is no film with this name.
    #[error("there is no film '{0}'")]
    Unknown(String),
    /// The film may become ready later.
    #[error("film '{name}' is not ready: {reason}")]
    NotReady {
        /// The film's title.
        name: String,
        /// The reason, as a message.
        reason: String,
    },
    /// The film cannot be played in its present form.
    #[error("film '{name}' cannot be played: {reason}")]
    Unplayable {
        /// The film's title.
        name: String,
        /// The reason, as a message.
        reason: String,
    },
}
