//! What can go wrong between this server and an endpoint, and what it means for the next attempt.

use std::time::Duration;

/// Why an endpoint did not deliver bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The film there is no longer the one that was indexed.
    #[error("the film at the origin has changed ({0})")]
    Changed(String),
    /// The mirror has another film, or one that cannot be compared.
    #[error("the mirror has another film, or one that cannot be compared")]
    Unlike,
    /// There is nothing at this address (404, 410).
    #[error("the film is no longer at the origin (status {0})")]
    Gone(u16),
    /// The endpoint refuses access (401, 403).
    #[error(
        "access is refused (status {0}): check the credentials of this source, and the permissions at the origin"
    )]
    Forbidden(u16),
    /// The server sends only whole files.
    #[error(
        "the origin sends no byte ranges (it answered a range request with status 200); films need an origin that does"
    )]
    NoRanges,
    /// The film comes from this server itself, or through too many servers.
    #[error("{0}")]
    Loop(&'static str),
    /// A redirect that must not be followed.
    #[error("{0}")]
    Redirected(String),
    /// An answer that does not match the request.
    #[error("invalid answer: {0}")]
    Wrong(String),
    /// The server asks for fewer requests (429, 503, S3's SlowDown).
    #[error("the origin asks for fewer requests (status {status})")]
    SlowDown {
        /// 429 or 503.
        status: u16,
        /// The value of `Retry-After`.
        after: Option<Duration>,
    },
    /// No connection, a broken connection, or an error of the server (5xx).
    #[error("{0}")]
    Broken(String),
    /// Nothing came for too long.
    #[error("nothing came for {} s", .0.as_secs_f32())]
    Stalled(Duration),
}

/// What a fault means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The endpoint may be healthy again soon.
    Passing,
    /// The endpoint is useless for this film.
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

    /// Its kind in one word, for metrics and tests.
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
