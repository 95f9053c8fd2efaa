//! All sessions of this server.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::gate::{Gate, GateConfig};
use crate::needs::Wants;
use crate::session::{EndReason, Session};
use crate::view::SessionView;

/// How a film is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// RTSP, media over UDP.
    RtspUdp,
    /// RTSP, media interleaved in its TCP connection.
    RtspTcp,
    /// HTTP Live Streaming.
    Hls,
    /// MPEG-DASH.
    Dash,
    /// The file by byte ranges.
    File,
}

impl Protocol {
    /// The name used in the API, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::RtspUdp => "rtsp/udp",
            Protocol::RtspTcp => "rtsp/tcp",
            Protocol::Hls => "hls",
            Protocol::Dash => "dash",
            Protocol::File => "file",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A newcomer.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// How the film shall be delivered.
    pub protocol: Protocol,
    /// The viewer's address.
    pub peer: SocketAddr,
    /// What the viewer wants to see.
    pub title: String,
    /// The film's length.
    pub duration: Duration,
    /// What the viewer's program calls itself, already cut to a sane length by the protocol.
    pub user_agent: Option<String>,
    /// What follows `?` in the address he asked with: it may say who he is ([`crate::Users`]).
    pub query: Option<String>,
    /// What he takes of the film; where that is not known, nothing is booked for him.
    pub wants: Option<Wants>,
}

/// Why a newcomer may not come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In words, for the viewer.
    pub reason: String,
    /// When it is worth asking again; `None`: never.
    pub retry_after: Option<Duration>,
}

/// Plain numbers that bound the register.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most sessions at once.
    pub sessions: usize,
    /// Silence after which a viewer is given up, until its protocol says otherwise.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 10_000,
            idle: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// Whether there is room in the register for one more.
    fn admit(&self, present: usize) -> Result<(), Refusal> {
        if present < self.sessions {
            return Ok(());
        }
        Err(Refusal {
            reason: format!(
                "{present} viewers are here already, the limit (max_sessions) is {}",
                self.sessions
            ),
            retry_after: Some(Duration::from_secs(30)),
        })
    }
}

/// The register of all sessions; clones are the same register.
#[derive(Clone)]
pub struct Sessions(pub(crate) Arc<Registry>);

pub(crate) struct Registry {
    limits: Limits,
    pub(crate) gate: Gate,
    draining: AtomicBool,
    /// Goes up with every session that comes or goes.
    changes: AtomicU64,
    by_token: Mutex<HashMap<String, Session>>,
    /// The same sessions by their numbers: in the order in which they began.
    in_order: Mutex<BTreeMap<u64, Session>>,
}

impl Sessions {
    /// An empty register that admits by count.
    pub fn new(limits: Limits) -> Self {
        Self::with_gate(limits, Gate::new(GateConfig::default()))
    }

    /// An empty register that also asks whether the machine can carry the newcomer.
    pub fn with_gate(limits: Limits, gate: Gate) -> Self {
        Sessions(Arc::new(Registry {
            limits,
            gate,
            draining: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            by_token: Mutex::default(),
            in_order: Mutex::default(),
        }))
    }

    /// Takes in a newcomer, or says why not.
    pub fn open(&self, newcomer: NewSession) -> Result<Session, Refusal> {
        if self.is_draining() {
            return Err(Refusal {
                reason: "the server is stopping".into(),
                retry_after: Some(Duration::from_secs(10)),
            });
        }
        self.0.limits.admit(self.len())?;
        let user = self.0.gate.user_of(&newcomer)?;
        // Not under the lock: a film's curves may be made here.
        let (booked, wait) = self.0.gate.enter(&newcomer, user.as_deref())?;
        let mut all = self.0.all();
        // Others may have come meanwhile.
        if let Err(refusal) = self.0.limits.admit(all.len()) {
            drop(all);
            if let Some(booked) = booked {
                self.0.gate.leaves(booked.id);
            }
            return Err(refusal);
        }
        let now = reelway_clock::now();
        let started = reelway_clock::real().to_string();
        let session = Session::new(
            Arc::downgrade(&self.0),
            (newcomer, user),
            (booked, wait),
            self.0.limits.idle,
            now,
            started,
        );
        all.insert(session.token().to_owned(), session.clone());
        self.0.in_order().insert(session.number(), session.clone());
        self.0.changes.fetch_add(1, Ordering::Relaxed);
        Ok(session)
    }

    /// The gate that newcomers come through.
    pub fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// The session that this secret stands for.
    pub fn by_token(&self, token: &str) -> Option<Session> {
        self.0.all().get(token).cloned()
    }

    /// Ends the session with this public identifier; false where there is none.
    pub fn end(&self, id: &str, reason: EndReason) -> bool {
        let found = self
            .0
            .all()
            .values()
            .find(|session| session.id() == id)
            .cloned();
        found.map(|session| session.end(reason)).is_some()
    }

