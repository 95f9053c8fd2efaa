//! MP4 (ISO/IEC 14496-12) becomes an [`crate::Index`].
//!
//! [`reader`] walks the boxes of the file, asks for `moov` and `moof` piece by piece, and puts them
//! aside ([`kept`]). [`moov`] reads the tracks, with [`headers`] for what they are, [`entry`] (and [`config`],
//! [`audio_config`], [`pcm_entry`]) for what they are coded in, [`edits`] for what of them is shown, [`meta`] for names,
//! [`chapters`], [`subtitles`] (and [`timed_text`]). [`tables`] and [`fragments`] give the samples (bounded by [`limits`]), of
//! which [`units`] joins those of uncompressed sound; [`timeline`] lays all of it on one timeline.
//!
//! The boxes are read by our own small reader ([`boxes`]) and not by a crate: sample entries are
//! carried on verbatim, every size is checked against the file before anything is allocated, every
//! error names box and byte, and half a million samples go from the tables' bytes to packed records
//! without a list of entries between. Crates that parse boxes into structures (mp4-atom among them)
//! give none of the four.

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
