//! Tasks of processes, and their results. Every way is measured in a separate process, so that the
//! kernel's accounting includes nothing else.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The way of sending packets from a file to the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Way {
    /// `read`, header, `send`, and a sleep that Linux 2.2 would have rounded to its 10 ms ticks.
    Ticks,
    /// `read`, header, `send`, and a sleep relative to now.
    Relative,
    /// `read`, header, `send`, and a sleep to the packet's time.
    Absolute,
    /// Header with `MSG_MORE`, then `sendfile` from the page cache; to the packet's time.
    Sendfile,
    /// `pread` of several packets' bytes and one `sendmsg` that the kernel cuts (film traffic only).
    Batched {
        /// Packets per call.
        burst: u16,
    },
    /// Reelway's sender.
    Reelway {
        /// The sender's name of the backend.
        backend: String,
        /// Packets that may leave together.
        burst: u16,
    },
}

/// The paper's sessions: packets of one size at one interval from a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sessions {
    /// The way of sending.
    pub way: Way,
    /// Concurrent sessions.
    pub sessions: u32,
    /// Packets per session.
    pub packets: u32,
    /// Payload bytes of a packet.
    pub bytes: u16,
    /// Interval between packets, µs.
    pub interval_us: u64,
    /// The file, read from its beginning.
    pub file: PathBuf,
    /// Without the higher priority that Reelway's sender gives its threads by default.
    pub normal_priority: bool,
    /// Destination of all sessions; the SSRC is the session's number.
    pub to: SocketAddr,
}

/// Film traffic: streams of 4 Mb/s to one address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// The way of sending.
    pub way: Way,
    /// Concurrent streams.
    pub streams: u32,
    /// Seconds before the measurement, within which all streams begin.
    pub warm_up: f64,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Films, assigned to the streams in turn.
    pub films: Vec<PathBuf>,
    /// Whether sound is sent, too.
    pub sound: bool,
    /// Source address of the streams.
    pub from: std::net::IpAddr,
    /// Destination of all streams; RTCP goes to the next port.
    pub to: SocketAddr,
    /// Size of Reelway's block pool in bytes.
    pub pool: u64,
}

/// Tasks of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Task {
    /// The paper's sessions.
    Sessions(Sessions),
    /// Film traffic.
    Traffic(Traffic),
    /// Receive film traffic, and measure it from the line `judge` to the line `finish` of the
    /// input.
    Watch {
        /// The address.
        at: std::net::IpAddr,
    },
    /// Keep a core busy for some time.
    Spin {
        /// Duration in seconds.
        seconds: f64,
    },
}

/// Lateness in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Late {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl Way {
    /// Describes the way in a few words.
    pub fn describe(&self) -> String {
        match self {
            Way::Ticks => "conventional, timers of 10 ms as then".to_owned(),
            Way::Relative => "conventional (read + send)".to_owned(),
            Way::Absolute => "read + send, absolute schedule".to_owned(),
            Way::Sendfile => "as MARS (sendfile into UDP)".to_owned(),
            Way::Batched { burst } => format!("page cache, {burst} packets a call"),
            Way::Reelway { backend, burst } if *burst == WHOLE => {
                format!("Reelway {backend}, whole frames")
            }
            Way::Reelway { backend, burst } => format!("Reelway {backend}, burst {burst}"),
        }
    }
}

/// A burst that is large enough for whole frames of films of 4 Mb/s.
pub const WHOLE: u16 = 64;

impl Late {
    /// Computes the percentiles of delays in nanoseconds.
    pub fn of(mut nanos: Vec<i64>) -> Late {
        nanos.sort_unstable();
        let at = |share: f64| {
            let place = (nanos.len() as f64 * share).ceil() as usize;
            nanos
                .get(place.saturating_sub(1))
                .map_or(0.0, |nanos| *nanos as f64 / 1e6)
        };
        Late {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        }
    }
}

/// Result of a process's task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Packets sent during the measurement.
    pub packets: u64,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// CPU time of the whole process, user and system, ns.
    pub cpu_ns: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// Lateness of packets, measured by the sender.
    pub late: Late,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Calls for sending (counted by Reelway only).
    pub calls: u64,
    /// Runs of packets handed to the kernel (counted by Reelway only).
    pub runs: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Resident memory, bytes.
    pub memory: u64,
    /// Bytes of the block pool; 0 without one.
    pub pool: u64,
    /// Bytes read from disk into the pool.
    pub bytes_read: u64,
    /// The backend that the sender reports.
    pub backend: String,
}

/// The resources that this process has used so far.
pub struct Account {
    at: reelway_clock::Monotonic,
    cpu_ns: u64,
    usage: nix::sys::resource::Usage,
}

impl Account {
    /// Reads the current values.
    pub fn open() -> anyhow::Result<Account> {
        use nix::sys::resource::{UsageWho, getrusage};
        Ok(Account {
            at: reelway_clock::now(),
            cpu_ns: reelway_sys::time::process_cpu_ns(),
            usage: getrusage(UsageWho::RUSAGE_SELF)?,
        })
    }

    /// Returns what was used since.
    pub fn close(self) -> anyhow::Result<Outcome> {
        let now = Account::open()?;
        let count = |after: i64, before: i64| (after - before).max(0) as u64;
        Ok(Outcome {
            seconds: now.at.since(self.at).as_secs_f64(),
            cpu_ns: now.cpu_ns - self.cpu_ns,
            voluntary: count(
                now.usage.voluntary_context_switches(),
                self.usage.voluntary_context_switches(),
            ),
            involuntary: count(
                now.usage.involuntary_context_switches(),
                self.usage.involuntary_context_switches(),
            ),
            ..Outcome::default()
        })
    }
}

/// The line that a process prints when its measurement begins.
pub const MEASURING: &str = "measuring";

/// Results of the receivers of film traffic.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Watched {
    /// Number of streams.
    pub streams: u64,
    /// Packets received.
    pub packets: u64,
    /// Packets lost.
    pub lost: u64,
    /// Lateness of frames.
    pub late: Late,
    /// Packets of a stream within a millisecond: 99th percentile over the packets.
    pub burst_p99: usize,
    /// The most packets of a stream within a millisecond.
    pub burst_max: usize,
}

/// The beginning of the line in which a receiver prints its port.
pub const PORT: &str = "port ";
