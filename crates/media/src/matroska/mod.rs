//! Turns Matroska and WebM (RFC 9559) into an [`crate::Index`].
//!
//! [`reader`] walks the elements of the file and requests little more than their headers: `Info`
//! and `Tracks` are read whole ([`tracks`]), blocks only at their beginning ([`block`]). Frames are
//! contiguous in the file, so everything after the index reads them there, as in MP4; [`entry`]
//! makes the sample entries that MP4 would have. Matroska does not state when frames are decoded:
//! [`times`] derives it. [`film`] puts everything together.
//!
//! Subtitles are read while the blocks are walked ([`text`]), even if they are compressed.
//!
//! Frames stored without their first bytes (header stripping) are played from a view of the file
//! ([`view`]). Other tracks with encoded frames (compression, encryption) are skipped and noted.

mod block;
mod chapters;
mod ebml;
mod entry;
mod film;
mod ids;
mod inside;
mod reader;
mod text;
mod times;
mod tracks;
mod view;

pub(crate) use reader::{Reader, begins};
pub(crate) use view::Filling;
