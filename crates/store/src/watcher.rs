//! What the cache policy is told of viewers. It is told when the pool is changed next, before it is asked for anything:
//! those who bring news never wait for the pool's lock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use reelway_cache::{ViewerId, Watching};
use reelway_pool::News;
use reelway_supervise as supervise;

use crate::inner::Inner;
use crate::source::Source;

/// A viewer as the cache policy knows them: reports where they are, and with its end that they have left.
///
/// None of its calls waits for anything, so that a sender thread may make them.
pub struct Watcher {
    store: Weak<Inner>,
    viewer: ViewerId,
    /// Where they are, if they are anywhere.
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

    /// They have come to this byte of a film and go on at this speed (1: as the film is meant, negative:
    /// backwards). To be said before the bytes are asked for.
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

    /// They pause where they are.
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

    /// They have left, at the film's end or before; they may come again.
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
            // Under the lock, so that news come in the order of what happened.
            store.tell(match new {
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
