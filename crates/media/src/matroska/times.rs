//! When frames are decoded and for how long: Matroska says only when they are shown, and rounds that, mostly to milliseconds.

use crate::time::rescale;

/// Times of a track in its ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When the first frame is decoded.
    pub first: i64,
    /// When the last one ends.
    pub end: i64,
    /// For each frame, in order of decoding: how long until the next one is, and how long until it is shown itself.
    pub steps: Vec<(u32, i32)>,
}

/// Nothing lasts longer: ticks of a frame fit its record.
const MAX_STEP: i64 = i32::MAX as i64;

/// Times of pictures that are shown at `shown`, in order of decoding; the last one for `last` ticks, if that is known. `None`: the
/// times go back further than any order of decoding explains (`most` ticks).
pub fn pictures(shown: &[i64], last: Option<i64>, most: i64) -> Option<Times> {
    let mut sorted = shown.to_vec();
    sorted.sort_unstable();
    // The i-th picture is decoded when the i-th of all is shown, less what makes none late: the time that the pictures wait
    // which are shown out of order.
    let behind = shown.iter().zip(&sorted).map(|(own, nth)| nth - own);
    let delay = behind.max().unwrap_or(0).max(0);
    if delay > most {
        return None;
    }
    let usual = usual_step(&sorted);
    let last = last.unwrap_or(usual).clamp(0, MAX_STEP);
    let next = sorted.iter().skip(1).copied();
    let next = next.chain(sorted.last().map(|at| at + last));
    let steps = shown
        .iter()
        .zip(sorted.iter().zip(next))
        .map(|(own, (nth, next))| {
            let step = (next - nth).clamp(0, MAX_STEP) as u32;
            let waits = (own - (nth - delay)).min(MAX_STEP) as i32;
            (step, waits)
        })
        .collect();
    let first = sorted.first().map_or(0, |first| first - delay);
    Some(Times {
        first,
        end: sorted.last().map_or(0, |at| at - delay + last),
        steps,
    })
}

/// The median of what lies between two neighbours.
fn usual_step(sorted: &[i64]) -> i64 {
    let mut steps: Vec<i64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.retain(|step| *step > 0);
    let middle = steps.len() / 2;
    match steps.is_empty() {
        true => 0,
        false => *steps.select_nth_unstable(middle).1,
    }
}

