//! What the pages and the API show of this server as a whole.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reelway_catalogue::IndexMemory;
use reelway_clock::Monotonic;
use reelway_http::{Addresses, Calibrated, NodeState, NodeView, Problem, Sending};
use reelway_sender::{Sender, SenderStats};
use reelway_session::Sessions;
use reelway_supervise as supervise;

/// Seconds over which rates are taken.
const WINDOW: usize = 5;

/// This server.
pub struct Node {
    sender: Sender,
    sessions: Sessions,
    id: String,
    addresses: Addresses,
    calibrated: Option<Calibrated>,
    /// Where indexes are that cannot be written to files.
    indexes: IndexMemory,
    /// All films have been looked at once.
    settled: AtomicBool,
    /// The sender's counts over the last seconds, the oldest first.
    history: Mutex<VecDeque<(Monotonic, SenderStats)>>,
}

impl Node {
    /// A server that is starting.
    pub fn new(
        sender: Sender,
        sessions: Sessions,
        (id, addresses): (String, Addresses),
        calibrated: Option<Calibrated>,
        indexes: IndexMemory,
    ) -> Node {
        Node {
            sender,
            sessions,
            id,
            addresses,
            calibrated,
            indexes,
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
        let mut history = supervise::whole(self.history.lock());
        if history.len() > WINDOW {
            history.pop_front();
        }
        history.push_back((reelway_clock::now(), self.sender.stats()));
    }
}

impl NodeView for Node {
    fn id(&self) -> String {
        self.id.clone()
    }

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

    fn is_handed(&self, networks: &[u8], connection: u64, bytes: u64, speed: Option<u64>) {
        self.sender.others_send(networks, connection, bytes, speed);
    }

    fn sending(&self) -> Sending {
        let now = self.sender.stats();
        let history = supervise::whole(self.history.lock());
        let (seconds, before) = match history.front() {
            Some((then, stats)) => (
                reelway_clock::now().since(*then).as_secs_f64(),
                stats.clone(),
            ),
            None => (1.0, SenderStats::default()),
        };
        let playing = history
            .iter()
            .map(|(_, stats)| stats.playing)
            .sum::<usize>()
            + now.playing;
        let stream_seconds = playing as f64 / (history.len() + 1) as f64 * seconds;
        sending(&now, &before, seconds, stream_seconds)
    }

    fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }

    fn problems(&self) -> Vec<Problem> {
        let panics = supervise::problems().into_iter().map(Problem::from);
        let index = self.indexes.problem().map(|problem| Problem {
            what: "state directory".to_owned(),
            severity: supervise::Severity::Degraded,
            since: problem.since.to_string(),
            detail: problem.to_string(),
            panics: 0,
        });
        panics.chain(index).collect()
    }

    fn calibrated(&self) -> Option<Calibrated> {
        self.calibrated.clone()
    }
}

/// What was done from `before` to `now`.
fn sending(now: &SenderStats, before: &SenderStats, seconds: f64, stream_seconds: f64) -> Sending {
    let a_second = |count: u64| (count as f64 / seconds.max(0.001)) as u64;
    let packets = now.packets - before.packets;
    let sends = now.runs - before.runs;
    let late = now.late_counts.since(&before.late_counts);
    let millis = |duration: Duration| (packets > 0).then_some(duration.as_secs_f64() * 1e3);
    let cpu = now.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e3;
    Sending {
        rate: a_second((now.bytes - before.bytes) * 8),
        packets_per_second: a_second(packets),
        late_p50_ms: millis(late.p50),
        late_p99_ms: millis(late.p99),
        late_p999_ms: millis(late.p999),
        late_max_ms: millis(late.max),
        backend: now.backend.to_owned(),
        packets_per_send: (sends > 0).then(|| packets as f64 / sends as f64),
        cpu_ms_per_stream_second: (packets > 0 && stream_seconds > 0.0)
            .then(|| cpu / stream_seconds),
        packets_total: now.packets,
        bytes_total: now.bytes,
        cpu_total: now.cpu,
        calls_total: now.calls,
        sends_total: now.runs,
        missed_total: now.missed,
        resent_total: now.resent,
        dropped_frames_total: now.dropped,
        retried_total: now.retried,
        refused_total: now.refused,
        shifts_total: now.shifts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_and_counts_of_all_time() {
        let before = SenderStats {
            packets: 1000,
            runs: 200,
            bytes: 1_000_000,
            dropped: 3,
            cpu: Duration::from_millis(10),
            ..SenderStats::default()
        };
        let now = SenderStats {
            packets: 1800,
            runs: 300,
            bytes: 2_000_000,
            dropped: 5,
            resent: 7,
            cpu: Duration::from_millis(16),
            ..before.clone()
        };
        let sending = sending(&now, &before, 4.0, 20.0);
        assert_eq!((sending.rate, sending.packets_per_second), (2_000_000, 200));
        assert_eq!(sending.packets_per_send, Some(8.0));
        assert!((sending.cpu_ms_per_stream_second.unwrap() - 0.3).abs() < 1e-9);
        assert_eq!((sending.dropped_frames_total, sending.resent_total), (5, 7));
    }

    #[test]
    fn where_nothing_was_sent_nothing_is_said_of_packets() {
        let sending = sending(&SenderStats::default(), &SenderStats::default(), 5.0, 0.0);
        assert_eq!(sending.late_p50_ms, None);
        assert_eq!(sending.packets_per_send, None);
        assert_eq!(sending.cpu_ms_per_stream_second, None);
    }
}
