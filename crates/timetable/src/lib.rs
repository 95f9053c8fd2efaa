//! What of a film is due when.
//!
//! What lives here: where a play begins ([`Beginning`]). To come: what each second of a film needs
//! (packets, bytes, blocks, disk time, memory) at any speed and position, for admission and for the
//! cache. Pure: sample records come through [`reelway_media::Samples`].
#![forbid(unsafe_code)]

mod beginning;

pub use beginning::{Beginning, PRIMING, TrackBeginning};
