//! Sending ahead, picture by picture, at the mean rate of what is due in the time ahead.
//!
//! A viewer can hold some seconds of film. If the rate at any moment is the mean of what is due in
//! the time `ahead` from that moment on, nothing is late, nothing leaves earlier than that time,
//! and a picture ten times as large as the others takes ten times as long, instead of a link ten
//! times as wide. With C(t) the bytes due by t and S(t) those that have left, S(t) is the mean of C
//! over `t..t + ahead`, which lies between C(t) and C(t + ahead); its slope is the mean of what is
//! due.
//!
//! `smooth.rs` finds the least peak of all schedules, for booking, in quarter seconds and from a
//! given beginning. The schedule here is the same for all viewers of a film, wherever they begin,
//! and depends only on what is due soon.

use reelway_media::Nanos;

use crate::curve::{BIN, Curve};

/// A picture, or anything else that is due at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Film time at which it is due.
    pub at: Nanos,
    /// Its size in bytes.
    pub bytes: u32,
}

/// When a picture or anything else leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Film time at which it is due.
    pub due: Nanos,
    /// When its first byte leaves: at `due` or earlier, by at most `ahead`.
    pub first: Nanos,
    /// When its last byte has left: at `due` or earlier.
    pub last: Nanos,
}

/// When each of `frames[wanted]` leaves, if it is sent at most `ahead` (ns, more than 0) before its
/// time.
///
/// `frames` are in the order of their times, and include everything that is due within `ahead`
/// before the first wanted frame (at the beginning of a film, the frames from
/// [`from_the_beginning`]) and within `ahead` after the last.
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
        // If nothing is due for longer than `ahead`, nothing leaves for a while, until the next
        // frame may.
        let first = first.clamp(frame.at.saturating_sub(ahead), frame.at);
        out.push(Leaving {
            due: frame.at,
            first,
            last: last.clamp(first, frame.at),
        });
    }
    out
}

/// Frames that are assumed to be due before a film's first, so that it begins at its own pace
/// instead of slowly: as many as are due in the first `ahead`, each of their mean size.
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

/// Moves through time with the area under C over `at..at + ahead`, which is `ahead` times S.
struct Sweep<'a> {
    frames: &'a [Due],
    ahead: Nanos,
    at: Nanos,
    area: i128,
    /// Bytes due in `at..at + ahead`.
    slope: i128,
    /// The next frame to enter that time, and the next to leave it.
    coming: usize,
    gone: usize,
}

impl Sweep<'_> {
    /// When the area first reaches `wanted`, which must not decrease from call to call.
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
                // No frames are left: only rounding is missing.
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

/// When something that is due at `due` leaves beside these frames: as far ahead as they do.
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

/// What is sent in each quarter second of a play of the bins `from..` that leaves [`evenly`], for
/// booking; nothing before `from`. The bin `from` begins when the first picture leaves, so the
/// curve is longer than the film's by as much as that picture is ahead. Within a bin, the film's
/// bytes count as evenly due.
pub fn sent_evenly(curve: &Curve, from: usize, ahead: Nanos) -> Curve {
    if from >= curve.len() || ahead <= 0 {
        return curve.clone();
    }
    let due = &curve.bins()[..];
    let ahead = ahead as f64 / BIN as f64;
    let by_now = Integral::of(due, ahead);
    // Bytes that have left by this time, in bins.
    let left = |at: f64| (by_now.at(at + ahead) - by_now.at(at)) / ahead;
    // The play begins when its first byte leaves: at that byte's time, or up to `ahead` before.
    let gone = by_now.due_before(from);
    let (mut early, mut begin) = (from as f64 - ahead, from as f64);
    for _ in 0..40 {
        let middle = f64::midpoint(early, begin);
        if left(middle) < gone {
            early = middle;
        } else {
            begin = middle;
        }
    }
    let lasts = (due.len() as f64 - begin).ceil() as usize;
    let sent_by = |bins: usize| (left(begin + bins as f64) - gone).round().max(0.0) as u64;
    let sent = (0..lasts).map(|bin| sent_by(bin + 1).saturating_sub(sent_by(bin)));
    let sent = sent.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    curve.like(std::iter::repeat_n(0, from).chain(sent).collect())
}

/// The integral of the bytes due by a time, with those that [`from_the_beginning`] assumes before a
/// film.
struct Integral<'a> {
    due: &'a [u32],
    /// Bytes due before each bin, and their integral up to there.
    before: Vec<(f64, f64)>,
    /// Bytes assumed to be due in each bin before the first.
    begins: f64,
}

