//! How a viewer over RTSP plays.

use std::sync::Arc;
use std::time::Duration;

use crate::progress::Progress;

/// How to play.
#[derive(Clone, Debug)]
pub struct Options {
    /// Interleaved in the RTSP connection instead of over UDP.
    pub tcp: bool,
    /// Where in the film to begin, in seconds.
    pub from: f64,
    /// How long to play; the film's end otherwise.
    pub duration: Option<Duration>,
    /// Most packets agreed on for any millisecond; 0: not judged.
    pub burst: u32,
    /// Whether to put access units together and compare them.
    pub compare: bool,
    /// How deep the player's buffer is.
    pub depth: Duration,
    /// Silence after which a stream that should go on counts as dead.
    pub patience: Duration,
    /// Whether to ask for lost packets, where the server sends them again (RFC 4588); over UDP.
    pub repair: bool,
    /// A player's command that is fed with what comes; see [`crate::pipe`].
    pub pipe: Option<String>,
    /// Where it is told how far it is.
    pub progress: Arc<Progress>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            tcp: false,
            from: 0.0,
            duration: None,
            burst: 0,
            compare: false,
            depth: Duration::from_secs(2),
            patience: SILENCE,
            repair: false,
            pipe: None,
            progress: Arc::default(),
        }
    }
}

/// Silence after which a stream that should go on counts as dead, if nothing else is said.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
