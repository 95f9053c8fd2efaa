//! Files of subtitles are read, and written as WebVTT.
//!
//! - [`read`] takes SubRip, WebVTT or ASS as they are found in the wild, in any encoding of text, and returns cues
//!   in the order of their beginnings, with notes about what it passed over or put right.
//! - [`Subtitles::to_web_vtt`] writes them; what it wrote is read again as the same cues.
//! - [`named`] says what the name of a file beside a film tells: the language, and for whom it is.
//!
//! A file is anybody's: whatever is in it, reading ends in time that grows with its length, and what comes out is
//! bounded ([`MOST_BYTES`], [`MOST_CUES`], [`MOST_CHARS`], [`MOST_NOTES`]). Pure: bytes in, text out.
#![forbid(unsafe_code)]

mod ass;
mod bounds;
mod cue;
mod encoding;
mod error;
mod format;
mod gather;
mod languages;
mod lines;
mod markup;
mod named;
mod overrides;
mod subrip;
mod times;
mod webvtt;
mod write;

pub use bounds::{MOST_BYTES, MOST_CHARS, MOST_CUES, MOST_NOTES};
pub use cue::{Cue, Subtitles};
pub use error::SubtitleError;
pub use format::Format;
pub use named::{Named, named};

use gather::Gathered;

/// Reads a file of subtitles.
///
/// Cues without text are left out. Cues that end where they begin, or before, are passed over with a note, as are
/// cues whose text is longer than [`MOST_CHARS`].
///
/// # Errors
///
/// There is no cue in it, or it is larger than [`MOST_BYTES`].
pub fn read(format: Format, bytes: &[u8]) -> Result<Subtitles, SubtitleError> {
    if bytes.len() > MOST_BYTES {
        return Err(SubtitleError::TooLarge { bytes: bytes.len() });
    }
    let mut gathered = Gathered::default();
    let text = encoding::decode(bytes, &mut gathered);
    match format {
        Format::SubRip => subrip::read(&text, &mut gathered),
        Format::WebVtt => webvtt::read(&text, &mut gathered),
        Format::Ass => ass::read(&text, &mut gathered),
    }
    gathered.finish()
}
