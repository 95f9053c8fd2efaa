//! Turns MP4 (ISO/IEC 14496-12) into an [`crate::Index`].
//!
//! [`reader`] walks the boxes of the file, requests `moov` and `moof` piece by piece, and puts them
//! into scratch space ([`kept`]). [`moov`] reads the tracks: [`headers`] their properties,
//! [`entry`] (with [`config`], [`audio_config`], [`pcm_entry`]) their codecs, [`edits`] their
//! presented parts, [`meta`] names, also [`chapters`] and [`subtitles`] (with [`timed_text`]).
//! [`tables`] and [`fragments`] read the samples, bounded by [`limits`], and [`units`] joins those
//! of uncompressed audio. [`timeline`] puts everything on one timeline.
//!
//! The boxes are read by our own small reader ([`boxes`]) instead of a crate: sample entries are
//! copied verbatim, every size is checked against the file before anything is allocated, every
//! error names box and byte, and half a million samples go from table bytes to packed records
//! without an intermediate list. Crates that parse boxes into structures (mp4-atom among them)
//! offer none of these four.

mod audio_config;
mod bits;
mod boxes;
mod chapters;
mod config;
mod edits;
mod entry;
mod fragments;
mod headers;
mod kept;
mod limits;
mod meta;
mod moov;
mod pcm_entry;
mod reader;
mod subtitles;
mod tables;
mod timed_text;
mod timeline;
mod units;

pub(crate) use audio_config::{RATES as AAC_RATES, program_channels};
pub(crate) use bits::Bits;
#[cfg(test)]
pub(crate) use entry::opus_entry;
pub(crate) use entry::{Entry, entry_of};
pub(crate) use fragments::Gathered;
pub(crate) use meta::language_tag;
pub(crate) use moov::{Draft, Movie};
pub(crate) use reader::Reader;
pub(crate) use timeline::lay_out;