    /// All sessions, the oldest first.
    pub fn list(&self) -> Vec<SessionView> {
        let mut views: Vec<_> = self.snapshot().iter().map(Session::view).collect();
        views.sort_by(|a, b| a.started.cmp(&b.started).then_with(|| a.id.cmp(&b.id)));
        views
    }

    /// Handles on all sessions.
    pub fn snapshot(&self) -> Vec<Session> {
        self.0.all().values().cloned().collect()
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.0.all().len()
    }

    /// Whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that changes when a session comes or goes.
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    /// Gives up silent viewers and takes rates; to be called about once a second.
    pub fn tick(&self) {
        let now = reelway_clock::now();
        for session in self.snapshot() {
            if session.is_expired(now) {
                session.end(EndReason::Expired);
            } else {
                session.tick(now);
            }
        }
        let too_many = self.0.gate.look_at_the_world();
        if too_many.is_empty() {
            return;
        }
        for session in self.snapshot() {
            if session.booking().is_some_and(|id| too_many.contains(&id)) {
                let words = "network or disks became slower: newest sessions make room";
                session.end(EndReason::Failed(words.into()));
            }
        }
    }

    /// From now on nobody comes in.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// Whether newcomers are refused because the server stops.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Ends every session.
    pub fn end_all(&self, reason: EndReason) {
        for session in self.snapshot() {
            session.end(reason.clone());
        }
    }

    /// Ends the sessions of one title.
    pub fn end_title(&self, title: &str, reason: EndReason) {
        for session in self.snapshot() {
            if session.title() == title {
                session.end(reason.clone());
            }
        }
    }
}

impl Registry {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_order(&self) -> MutexGuard<'_, BTreeMap<u64, Session>> {
        self.in_order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remove(&self, session: &Session) {
        self.all().remove(session.token());
        self.in_order().remove(&session.number());
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn viewer() -> NewSession {
        NewSession {
            protocol: Protocol::Hls,
            peer: "127.0.0.1:1".parse().unwrap(),
            title: "bunny".into(),
            duration: Duration::from_secs(10),
            user_agent: None,
            query: None,
            wants: None,
        }
    }

    #[test]
    fn over_the_limit_only_the_newcomer_is_refused() {
        let sessions = Sessions::new(Limits {
            sessions: 1,
            ..Limits::default()
        });
        let first = sessions.open(viewer()).unwrap();
        let refusal = sessions.open(viewer()).unwrap_err();
        assert!(refusal.reason.contains("limit"));
        assert!(!first.is_ended());
        first.end(EndReason::Left);
        assert!(sessions.open(viewer()).is_ok());
    }

    #[test]
    fn a_silent_viewer_is_given_up_and_a_lively_one_kept() {
        let sessions = Sessions::new(Limits {
            idle: Duration::from_millis(40),
            ..Limits::default()
        });
        let silent = sessions.open(viewer()).unwrap();
        let lively = sessions.open(viewer()).unwrap();
        lively.set_idle_limit(Duration::MAX);
        std::thread::sleep(Duration::from_millis(60));
        sessions.tick();
        assert!(silent.is_ended());
        assert!(!lively.is_ended());
        assert!(sessions.by_token(silent.token()).is_none());
    }

    #[test]
    fn whoever_ends_it_the_protocol_hears_of_it_once() {
        let sessions = Sessions::new(Limits::default());
        let session = sessions.open(viewer()).unwrap();
        let heard = Arc::new(AtomicUsize::new(0));
        let counter = heard.clone();
        session.on_end(move |reason| {
            assert_eq!(*reason, EndReason::Kicked);
            counter.fetch_add(1, Ordering::Relaxed);
        });
        assert!(sessions.end(session.id(), EndReason::Kicked));
        session.end(EndReason::Left);
        assert_eq!(heard.load(Ordering::Relaxed), 1);
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_hundred_thousand_come_and_go_and_nothing_is_left_of_them() {
        let config = GateConfig {
            limits: reelway_admission::Limits {
                title: 50,
                ..Default::default()
            },
            ..GateConfig::default()
        };
        let sessions = Sessions::with_gate(Limits::default(), Gate::new(config));
        let mut present = std::collections::VecDeque::new();
        let mut refused = 0;
        for _ in 0..100_000 {
            match sessions.open(viewer()) {
                Ok(session) => present.push_back(session),
                Err(_) => refused += 1,
            }
            if refused % 2 == 0 && present.len() > 40 {
                present.pop_front().unwrap().end(EndReason::Left);
            }
        }
        assert!(present.len() <= 50);
        present
            .iter()
            .for_each(|session| session.end(EndReason::Left));
        assert!(sessions.is_empty());
        assert_eq!(sessions.gate().judge().viewers(), 0);
        // Refusals are remembered, not all of them.
        assert!(sessions.gate().judge().refusals().count() <= 256);
    }

    #[test]
    fn a_stopping_server_takes_nobody_in() {
        let sessions = Sessions::new(Limits::default());
        sessions.drain();
        assert!(sessions.open(viewer()).unwrap_err().retry_after.is_some());
    }
}
