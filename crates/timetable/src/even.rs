//! Sending ahead, picture by picture: each leaves as the mean of what is due in the time ahead.
//!
//! A viewer can hold some seconds of film. If what leaves in any moment is the mean of what is due in the
//! time `ahead` from that moment on, nothing is late, nothing leaves earlier than that time, and a picture
//! ten times as large as the others takes ten times as long as they do, instead of a link that is ten
//! times as wide. With C(t) the bytes due by t and S(t) those that have left, S(t) is the mean of C over
//! `t..t + ahead`, which lies between C(t) and C(t + ahead); its slope is the mean of what is due.
//!
//! `smooth.rs` finds the least peak of all, for booking, in quarter seconds and from a given beginning.
//! This here is the same for all viewers of a film, wherever they begin, and needs to know only what is
//! due soon.

use reelway_media::Nanos;

/// A picture, or what else is due at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it is due, film time.
    pub at: Nanos,
    /// Its bytes.
    pub bytes: u32,
}

/// When something due leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// When it is due, film time.
    pub due: Nanos,
    /// When its first byte leaves: at `due` or earlier, by `ahead` at most.
    pub first: Nanos,
    /// When its last byte has left: at `due` at the latest.
    pub last: Nanos,
}

/// When each of `frames[wanted]` leaves that is sent at most `ahead` (ns, more than 0) before its time.
///
/// `frames` are in the order of their times, and hold all that is due within `ahead` before the first
/// that is wanted (for [`from_the_beginning`] of a film: what it says) and within `ahead` after the last.
pub fn evenly(frames: &[Due], wanted: std::ops::Range<usize>, ahead: Nanos) -> Vec<Leaving> {
    let mut sweep = Sweep {
        frames,
        ahead,
        at: frames
            .first()
            .map_or(0, |frame| frame.at.saturating_sub(ahead)),
        area: 0,
        slope: 0,
        coming: 0,
        gone: 0,
    };
    let before: i128 = frames[..wanted.start]
        .iter()
        .map(|frame| i128::from(frame.bytes))
        .sum();
    let mut bytes = before;
    let mut out = Vec::with_capacity(wanted.len());
    for frame in &frames[wanted] {
        let first = sweep.reaches(bytes * i128::from(ahead));
        bytes += i128::from(frame.bytes);
        let last = sweep.reaches(bytes * i128::from(ahead));
        // Where nothing is due for longer than `ahead`, nothing leaves for a while: the next begins then.
        let first = first.clamp(frame.at.saturating_sub(ahead), frame.at);
        out.push(Leaving {
            due: frame.at,
            first,
            last: last.clamp(first, frame.at),
        });
    }
    out
}

/// What is taken to be due before a film's first frame, so that it begins at its own pace instead of
/// slowly: as many frames as are due in the first `ahead`, each of them their mean.
pub fn from_the_beginning(frames: &[Due], ahead: Nanos) -> Vec<Due> {
    let Some(begin) = frames.first().map(|frame| frame.at) else {
        return Vec::new();
    };
    let count = frames.partition_point(|frame| frame.at < begin.saturating_add(ahead));
    let sum: u64 = frames[..count]
        .iter()
        .map(|frame| u64::from(frame.bytes))
        .sum();
    let mean = u32::try_from(sum / count.max(1) as u64).unwrap_or(u32::MAX);
    let step = ahead / count.max(1) as Nanos;
    (1..=count as Nanos)
        .rev()
        .map(|nth| Due {
            at: begin - nth * step,
            bytes: mean,
        })
        .collect()
}

/// Goes through time, with the area under C over `at..at + ahead`, which is `ahead` times S.
struct Sweep<'a> {
    frames: &'a [Due],
    ahead: Nanos,
    at: Nanos,
    area: i128,
    /// Bytes due in `at..at + ahead`.
    slope: i128,
    /// The next frame to come into that time, and to go out of it.
    coming: usize,
    gone: usize,
}

impl Sweep<'_> {
    /// When the area is `wanted` first; wanted areas only grow.
    fn reaches(&mut self, wanted: i128) -> Nanos {
        loop {
            let lacking = wanted - self.area;
            if lacking <= 0 {
                return self.at;
            }
            let comes = self
                .frames
                .get(self.coming)
                .map(|frame| frame.at.saturating_sub(self.ahead));
            let goes = self.frames.get(self.gone).map(|frame| frame.at);
            let next = match (comes, goes) {
                (Some(comes), Some(goes)) => comes.min(goes),
                (None, Some(goes)) => goes,
                // All is gone: what is lacking is nothing but rounding.
                (_, None) => return self.at,
            };
            let until = i128::from(next.saturating_sub(self.at));
            if self.slope > 0 && self.slope * until >= lacking {
                let step = (lacking + self.slope - 1) / self.slope;
                self.at = self.at.saturating_add(step as Nanos);
                self.area += self.slope * step;
                return self.at;
            }
            self.area += self.slope * until;
            self.at = next;
            if comes == Some(next) {
                self.slope += i128::from(self.frames[self.coming].bytes);
                self.coming += 1;
            } else {
                self.slope -= i128::from(self.frames[self.gone].bytes);
                self.gone += 1;
            }
        }
    }
}

