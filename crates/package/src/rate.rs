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

fn peak(segments: &[(u64, Nanos)], target: Nanos) -> Option<u64> {
    let mut peak = None;
    for from in 0..segments.len() {
        let (mut bytes, mut length) = (0, 0);
        for (more, longer) in &segments[from..] {
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
}
