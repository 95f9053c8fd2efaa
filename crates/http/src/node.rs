//! The rest of the server as the API shows it; implemented by the binary.

use reelway_metrics::Exposition;
use reelway_supervise::Severity;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Whether newcomers are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Films are being scanned for the first time.
    Starting,
    /// Normal operation.
    Serving,
    /// Stopping: no newcomers are admitted.
    Draining,
}

/// A problem of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The affected part in a word or two: `state directory`, or the thread or part that panicked.
    pub what: String,
    /// Its severity.
    #[serde(serialize_with = "severity")]
    pub severity: Severity,
    /// When it began, RFC 3339 in UTC.
    pub since: String,
    /// What happened, its consequences, and what can be done.
    pub detail: String,
    /// Panics of the part since the start; 0 if the problem is not a panic.
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

/// Addresses by which viewers reach the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// `rtsp://host:port`.
    pub rtsp: String,
    /// `http://host:port`.
    pub http: String,
    /// `https://host:port`, if HTTP is also served over TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https: Option<String>,
}

impl Addresses {
    /// Returns a film's RTSP address.
    pub fn rtsp_of(&self, title: &str) -> String {
        format!("{}/{}", self.rtsp, crate::route::encode(title))
    }
}

/// The result of `reelway serve --calibrate`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calibrated {
    /// JSON.
    pub report: String,
    /// SVG.
    pub chart: String,
}

/// A server from which remote films are fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherServer {
    /// Its address.
    pub address: String,
    /// Whether it is a sibling rather than an origin.
    pub sibling: bool,
    /// Whether it has not failed since its last answer.
    pub up: bool,
    /// Its version of Reelway; `None`: unknown, because it is a different program.
    pub version: Option<String>,
    /// Requests since the start.
    pub requests: u64,
    /// Bytes received since the start.
    pub bytes: u64,
    /// Failed requests.
    pub faults: u64,
}

/// Films that are fetched to the tier because they are watched often.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Prefill {
    /// The hours of the day in which films are fetched, as configured; `None`: only when an
    /// operator asks for it.
    pub hours: Option<String>,
    /// Whether films are being fetched now …
    pub running: bool,
    /// … because an operator asked for it.
    pub asked: bool,
    /// Films being fetched now, most watched first.
    pub films: Vec<PrefillFilm>,
}

/// A film that is fetched to the tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrefillFilm {
    /// Its title.
    pub title: String,
    /// Hours watched; after three days they count half.
    pub hours_watched: f64,
    /// Bytes of the film that the tier lacks; `None`: not known yet.
    pub lacking: Option<u64>,
}

/// The rest of the server as the API sees it. Methods are called often and must not block.
pub trait NodeView: Send + Sync {
    /// Returns the server's name.
    fn name(&self) -> String;
    /// Returns the server's unique identifier, with which servers that fetch from each other detect
    /// loops.
    fn id(&self) -> String;
    /// Whether newcomers are admitted.
    fn state(&self) -> NodeState;
    /// Returns the state of the RTP sender, as the API shows it.
    fn sending(&self) -> Value;
    /// Returns the bytes of RTP sent since the start.
    fn sent(&self) -> u64;
    /// Writes the metrics of the RTP sender.
    fn write_metrics(&self, out: &mut Exposition);
    /// Returns the addresses by which viewers reach the server.
    fn addresses(&self) -> Addresses;
    /// Whether viewers are redirected to the sibling that has their film.
    fn redirects(&self) -> bool {
        false
    }
    /// Returns the current problems.
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
    /// Returns the titles kept on the tier, with the bytes that it lacks of each; `None` if that is
    /// not known yet.
    fn kept(&self) -> Vec<(String, Option<u64>)> {
        Vec::new()
    }
    /// Starts or stops keeping a title on the tier.
    ///
    /// # Errors
    /// Why this is not possible.
    fn keep(&self, _title: &str, _is_kept: bool) -> Result<(), String> {
        Err("this server keeps no films".to_owned())
    }
    /// Returns the servers from which remote films are fetched.
    fn servers(&self) -> Vec<OtherServer> {
        Vec::new()
    }
    /// Returns the films that are fetched to the tier because they are watched often.
    fn prefill(&self) -> Option<Prefill> {
        None
    }
    /// Starts or stops fetching them.
    fn ask_prefill(&self, _is_asked: bool) {}
    /// Returns the calibration made before this server was started, if any.
    fn calibrated(&self) -> Option<Calibrated> {
        None
    }
    /// Records that a connection was handed `bytes` (including headers) that pass the limited
    /// networks with these numbers ([`reelway_session::Gate::networks_to`]), and sends them at
    /// `speed` bytes per second, or as fast as the network allows.
    fn is_handed(&self, _networks: &[u8], _connection: u64, _bytes: u64, _speed: Option<u64>) {}
}
