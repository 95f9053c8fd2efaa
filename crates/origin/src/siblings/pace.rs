//! Detects siblings that are slower than the origin. Pure: time is an argument.
//!
//! A sibling helps only as long as viewers do not notice it. Read times are averaged over the last
//! reads. A sibling that takes half a second, and three times as long as the origin, is left out
//! for a while and then tried again.

use std::time::Duration;

use reelway_clock::Monotonic;

/// Reads before anything is compared.
const ENOUGH: u32 = 8;
/// A sibling may take this many times as long as the origin: what it lacks, it fetches from there
/// itself.
const SLOWER: f64 = 3.0;
/// Shorter reads do no harm, however fast the origin is.
const LONG: Duration = Duration::from_millis(500);
/// Time for which a slow sibling is left out.
const LEFT_OUT: Duration = Duration::from_secs(60);

/// Average time per read and per byte over the last reads, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    read: f64,
    byte: f64,
    reads: u32,
}

/// How long reads take from the origin and from each sibling.
#[derive(Debug)]
pub(super) struct Paces {
    origin: Pace,
    siblings: Vec<Sibling>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sibling {
    pace: Pace,
    left_out_until: Monotonic,
    /// Until then, nobody waits for an index that it is making.
    unawaited_until: Monotonic,
}

impl Pace {
    fn note(&mut self, bytes: usize, took: Duration) {
        if bytes == 0 {
            return;
        }
        let read = took.as_nanos() as f64;
        self.reads = self.reads.saturating_add(1);
        // The mean of the first reads, then an average over the last ones.
        let weight = 1.0 / f64::from(self.reads.min(ENOUGH));
        self.read += (read - self.read) * weight;
        self.byte += (read / bytes as f64 - self.byte) * weight;
    }

    fn is_known(&self) -> bool {
        self.reads >= ENOUGH
    }
}

impl Paces {
    pub fn new(siblings: usize) -> Paces {
        Paces {
            origin: Pace::default(),
            siblings: vec![Sibling::default(); siblings],
        }
    }

    /// Notes how long bytes from the origin took.
    pub fn origin(&mut self, bytes: usize, took: Duration) {
        self.origin.note(bytes, took);
    }

    /// Notes how long bytes from a sibling took. Returns true if it is left out from now on.
    pub fn sibling(
        &mut self,
        number: usize,
        (bytes, took): (usize, Duration),
        now: Monotonic,
    ) -> bool {
        let origin = self.origin;
        let Some(Sibling {
            pace,
            left_out_until,
            ..
        }) = self.siblings.get_mut(number)
        else {
            return false;
        };
        pace.note(bytes, took);
        let is_slow = pace.is_known()
            && origin.is_known()
            && pace.read > LONG.as_nanos() as f64
            && pace.byte > origin.byte * SLOWER;
        if is_slow {
            *pace = Pace::default();
            *left_out_until = now + LEFT_OUT;
        }
        is_slow
    }

    /// Whether a sibling is left out now.
    pub fn is_left_out(&self, number: usize, now: Monotonic) -> bool {
        let sibling = self.siblings.get(number);
        sibling.is_some_and(|sibling| sibling.left_out_until > now)
    }

    /// Whether waiting for an index that a sibling is making is worthwhile.
    pub fn is_awaited(&self, number: usize, now: Monotonic) -> bool {
        let sibling = self.siblings.get(number);
        sibling.is_some_and(|sibling| sibling.unawaited_until <= now)
    }

    /// Notes that an index that a sibling was making did not arrive in time. This may happen with
    /// many films, so nobody waits for it for a while.
    pub fn waited_in_vain(&mut self, number: usize, now: Monotonic) {
        if let Some(sibling) = self.siblings.get_mut(number) {
            sibling.unawaited_until = now + LEFT_OUT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    /// Whether a sibling is left out, given the milliseconds per read of the origin and of the
    /// sibling.
    fn is_left_out(origin: u32, sibling: u32) -> bool {
        let mut paces = Paces::new(2);
        let mut was_left_out = false;
        for _ in 0..20 {
            paces.origin(1000, origin * MILLI);
            was_left_out |= paces.sibling(1, (1000, sibling * MILLI), at(1));
        }
        assert_eq!(was_left_out, paces.is_left_out(1, at(2)));
        assert!(!paces.is_left_out(0, at(2)));
        was_left_out
    }

    #[test]
    fn a_sibling_that_takes_three_times_as_long_as_the_origin_is_left_out() {
        assert!(is_left_out(200, 610));
        assert!(!is_left_out(200, 590));
        assert!(!is_left_out(200, 1));
    }

    #[test]
    fn a_read_of_less_than_half_a_second_is_no_harm_however_fast_the_origin_is() {
        assert!(!is_left_out(1, 490));
        assert!(is_left_out(1, 510));
    }

    #[test]
    fn a_slow_read_among_fast_ones_changes_nothing() {
        let mut paces = Paces::new(1);
        for n in 0..100 {
            paces.origin(1000, 10 * MILLI);
            let took = if n == 50 { 2000 } else { 5 };
            assert!(!paces.sibling(0, (1000, took * MILLI), at(1)), "read {n}");
        }
    }

    #[test]
    fn nothing_is_compared_before_there_are_enough_reads_of_both() {
        let mut paces = Paces::new(1);
        for _ in 0..20 {
            assert!(!paces.sibling(0, (1000, 900 * MILLI), at(1)));
        }
        for _ in 0..7 {
            paces.origin(1000, MILLI);
        }
        assert!(!paces.sibling(0, (1000, 900 * MILLI), at(1)));
        paces.origin(1000, MILLI);
        assert!(paces.sibling(0, (1000, 900 * MILLI), at(1)));
    }

    #[test]
    fn a_sibling_that_was_left_out_is_tried_anew_after_a_minute() {
        let mut paces = Paces::new(1);
        for _ in 0..8 {
            paces.origin(1000, MILLI);
            paces.sibling(0, (1000, 900 * MILLI), at(1));
        }
        assert!(paces.is_left_out(0, at(60)) && !paces.is_left_out(0, at(61)));
        let new = (1000, 900 * MILLI);
        assert!(!paces.sibling(0, new, at(61)), "judged by eight new reads");
    }

    #[test]
    fn after_a_wait_in_vain_nobody_waits_for_that_sibling_for_a_minute() {
        let mut paces = Paces::new(2);
        paces.waited_in_vain(1, at(5));
        assert!(!paces.is_awaited(1, at(64)) && paces.is_awaited(1, at(65)));
        assert!(paces.is_awaited(0, at(5)), "another one");
        assert!(!paces.is_left_out(1, at(6)), "it is still read from");
    }
}
