//! Empty blocks that callers wait for. A request stays in the pool until it is answered, even if
//! its caller has stopped waiting; so there are never more requests than callers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Buffer, ReadError, Store};

/// The waiting callers, and the blocks that have arrived.
#[derive(Default)]
pub(crate) struct Empty {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of waiting callers.
    waiting: usize,
    /// Number of requests that the pool has not answered.
    asked: usize,
    /// Answers that no caller has taken, at most one for each waiting caller.
    came: VecDeque<Result<Buffer, ReadError>>,
}

impl Empty {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Consistent even after a panic: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an empty block of the pool. `None`: none arrived in this time.
    pub fn wait(
        self: &Arc<Self>,
        store: &Store,
        most: Duration,
    ) -> Option<Result<Buffer, ReadError>> {
        let mut state = self.lock();
        state.waiting += 1;
        if state.asked + state.came.len() < state.waiting {
            state.asked += 1;
            drop(state);
            let to = Arc::clone(self);
            store.allocate(1, reelway_clock::now(), move |given| to.comes(given));
            state = self.lock();
        }
        let waited = self
            .came
            .wait_timeout_while(state, most, |state| state.came.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state.came.pop_front()
    }

    /// Receives the answer to a request from the pool.
    fn comes(&self, given: Result<Vec<Buffer>, ReadError>) {
        let given = given.and_then(|mut buffers| buffers.pop().ok_or(ReadError::Closed));
        let mut state = self.lock();
        state.asked -= 1;
        if state.came.len() < state.waiting {
            state.came.push_back(given);
            drop(state);
            self.came.notify_one();
        }
        // Without a waiting caller, the block returns to the pool.
    }
}

#[cfg(test)]
mod tests {
    use store::StoreConfig;

    use super::*;

    #[test]
    fn callers_who_look_for_a_block_again_and_again_leave_one_request_behind() {
        let store = Store::new(StoreConfig {
            pool_bytes: 8 * 4096,
            block_bytes: 4096,
            ..StoreConfig::default()
        })
        .unwrap();
        let empty = Arc::new(Empty::default());
        let look = || empty.wait(&store, Duration::ZERO);
        let mut held: Vec<_> = std::iter::from_fn(look).map(Result::unwrap).collect();
        assert!(!held.is_empty());
        for _ in 0..1000 {
            assert!(look().is_none());
        }
        assert_eq!(empty.lock().asked, 1);
        // The block it receives returns to the pool, since no caller is waiting.
        drop(held.pop());
        assert_eq!((empty.lock().asked, empty.lock().came.len()), (0, 0));
        assert!(look().is_some());
    }
}
