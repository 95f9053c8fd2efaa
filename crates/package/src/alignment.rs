//! Checks whether players may switch between renditions of a film during playback.

use reelway_media::{Nanos, SECOND};

use crate::package::{Package, PackagedTrack};

/// Maximum distance between the beginnings of two renditions' segments: containers round times,
/// Matroska to a millisecond.
const ROUNDING: Nanos = SECOND / 1_000;
/// Maximum distance between the ends of two renditions: one encoder may have omitted or added a
/// picture.
const END: Nanos = SECOND / 5;

/// Why players may not switch between two renditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misaligned {
    /// The rendition has sound only.
    #[error("it has no picture")]
    NoPicture,
    /// The best rendition has sound only.
    #[error("the best rendition has no picture")]
    BestHasNoPicture,
    /// A player that switches to the rendition could not decode its first pictures.
    #[error("it has open GOPs: pictures at the beginning of a segment refer to the segment before")]
    OpenGroups,
    /// A player that switches back to the best rendition could not decode its first pictures.
    #[error(
        "the best rendition has open GOPs: pictures at the beginning of a segment refer to the segment before"
    )]
    BestHasOpenGroups,
    /// The renditions are cut at different times.
    #[error(
        "its segment {number} begins at {} s, that of the best rendition at {} s: both need key frames at the same times",
        Seconds(*begins), Seconds(*best)
    )]
    Cut {
        /// The first segment that begins at a different time.
        number: u32,
        /// Its beginning.
        begins: Nanos,
        /// The beginning of the best rendition's segment.
        best: Nanos,
    },
    /// The renditions differ in length.
    #[error("it is {} s long, the best rendition {} s", Seconds(*length), Seconds(*best))]
    Length {
        /// The rendition's length.
        length: Nanos,
        /// The best rendition's length.
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

/// Checks that players may switch between the pictures of `best` and `other` at every segment.
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
    // If one has fewer segments, its end is compared instead of a beginning.
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
