//! Uploads in progress and interrupted ones: one per film, and a few in total.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::StatusCode;
use reelway_clock::Monotonic;
use reelway_store::Draft;
use reelway_supervise as supervise;

use super::refused::{Refused, refuse};
use crate::answer;

/// Maximum number of uploads, in progress or interrupted.
const MOST: usize = 8;
/// How long an interrupted upload can be resumed.
const KEPT: Duration = Duration::from_secs(3600);

/// Uploads by destination file.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<HashMap<PathBuf, Slot>>);

enum Slot {
    /// In progress.
    Busy,
    /// Interrupted.
    Kept { draft: Draft, since: Monotonic },
}

impl Uploads {
    fn slots(&self) -> MutexGuard<'_, HashMap<PathBuf, Slot>> {
        supervise::whole(self.0.lock())
    }

    /// Drops interrupted uploads that were not resumed in time.
    fn expire(&self) {
        let now = reelway_clock::now();
        let expired =
            |slot: &Slot| matches!(slot, Slot::Kept { since, .. } if now.since(*since) > KEPT);
        self.slots().retain(|_, slot| !expired(slot));
    }

    /// Takes the turn to write `path`, with the data received so far.
    pub(super) fn take(self: &Arc<Self>, path: &Path) -> Result<Turn, Refused> {
        self.expire();
        let mut slots = self.slots();
        let kept = match slots.get(path) {
            Some(Slot::Busy) => {
                return Err(refuse(
                    StatusCode::CONFLICT,
                    "this film is being uploaded already; if that upload is interrupted, it can be resumed",
                ));
            }
            None if slots.len() >= MOST => {
                let words = "too many uploads are in progress; try again later";
                let mut answer = refuse(StatusCode::SERVICE_UNAVAILABLE, words);
                answer::retry_after(&mut answer, Duration::from_secs(60));
                return Err(answer);
            }
            _ => slots.insert(path.to_owned(), Slot::Busy),
        };
        let kept = match kept {
            Some(Slot::Kept { draft, .. }) => Some(draft),
            _ => None,
        };
        Ok(Turn {
            uploads: Arc::clone(self),
            path: path.to_owned(),
            draft: kept,
        })
    }
}

/// The turn to write a film. A `draft` that is present when it is dropped can be resumed.
pub(super) struct Turn {
    uploads: Arc<Uploads>,
    path: PathBuf,
    /// The data received so far; can be resumed if it is still here when the turn ends.
    pub draft: Option<Draft>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut slots = self.uploads.slots();
        match self.draft.take() {
            Some(draft) => {
                let since = reelway_clock::now();
                slots.insert(self.path.clone(), Slot::Kept { draft, since });
            }
            None => {
                slots.remove(&self.path);
            }
        }
    }
}

/// Drops interrupted uploads that are not resumed, once a minute.
pub(crate) async fn expire(uploads: Arc<Uploads>) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        uploads.expire();
    }
}
