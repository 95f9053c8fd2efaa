//! Waiting with a limit.

use std::time::Duration;

use reelway_clock::Monotonic;

/// A moment by which something must have happened.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Monotonic);

impl Deadline {
    /// `limit` from now.
    pub fn after(limit: Duration) -> Deadline {
        Deadline(reelway_clock::now() + limit)
    }

    /// What is left; zero once it is over.
    pub fn left(&self) -> Duration {
        self.0.since(reelway_clock::now())
    }

    /// Whether it is over.
    pub fn over(&self) -> bool {
        self.left().is_zero()
    }
}

/// Asks `ready` every 20 ms until it answers or `limit` is over.
pub fn until<T>(limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Deadline::after(limit);
    loop {
        if let Some(value) = ready() {
            return Some(value);
        }
        if deadline.over() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
