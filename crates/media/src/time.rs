//! Conversions between ticks of a timescale and nanoseconds, exact and without drift.

/// A presentation time or a span of it, in nanoseconds.
pub type Nanos = i64;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

/// Converts `value` counted in `from` ticks a second to `to` ticks a second, rounding to nearest
/// (halves up). Always called on absolute values, so that no rounding adds up over a long film.
pub fn rescale(value: i64, from: u32, to: u32) -> i64 {
    let (from, to) = (i128::from(from.max(1)), i128::from(to));
    let scaled = i128::from(value) * to;
    (scaled + from / 2).div_euclid(from) as i64
}

/// Ticks of `timescale` as nanoseconds.
pub fn ticks_to_nanos(ticks: i64, timescale: u32) -> Nanos {
    rescale(ticks, timescale, SECOND as u32)
}

/// Nanoseconds as ticks of `timescale`.
pub fn nanos_to_ticks(nanos: Nanos, timescale: u32) -> i64 {
    rescale(nanos, SECOND as u32, timescale)
}
