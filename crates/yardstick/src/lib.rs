//! The yardstick: a client that plays a film for real and trusts nobody (the VODCA paper's).
//!
//! It has viewers over RTSP that count, time and, if the film is available, compare every packet
//! ([`rtsp::play`]); their measurements ([`Story`]); thousands of light viewers that only count and
//! time ([`light`], [`load`]); and players over HLS and DASH ([`http`]). The client is independent
//! and shares no code with the server's data path, so that no mistake can hide itself by being in
//! both.
#![forbid(unsafe_code)]

mod burst;
mod connect;
mod course;
mod depacketise;
pub mod film;
mod histogram;
pub mod http;
pub mod light;
pub mod load;
mod media_clock;
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
mod trouble;
mod unit;
pub mod verdict;
pub mod watching;

pub use course::Course;
pub use histogram::Histogram;
pub use mp4::read_film;
pub use outcome::Outcome;
pub use progress::{Now, Progress};
pub use reference::{Reference, ReferenceTrack, access_unit_hash};
pub use story::{Story, TrackStory};
pub use trouble::Trouble;
