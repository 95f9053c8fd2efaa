//! What the director has found, for those who show it.

use std::sync::{Mutex, MutexGuard};

use crate::status::Seen;
use crate::vrrp::State;

/// Where it is written down, and read.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Written>);

/// As it is now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub seen: Seen,
    /// Whether this director has the virtual address, where several share it.
    pub failover: Option<State>,
}

impl Board {
    /// What the last checks have found.
    pub fn show(&self, seen: Seen) {
        self.lock().seen = seen;
    }

    /// Who has the address has changed.
    pub fn show_failover(&self, state: State) {
        self.lock().failover = Some(state);
    }

    /// What is written there now.
    pub fn read(&self) -> Written {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        // Each part is written as a whole.
        reelway_supervise::whole(self.0.lock())
    }
}
