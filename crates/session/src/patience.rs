//! Deadlines for those who wait for something to be read: they pass only after the reactor has looked once more.
//!
//! After a standstill of the process a timer and the data that it bounds are due at the same time, and the timer may be
//! served first. (A stopped process leaves `epoll_wait` with `EINTR` and without events.)

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

/// How long the reactor has to look once more: several of its turns.
const LOOK: Duration = Duration::from_millis(50);
/// Longer than this a look does not take, unless the process stood still again.
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// Returns once the reactor has looked at everything that has come by now.
pub async fn last_look() {
    loop {
        let before = reelway_clock::now();
        sleep(LOOK).await;
        if reelway_clock::now().since(before) < LONGEST_LOOK {
            return;
        }
    }
}

/// Sleeps for `limit`, and then until the reactor has looked once more.
pub async fn patience(limit: Duration) {
    sleep(limit).await;
    last_look().await;
}

/// What `awaited` gives; `None` if it does not come within `limit`, and a last look.
pub async fn in_patience<T>(limit: Duration, awaited: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = awaited => Some(value),
        () = patience(limit) => None,
    }
}
