//! What the pages and the API show of this server as a whole.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use reelway_clock::Monotonic;
use reelway_http::{Addresses, NodeState, NodeView, Sending};
use reelway_sender::{Sender, SenderStats};
use reelway_session::Sessions;

/// Seconds over which rates are taken.
const WINDOW: usize = 5;

/// This server.
pub struct Node {
    sender: Sender,
    sessions: Sessions,
    addresses: Addresses,
    /// All films have been looked at once.
    settled: AtomicBool,
    /// The sender's counts over the last seconds, the oldest first.
    history: Mutex<VecDeque<(Monotonic, SenderStats)>>,
}

impl Node {
    /// A server that is starting.
    pub fn new(sender: Sender, sessions: Sessions, addresses: Addresses) -> Node {
        Node {
            sender,
            sessions,
            addresses,
            settled: AtomicBool::new(false),
            history: Mutex::default(),
        }
    }

    /// Every film has been looked at.
    pub fn set_settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Takes the counts of this moment; to be called once a second.
    pub fn tick(&self) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        if history.len() > WINDOW {
            history.pop_front();
        }
        history.push_back((reelway_clock::now(), self.sender.stats()));
    }
}

impl NodeView for Node {
    fn name(&self) -> String {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if name.trim().is_empty() {
            "reelway".into()
        } else {
            name.trim().into()
        }
    }

    fn state(&self) -> NodeState {
        if self.sessions.is_draining() {
            NodeState::Draining
        } else if self.settled.load(Ordering::Relaxed) {
            NodeState::Serving
        } else {
            NodeState::Starting
        }
    }

    fn sending(&self) -> Sending {
        let now = self.sender.stats();
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let (rate, packets_per_second) = history.front().map_or((0, 0), |(then, before)| {
            let seconds = reelway_clock::now().since(*then).as_secs_f64().max(0.001);
            let a_second = |count: u64| (count as f64 / seconds) as u64;
            (
                a_second((now.bytes - before.bytes) * 8),
                a_second(now.packets - before.packets),
            )
        });
        let millis = |duration: std::time::Duration| {
            Some(duration.as_secs_f64() * 1e3).filter(|_| now.packets > 0)
        };
        Sending {
            rate,
            packets_per_second,
            late_p99_ms: millis(now.late.p99),
            late_max_ms: millis(now.late.max),
            backend: now.backend.to_owned(),
            packets_total: now.packets,
            bytes_total: now.bytes,
        }
    }

    fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }
}
