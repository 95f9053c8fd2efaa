//! What the API shows of the rest of the server, which the binary knows.

use reelway_metrics::Exposition;
use reelway_supervise::Severity;
use serde::{Serialize, Serializer};
use serde_json::Value;

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
    /// `https://host:port`, where HTTP is served over TLS too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https: Option<String>,
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

/// A server that remote films come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherServer {
    /// Its address.
    pub address: String,
    /// It is a sibling, and no origin.
    pub sibling: bool,
    /// It has not failed since it answered last.
    pub up: bool,
    /// The version of Reelway that it is; `None`: it has not said one, as it is another program.
    pub version: Option<String>,
    /// Requests since the start.
    pub requests: u64,
    /// Bytes that came since the start.
    pub bytes: u64,
    /// Requests that failed.
    pub faults: u64,
}

/// The films that are brought to the tier because they are watched much.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Prefill {
    /// The hours of the day in which that is done, as in the configuration; `None`: only when an operator asks for it.
    pub hours: Option<String>,
    /// Whether it is being done now …
    pub running: bool,
    /// … because an operator has asked for it.
    pub asked: bool,
    /// Those that are being brought now, the one watched most first.
    pub films: Vec<PrefillFilm>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrefillFilm {
    /// Its title.
    pub title: String,
    /// Hours that it was watched; they count half after three days.
    pub hours_watched: f64,
    /// Bytes of it that the tier lacks; `None`: not known yet.
    pub lacking: Option<u64>,
}

/// The rest of the server as the API sees it. Called often; must not block.
pub trait NodeView: Send + Sync {
    /// The server's name.
    fn name(&self) -> String;
    /// What tells it from all other servers, by which servers that fetch from one another find out that they go in a circle.
    fn id(&self) -> String;
    /// Whether newcomers are let in.
    fn state(&self) -> NodeState;
    /// What the RTP sender does, as the API shows it.
    fn sending(&self) -> Value;
    /// Bytes of RTP sent since the start.
    fn sent(&self) -> u64;
    /// Writes what the RTP sender does and has done.
    fn write_metrics(&self, out: &mut Exposition);
    /// Where viewers reach the server.
    fn addresses(&self) -> Addresses;
    /// Viewers are sent to the sibling that has their film.
    fn redirects(&self) -> bool {
        false
    }
    /// What is wrong at the moment.
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
    /// Titles that are kept on the tier, and the bytes that it lacks of each; `None` where that is not known yet.
    fn kept(&self) -> Vec<(String, Option<u64>)> {
        Vec::new()
    }
    /// From now on a title is kept on the tier, or is not.
    ///
    /// # Errors
    /// Why not, in words.
    fn keep(&self, _title: &str, _is_kept: bool) -> Result<(), String> {
        Err("this server keeps no films".to_owned())
    }
    /// The servers that remote films come from.
    fn servers(&self) -> Vec<OtherServer> {
        Vec::new()
    }
    /// The films that are brought to the tier because they are watched much.
    fn prefill(&self) -> Option<Prefill> {
        None
    }
    /// They are to be brought now, or no longer.
    fn ask_prefill(&self, _is_asked: bool) {}
    /// What was calibrated before this server was started, if anything was.
    fn calibrated(&self) -> Option<Calibrated> {
        None
    }
    /// A connection, known by its number, was handed `bytes` (with all headers) that pass the limited networks of these numbers
    /// ([`reelway_session::Gate::networks_to`]); it sends them at `speed` bytes a second, or as fast as the network goes.
    fn is_handed(&self, _networks: &[u8], _connection: u64, _bytes: u64, _speed: Option<u64>) {}
}
