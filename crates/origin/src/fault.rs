//! What can go wrong between here and an endpoint that has films, by what is to be done about it.

use std::time::Duration;

/// Why bytes could not be had from one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The film there is not the one that was indexed any more.
    #[error("the film at the origin has changed ({0})")]
    Changed(String),
    /// Another film is at a mirror, or nobody knows whether it is the same.
    #[error("the mirror has another film, or one that cannot be compared")]
    Unlike,
    /// There is nothing at this address (404, 410).
    #[error("the film is no longer at the origin (status {0})")]
    Gone(u16),
    /// Whoever asks is not let in (401, 403).
    #[error(
        "access is refused (status {0}): check the credentials of this source, and the permissions at the origin"
    )]
    Forbidden(u16),
    /// The server sends whole files only.
    #[error(
        "the origin sends no byte ranges (it answered a range request with status 200); films need an origin that does"
    )]
    NoRanges,
    /// The film there comes from this very server, or by too many.
    #[error("{0}")]
    Loop(&'static str),
    /// A redirect that may not be followed.
    #[error("{0}")]
    Redirected(String),
    /// An answer that does not belong to what was asked.
    #[error("invalid answer: {0}")]
    Wrong(String),
    /// Asked to come back later (429, 503, S3's SlowDown).
    #[error("the origin asks for fewer requests (status {status})")]
    SlowDown {
        /// 429 or 503.
        status: u16,
        /// What `Retry-After` says.
        after: Option<Duration>,
    },
    /// No connection, a connection that broke, a server's error (5xx).
    #[error("{0}")]
    Broken(String),
    /// Nothing came for too long.
    #[error("nothing came for {} s", .0.as_secs_f32())]
    Stalled(Duration),
}

/// What a fault means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The endpoint may be well again soon.
    Passing,
    /// The endpoint is no use for this film.
    Final,
}

impl Fault {
    /// Whether asking the same endpoint again may help.
    pub fn meaning(&self) -> Meaning {
        match self {
            Fault::Changed(_)
            | Fault::Unlike
            | Fault::Gone(_)
            | Fault::Forbidden(_)
            | Fault::NoRanges
            | Fault::Loop(_)
            | Fault::Redirected(_) => Meaning::Final,
            Fault::Wrong(_) | Fault::SlowDown { .. } | Fault::Broken(_) | Fault::Stalled(_) => {
                Meaning::Passing
            }
        }
    }

    /// Its kind in a word, for metrics and tests.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Changed(_) => "changed",
            Fault::Unlike => "unlike",
            Fault::Gone(_) => "gone",
            Fault::Forbidden(_) => "forbidden",
            Fault::NoRanges => "no_ranges",
            Fault::Loop(_) => "loop",
            Fault::Redirected(_) => "redirected",
            Fault::Wrong(_) => "wrong",
            Fault::SlowDown { .. } => "slow_down",
            Fault::Broken(_) => "broken",
            Fault::Stalled(_) => "stalled",
        }
    }
}
