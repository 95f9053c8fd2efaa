//! Why a film could not be indexed, and what to do about it.

use std::fmt;

/// What is wrong with a film, where in the file, and what to do.
///
/// Shown as `moov/trak 2/…/stsz at byte 4711: what is wrong; what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexError {
    /// Boxes from the outermost to the one that is wrong, such as `moov/trak 2/mdia/mdhd`; empty for the file itself.
    pub path: String,
    /// First byte of that box in the file.
    pub offset: u64,
    /// What is wrong, in words for people.
    pub problem: String,
    /// What sort of trouble it is.
    pub kind: IndexErrorKind,
}

/// Sorts of trouble; each has its own remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexErrorKind {
    /// The file ends before the film does: it is still being copied or written, or was cut off.
    Incomplete,
    /// This is no container that is read.
    UnknownContainer,
    /// The container contradicts itself.
    Damaged,
    /// It exceeds a limit of [`crate::IndexOptions`].
    TooLarge,
    /// The film is whole but has no track that could be played.
    Unplayable,
    /// What was put into scratch space while it was indexed cannot be read back.
    Scratch,
}

impl IndexErrorKind {
    /// What the person who owns the film can do.
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
