//! What the API shows of the rest of the server, which the binary knows.

use std::time::Duration;

use reelway_supervise::Severity;
use serde::{Serialize, Serializer};

/// Whether newcomers are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Films are being looked at for the first time.
    Starting,
    /// As it should be.
    Serving,
    /// Stopping: nobody new comes in.
    Draining,
}

/// What the RTP sender does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sending {
    /// Bits a second over the last seconds.
    pub rate: u64,
    /// Packets a second over the last seconds.
    pub packets_per_second: u64,
    /// Median of lateness against the timetable over the last seconds, in milliseconds; `None` when
    /// nothing was sent.
    pub late_p50_ms: Option<f64>,
    /// The same, 99th percentile.
    pub late_p99_ms: Option<f64>,
    /// The same, 99.9th percentile.
    pub late_p999_ms: Option<f64>,
    /// Greatest lateness over the last seconds, in milliseconds.
    pub late_max_ms: Option<f64>,
    /// How packets go to the kernel: `gso`, `sendmmsg`.
    pub backend: String,
    /// Packets of a viewer that were handed to the kernel together, in the mean of the last seconds;
    /// `None` when nothing was sent.
    pub packets_per_send: Option<f64>,
    /// Milliseconds of CPU that the sender threads needed for a stream and second, over the last
    /// seconds; `None` when nothing played.
    pub cpu_ms_per_stream_second: Option<f64>,
    /// Packets since the start.
    pub packets_total: u64,
    /// Bytes since the start.
    pub bytes_total: u64,
    /// CPU time of the sender threads since the start.
    pub cpu_total: Duration,
    /// System calls made to send, since the start.
    pub calls_total: u64,
    /// Sends (packets of a viewer handed over together) since the start.
    pub sends_total: u64,
    /// Packets that receivers asked for again, since the start.
    pub missed_total: u64,
    /// Packets sent again since the start; not among `packets_total`.
    pub resent_total: u64,
    /// Frames left out since the start, because they would have come too late and no other frame needs
    /// them.
    pub dropped_frames_total: u64,
    /// Packets offered again since the start, because the kernel had no room.
    pub retried_total: u64,
    /// Packets that the kernel refused since the start: lost.
    pub refused_total: u64,
    /// Times since the start that a stream's timetable was moved on after a stall.
    pub shifts_total: u64,
}

/// Something that is wrong with the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What is wrong, in a word or two: `state directory`; the thread or part of the server that panicked.
    pub what: String,
    /// How bad it is.
    #[serde(serialize_with = "severity")]
    pub severity: Severity,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
    /// What happened, what follows from it, and what can be done, in words.
    pub detail: String,
    /// Panics of the part since the start; 0 for a problem that is no panic.
    pub panics: u64,
}

impl From<reelway_supervise::Problem> for Problem {
    fn from(problem: reelway_supervise::Problem) -> Problem {
        Problem {
            what: problem.part,
            severity: problem.severity,
            since: problem.since.to_string(),
            detail: problem.message,
            panics: problem.panics,
        }
    }
}

fn severity<S: Serializer>(severity: &Severity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(severity.name())
}

/// Addresses at which viewers reach the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// `rtsp://host:port`.
    pub rtsp: String,
    /// `http://host:port`.
    pub http: String,
}

impl Addresses {
    /// Where a film is over RTSP.
    pub fn rtsp_of(&self, title: &str) -> String {
        format!("{}/{}", self.rtsp, crate::route::encode(title))
    }
}

/// What `reelway serve --calibrate` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calibrated {
    /// JSON.
    pub report: String,
    /// SVG.
    pub chart: String,
}

/// The rest of the server as the API sees it. Called often; must not block.
pub trait NodeView: Send + Sync {
    /// The server's name.
    fn name(&self) -> String;
    /// What tells it from all other servers, by which servers that fetch from one another find out that they go in a circle.
    fn id(&self) -> String;
    /// Whether newcomers are let in.
    fn state(&self) -> NodeState;
    /// What the sender does.
    fn sending(&self) -> Sending;
    /// Where viewers reach the server.
    fn addresses(&self) -> Addresses;
    /// What is wrong at the moment.
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
    /// What was calibrated before this server was started, if anything was.
    fn calibrated(&self) -> Option<Calibrated> {
        None
    }
    /// A connection, known by its number, was handed `bytes` (with all headers) that pass the limited networks of these numbers
    /// ([`reelway_session::Gate::networks_to`]); it sends them at `speed` bytes a second, or as fast as the network goes.
    fn is_handed(&self, _networks: &[u8], _connection: u64, _bytes: u64, _speed: Option<u64>) {}
}
