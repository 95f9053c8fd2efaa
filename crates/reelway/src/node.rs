//! What the pages and the API show of this server as a whole.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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
        let (seconds, before) = match history.front() {
            Some((then, stats)) => (
                reelway_clock::now().since(*then).as_secs_f64(),
                stats.clone(),
            ),
            None => (1.0, SenderStats::default()),
        };
        let a_second = |count: u64| (count as f64 / seconds.max(0.001)) as u64;
        let packets = now.packets - before.packets;
        let late = now.late_counts.since(&before.late_counts);
        let millis = |duration: Duration| (packets > 0).then_some(duration.as_secs_f64() * 1e3);
        Sending {
            rate: a_second((now.bytes - before.bytes) * 8),
            packets_per_second: a_second(packets),
            late_p99_ms: millis(late.p99),
            late_max_ms: millis(late.max),
            backend: now.backend.to_owned(),
            packets_total: now.packets,
            bytes_total: now.bytes,
        }
    }

    fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }
}
