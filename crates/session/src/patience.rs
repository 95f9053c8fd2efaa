//! Deadlines for tasks that wait for data: they expire only after the reactor has polled once more.
//!
//! After a standstill of the process, a timer and the data it limits are due at the same time, and
//! the timer may fire first. (A stopped process leaves `epoll_wait` with `EINTR` and without
//! events.)

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

/// How long the reactor has to poll once more: several of its turns.
const LOOK: Duration = Duration::from_millis(50);
/// Longest normal duration of such a poll; beyond it, the process stood still again.
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// Returns once the reactor has processed everything that has arrived by now.
pub async fn last_look() {
    loop {
        let before = reelway_clock::now();
        sleep(LOOK).await;
        if reelway_clock::now().since(before) < LONGEST_LOOK {
            return;
        }
    }
}

/// Sleeps for `limit`, and then until the reactor has polled once more.
pub async fn patience(limit: Duration) {
    sleep(limit).await;
    last_look().await;
}

/// Returns the output of `awaited`; `None` if it is not ready within `limit` and a last poll.
pub async fn in_patience<T>(limit: Duration, awaited: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = awaited => Some(value),
        () = patience(limit) => None,
    }
}
