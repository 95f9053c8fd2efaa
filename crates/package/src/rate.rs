//! Bit rates that manifests declare, measured on the segments.

use reelway_media::{Nanos, SECOND};

/// Bit rates in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitRate {
    /// The highest rate of any run of segments that lasts half to one and a half target durations
    /// (RFC 8216 4.1, "peak segment bit rate").
    pub peak: u64,
    /// The average over the whole track.
    pub average: u64,
    /// A channel of this rate suffices for playback from any segment without stalling, if it
    /// delivers for [`BitRate::buffer`] before playback begins (ISO/IEC 23009-1 5.3.5.2,
    /// `@bandwidth`).
    pub sustained: u64,
    /// Time of delivery before playback begins: the longest segment's duration, as players receive
    /// segments whole.
    pub buffer: Nanos,
}

impl BitRate {
    /// Measures segments, given by their bytes and durations.
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

/// Returns `EXT-X-TARGETDURATION` in seconds for the longest segment's duration: rounded to nearest
/// (RFC 8216 4.3.3.1), never 0.
pub(crate) fn target_duration(longest: Nanos) -> i64 {
    ((longest + SECOND / 2) / SECOND).max(1)
}

fn rate(bytes: u64, length: Nanos) -> u64 {
    let bits = u128::from(bytes) * 8 * SECOND as u128;
    bits.div_ceil(length.max(1) as u128)
        .min(u128::from(u64::MAX)) as u64
}

/// Maximum number of segments in a run. In a film with one very long segment, all others together
/// could otherwise be one run.
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

/// Returns the lowest rate at which every segment arrives before its turn if playback begins with
/// any of them after delivery for `buffer`.
fn sustained(segments: &[(u64, Nanos)], buffer: Nanos) -> u64 {
    let holds = |rate: u64| {
        // The time by which delivery lags behind playback in the worst case.
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
        // All others together are shorter than the long one.
        let mut segments = vec![(1000, SECOND); 200_000];
        segments.push((1000, 1_000_000 * SECOND));
        let rate = BitRate::measure(&segments);
        assert!(rate.peak >= rate.average, "{rate:?}");
    }

    #[test]
    fn the_peak_is_that_of_runs_of_half_to_one_and_a_half_target_durations() {
        const MS: i64 = SECOND / 1000;
        let peak = |segments: &[(u64, Nanos)]| BitRate::measure(segments).peak;
        // With a target of 6 s, a segment of 3 s counts alone: 90 kB in 3 s.
        let of = |middle| [(60_000, 6000 * MS), (90_000, middle), (10_000, 6000 * MS)];
        assert_eq!(peak(&of(3000 * MS)), 240_000);
        // A shorter one counts together with the one before it: 150 kB in 8.999 s.
        assert_eq!(peak(&of(2999 * MS)), 133_349);
        // Two segments that last 9 s count: 100 kB. Beyond that, only the average remains: 110 kB
        // in 15.401 s.
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
        // A segment of 12 Mbit must arrive within the 6 s of the buffer.
        let burst = [&low[..], &[(1_500_000, 6 * SECOND)], &low].concat();
        assert_eq!(sustained(&burst), 2_000_000);
        // Two segments of 4 Mbit and 2 s each: 8 Mbit within the buffer and the first one's
        // duration.
        let pair = [&low[..], &[(500_000, 2 * SECOND); 2], &low].concat();
        assert_eq!(sustained(&pair), 1_000_000);
        // A third makes it 12 Mbit in 10 s.
        let three = [&low[..], &[(500_000, 2 * SECOND); 3], &low].concat();
        assert_eq!(sustained(&three), 1_200_000);
        // After 6 s between them, the buffer is full again, but not fuller.
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