/// When something leaves that is due at `due`, beside frames that leave so: as far ahead as they do.
pub fn beside(leaving: &[Leaving], due: Nanos) -> Nanos {
    let after = leaving.partition_point(|frame| frame.due <= due);
    let lead = |frame: &Leaving| frame.due - frame.first;
    let (before, next) = (
        after.checked_sub(1).and_then(|at| leaving.get(at)),
        leaving.get(after),
    );
    let lead = match (before, next) {
        (Some(before), Some(next)) => {
            let (from, to) = (i128::from(lead(before)), i128::from(lead(next)));
            let (part, whole) = (due - before.due, next.due - before.due);
            (from + (to - from) * i128::from(part) / i128::from(whole.max(1))) as Nanos
        }
        (Some(only), None) | (None, Some(only)) => lead(only),
        (None, None) => 0,
    };
    due - lead
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reelway_media::SECOND;

    const FRAME: Nanos = SECOND / 25;

    /// A film of seconds of 25 pictures, of which the first has ten times the bytes of the others.
    fn film(seconds: usize) -> Vec<Due> {
        let frame = |number: usize| Due {
            at: number as Nanos * FRAME,
            bytes: if number.is_multiple_of(25) {
                100_000
            } else {
                10_000
            },
        };
        (0..seconds * 25).map(frame).collect()
    }

    /// All of a film, from its beginning.
    fn all(film: &[Due], ahead: Nanos) -> Vec<Leaving> {
        let mut frames = from_the_beginning(film, ahead);
        let before = frames.len();
        frames.extend(film);
        evenly(&frames, before..frames.len(), ahead)
    }

    #[test]
    fn a_picture_ten_times_the_others_takes_ten_times_as_long_and_the_peak_is_the_mean() {
        let film = film(10);
        // Not its first second, before which something is only taken to be, nor its last, when less is due.
        let leaves = film.iter().zip(all(&film, SECOND));
        for (frame, leaves) in leaves.skip(25).take(7 * 25) {
            let takes = leaves.last - leaves.first;
            let mean = 340_000.0 / SECOND as f64;
            let rate = f64::from(frame.bytes) / takes as f64;
            assert!((rate / mean - 1.0).abs() < 0.01, "{rate} instead of {mean}");
        }
    }

    #[test]
    fn a_part_in_the_middle_is_as_it_is_in_the_whole() {
        let film = film(12);
        let whole = all(&film, SECOND);
        // Exactly a second before and after.
        let part = &film[100 - 25..150 + 25];
        assert_eq!(evenly(part, 25..75, SECOND), whole[100..150]);
    }

    #[test]
    fn sound_leaves_as_far_ahead_as_the_pictures_beside_it() {
        let film = film(4);
        let whole = all(&film, SECOND);
        for pair in whole.windows(2) {
            let middle = (pair[0].due + pair[1].due) / 2;
            let leaves = beside(&whole, middle);
            assert!((pair[0].first..=pair[1].first).contains(&leaves));
            assert_eq!(beside(&whole, pair[0].due), pair[0].first);
        }
        assert_eq!(beside(&[], 7), 7);
    }

    proptest! {
        #[test]
        fn nothing_is_late_nor_too_early_nor_out_of_order_and_no_moment_is_fuller_than_the_fullest(
            frames in prop::collection::vec((0i64..300_000_000, 0u32..200_000), 1..120),
            ahead in 1i64..3_000_000_000,
        ) {
            let mut at = 0;
            let film: Vec<Due> = frames
                .into_iter()
                .map(|(step, bytes)| {
                    at += step;
                    Due { at, bytes }
                })
                .collect();
            let leaves = all(&film, ahead);
            prop_assert_eq!(leaves.len(), film.len());
            let mut before = Nanos::MIN;
            for leaves in &leaves {
                prop_assert!(leaves.first >= before, "out of order");
                prop_assert!(leaves.due - ahead <= leaves.first && leaves.first <= leaves.last);
                prop_assert!(leaves.last <= leaves.due, "late");
                before = leaves.first;
            }
            // No rate is above the fullest `ahead`, those before the beginning included.
            let mut frames = from_the_beginning(&film, ahead);
            frames.extend(&film);
            let most = frames
                .iter()
                .map(|from| {
                    let within = |frame: &&Due| (from.at..from.at + ahead).contains(&frame.at);
                    frames.iter().filter(within).map(|frame| u64::from(frame.bytes)).sum::<u64>()
                })
                .max()
                .unwrap_or(0);
            for (frame, leaves) in film.iter().zip(&leaves) {
                let least = i128::from(frame.bytes) * i128::from(ahead) / i128::from(most.max(1));
                prop_assert!(i128::from(leaves.last - leaves.first) + 2 >= least);
            }
        }
    }
}
