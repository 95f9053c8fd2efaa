//! Statistics of the sender: counts since its start, current activity, and both as metrics.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_metrics::Exposition;
use serde::Serialize;

use crate::counters::Counters;
use crate::histogram::{Histogram, Lateness, LatenessCounts};

/// Number of remembered counts, one second apart.
const WINDOW: usize = 5;

/// Counts of the whole sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SenderStats {
    /// The backend that sends: `gso`, `sendmmsg`.
    pub backend: &'static str,
    /// Number of sender threads.
    #[serde(skip)]
    pub threads: usize,
    /// Number of streams, in any state.
    #[serde(skip)]
    pub streams: usize,
    /// Number of streams of each thread.
    #[serde(skip)]
    pub streams_of_threads: Vec<usize>,
    /// Number of streams being sent.
    #[serde(skip)]
    pub playing: usize,
    /// RTP packets sent.
    #[serde(skip)]
    pub packets: u64,
    /// Bytes of RTP packets sent.
    #[serde(skip)]
    pub bytes: u64,
    /// Runs of packets handed to the kernel.
    #[serde(skip)]
    pub runs: u64,
    /// System calls made to send packets.
    #[serde(skip)]
    pub calls: u64,
    /// Turns in which anything was sent.
    #[serde(skip)]
    pub turns: u64,
    /// Packets offered again because the kernel had no room.
    #[serde(skip)]
    pub retried: u64,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Number of times that a stream's timetable was shifted after a stall.
    #[serde(skip)]
    pub shifts: u64,
    /// Frames dropped because they would have come too late and no other frame needs them.
    #[serde(rename = "dropped_frames")]
    pub dropped: u64,
    /// Packets that receivers reported missing.
    pub missed: u64,
    /// Packets retransmitted; not included in `packets` and `bytes`.
    pub resent: u64,
    /// Number of plans in memory.
    #[serde(skip)]
    pub plans: usize,
    /// CPU time of the sender threads.
    #[serde(skip)]
    pub cpu: Duration,
    /// How late packets left.
    #[serde(skip)]
    pub late: Lateness,
    /// The same as counts, from which the lateness within a period can be computed.
    #[serde(skip)]
    pub late_counts: LatenessCounts,
}

impl SenderStats {
    /// Returns the sum of all threads' counters.
    pub(crate) fn of<'a>(threads: impl Iterator<Item = &'a Counters> + Clone) -> SenderStats {
        let sum = |counter: fn(&Counters) -> &AtomicU64| {
            threads
                .clone()
                .map(|thread| counter(thread).load(Ordering::Relaxed))
                .sum::<u64>()
        };
        SenderStats {
            threads: threads.clone().count(),
            playing: threads
                .clone()
                .map(|thread| thread.playing.load(Ordering::Relaxed))
                .sum(),
            packets: sum(|thread| &thread.packets),
            bytes: sum(|thread| &thread.bytes),
            runs: sum(|thread| &thread.runs),
            calls: sum(|thread| &thread.calls),
            turns: sum(|thread| &thread.turns),
            retried: sum(|thread| &thread.retried),
            refused: sum(|thread| &thread.refused),
            shifts: sum(|thread| &thread.shifts),
            dropped: sum(|thread| &thread.dropped),
            resent: sum(|thread| &thread.resent),
            cpu: Duration::from_nanos(sum(|thread| &thread.cpu)),
            late: Histogram::summary(threads.clone().map(|thread| &thread.late)),
            late_counts: Histogram::counts(threads.map(|thread| &thread.late)),
            ..SenderStats::default()
        }
    }
}

/// Current activity of the sender: rates over the last seconds, and counts since its start. Figures
/// per packet are `None` if no packets were sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Activity {
    /// Bits per second.
    pub rate: u64,
    /// Packets per second.
    pub packets_per_second: u64,
    /// Median of lateness against the timetable, in milliseconds.
    pub late_p50_ms: Option<f64>,
    /// The same, 99th percentile.
    pub late_p99_ms: Option<f64>,
    /// The same, 99.9th percentile.
    pub late_p999_ms: Option<f64>,
    /// Greatest lateness, in milliseconds.
    pub late_max_ms: Option<f64>,
    /// Mean number of a viewer's packets that were passed to the kernel together.
    pub packets_per_send: Option<f64>,
    /// CPU milliseconds of the sender threads per stream and second; `None` if nothing played.
    pub cpu_ms_per_stream_second: Option<f64>,
    /// Counts since the start.
    #[serde(flatten)]
    pub totals: SenderStats,
}

impl Activity {
    /// Returns the activity during `seconds`, in which all streams together played for
    /// `stream_seconds`.
    fn between(
        before: &SenderStats,
        now: SenderStats,
        seconds: f64,
        stream_seconds: f64,
    ) -> Activity {
        let a_second = |count: u64| (count as f64 / seconds.max(0.001)) as u64;
        let packets = now.packets - before.packets;
        let sends = now.runs - before.runs;
        let late = now.late_counts.since(&before.late_counts);
        let millis = |duration: Duration| (packets > 0).then_some(duration.as_secs_f64() * 1e3);
        let cpu = now.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e3;
        Activity {
            rate: a_second((now.bytes - before.bytes) * 8),
            packets_per_second: a_second(packets),
            late_p50_ms: millis(late.p50),
            late_p99_ms: millis(late.p99),
            late_p999_ms: millis(late.p999),
            late_max_ms: millis(late.max),
            packets_per_send: (sends > 0).then(|| packets as f64 / sends as f64),
            cpu_ms_per_stream_second: (packets > 0 && stream_seconds > 0.0)
                .then(|| cpu / stream_seconds),
            totals: now,
        }
    }

