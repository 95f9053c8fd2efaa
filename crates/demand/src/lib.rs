//! The resources that films need of a machine, moment by moment.
//!
//! This crate computes what each moment of a film needs, for admission and for caches ([`Demand`],
//! [`Curve`]), and how films are sent ahead within a viewer's buffer: as evenly as possible from
//! some place on ([`Schedule`]), or picture by picture, the same for all viewers ([`evenly`]).
//! Pure: sample records come through [`reelway_media::Samples`].
#![forbid(unsafe_code)]

mod curve;
mod demand;
mod eager;
mod even;
mod smooth;

pub use curve::{BIN, BINS, Curve, Play, memory_held};
pub use demand::{Carriage, Demand, ETHERNET, Reading};
pub use eager::Eager;
pub use even::{Due, Leaving, beside, evenly, from_the_beginning, sent_evenly};
pub use smooth::{Schedule, smooth};
