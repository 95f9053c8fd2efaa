//! Sizes, aspect ratios and frame rates of pictures for manifests.

use std::fmt;

use reelway_media::{Picture, Track};

use crate::package::{Package, PackagedTrack};

/// Pictures per second, as a reduced fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    /// Number of pictures …
    pub pictures: u64,
    /// … in this many seconds.
    pub seconds: u64,
}

impl FrameRate {
    /// Returns the average rate of a track. A rate that differs from a common one by no more than
    /// the rounding of a coarse timescale can cause (0.05 %) is replaced by the common one. `None`:
    /// the track has no length.
    pub fn of(track: &Track) -> Option<FrameRate> {
        let (pictures, ticks) = (
            u128::from(track.samples) * u128::from(track.timescale),
            u128::from(track.duration),
        );
        if pictures == 0 || ticks == 0 {
            return None;
        }
        let usual = [24, 25, 30, 48, 50, 60, 100, 120].into_iter();
        let usual =
            usual
                .flat_map(|n| [(n, 1), (n * 1000, 1001)])
                .chain([(12, 1), (15, 1), (1, 1)]);
        for (n, d) in usual {
            let (ours, theirs) = (pictures * u128::from(d), ticks * u128::from(n as u64));
            if ours.abs_diff(theirs) * 2000 <= theirs {
                return Some(FrameRate {
                    pictures: n as u64,
                    seconds: d,
                });
            }
        }
        // Thousandths are precise enough for variable rates.
        let thousandths =
            ((pictures * 1000 + ticks / 2) / ticks).clamp(1, u128::from(u32::MAX)) as u64;
        let common = gcd(thousandths, 1000);
        Some(FrameRate {
            pictures: thousandths / common,
            seconds: 1000 / common,
        })
    }

    /// Returns the rate as a number.
    pub fn per_second(self) -> f64 {
        self.pictures as f64 / self.seconds as f64
    }
}

impl fmt::Display for FrameRate {
    /// `25` or `30000/1001`, as DASH writes it (ISO/IEC 23009-1 5.3.7.2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pictures)?;
        if self.seconds != 1 {
            write!(f, "/{}", self.seconds)?;
        }
        Ok(())
    }
}

impl Package {
    /// Returns the frame rate of a picture track.
    pub(crate) fn frame_rate(&self, track: &PackagedTrack) -> Option<FrameRate> {
        let media = self.media(track);
        media.picture.as_ref()?;
        FrameRate::of(media)
    }

    /// Returns the intended display size: square pixels, upright.
    pub(crate) fn display_size(&self, track: &PackagedTrack) -> Option<(u32, u32)> {
        let picture = self.media(track).picture.as_ref()?;
        let (across, up) = picture.pixel_aspect;
        let width = u64::from(picture.width) * u64::from(across.max(1)) / u64::from(up.max(1));
        let size = (
            width.clamp(1, u64::from(u32::MAX)) as u32,
            u32::from(picture.height),
        );
        // Rotated by a quarter turn: the matrix's diagonal is zero.
        let turned = picture.matrix[0] == 0 && picture.matrix[4] == 0;
        Some(if turned { (size.1, size.0) } else { size })
    }

    /// Returns the aspect ratio of the whole picture, reduced.
    pub(crate) fn aspect(&self, picture: &Picture) -> (u64, u64) {
        let across = u64::from(picture.width) * u64::from(picture.pixel_aspect.0.max(1));
        let up = u64::from(picture.height) * u64::from(picture.pixel_aspect.1.max(1));
        let common = gcd(across, up).max(1);
        (across / common, up / common)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
