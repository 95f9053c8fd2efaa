//! The yardstick: a client that plays a film for real and trusts nobody (the VODCA paper's).
//!
//! What lives here: viewers over RTSP that count, time and, where the film is at hand, compare
//! every packet ([`rtsp::play`]); what they measured ([`Story`]); thousands of light ones that only
//! count and time ([`light`], [`load`]); players over HLS and DASH ([`http`]). It is a client of its own and
//! shares no code with the server's data path: what it finds wrong cannot be hidden by using the
//! same mistake twice.
#![forbid(unsafe_code)]

mod burst;
mod course;
mod depacketise;
mod histogram;
pub mod http;
pub mod light;
pub mod load;
mod meter;
mod mp4;
mod order;
pub mod outcome;
mod packet;
pub mod pipe;
pub mod playback;
mod progress;
mod reference;
mod repair;
mod reports;
pub mod rtsp;
mod socket;
mod story;
mod stream;
mod transport_stream;
pub mod verdict;
pub mod watching;

pub use course::Course;
pub use histogram::Histogram;
pub use mp4::read_film;
pub use outcome::Outcome;
pub use progress::{Now, Progress};
pub use reference::{Reference, ReferenceTrack, access_unit_hash};
pub use story::{Story, TrackStory};

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
