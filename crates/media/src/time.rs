//! Conversions between ticks of a timescale and nanoseconds, exact and without drift.

/// A presentation time or a duration, in nanoseconds.
pub type Nanos = i64;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

/// The latest second at which a film may begin or end (200 years: epoch times fit), so that
/// nanoseconds fit 64 bits.
pub(crate) const MAX_SECONDS: i64 = 200 * 366 * 86400;

/// Converts `value` from `from` ticks per second to `to` ticks per second, rounding to nearest
/// (halves up) and saturating at the limits of 64 bits. Always called with absolute values, so that
/// rounding errors do not add up over a long film.
pub fn rescale(value: i64, from: u32, to: u32) -> i64 {
    let (from, to) = (i128::from(from.max(1)), i128::from(to));
    let scaled = i128::from(value) * to;
    let rounded = (scaled + from / 2).div_euclid(from);
    rounded.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Converts ticks of `timescale` to nanoseconds.
pub fn ticks_to_nanos(ticks: i64, timescale: u32) -> Nanos {
    rescale(ticks, timescale, SECOND as u32)
}

/// Converts nanoseconds to ticks of `timescale`.
pub fn nanos_to_ticks(nanos: Nanos, timescale: u32) -> i64 {
    rescale(nanos, SECOND as u32, timescale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_nearest_and_come_back_exactly() {
        assert_eq!(
            (
                rescale(1, 3, 1),
                rescale(2, 3, 1),
                rescale(-1, 2, 1),
                rescale(1, 2, 1)
            ),
            (0, 1, 0, 1)
        );
        // Ten hours of 44.1 kHz: no tick drifts.
        for ticks in (0..36_000 * 44_100).step_by(1_000_003) {
            assert_eq!(nanos_to_ticks(ticks_to_nanos(ticks, 44_100), 44_100), ticks);
        }
    }

    #[test]
    fn what_does_not_fit_stops_at_the_ends() {
        assert_eq!(ticks_to_nanos(i64::MAX, 1), i64::MAX);
        assert_eq!(ticks_to_nanos(i64::MIN, 1), i64::MIN);
    }
}
