//! Matroska and WebM (RFC 9559) become an [`crate::Index`].
//!
//! [`reader`] walks the elements of the file and asks for their heads, and for little more: `Info` and `Tracks` are read whole
//! ([`tracks`]), of each block only its beginning ([`block`]). Frames lie in the file as they are played, so that everything after
//! the index reads them there, as in MP4: [`entry`] makes the sample entries that MP4 would have. Matroska does not say when
//! frames are decoded: [`times`] works it out. [`film`] puts all of it together.
//!
//! Subtitles are read as the blocks are walked ([`text`]), even where they are compressed once more.
//!
//! Frames that are stored without their first bytes (header stripping) are played from a view of the file ([`view`]). Other tracks
//! whose frames are not stored as they are (compression, encryption) are passed over, and noted.

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
