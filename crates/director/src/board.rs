//! What the director has found, shared with the code that shows it.

use std::sync::{Mutex, MutexGuard};

use crate::status::Seen;
use crate::vrrp::State;

/// The shared board.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Written>);

/// A snapshot of the board.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub seen: Seen,
    /// State of this director's claim to the virtual address, if several directors share it.
    pub failover: Option<State>,
}

impl Board {
    /// Publishes the result of the last checks.
    pub fn show(&self, seen: Seen) {
        self.lock().seen = seen;
    }

    /// Publishes which state the failover is in.
    pub fn show_failover(&self, state: State) {
        self.lock().failover = Some(state);
    }

    /// Returns a snapshot.
    pub fn read(&self) -> Written {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        // Each field is replaced as a whole, so a poisoned lock holds whole values.
        reelway_supervise::whole(self.0.lock())
    }
}
