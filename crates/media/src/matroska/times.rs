//! Derives when and for how long frames are decoded. Matroska states only presentation times,
//! usually rounded to milliseconds.

use std::collections::VecDeque;

use crate::scratch::Scratch;
use crate::spool::Spool;
use crate::time::rescale;
use crate::words::Words;

/// The times of a track, in its ticks.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The decode time of the first frame.
    pub first: i64,
    /// The end of the last frame.
    pub end: i64,
    /// For each frame, in four bytes each: the time to the next decode time, and to presentation.
    steps: Spool<8>,
}

impl Times {
    fn new(first: i64, end: i64, scratch: &Scratch) -> Times {
        let steps = Spool::new(scratch);
        Times { first, end, steps }
    }

    fn add(&mut self, step: u32, waits: i32) {
        let [a, b, c, d] = step.to_le_bytes();
        let [e, f, g, h] = waits.to_le_bytes();
        self.steps.push([a, b, c, d, e, f, g, h]);
    }

    /// Returns, for each frame in decode order, the time to the next frame's decode time, and to
    /// its own presentation.
    pub fn steps(&self) -> impl Iterator<Item = (u32, i32)> + '_ {
        self.steps.records().map(|[a, b, c, d, e, f, g, h]| {
            (
                u32::from_le_bytes([a, b, c, d]),
                i32::from_le_bytes([e, f, g, h]),
            )
        })
    }
}

/// The maximum duration: a frame's ticks fit its record.
const MAX_STEP: i64 = i32::MAX as i64;

/// The maximum number of pictures that are decoded after and presented before a given one (ISO/IEC
/// 14496-10 annex A.3.1).
const DEEPEST: usize = 16;

/// Returns the times of pictures that are presented at `shown`, in decode order. The last one lasts
/// `last` ticks, if known. `None` if the times go back further than reordering explains (`most`
/// ticks; more at low picture rates).
pub fn pictures(
    shown: impl Iterator<Item = i64> + Clone,
    last: Option<i64>,
    most: i64,
    scratch: &Scratch,
) -> Option<Times> {
    let sorted = Words::sorted(shown.clone(), scratch);
    // The i-th picture is decoded at the i-th presentation time in ascending order, minus a delay
    // that makes no picture late: the reordering delay.
    let behind = shown.clone().zip(sorted.iter()).map(|(own, nth)| nth - own);
    if let Some(furthest) = behind.clone().max()
        && furthest > most
        && furthest > shortest_step(&sorted).saturating_mul(DEEPEST as i64)
    {
        return None;
    }
    // In a recording, pictures to be presented before the last ones may still follow. The last ones
    // do not count for the delay: the times of all others would change when the recording grows.
    let count = sorted.len();
    let settled = match count > 2 * DEEPEST {
        true => count - DEEPEST,
        false => count,
    };
    let delay = behind.take(settled).max().unwrap_or(0).max(0);
    // No picture is decoded after it or a later one is presented.
    let mut latest: Vec<i64> = shown.clone().skip(settled).collect();
    for nth in (1..latest.len()).rev() {
        latest[nth - 1] = latest[nth - 1].min(latest[nth]);
    }
    let decoded = |(number, nth): (usize, i64)| {
        let latest = latest.get(number.saturating_sub(settled));
        (nth - delay).min(latest.copied().unwrap_or(i64::MAX))
    };
    let decoded = sorted.iter().enumerate().map(decoded);
    let last = last.unwrap_or_else(|| usual_step(&sorted, scratch));
    let last = last.clamp(0, MAX_STEP);
    let end = decoded.clone().last().map_or(0, |at| at + last);
    let first = decoded.clone().next().unwrap_or(0);
    let mut times = Times::new(first, end, scratch);
    let next = decoded.clone().skip(1).chain([end]);
    for ((own, at), next) in shown.zip(decoded).zip(next) {
        let step = (next - at).clamp(0, MAX_STEP) as u32;
        times.add(step, (own - at).min(MAX_STEP) as i32);
    }
    Some(times)
}

/// Returns the smallest distance between neighbours.
fn shortest_step(sorted: &Words) -> i64 {
    let pairs = sorted.iter().zip(sorted.iter().skip(1));
    let steps = pairs.map(|(one, next)| next - one);
    steps.filter(|step| *step > 0).min().unwrap_or(0)
}

/// Returns the median distance between neighbours.
fn usual_step(sorted: &Words, scratch: &Scratch) -> i64 {
    let pairs = sorted.iter().zip(sorted.iter().skip(1));
    let steps = pairs.map(|(one, next)| next - one).filter(|step| *step > 0);
    let steps = Words::sorted(steps, scratch);
    steps.get(steps.len() / 2).unwrap_or(0)
}