impl Integral<'_> {
    fn of(due: &[u32], ahead: f64) -> Integral<'_> {
        let first = due.len().min(ahead.ceil().max(1.0) as usize);
        let begins = due[..first].iter().copied().map(f64::from).sum::<f64>() / first.max(1) as f64;
        let (mut sum, mut area) = (0.0, 0.0);
        let mut before = Vec::with_capacity(due.len() + 1);
        before.push((sum, area));
        for bin in due {
            area += sum + f64::from(*bin) / 2.0;
            sum += f64::from(*bin);
            before.push((sum, area));
        }
        Integral {
            due,
            before,
            begins,
        }
    }

    fn due_before(&self, bin: usize) -> f64 {
        self.before[bin.min(self.due.len())].0
    }

    fn at(&self, at: f64) -> f64 {
        let last = self.due.len();
        if at < 0.0 {
            // Bytes are counted from the film's beginning, so before it the sum is negative.
            return self.begins * at * at / 2.0;
        }
        let bin = (at as usize).min(last);
        let within = at - bin as f64;
        let (sum, area) = self.before[bin];
        let due = self.due.get(bin).map_or(0.0, |due| f64::from(*due));
        area + sum * within + due * within * within / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::BINS;
    use proptest::prelude::*;
    use reelway_media::SECOND;

    const FRAME: Nanos = SECOND / 25;

    /// A film with 25 pictures per second. The first of each second has ten times the bytes of the
    /// others.
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

    /// The whole of a film, from its beginning.
    fn all(film: &[Due], ahead: Nanos) -> Vec<Leaving> {
        let mut frames = from_the_beginning(film, ahead);
        let before = frames.len();
        frames.extend(film);
        evenly(&frames, before..frames.len(), ahead)
    }

    #[test]
    fn a_picture_ten_times_the_others_takes_ten_times_as_long_and_the_peak_is_the_mean() {
        let film = film(10);
        // Without the first second, before which frames are only assumed, and the last, in which
        // less is due.
        let leaves = film.iter().zip(all(&film, SECOND));
        for (frame, leaves) in leaves.skip(25).take(7 * 25) {
            let takes = leaves.last - leaves.first;
            let mean = 340_000.0 / SECOND as f64;
            let rate = f64::from(frame.bytes) / takes as f64;
            assert!((rate / mean - 1.0).abs() < 0.01, "{rate} instead of {mean}");
        }
    }

    #[test]
    fn what_is_booked_is_what_leaves_wherever_a_play_begins() {
        // One second in four has four times the bytes of the others.
        let mut film = film(40);
        for frame in film.iter_mut().filter(|frame| frame.at / SECOND % 4 == 3) {
            frame.bytes *= 4;
        }
        let mut bins = vec![0u32; 40 * BINS];
        for frame in &film {
            bins[(frame.at / BIN) as usize] += frame.bytes;
        }
        let curve = Curve::new(bins);
        let fullest = f64::from(*curve.bins().iter().max().unwrap());
        for (second, ahead) in [0, 1, 3, 17, 35].into_iter().flat_map(|second| {
            [100_000_000, SECOND / 2, 2 * SECOND, 4 * SECOND].map(|ahead| (second, ahead))
        }) {
            let leaves = &all(&film, ahead)[second * 25..];
            let begin = leaves[0].first;
            let sent_by = |at: Nanos| {
                let part = |(frame, leaves): (&Due, &Leaving)| {
                    let takes = (leaves.last - leaves.first).max(1) as f64;
                    let passed = (at - leaves.first).max(0) as f64;
                    f64::from(frame.bytes) * (passed / takes).min(1.0)
                };
                film[second * 25..]
                    .iter()
                    .zip(leaves)
                    .map(part)
                    .sum::<f64>()
            };
            let booked = sent_evenly(&curve, second * BINS, ahead);
            let mut sum = 0.0;
            for (number, bin) in (0..).zip(&booked.bins()[second * BINS..]) {
                sum += f64::from(*bin);
                let sent = sent_by(begin + (number + 1) * BIN);
                assert!(
                    (sent - sum).abs() <= fullest,
                    "from {second} s, {ahead} ns ahead, after {number} bins: {sent} sent, {sum} booked"
                );
            }
            let whole: u32 = film[second * 25..].iter().map(|frame| frame.bytes).sum();
            assert!((sum - f64::from(whole)).abs() <= 40.0 * BINS as f64);
            if ahead == 4 * SECOND {
                let (mean, peak) = (f64::from(booked.mean()), f64::from(booked.peak()));
                assert!(second > 0 || peak < 1.1 * mean, "{peak}, {mean}");
            }
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
            // No rate is above that of the fullest `ahead`, including the frames assumed before the
            // beginning.
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
