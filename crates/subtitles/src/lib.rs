//! Reads subtitle files, and writes them as WebVTT.
//!
//! - [`read`] accepts SubRip, WebVTT or ASS as found in practice, in any text encoding. It returns
//!   cues in the order of their beginnings, with notes about what it skipped or corrected.
//! - [`Subtitles::to_web_vtt`] writes them. Reading its output yields the same cues.
//! - [`named`] interprets the name of a file beside a film: the language, and for whom it is.
//!
//! Files are untrusted: whatever they contain, reading takes time in proportion to their length,
//! and the result is bounded ([`MOST_BYTES`], [`MOST_CUES`], [`MOST_CHARS`], [`MOST_NOTES`]). Pure:
//! bytes in, text out.
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

/// Reads a subtitle file.
///
/// Cues without text are left out. Cues that do not end after they begin are skipped with a note,
/// as are cues whose text is longer than [`MOST_CHARS`].
///
/// # Errors
///
/// The file contains no cue, or is larger than [`MOST_BYTES`].
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