/// An audio frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its start in ticks of the file; `None` if it follows another frame in its block.
    pub start: Option<i64>,
    /// Its number of samples, if known.
    pub length: Option<u32>,
}

/// An iterator over audio frames with lookahead.
struct Ahead<I> {
    frames: I,
    seen: VecDeque<Heard>,
}

impl<I: Iterator<Item = Heard>> Ahead<I> {
    fn next(&mut self) -> Option<Heard> {
        self.seen.pop_front().or_else(|| self.frames.next())
    }

    /// Returns the next stated start and the number of frames before it, which is small in a block.
    fn next_start(&mut self) -> Option<(usize, i64)> {
        let mut seen = self.seen.iter().enumerate();
        let found = seen.find_map(|(nth, frame)| Some((nth, frame.start?)));
        if found.is_some() {
            return found;
        }
        loop {
            let frame = self.frames.next()?;
            self.seen.push_back(frame);
            if let Some(start) = frame.start {
                return Some((self.seen.len() - 1, start));
            }
        }
    }
}

/// Returns the times of audio frames at `rate` samples per second, whose starts are in ticks of
/// `timescale`. Starts are rounded, so a frame begins where the previous one ends, unless its block
/// states a time that differs by more than rounding explains.
pub fn sound(
    frames: impl Iterator<Item = Heard>,
    timescale: u32,
    rate: u32,
    scratch: &Scratch,
) -> Times {
    // Rounding errors of one tick, or of two by writers that add up rounded times.
    let most_off = rescale(2, timescale, rate).max(1);
    let mut at = Words::new(scratch);
    let mut before = None;
    let seen = VecDeque::new();
    let mut frames = Ahead { frames, seen };
    while let Some(Heard { start, length }) = frames.next() {
        let stated = start.map(|start| rescale(start, timescale, rate));
        let last = at.last();
        let follows = match (last, before) {
            (Some(last), Some(frame)) => Some(last + i64::from(frame)),
            // Frames of different lengths in one block are spaced evenly until the next block.
            (Some(last), None) if stated.is_none() => frames.next_start().map(|(between, next)| {
                let next = rescale(next, timescale, rate);
                last + (next - last).max(0) / (between as i64 + 2)
            }),
            _ => None,
        };
        let begin = match (stated, follows) {
            (Some(stated), Some(follows)) if (stated - follows).abs() <= most_off => follows,
            (Some(stated), _) => stated,
            (None, follows) => follows.or(last).unwrap_or(0),
        };
        // Audio times do not go back.
        at.push(last.map_or(begin, |last| begin.max(last)));
        before = length;
    }
    let usual = before.map_or_else(|| usual_step(&at, scratch), i64::from);
    let end = at.last().map_or(0, |last| last + usual);
    let mut times = Times::new(at.get(0).unwrap_or(0), end, scratch);
    let next = at.iter().skip(1).chain([end]);
    for (at, next) in at.iter().zip(next) {
        times.add((next - at).min(MAX_STEP) as u32, 0);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pictures(shown: &[i64], last: Option<i64>, most: i64) -> Option<Times> {
        super::pictures(shown.iter().copied(), last, most, &Scratch::default())
    }

    fn sound(
        starts: &[Option<i64>],
        timescale: u32,
        rate: u32,
        length: impl Fn(usize) -> Option<u32>,
    ) -> Times {
        let frames = starts.iter().enumerate().map(|(nth, start)| Heard {
            start: *start,
            length: length(nth),
        });
        super::sound(frames, timescale, rate, &Scratch::default())
    }

    #[test]
    fn pictures_out_of_order_are_decoded_in_time() {
        // I P B B P B B, 40 ms each.
        let times = pictures(&[0, 120, 40, 80, 240, 160, 200], None, 1000).unwrap();
        assert_eq!((times.first, times.end), (-40, 240));
        let waits: Vec<i32> = times.steps().map(|(_, waits)| waits).collect();
        assert_eq!(waits, [40, 120, 0, 0, 120, 0, 0]);
        assert!(times.steps().all(|(step, _)| step == 40));
    }

    #[test]
    fn a_recording_has_the_same_times_wherever_it_ends() {
        // I, then P B B B b b b b and so on: pyramids of eight, 40 ms each.
        let pyramid = [8, 4, 2, 1, 3, 6, 5, 7];
        let of = |nth: i64| (0..8).map(move |own| (nth * 8 + pyramid[own]) * 40);
        let shown: Vec<i64> = [0].into_iter().chain((0..20).flat_map(of)).collect();
        let whole = pictures(&shown, None, 1000).unwrap();
        for end in 2 * DEEPEST + 1..shown.len() {
            let part = pictures(&shown[..end], None, 1000).unwrap();
            assert_eq!(part.first, whole.first, "{end} pictures");
            let mut steps = part.steps().zip(whole.steps()).take(end - DEEPEST);
            assert!(steps.all(|(part, whole)| part == whole), "{end} pictures");
        }
    }

    #[test]
    fn times_that_go_far_back_are_none_of_a_film() {
        assert!(pictures(&[0, 40, 80, 5000, 120], None, 1000).is_none());
        assert!(pictures(&[0, 40, 5000, 5040], None, 1000).is_some());
        // A picture every ten seconds.
        let slow = [0, 40_000, 20_000, 10_000, 30_000, 50_000];
        let times = pictures(&slow, None, 10_000).unwrap();
        assert_eq!(times.first, -20_000);
        let waits: Vec<i32> = times.steps().map(|(_, waits)| waits).collect();
        assert_eq!(waits, [20_000, 50_000, 20_000, 0, 10_000, 20_000]);
        let none = pictures(&[], None, 1000).unwrap();
        assert_eq!((none.first, none.end, none.steps().count()), (0, 0, 0));
    }

    #[test]
    fn what_the_last_picture_lasts_is_told_or_usual() {
        assert_eq!(pictures(&[0, 40, 80], Some(20), 1000).unwrap().end, 100);
        assert_eq!(pictures(&[0, 40, 80], None, 1000).unwrap().end, 120);
    }

    #[test]
    fn rounded_times_of_sound_do_not_show() {
        // AAC at 44.1 kHz: 23.22 ms per frame.
        let starts: Vec<_> = (0..1000)
            .map(|n| Some((n * 1_024_000 + 22_050) / 44_100))
            .collect();
        let times = sound(&starts, 1000, 44_100, |_| Some(1024));
        assert!(times.steps().all(|step| step == (1024, 0)));
        assert_eq!(times.end, 1_024_000);
    }

    #[test]
    fn a_gap_in_the_sound_stays_and_sound_in_one_block_follows_itself() {
        let starts = [Some(0), None, None, Some(500), None];
        let times = sound(&starts, 1000, 48_000, |_| Some(1024));
        let steps: Vec<u32> = times.steps().map(|(step, _)| step).collect();
        assert_eq!(steps, [1024, 1024, 24_000 - 2048, 1024, 1024]);
        let times = sound(&[Some(0), None, None, Some(60)], 1000, 48_000, |_| None);
        let steps: Vec<u32> = times.steps().map(|(step, _)| step).collect();
        assert_eq!(steps, [960, 960, 960, 960]);
    }

    #[test]
    fn blocks_of_sound_may_be_of_any_length() {
        // 44.1 kHz, rounded to milliseconds.
        let lengths = [1013, 1024, 441, 7];
        let starts = [Some(0), Some(23), Some(46), Some(56)];
        let times = sound(&starts, 1000, 44_100, |nth| lengths.get(nth).copied());
        let steps: Vec<u32> = times.steps().map(|(step, _)| step).collect();
        assert_eq!((steps, times.end), (lengths.to_vec(), 2485));
    }

    proptest! {
        #[test]
        fn no_picture_is_decoded_after_it_is_shown(mut shown in proptest::collection::vec(0i64..100_000, 0..200)) {
            // Decoded in an order that differs slightly from the presentation order.
            shown.sort_unstable();
            shown.chunks_mut(4).for_each(<[i64]>::reverse);
            let times = pictures(&shown, None, i64::MAX).unwrap();
            let mut at = times.first;
            for ((step, waits), shown) in times.steps().zip(&shown) {
                prop_assert!(waits >= 0);
                prop_assert_eq!(at + i64::from(waits), *shown);
                at += i64::from(step);
            }
            prop_assert!(shown.is_empty() || at == times.end);
        }

        #[test]
        fn sound_never_goes_back_and_stays_near_what_is_told(
            steps in proptest::collection::vec(0i64..100, 1..200), frame in proptest::option::of(1u32..5000),
        ) {
            let mut at = 0;
            let starts: Vec<Option<i64>> = steps.iter().map(|step| { at += step; Some(at) }).collect();
            let times = sound(&starts, 1000, 48_000, |_| frame);
            let mut at = times.first;
            for ((step, _), start) in times.steps().zip(&starts) {
                prop_assert!((at - start.unwrap() * 48).abs() <= 96);
                at += i64::from(step);
            }
        }
    }
}
