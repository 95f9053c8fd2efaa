//! Bit rates as manifests declare them, measured on the segments.

use reelway_media::{Nanos, SECOND};

/// Bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitRate {
    /// The largest of any run of segments that lasts half to one and a half target durations
    /// (RFC 8216 4.1, "peak segment bit rate").
    pub peak: u64,
    /// All bytes over all time.
    pub average: u64,
    /// A channel of this rate, with [`BitRate::buffer`] of it received before play begins, never
    /// runs dry from whichever segment on it is played (ISO/IEC 23009-1 5.3.5.2, `@bandwidth`).
    pub sustained: u64,
    /// How much is to be received before play begins: the longest segment, as players take segments whole.
    pub buffer: Nanos,
}

impl BitRate {
    /// Of segments given by their bytes and durations.
    pub(crate) fn measure(segments: &[(u64, Nanos)]) -> BitRate {
        let bytes: u64 = segments.iter().map(|(bytes, _)| bytes).sum();
        let length: Nanos = segments.iter().map(|(_, length)| length).sum();
        let buffer = segments
            .iter()
            .map(|(_, length)| *length)
            .max()
            .unwrap_or(0);
        let average = rate(bytes, length);
        BitRate {
            peak: peak(segments, target_duration(buffer) * SECOND)
                .unwrap_or(average)
                .max(average),
            average,
            sustained: sustained(segments, buffer).max(average),
            buffer,
        }
    }
}

/// `EXT-X-TARGETDURATION` for a longest segment of this length, in seconds: rounded to nearest
/// (RFC 8216 4.3.3.1), never 0.
pub(crate) fn target_duration(longest: Nanos) -> i64 {
    ((longest + SECOND / 2) / SECOND).max(1)
}

fn rate(bytes: u64, length: Nanos) -> u64 {
    let bits = u128::from(bytes) * 8 * SECOND as u128;
    bits.div_ceil(length.max(1) as u128)
        .min(u128::from(u64::MAX)) as u64
}

/// Segments of a run at most. Of a film with one very long segment, all the others together are no longer.
const RUN: usize = 1000;

fn peak(segments: &[(u64, Nanos)], target: Nanos) -> Option<u64> {
    let mut peak = None;
    for from in 0..segments.len() {
        let (mut bytes, mut length) = (0, 0);
        for (more, longer) in segments[from..].iter().take(RUN) {
            bytes += more;
            length += longer;
            if length * 2 > target * 3 {
                break;
            }
            if length * 2 >= target {
                peak = peak.max(Some(rate(bytes, length)));
            }
        }
    }
    peak
}

/// The smallest rate at which every segment is there before its turn, when play begins at any of
/// them after `buffer` has been received at that rate.
fn sustained(segments: &[(u64, Nanos)], buffer: Nanos) -> u64 {
    let holds = |rate: u64| {
        // Time by which the delivery of what has been asked for lags behind its play, at worst.
        let mut lag: i128 = 0;
        for (bytes, length) in segments {
            let takes = i128::from(*bytes) * 8 * i128::from(SECOND) / i128::from(rate.max(1));
            lag = lag.max(0) + takes;
            if lag > i128::from(buffer) {
                return false;
            }
            lag -= i128::from(*length);
        }
        true
    };
    let (mut low, mut high) = (1u64, 1u64 << 50);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle
        } else {
            low = middle + 1
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_dense_tail_does_not_make_the_peak() {
        let segments = [
            (600_000, 6 * SECOND),
            (600_000, 6 * SECOND),
            (100_000, SECOND / 25),
        ];
        let rate = BitRate::measure(&segments);
        assert_eq!(
            rate.peak,
            700_000 * 8 * 100 / 604 + 1,
            "the last two together"
        );
        assert_eq!(rate.average, 1_300_000 * 8 * 100 / 1204 + 1);
        assert!((800_000..=rate.peak).contains(&rate.sustained), "{rate:?}");
    }

    #[test]
    fn a_film_shorter_than_half_a_second_has_its_average_as_its_peak() {
        let rate = BitRate::measure(&[(1000, SECOND / 10)]);
        assert_eq!((rate.peak, rate.average), (80_000, 80_000));
    }

    #[test]
    fn an_even_stream_sustains_at_its_rate() {
        let rate = BitRate::measure(&[(750_000, 6 * SECOND); 100]);
        assert_eq!(
            (rate.peak, rate.average, rate.sustained),
            (1_000_000, 1_000_000, 1_000_000)
        );
    }

    #[test]
    fn the_target_duration_is_rounded_to_nearest_and_never_zero() {
        for (longest, target) in [
            (0, 1),
            (SECOND / 5, 1),
            (5 * SECOND, 5),
            (5_499_999_999, 5),
            (5_500_000_000, 6),
            (6_016_000_000, 6),
        ] {
            assert_eq!(target_duration(longest), target, "{longest} ns");
        }
    }

    #[test]
    fn many_short_segments_beside_a_very_long_one_are_measured_soon() {
        // The long one's length has room for all others.
        let mut segments = vec![(1000, SECOND); 200_000];
        segments.push((1000, 1_000_000 * SECOND));
        let rate = BitRate::measure(&segments);
        assert!(rate.peak >= rate.average, "{rate:?}");
    }

    #[test]
    fn the_peak_is_that_of_runs_of_half_to_one_and_a_half_target_durations() {
        const MS: i64 = SECOND / 1000;
        let peak = |segments: &[(u64, Nanos)]| BitRate::measure(segments).peak;
        // A target of 6 s. A segment of 3 s counts alone: 90 kB in 3 s.
        let of = |middle| [(60_000, 6000 * MS), (90_000, middle), (10_000, 6000 * MS)];
        assert_eq!(peak(&of(3000 * MS)), 240_000);
        // A shorter one counts with the one before it: 150 kB in 8.999 s.
        assert_eq!(peak(&of(2999 * MS)), 133_349);
        // Two segments that last 9 s count: 100 kB. Beyond that the mean is all there is: 110 kB in 15.401 s.
        let of = |middle| [(10_000, 6400 * MS), (90_000, middle), (10_000, 6400 * MS)];
        assert_eq!(peak(&of(2600 * MS)), 88_889);
        assert_eq!(peak(&of(2601 * MS)), 57_140);
    }

    #[test]
    fn the_sustained_rate_brings_each_segment_before_its_turn() {
        let sustained = |segments: &[(u64, Nanos)]| {
            let rate = BitRate::measure(segments);
            assert_eq!(rate.buffer, 6 * SECOND);
            rate.sustained
        };
        let low = [(1000, 6 * SECOND); 10];
        // A segment of 12 Mbit has to come in the 6 s of the buffer.
        let burst = [&low[..], &[(1_500_000, 6 * SECOND)], &low].concat();
        assert_eq!(sustained(&burst), 2_000_000);
        // Two of 4 Mbit that last 2 s each: 8 Mbit in the buffer and the first one's time.
        let pair = [&low[..], &[(500_000, 2 * SECOND); 2], &low].concat();
        assert_eq!(sustained(&pair), 1_000_000);
        // A third makes it 12 Mbit in 10 s.
        let three = [&low[..], &[(500_000, 2 * SECOND); 3], &low].concat();
        assert_eq!(sustained(&three), 1_200_000);
        // With 6 s between them the buffer is full again, and no fuller.
        let apart = [
            &[(500_000, 2 * SECOND); 2],
            &low[..1],
            &[(500_000, 2 * SECOND); 2],
            &low,
        ]
        .concat();
        assert_eq!(sustained(&apart), 1_000_000);
    }
}
