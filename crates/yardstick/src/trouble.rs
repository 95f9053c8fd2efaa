//! Errors before or during playback.

/// An error before or during playback.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// An I/O error of the network or the server.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Nothing listens at the address, or there is no route.
    #[error("{0}: {1}")]
    Unreachable(String, std::io::Error),
    /// The server answered with a status other than 200.
    #[error("{method}: {status} {reason}")]
    Refused {
        /// The request that was refused.
        method: &'static str,
        /// The status code.
        status: u16,
        /// The server's reason phrase.
        reason: String,
    },
    /// The server's data violates RTSP, SDP, RTP or HTTP.
    #[error("{0}")]
    Protocol(String),
    /// Nothing arrived before the timeout.
    #[error("no answer within {0} s")]
    Silence(u64),
}
