//! A clock that stands until it is moved: for tests and for the simulator.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use reelway_time::{Monotonic, Real};

use crate::clock::Clock;

/// A clock that a test sets. Monotonic time moves forward only; real time is monotonic time plus
/// an offset, which [`SimClock::set_real`] steps, as an administrator does.
#[derive(Debug)]
pub struct SimClock {
    now: AtomicU64,
    real_minus_now: AtomicI64,
}

impl SimClock {
    /// A clock that stands at `now` and `real`.
    pub fn new(now: Monotonic, real: Real) -> SimClock {
        SimClock {
            now: AtomicU64::new(now.nanos()),
            real_minus_now: AtomicI64::new(real.nanos().wrapping_sub(now.nanos()) as i64),
        }
    }

    /// Lets `duration` pass, of both times.
    pub fn advance(&self, duration: Duration) {
        let later = Monotonic::from_nanos(self.now.load(Ordering::Acquire)) + duration;
        self.now.fetch_max(later.nanos(), Ordering::AcqRel);
    }

    /// Lets time pass until `now`; an earlier one changes nothing.
    pub fn advance_to(&self, now: Monotonic) {
        self.now.fetch_max(now.nanos(), Ordering::AcqRel);
    }

    /// Steps the real time to `real`; the monotonic time does not notice.
    pub fn set_real(&self, real: Real) {
        let now = self.now.load(Ordering::Acquire);
        self.real_minus_now
            .store(real.nanos().wrapping_sub(now) as i64, Ordering::Release);
    }
}

impl Default for SimClock {
    /// Ten seconds after boot, on 2001-09-09 at 01:46:40 UTC (10⁹ seconds after 1970).
    fn default() -> SimClock {
        SimClock::new(
            Monotonic::from_nanos(10_000_000_000),
            Real::from_nanos(1_000_000_000_000_000_000),
        )
    }
}

impl Clock for SimClock {
    fn now(&self) -> Monotonic {
        Monotonic::from_nanos(self.now.load(Ordering::Acquire))
    }

    fn real(&self) -> Real {
        let offset = self.real_minus_now.load(Ordering::Acquire);
        Real::from_nanos(
            self.now
                .load(Ordering::Acquire)
                .saturating_add_signed(offset),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_follows_monotonic_time_until_it_is_set() {
        let clock = SimClock::default();
        let (now, real) = (clock.now(), clock.real());
        clock.advance(Duration::from_millis(5));
        assert_eq!(clock.now() - now, Duration::from_millis(5));
        assert_eq!(clock.real() - real, Duration::from_millis(5));
        clock.set_real(Real::from_nanos(7));
        assert_eq!(clock.real(), Real::from_nanos(7));
        assert_eq!(clock.now() - now, Duration::from_millis(5));
    }

    #[test]
    fn monotonic_time_is_not_moved_back() {
        let clock = SimClock::default();
        let now = clock.now();
        clock.advance_to(Monotonic::ZERO);
        assert_eq!(clock.now(), now);
    }
}
