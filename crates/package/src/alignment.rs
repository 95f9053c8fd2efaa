//! Whether players may change from one rendition of a film to another while they play.

use reelway_media::{Nanos, SECOND};

use crate::package::{Package, PackagedTrack};

/// Segments of two renditions may begin so far apart: containers round times, Matroska to a millisecond.
const ROUNDING: Nanos = SECOND / 1_000;
/// The last ones may end so far apart: one encoder may have left a picture out, or added one.
const END: Nanos = SECOND / 5;

/// Why players may not change between two renditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misaligned {
    /// It is sound alone.
    #[error("it has no picture")]
    NoPicture,
    /// The best rendition is sound alone.
    #[error("the best rendition has no picture")]
    BestHasNoPicture,
    /// Where a player changes to it, it could not decode what comes first.
    #[error("it has open GOPs: pictures at the beginning of a segment refer to the segment before")]
    OpenGroups,
    /// A player that changes back to the best rendition could not decode what comes first.
    #[error(
        "the best rendition has open GOPs: pictures at the beginning of a segment refer to the segment before"
    )]
    BestHasOpenGroups,
    /// They are cut at different times.
    #[error(
        "its segment {number} begins at {} s, that of the best rendition at {} s: both need key frames at the same times",
        Seconds(*begins), Seconds(*best)
    )]
    Cut {
        /// The first segment that begins elsewhere.
        number: u32,
        /// Where it begins.
        begins: Nanos,
        /// Where that of the best rendition begins.
        best: Nanos,
    },
    /// They differ in length.
    #[error("it is {} s long, the best rendition {} s", Seconds(*length), Seconds(*best))]
    Length {
        /// How long it is.
        length: Nanos,
        /// How long the best rendition is.
        best: Nanos,
    },
}

/// A time in seconds, to the millisecond.
struct Seconds(Nanos);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = self.0 / (SECOND / 1000);
        write!(f, "{}.{:03}", millis / 1000, millis % 1000)
    }
}

/// Checks that players may change between the pictures of `best` and of `other` at every segment.
///
/// # Errors
/// They may not.
pub fn check_alignment(best: &Package, other: &Package) -> Result<(), Misaligned> {
    let best = best.picture().ok_or(Misaligned::BestHasNoPicture)?;
    let other = other.picture().ok_or(Misaligned::NoPicture)?;
    if !best.independent() {
        return Err(Misaligned::BestHasOpenGroups);
    }
    if !other.independent() {
        return Err(Misaligned::OpenGroups);
    }
    check_cuts(best, other)?;
    let (length, best) = (other.end(), best.end());
    if (length - best).abs() > END {
        return Err(Misaligned::Length { length, best });
    }
    Ok(())
}

fn check_cuts(best: &PackagedTrack, other: &PackagedTrack) -> Result<(), Misaligned> {
    // Where one has fewer segments, the next one would begin at its end.
    let (end_of_best, end) = (best.end(), other.end());
    let (mut of_best, mut of_other) = (best.starts(), other.starts());
    for number in 1.. {
        let (best, begins) = match (of_best.next(), of_other.next()) {
            (None, None) => break,
            (best, begins) => (best.unwrap_or(end_of_best), begins.unwrap_or(end)),
        };
        if (begins - best).abs() > ROUNDING {
            return Err(Misaligned::Cut {
                number,
                begins,
                best,
            });
        }
    }
    Ok(())
}
