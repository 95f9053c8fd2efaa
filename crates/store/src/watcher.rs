//! Reports about viewers to the cache policy. The policy receives them at the next change of the
//! pool, before its next decision, so reporting never waits for the pool's lock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use reelway_cache::{ViewerId, Watching};
use reelway_pool::News;
use reelway_supervise as supervise;

use crate::inner::Inner;
use crate::source::Source;

/// A viewer as known to the cache policy. Reports the viewer's position, and on drop that the
/// viewer has left.
///
/// None of its calls blocks, so sender threads may make them.
pub struct Watcher {
    store: Weak<Inner>,
    viewer: ViewerId,
    /// The viewer's position, if there is one.
    place: Mutex<Option<Watching>>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watcher({})", self.viewer)
    }
}

impl Watcher {
    pub(crate) fn new(store: &Arc<Inner>, viewer: ViewerId) -> Watcher {
        Watcher {
            store: Arc::downgrade(store),
            viewer,
            place: Mutex::default(),
        }
    }

    /// Reports that the viewer has moved to this byte of a film and continues at this speed (1:
    /// normal, negative: backwards). Call it before the bytes are requested.
    pub fn comes_to(&self, source: &Source, offset: u64, speed: f32) {
        if let Some(store) = self.store.upgrade() {
            let watching = Watching {
                film: source.number(),
                block: u32::try_from(offset / store.block_bytes()).unwrap_or(u32::MAX),
                speed,
            };
            self.stands_at(&store, Some(watching));
        }
    }

    /// Reports that the viewer has paused at the current position.
    pub fn pauses(&self) {
        let place = *supervise::whole(self.place.lock());
        if let (Some(place), Some(store)) = (place, self.store.upgrade()) {
            self.stands_at(
                &store,
                Some(Watching {
                    speed: 0.0,
                    ..place
                }),
            );
        }
    }

    /// Reports that the viewer has left, at the film's end or before. The viewer may return.
    pub fn leaves(&self) {
        if let Some(store) = self.store.upgrade() {
            self.stands_at(&store, None);
        }
    }

    fn stands_at(&self, store: &Arc<Inner>, new: Option<Watching>) {
        let mut place = supervise::whole(self.place.lock());
        let old = std::mem::replace(&mut *place, new);
        if old != new {
            match (old, new) {
                (None, Some(_)) => store.watching.fetch_add(1, Ordering::Relaxed),
                (Some(_), None) => store.watching.fetch_sub(1, Ordering::Relaxed),
                _ => 0,
            };
            // Under the lock, so that news arrive in the order of events.
            store.add_news(match new {
                Some(watching) => News::Watches(self.viewer, watching),
                None => News::Left(self.viewer),
            });
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.leaves();
    }
}
