//! Options of a viewer over RTSP.

use std::sync::Arc;
use std::time::Duration;

use crate::progress::Progress;

/// Options of the player.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether media is interleaved in the RTSP connection instead of sent over UDP.
    pub tcp: bool,
    /// Start position in the film in seconds.
    pub from: f64,
    /// How long to play; `None`: to the film's end.
    pub duration: Option<Duration>,
    /// Agreed maximum number of packets within any millisecond; 0: not judged.
    pub burst: u32,
    /// Whether to assemble access units and compare them.
    pub compare: bool,
    /// Length of the player's buffer.
    pub depth: Duration,
    /// Timeout for silence of a stream that should continue.
    pub patience: Duration,
    /// Whether to request lost packets over UDP, if the server retransmits them (RFC 4588).
    pub repair: bool,
    /// Command of a player that is fed with the film; see [`crate::pipe`].
    pub pipe: Option<String>,
    /// Receives the viewer's progress.
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

/// Default timeout for silence of a stream that should continue.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
