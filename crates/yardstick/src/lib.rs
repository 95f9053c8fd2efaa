//! The yardstick: a client that plays a film for real and trusts nobody (the VODCA paper's).
//!
//! What lives here: viewers over RTSP that count, time and, where the film is at hand, compare
//! every packet ([`rtsp::play`]); what they measured ([`Story`]); thousands of light ones that only
//! count and time ([`light`], [`load`]); players over HLS and DASH ([`http`]). It is a client of its own and
//! shares no code with the server's data path: what it finds wrong cannot be hidden by using the
//! same mistake twice.
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
