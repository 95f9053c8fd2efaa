//! What one process is told to do, and what it says of it: every way is measured in a process of its
//! own, so that the kernel's accounts of it are of nothing else.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How packets get from the file to the network.
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
        /// Packets a call.
        burst: u16,
    },
    /// Reelway's sender.
    Reelway {
        /// Its way to the kernel, by the sender's name of it.
        backend: String,
        /// Packets that may leave together.
        burst: u16,
    },
}

/// The paper's sessions: packets of one size at one interval from a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sessions {
    /// How.
    pub way: Way,
    /// Sessions at once.
    pub sessions: u32,
    /// Packets of each.
    pub packets: u32,
    /// Payload bytes of a packet.
    pub bytes: u16,
    /// From packet to packet.
    pub interval_us: u64,
    /// The file, read from its beginning.
    pub file: PathBuf,
    /// Without the higher priority that Reelway's sender gives its threads by itself.
    pub normal_priority: bool,
    /// Where all of them go; told apart by SSRC, which is the session's number.
    pub to: SocketAddr,
}

/// Film traffic: 4 Mb/s streams to one address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// How.
    pub way: Way,
    /// Streams at once.
    pub streams: u32,
    /// Seconds before the measurement, in which all streams have begun.
    pub warm_up: f64,
    /// Seconds measured.
    pub seconds: f64,
    /// Films, each shared by the streams of a rest class.
    pub films: Vec<PathBuf>,
    /// Whether the sound is sent too.
    pub sound: bool,
    /// Where the streams leave from.
    pub from: std::net::IpAddr,
    /// Where all of them go; RTCP to the next port.
    pub to: SocketAddr,
    /// Size of Reelway's block pool.
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
    /// Receive film traffic, and judge it from the line `judge` to the line `finish` of the input.
    Watch {
        /// Where.
        at: std::net::IpAddr,
    },
    /// Keep a core busy for so long.
    Spin {
        /// Seconds.
        seconds: f64,
    },
}

/// Delays in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Late {
    /// Half were no later.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
    /// The latest.
    pub max: f64,
}

impl Way {
    /// In a few words.
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

/// A burst that holds the frames of 4 Mb/s films whole.
pub const WHOLE: u16 = 64;

impl Late {
    /// Of delays in nanoseconds.
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

/// What a process says of its task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Packets sent in the time measured.
    pub packets: u64,
    /// Seconds measured.
    pub seconds: f64,
    /// CPU time of the whole process in it, user and system, ns.
    pub cpu_ns: u64,
    /// Times a thread waited.
    pub voluntary: u64,
    /// Times a thread was made to wait.
    pub involuntary: u64,
    /// How late packets left, by the sender itself.
    pub late: Late,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Calls made to send (Reelway counts them).
    pub calls: u64,
    /// Runs of packets handed over (Reelway counts them).
    pub runs: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Resident memory, bytes.
    pub memory: u64,
    /// Bytes of the block pool; 0 without one.
    pub pool: u64,
    /// Bytes read from disk into the pool.
    pub bytes_read: u64,
    /// What the sender says its way to the kernel is.
    pub backend: String,
}

/// What the process itself has used so far.
pub struct Account {
    at: reelway_clock::Monotonic,
    cpu_ns: u64,
    usage: nix::sys::resource::Usage,
}

impl Account {
    /// As of now.
    pub fn open() -> anyhow::Result<Account> {
        use nix::sys::resource::{UsageWho, getrusage};
        Ok(Account {
            at: reelway_clock::now(),
            cpu_ns: reelway_sys::time::process_cpu_ns(),
            usage: getrusage(UsageWho::RUSAGE_SELF)?,
        })
    }

    /// What was used since.
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

/// The line by which a process says that its measurement begins.
pub const MEASURING: &str = "measuring";

/// What receivers of film traffic saw.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Watched {
    /// Streams.
    pub streams: u64,
    /// Packets that came.
    pub packets: u64,
    /// Packets that did not.
    pub lost: u64,
    /// How late frames came.
    pub late: Late,
    /// Packets of a stream within a millisecond, as 99 of 100 packets see it.
    pub burst_p99: usize,
    /// The most packets of a stream within a millisecond.
    pub burst_max: usize,
}

/// The line by which a receiver tells its port.
pub const PORT: &str = "port ";
