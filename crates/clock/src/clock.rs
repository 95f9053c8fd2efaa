//! What a clock is.

use reelway_time::{Boot, Monotonic, Real};

/// A source of the time. Cheap to call, never fails, callable from any thread.
pub trait Clock: Send + Sync {
    /// Nanoseconds of `CLOCK_MONOTONIC`: never steps back, over all threads.
    fn now(&self) -> Monotonic;

    /// Nanoseconds since 1970 (`CLOCK_REALTIME`): steps when somebody sets the clock.
    fn real(&self) -> Real;

    /// As [`Clock::now`], but ordered within the calling thread only; cheaper where there is a
    /// cheaper way.
    fn now_unordered(&self) -> Monotonic {
        self.now()
    }

    /// Nanoseconds since boot (`CLOCK_BOOTTIME`): the monotonic time, and that spent suspended.
    fn boot(&self) -> Boot {
        Boot::from_nanos(self.now().nanos())
    }
}
