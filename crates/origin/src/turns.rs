//! Limits the requests at once. Waiting requests follow in the order of their deadlines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use reelway_clock::Monotonic;
use reelway_supervise as supervise;
use tokio::sync::oneshot;

/// The turns of a source.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    serial: u64,
    waiting: BTreeMap<(Monotonic, u64), oneshot::Sender<Turn>>,
}

/// A turn, which is passed on when dropped. `None`: already passed on.
#[derive(Debug)]
pub(crate) struct Turn(Option<Turns>);

impl Turns {
    pub fn new(count: usize) -> Turns {
        Turns(Arc::new(Mutex::new(State {
            free: count.max(1),
            serial: 0,
            waiting: BTreeMap::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A turn is taken or passed on in one step.
        supervise::whole(self.0.lock())
    }

    /// Waits for a turn.
    pub async fn take(&self, deadline: Monotonic) -> Turn {
        let turn = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                return Turn(Some(self.clone()));
            }
            state.serial += 1;
            let place = (deadline, state.serial);
            let (sender, receiver) = oneshot::channel();
            state.waiting.insert(place, sender);
            receiver
        };
        // No sender is dropped unused while this queue exists.
        turn.await.unwrap_or(Turn(None))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        let mut turn = Turn(None);
        loop {
            let next = {
                let mut state = turns.lock();
                match state.waiting.pop_first() {
                    Some((_, next)) => next,
                    None => {
                        state.free += 1;
                        return;
                    }
                }
            };
            turn.0 = Some(turns.clone());
            // Requests that no longer wait are passed over.
            match next.send(turn) {
                Ok(()) => return,
                Err(mut unwanted) => {
                    unwanted.0 = None;
                    turn = unwanted;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn the_most_urgent_comes_next_and_who_left_is_passed_over() {
        let turns = Turns::new(1);
        let first = turns.take(at(9)).now_or_never().unwrap();
        let [mut last, mut leaves, mut next] =
            [5, 3, 4].map(|deadline| Box::pin(turns.take(at(deadline))));
        for waiting in [&mut last, &mut leaves, &mut next] {
            assert!(waiting.now_or_never().is_none());
        }
        drop((leaves, first));
        assert!(last.as_mut().now_or_never().is_none());
        drop(next.now_or_never().unwrap());
        drop(last.now_or_never().unwrap());
        assert_eq!(turns.lock().free, 1, "none was lost");
    }
}
