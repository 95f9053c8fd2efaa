//! Silence counts only while the server listens: after a standstill, everything that has arrived is
//! read first.

use std::time::Duration;

use crate::moment::Monotonic;

/// The longest time between two looks that counts as silence: looks are a second apart, or a little
/// more on a busy machine.
const MOST: Duration = Duration::from_millis(1500);

/// Detects times when the server did not listen: the process was stopped, the machine was
/// suspended, or a reader was held up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listening(Option<Monotonic>);

impl Listening {
    /// Records that everything that had arrived by `until` has been read, or is being read right
    /// now. Returns for how much of the time since the last call the server did not listen; silent
    /// clients must be given that much longer, and must not be judged before the next call.
    pub fn missed(&mut self, until: Monotonic) -> Duration {
        let Some(last) = self.0 else {
            self.0 = Some(until);
            return Duration::ZERO;
        };
        self.0 = Some(last.max(until));
        until.since(last).saturating_sub(MOST)
    }
}

/// Returns the time of a sign of life at `alive`, moved by `missed` but not into the future.
pub fn excused(alive: Monotonic, missed: Duration, now: Monotonic) -> Monotonic {
    (alive + missed).min(now.max(alive))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Monotonic {
        Monotonic::from_nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn looks_a_second_apart_miss_nothing_and_a_standstill_is_missed_once() {
        let mut listening = Listening::default();
        assert_eq!(listening.missed(at(500_000)), Duration::ZERO, "the first");
        for second in 1..60 {
            let missed = listening.missed(at(500_000 + second * 1100));
            assert_eq!(missed, Duration::ZERO);
        }
        let missed = listening.missed(at(500_000 + 59 * 1100 + 70_000));
        assert_eq!(missed, Duration::from_millis(68_500));
        let next = listening.missed(at(500_000 + 60 * 1100 + 70_000));
        assert_eq!(next, Duration::ZERO);
    }

    #[test]
    fn a_reader_who_is_held_up_lets_no_time_pass_until_it_reads() {
        let mut listening = Listening::default();
        listening.missed(at(1000));
        for _ in 0..100 {
            assert_eq!(listening.missed(at(1500)), Duration::ZERO);
        }
        let missed = listening.missed(at(91_500));
        assert_eq!(missed, Duration::from_millis(88_500));
        assert_eq!(listening.missed(at(60_000)), Duration::ZERO, "a step back");
        assert_eq!(listening.missed(at(92_000)), Duration::ZERO);
    }

    #[test]
    fn who_is_excused_was_not_heard_in_the_future() {
        let missed = Duration::from_secs(70);
        assert_eq!(excused(at(10_000), missed, at(100_000)), at(80_000));
        assert_eq!(excused(at(99_000), missed, at(100_000)), at(100_000));
        assert_eq!(excused(at(101_000), missed, at(100_000)), at(101_000));
    }
}
