//! What goes wrong before or while a film is to be played.

/// What went wrong before or while a film was to be played.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The network, or the other side, did not do what it should.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Nobody listens there, or there is no way.
    #[error("{0}: {1}")]
    Unreachable(String, std::io::Error),
    /// The server answered with a status other than 200.
    #[error("{method}: {status} {reason}")]
    Refused {
        /// The request that was refused.
        method: &'static str,
        /// RTSP status.
        status: u16,
        /// The server's words.
        reason: String,
    },
    /// What came was not RTSP, SDP or RTP.
    #[error("{0}")]
    Protocol(String),
    /// Nothing came for too long.
    #[error("no answer within {0} s")]
    Silence(u64),
}
