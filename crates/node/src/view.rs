//! The state of this server as a whole, for the pages and the API.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use reelway_catalogue::IndexMemory;
use reelway_http::{
    Addresses, Calibrated, NodeState, NodeView, OtherServer, Prefill as Shown, Problem,
};
use reelway_metrics::Exposition;
use reelway_sender::{Activity, Recent, Sender};
use reelway_session::Sessions;
use reelway_supervise as supervise;
use serde_json::Value;

use crate::elsewhere::Elsewhere;
use crate::kept::{self, Kept};
use crate::prefill::Prefill;

/// This server.
pub struct Node {
    sender: Sender,
    sessions: Sessions,
    id: String,
    addresses: Addresses,
    calibrated: Option<Calibrated>,
    /// Indexes that cannot be written to files.
    indexes: IndexMemory,
    /// Whether all films have been looked at once.
    settled: AtomicBool,
    recent: Mutex<Recent>,
    kept: Mutex<Kept>,
    /// Held while the list of kept films is written.
    writing: Mutex<()>,
    prefill: Mutex<Prefill>,
    elsewhere: Elsewhere,
}

impl Node {
    /// Creates the view of a server that is starting.
    pub fn new(
        sender: Sender,
        sessions: Sessions,
        (id, addresses): (String, Addresses),
        calibrated: Option<Calibrated>,
        indexes: IndexMemory,
        (kept, prefill, elsewhere): (Kept, Prefill, Elsewhere),
    ) -> Node {
        Node {
            sender,
            sessions,
            id,
            addresses,
            calibrated,
            indexes,
            settled: AtomicBool::new(false),
            recent: Mutex::default(),
            kept: Mutex::new(kept),
            writing: Mutex::new(()),
            prefill: Mutex::new(prefill),
            elsewhere,
        }
    }

    /// Records that all films have been looked at.
    pub fn set_settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Samples the counters, and polls the siblings. To be called once a second, in the runtime.
    pub fn tick(&self) {
        self.elsewhere.tick();
        let mut recent = supervise::whole(self.recent.lock());
        recent.note(reelway_clock::now(), self.sender.stats());
    }

    /// Returns the list of kept films.
    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        supervise::lock(&self.kept)
    }

    /// Returns the films that are fetched to the tier because they are watched much.
    pub(crate) fn prefill(&self) -> MutexGuard<'_, Prefill> {
        supervise::lock(&self.prefill)
    }

    /// Returns the seconds since 1970, and the minute of the local day.
    pub(crate) fn time(&self) -> (u64, u32) {
        let seconds = reelway_clock::real().seconds();
        (seconds, reelway_sys::time::minute_of_day(seconds))
    }

    /// Records how many bytes of a film the tier lacks.
    pub(crate) fn lacks(&self, title: &str, bytes: u64) {
        self.kept().lacks(title, bytes);
        self.prefill().lacks(title, bytes);
    }

    /// Returns the sender's current activity.
    pub(crate) fn activity(&self) -> Activity {
        let recent = supervise::whole(self.recent.lock());
        recent.activity(reelway_clock::now(), self.sender.stats())
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

    fn sending(&self) -> Value {
        serde_json::json!(self.activity())
    }

    fn sent(&self) -> u64 {
        self.sender.stats().bytes
    }

    fn write_metrics(&self, out: &mut Exposition) {
        self.activity().write_metrics(out);
        self.elsewhere.write_metrics(out);
    }

    fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }

    fn redirects(&self) -> bool {
        self.elsewhere.redirects
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

    fn kept(&self) -> Vec<(String, Option<u64>)> {
        self.kept().lacking()
    }

    fn keep(&self, title: &str, is_kept: bool) -> Result<(), String> {
        // Serialises writers; readers of the list do not wait for the disk.
        let _writing = supervise::whole(self.writing.lock());
        let Some((path, titles)) = self.kept().with(title, is_kept)? else {
            return Ok(());
        };
        kept::write(&path, &titles)?;
        self.kept().set(titles, title);
        Ok(())
    }

    fn servers(&self) -> Vec<OtherServer> {
        self.elsewhere.servers()
    }

    fn prefill(&self) -> Option<Shown> {
        Some(self.prefill().shown())
    }

    fn ask_prefill(&self, is_asked: bool) {
        self.prefill().ask(is_asked);
    }

    fn calibrated(&self) -> Option<Calibrated> {
        self.calibrated.clone()
    }
}
