//! How the server is: since when it runs, whether it lets newcomers in, what it did so far.

use std::sync::Arc;
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_session::Sessions;

use crate::metrics::counters::Counters;
use crate::node::{NodeState, NodeView};

/// The server as a whole.
pub(crate) struct Status {
    /// The rest of the server.
    pub node: Arc<dyn NodeView>,
    /// Viewers of all protocols.
    pub sessions: Sessions,
    /// What HTTP did.
    pub counters: Arc<Counters>,
    started: Monotonic,
}

impl Status {
    /// Of a server that starts now.
    pub fn new(node: Arc<dyn NodeView>, sessions: Sessions) -> Status {
        Status {
            node,
            sessions,
            counters: Arc::default(),
            started: reelway_clock::now(),
        }
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        reelway_clock::now().since(self.started)
    }

    /// Whether newcomers are let in.
    pub fn state(&self) -> NodeState {
        if self.sessions.is_draining() {
            NodeState::Draining
        } else {
            self.node.state()
        }
    }
}