    /// Writes all figures as metrics.
    pub fn write_metrics(&self, out: &mut Exposition) {
        let totals = &self.totals;
        let name = "reelway_rtp_backend";
        let help = "1 for the backend that hands RTP packets to the kernel.";
        out.family(name, "gauge", help);
        out.value(name, &[("backend", totals.backend)], 1);
        for (name, help, total) in [
            ("sent_packets", "RTP packets sent.", totals.packets),
            ("sent_bytes", "Bytes of RTP packets sent.", totals.bytes),
            (
                "sends",
                "Sends: runs of a viewer's packets that were handed to the kernel together.",
                totals.runs,
            ),
            (
                "system_calls",
                "System calls made to send RTP packets.",
                totals.calls,
            ),
            (
                "missed_packets",
                "RTP packets that receivers reported missing.",
                totals.missed,
            ),
            (
                "resent_packets",
                "RTP packets retransmitted (RFC 4588); not counted as sent.",
                totals.resent,
            ),
            (
                "dropped_frames",
                "Frames dropped because they would have been too late and no other frame needs them.",
                totals.dropped,
            ),
            (
                "retried_packets",
                "RTP packets offered to the kernel again because it had no room.",
                totals.retried,
            ),
            (
                "refused_packets",
                "RTP packets that the kernel refused, and that were lost.",
                totals.refused,
            ),
            (
                "timetable_shifts",
                "Number of times that a stream's timetable was shifted after a stall.",
                totals.shifts,
            ),
        ] {
            out.counter(&format!("reelway_rtp_{name}_total"), help, total);
        }
        out.counter(
            "reelway_rtp_cpu_seconds_total",
            "CPU time of the threads that send RTP.",
            totals.cpu.as_secs_f64(),
        );
        for (name, which, millis) in [
            ("p50", "Median", self.late_p50_ms),
            ("p99", "99th percentile", self.late_p99_ms),
            ("p999", "99.9th percentile", self.late_p999_ms),
            ("max", "Greatest", self.late_max_ms),
        ] {
            let Some(millis) = millis else { continue };
            let help =
                format!("{which} of packet lateness against the timetable, over the last seconds.");
            out.gauge(
                &format!("reelway_rtp_late_{name}_seconds"),
                &help,
                millis / 1e3,
            );
        }
        if let Some(packets) = self.packets_per_send {
            let help = "Packets per send, over the last seconds.";
            out.gauge("reelway_rtp_packets_per_send", help, packets);
        }
        if let Some(millis) = self.cpu_ms_per_stream_second {
            let name = "reelway_rtp_cpu_seconds_per_stream_second";
            let help = "CPU time of the sender threads per stream-second, over the last seconds.";
            out.gauge(name, help, millis / 1e3);
        }
    }
}

/// The sender's counts over the last seconds, oldest first.
#[derive(Debug, Default)]
pub struct Recent(VecDeque<(Monotonic, SenderStats)>);

impl Recent {
    /// Remembers the current counts; must be called once per second.
    pub fn note(&mut self, now: Monotonic, stats: SenderStats) {
        if self.0.len() > WINDOW {
            self.0.pop_front();
        }
        self.0.push_back((now, stats));
    }

    /// Returns the activity since the oldest remembered counts; `stats` are the current ones.
    pub fn activity(&self, now: Monotonic, stats: SenderStats) -> Activity {
        let none = SenderStats::default();
        let (seconds, before) = match self.0.front() {
            Some((then, before)) => (now.since(*then).as_secs_f64(), before),
            None => (1.0, &none),
        };
        let playing = self.0.iter().map(|(_, stats)| stats.playing).sum::<usize>() + stats.playing;
        let stream_seconds = playing as f64 / (self.0.len() + 1) as f64 * seconds;
        Activity::between(before, stats, seconds, stream_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_and_counts_of_all_time() {
        let before = SenderStats {
            playing: 5,
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
        let mut recent = Recent::default();
        recent.note(Monotonic::from_nanos(1_000_000_000), before);
        let activity = recent.activity(Monotonic::from_nanos(5_000_000_000), now);
        assert_eq!(
            (activity.rate, activity.packets_per_second),
            (2_000_000, 200)
        );
        assert_eq!(activity.packets_per_send, Some(8.0));
        assert!((activity.cpu_ms_per_stream_second.unwrap() - 0.3).abs() < 1e-9);
        assert_eq!((activity.totals.dropped, activity.totals.resent), (5, 7));
    }

    #[test]
    fn where_nothing_was_sent_nothing_is_said_of_packets() {
        let activity = Recent::default().activity(Monotonic::from_nanos(5), SenderStats::default());
        assert_eq!(activity.late_p50_ms, None);
        assert_eq!(activity.packets_per_send, None);
        assert_eq!(activity.cpu_ms_per_stream_second, None);
    }
}
