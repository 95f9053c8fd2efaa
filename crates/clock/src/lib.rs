//! The time: the one place of Reelway that asks what time it is.
//!
//! All other rooms take [`now`], [`real`] or a [`Clock`] from here (a lint forbids
//! `Instant::now` and `SystemTime::now` elsewhere), so that the sender's deadlines, admission's
//! calendar and the yardstick's judgement are on one scale, and so that tests put a [`SimClock`]
//! in its place.
//!
//! | file | what lives there |
//! |---|---|
//! | `time.rs` | [`Monotonic`] and [`Real`]: nanoseconds with a name |
//! | `kernel.rs` | the kernel's clock |
//! | `sim.rs` | a clock that a test sets |
#![forbid(unsafe_code)]

mod kernel;
mod sim;
mod time;

pub use kernel::KernelClock;
pub use sim::SimClock;
pub use time::{Monotonic, Real};

/// A source of the time. Cheap to call, never fails, callable from any thread.
pub trait Clock: Send + Sync {
    /// Nanoseconds of `CLOCK_MONOTONIC`: never steps back, over all threads.
    fn now(&self) -> Monotonic;

    /// Nanoseconds since 1970 (`CLOCK_REALTIME`): steps when somebody sets the clock.
    fn real(&self) -> Real;
}

static KERNEL: KernelClock = KernelClock::new();

/// The clock of this process.
pub fn system() -> &'static dyn Clock {
    &KERNEL
}

/// The monotonic time of the process clock.
#[inline]
pub fn now() -> Monotonic {
    KERNEL.now()
}

/// The real time of the process clock.
#[inline]
pub fn real() -> Real {
    KERNEL.real()
}
