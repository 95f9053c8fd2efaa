//! The server's state: uptime, whether newcomers are admitted, and counters.

use std::sync::Arc;
use std::time::Duration;

use reelway_clock::{Monotonic, Real};
use reelway_metrics::Exposition;
use reelway_session::Sessions;

use crate::metrics::counters::Counters;
use crate::node::{NodeState, NodeView};
use crate::process;

/// The server as a whole.
pub(crate) struct Status {
    /// The rest of the server.
    pub node: Arc<dyn NodeView>,
    /// Viewers of all protocols.
    pub sessions: Sessions,
    /// Counters of the HTTP side.
    pub counters: Arc<Counters>,
    started: Monotonic,
}

impl Status {
    /// Creates the status of a server that starts now.
    pub fn new(node: Arc<dyn NodeView>, sessions: Sessions) -> Status {
        Status {
            node,
            sessions,
            counters: Arc::default(),
            started: reelway_clock::now(),
        }
    }

    /// Returns the time since the start.
    pub fn uptime(&self) -> Duration {
        self.now().since(self.started)
    }

    /// Returns the current time, for looking at the state of films and sessions.
    pub fn now(&self) -> Monotonic {
        reelway_clock::now()
    }

    /// Returns the current time of day.
    pub fn time_of_day(&self) -> Real {
        reelway_clock::real()
    }

    /// Whether newcomers are admitted.
    pub fn state(&self) -> NodeState {
        if self.sessions.is_draining() {
            NodeState::Draining
        } else {
            self.node.state()
        }
    }

    /// Writes the server's version and state, and the resource usage of its process.
    pub fn write_metrics(&self, out: &mut Exposition) {
        let name = "reelway_build_info";
        out.family(name, "gauge", "Version of the server; always 1.");
        out.value(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
        let uptime = self.uptime().as_secs_f64();
        out.gauge("reelway_uptime_seconds", "Time since the start.", uptime);
        for (name, help, value) in process::counters() {
            out.counter(name, help, value);
        }
        let name = "reelway_state";
        let help = "1 for the current state of the server.";
        out.family(name, "gauge", help);
        let state = self.state();
        for (label, is) in [
            ("starting", state == NodeState::Starting),
            ("serving", state == NodeState::Serving),
            ("draining", state == NodeState::Draining),
        ] {
            out.value(name, &[("state", label)], u8::from(is));
        }
    }
}
