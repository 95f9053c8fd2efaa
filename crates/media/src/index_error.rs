//! Reasons why a film could not be indexed, and the remedies.

use std::fmt;

/// What is wrong with a film, where in the file, and the remedy.
///
/// Displayed as `moov/trak 2/…/stsz at byte 4711: problem; advice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexError {
    /// Boxes from the outermost to the faulty one (`moov/trak 2/mdia/mdhd`); empty for the file.
    pub path: String,
    /// The offset of that box in the file.
    pub offset: u64,
    /// A description of the problem for people.
    pub problem: String,
    /// The kind of problem.
    pub kind: IndexErrorKind,
}

/// Kinds of problems; each has its own remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexErrorKind {
    /// The file ends before the film does: it is still being copied or written, or was truncated.
    Incomplete,
    /// The file is in no supported container.
    UnknownContainer,
    /// The container contradicts itself.
    Damaged,
    /// The film exceeds a limit of [`crate::IndexOptions`].
    TooLarge,
    /// The film is complete but has no track that can be played.
    Unplayable,
    /// Data put into scratch space during indexing cannot be read back.
    Scratch,
}

impl IndexErrorKind {
    /// Returns what the film's owner can do.
    pub fn advice(self) -> &'static str {
        match self {
            IndexErrorKind::Incomplete => "wait until it is copied whole, or copy it again",
            IndexErrorKind::UnknownContainer => {
                "only MP4, Matroska, MPEG transport and program streams, and streams of H.264, H.265 and MPEG picture are served; remux it with `ffmpeg -i FILM -c copy FILM.mp4`"
            }
            IndexErrorKind::Damaged => {
                "copy it again, or have it repaired with `ffmpeg -i FILM -c copy NEW.mp4`"
            }
            IndexErrorKind::TooLarge => "split the film, or raise the limit",
            IndexErrorKind::Scratch => {
                "look after the disk of the state directory; the film is indexed again"
            }
            IndexErrorKind::Unplayable => "encode it with a known codec, such as H.264 and AAC",
        }
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{} at byte {}: ", self.path, self.offset)?;
        }
        write!(f, "{}; {}", self.problem, self.kind.advice())
    }
}

impl std::error::Error for IndexError {}
