//! A session as it is shown.

use serde::Serialize;

use crate::protocol::Protocol;

/// What a viewer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Set up, not yet playing.
    #[default]
    Ready,
    /// Media is being sent or asked for.
    Playing,
    /// Paused by the viewer.
    Paused,
}

impl State {
    /// The name used in metrics.
    pub fn name(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Playing => "playing",
            State::Paused => "paused",
        }
    }
}

/// A session's progress, as its protocol knows it. Values that a protocol cannot know are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// What the viewer is doing.
    pub state: State,
    /// Current presentation time in seconds.
    pub position: Option<f64>,
    /// Media bytes sent.
    pub bytes: u64,
    /// Packets sent (RTP) or answers given (HTTP).
    pub packets: u64,
    /// Packets that the viewer reported as lost.
    pub lost: Option<u64>,
    /// Interarrival jitter that the viewer reported, in milliseconds.
    pub jitter_ms: Option<f64>,
    /// 99th percentile of lateness against the timetable, in milliseconds.
    pub late_p99_ms: Option<f64>,
    /// Greatest lateness, in milliseconds.
    pub late_max_ms: Option<f64>,
    /// Frames left out because they would have arrived too late.
    pub dropped_frames: Option<u64>,
}

/// The part of a session that changes while it lives.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// How the film is delivered.
    pub protocol: Protocol,
    /// Bits per second over the last seconds.
    pub rate: u64,
    /// The session's progress.
    pub progress: Progress,
}

/// A session as the API shows it (docs/reference/api.md).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionView {
    /// Public identifier.
    pub id: String,
    /// How the film is delivered.
    pub protocol: Protocol,
    /// The viewer's address.
    pub peer: String,
    /// The user, if the request's URL names one and is signed.
    pub user: Option<String>,
    /// The name of the viewer's program.
    pub user_agent: Option<String>,
    /// The title being watched.
    pub title: String,
    /// What the viewer is doing.
    pub state: State,
    /// Presentation time in seconds.
    pub position: Option<f64>,
    /// Film's length in seconds.
    pub duration: f64,
    /// When the session began, RFC 3339 in UTC.
    pub started: String,
    /// Bits per second over the last seconds.
    pub rate: u64,
    /// Media bytes sent.
    pub bytes: u64,
    /// Packets sent or answers given.
    pub packets: u64,
    /// Packets that the viewer reported as lost.
    pub lost: Option<u64>,
    /// Jitter that the viewer reported, in milliseconds.
    pub jitter_ms: Option<f64>,
    /// 99th percentile of lateness, in milliseconds.
    pub late_p99_ms: Option<f64>,
    /// Greatest lateness, in milliseconds.
    pub late_max_ms: Option<f64>,
}