/// Times of sound frames at `rate` samples a second, the n-th of `frame(n)` samples where that is known; `starts` are their
/// times in ticks of `timescale`, `None` for those that follow another one in its block. What is stated is rounded, so a frame begins
/// where the one before it ended, unless its block states another time by more than rounding explains.
pub fn sound(
    starts: &[Option<i64>],
    timescale: u32,
    rate: u32,
    frame: impl Fn(usize) -> Option<u32>,
) -> Times {
    // Rounding to a tick, by writers that add up rounded times to two.
    let most_off = rescale(2, timescale, rate).max(1);
    let mut at: Vec<i64> = Vec::with_capacity(starts.len());
    for (number, start) in starts.iter().enumerate() {
        let stated = start.map(|start| rescale(start, timescale, rate));
        let before = number.checked_sub(1).and_then(&frame);
        let follows = match (at.last(), before) {
            (Some(last), Some(frame)) => Some(last + i64::from(frame)),
            // Frames of different lengths in one block: until the next block, evenly.
            (Some(last), None) if stated.is_none() => {
                let apart = starts[number..].iter().position(Option::is_some);
                let next = apart.and_then(|apart| Some((apart, starts[number + apart]?)));
                next.map(|(apart, next)| {
                    let next = rescale(next, timescale, rate);
                    last + (next - last).max(0) / (apart as i64 + 1)
                })
            }
            _ => None,
        };
        let last = at.last().copied();
        let begin = match (stated, follows) {
            (Some(stated), Some(follows)) if (stated - follows).abs() <= most_off => follows,
            (Some(stated), _) => stated,
            (None, follows) => follows.or(last).unwrap_or(0),
        };
        // Sound does not go back.
        at.push(last.map_or(begin, |last| begin.max(last)));
    }
    let last = at.len().checked_sub(1).and_then(&frame);
    let usual = last.map_or_else(|| usual_step(&at), i64::from);
    let end = at.last().map_or(0, |last| last + usual);
    let next = at.iter().skip(1).copied().chain([end]);
    let steps = at
        .iter()
        .zip(next)
        .map(|(at, next)| ((next - at).min(MAX_STEP) as u32, 0))
        .collect();
    Times {
        first: at.first().copied().unwrap_or(0),
        end,
        steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pictures_out_of_order_are_decoded_in_time() {
        // I P B B P B B, 40 ms each.
        let times = pictures(&[0, 120, 40, 80, 240, 160, 200], None, 1000).unwrap();
        assert_eq!((times.first, times.end), (-40, 240));
        let waits: Vec<i32> = times.steps.iter().map(|(_, waits)| *waits).collect();
        assert_eq!(waits, [40, 120, 0, 0, 120, 0, 0]);
        assert!(times.steps.iter().all(|(step, _)| *step == 40));
    }

    #[test]
    fn times_that_go_far_back_are_none_of_a_film() {
        assert_eq!(pictures(&[0, 40, 80, 5000, 120], None, 1000), None);
        assert!(pictures(&[0, 40, 5000, 5040], None, 1000).is_some());
        assert_eq!(pictures(&[], None, 1000), Some(Times::default()));
    }

    #[test]
    fn what_the_last_picture_lasts_is_told_or_usual() {
        assert_eq!(pictures(&[0, 40, 80], Some(20), 1000).unwrap().end, 100);
        assert_eq!(pictures(&[0, 40, 80], None, 1000).unwrap().end, 120);
    }

    #[test]
    fn rounded_times_of_sound_do_not_show() {
        // AAC at 44.1 kHz: 23.22 ms a frame.
        let starts: Vec<_> = (0..1000)
            .map(|n| Some((n * 1_024_000 + 22_050) / 44_100))
            .collect();
        let times = sound(&starts, 1000, 44_100, |_| Some(1024));
        assert!(times.steps.iter().all(|step| *step == (1024, 0)));
        assert_eq!(times.end, 1_024_000);
    }

    #[test]
    fn a_gap_in_the_sound_stays_and_sound_in_one_block_follows_itself() {
        let starts = [Some(0), None, None, Some(500), None];
        let times = sound(&starts, 1000, 48_000, |_| Some(1024));
        let steps: Vec<u32> = times.steps.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [1024, 1024, 24_000 - 2048, 1024, 1024]);
        let times = sound(&[Some(0), None, None, Some(60)], 1000, 48_000, |_| None);
        let steps: Vec<u32> = times.steps.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [960, 960, 960, 960]);
    }

    #[test]
    fn blocks_of_sound_may_be_of_any_length() {
        // 44.1 kHz, rounded to milliseconds.
        let lengths = [1013, 1024, 441, 7];
        let starts = [Some(0), Some(23), Some(46), Some(56)];
        let times = sound(&starts, 1000, 44_100, |nth| lengths.get(nth).copied());
        let steps: Vec<u32> = times.steps.iter().map(|(step, _)| *step).collect();
        assert_eq!((steps, times.end), (lengths.to_vec(), 2485));
    }

    proptest! {
        #[test]
        fn no_picture_is_decoded_after_it_is_shown(mut shown in proptest::collection::vec(0i64..100_000, 0..200)) {
            // Decoded in an order that differs from theirs a little.
            shown.sort_unstable();
            shown.chunks_mut(4).for_each(<[i64]>::reverse);
            let times = pictures(&shown, None, i64::MAX).unwrap();
            let mut at = times.first;
            for ((step, waits), shown) in times.steps.iter().zip(&shown) {
                prop_assert!(*waits >= 0);
                prop_assert_eq!(at + i64::from(*waits), *shown);
                at += i64::from(*step);
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
            for ((step, _), start) in times.steps.iter().zip(&starts) {
                prop_assert!((at - start.unwrap() * 48).abs() <= 96);
                at += i64::from(*step);
            }
        }
    }
}
