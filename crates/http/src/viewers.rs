//! Viewers over HTTP are sessions too.
//!
//! An HLS or DASH viewer is born with the multivariant playlist or the MPD: there he is let in or
//! refused, and gets a token that all addresses below carry (`?s=TOKEN`). A token is a name, not a
//! permission: whoever brings one that is well-formed but unknown (his session expired while he
//! paused, or the server was started anew) is a newcomer under that name, let in if there is room.
//! A token that somebody ended is answered with 410 from then on, one of another film with 403.
//! Segments asked for without a token, and files, belong to a viewer known by his address and
//! program.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_session::{EndReason, NewSession, Protocol, Refusal, Sessions, Wants};
use reelway_store::Store;
use reelway_supervise as supervise;
use reelway_timetable::Carriage;
use reelway_viewing::{Pace, Piece};

use crate::films::Show;
use crate::viewer::{Sending, Viewer};

/// Characters of a token.
pub(crate) const TOKEN_LENGTH: usize = 24;
/// How long an ended token is answered with 410.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// How long a viewer without a token is kept out after he was ended.
const KEPT_OUT: Duration = Duration::from_secs(60);
/// Bytes of a query that is kept: a user's name and signature take less.
const LONGEST_QUERY: usize = 1024;
/// Ended viewers that are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub peer: SocketAddr,
    /// The number of the connection.
    pub connection: u64,
    pub agent: Option<String>,
    /// The token in the address.
    pub token: Option<String>,
    /// All that follows `?` there; it may say who he is.
    pub query: Option<String>,
}

/// Why a caller is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// 503.
    Refused(Refusal),
    /// 403.
    Forbidden(&'static str),
    /// 410.
    Gone(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Token(String),
    Anonymous {
        ip: IpAddr,
        agent: Option<String>,
        title: String,
        protocol: Protocol,
        /// Where users are known: two of them may share an address.
        query: Option<String>,
    },
}

/// All viewers over HTTP.
pub(crate) struct Viewers(Arc<Inner>);

struct Inner {
    sessions: Sessions,
    store: Store,
    timeout: Duration,
    pace: Pace,
    present: Mutex<HashMap<Key, Arc<Viewer>>>,
    /// Who was here.
    past: Mutex<HashMap<Key, Past>>,
}

/// What is remembered of one who was here.
#[derive(Clone)]
struct Past {
    /// Not longer than this.
    until: Monotonic,
    /// He was ended and is not to come back, and why, in words to follow that; else he only was silent for too long.
    ended: Option<Arc<str>>,
    protocol: Protocol,
    /// Of the address that he began with, where users are known.
    query: Option<String>,
}

impl Viewers {
    pub fn new(sessions: Sessions, store: Store, timeout: Duration, pace: Pace) -> Viewers {
        Viewers(Arc::new(Inner {
            sessions,
            store,
            timeout,
            pace,
            present: Mutex::default(),
            past: Mutex::default(),
        }))
    }

    /// A viewer begins, with the multivariant playlist or the MPD; one who brings his token goes on.
    pub fn begin(
        &self,
        protocol: Protocol,
        show: &Show,
        caller: &Caller,
    ) -> Result<Arc<Viewer>, Denied> {
        match caller.token {
            Some(_) => self.resume(protocol, show, caller),
            None => self.open(protocol, show, caller, None),
        }
    }

    /// The viewer who asks for something below the playlist.
    pub fn resume(
        &self,
        protocol: Protocol,
        show: &Show,
        caller: &Caller,
    ) -> Result<Arc<Viewer>, Denied> {
        let key = match &caller.token {
            Some(token) if is_token(token) => Key::Token(token.clone()),
            Some(_) => {
                return Err(Denied::Forbidden(
                    "this is not a viewer's token; open the film's playlist again",
                ));
            }
            None => Key::Anonymous {
                ip: caller.peer.ip(),
                agent: caller.agent.clone(),
                title: show.film.name.clone(),
                protocol,
                query: self.query_of(caller),
            },
        };
        let now = reelway_clock::now();
        let past = lock(&self.0.past)
            .get(&key)
            .filter(|past| now < past.until)
            .cloned();
        if let Some(why) = past.as_ref().and_then(|past| past.ended.as_deref()) {
            return Err(Denied::Gone(format!(
                "this viewer's session was ended{why}"
            )));
        }
        let protocol = past.as_ref().map_or(protocol, |past| past.protocol);
        // The addresses below the playlist do not say again who he is.
        let caller = Caller {
            query: past.and_then(|past| past.query).or(caller.query.clone()),
            ..caller.clone()
        };
        let present = lock(&self.0.present).get(&key).cloned();
        // One who was given up in this very moment comes anew.
        let present = present.filter(|viewer| !viewer.session.is_ended());
        let Some(viewer) = present else {
            return self.open(protocol, show, &caller, Some(key));
        };
        if !viewer.watches(show) {
            return Err(Denied::Forbidden(
                "this token belongs to a viewer of another film",
            ));
        }
        if !viewer.watches_version(show) {
            viewer.session.end(EndReason::Failed(
                "the film was replaced while it was watched".into(),
            ));
            return Err(Denied::Gone(
                "the film was replaced while it was watched; open it again".into(),
            ));
        }
        Ok(viewer)
    }

    /// A viewer asks for a piece, whose answer is under way until what this gives is dropped. They may be refused if they
    /// let their place go before they asked for the first one.
    pub fn asks(&self, viewer: &Arc<Viewer>, piece: &Piece) -> Result<Sending, Denied> {
        let sending = viewer.asks(piece);
        self.say_farewell();
        sending.map_err(Denied::Refused)
    }

    /// What is kept of the query that a caller began with: it says who he is, where users are known.
    fn query_of(&self, caller: &Caller) -> Option<String> {
        let knows_users = self.0.sessions.gate().config().users.are_known();
        let query = caller.query.clone().filter(|_| knows_users);
        query.filter(|query| query.len() <= LONGEST_QUERY)
    }

    /// Tells those who were sent away for others; nothing of this room may be locked.
    fn say_farewell(&self) {
        self.0.sessions.say_farewell();
    }

    fn open(
        &self,
        protocol: Protocol,
        show: &Show,
        caller: &Caller,
        key: Option<Key>,
    ) -> Result<Arc<Viewer>, Denied> {
        let opened = self.let_in(protocol, show, caller, key);
        self.say_farewell();
        opened
    }

    fn let_in(
        &self,
        protocol: Protocol,
        show: &Show,
        caller: &Caller,
        key: Option<Key>,
    ) -> Result<Arc<Viewer>, Denied> {
        let newcomer = NewSession {
            protocol,
            peer: caller.peer,
            connection: caller.connection,
            title: show.film.name.clone(),
            duration: Duration::from_nanos(show.package.duration().max(0) as u64),
            user_agent: caller.agent.clone(),
            query: caller.query.clone(),
            wants: self
                .0
                .sessions
                .gate()
                .demand(&show.film)
                .map(|demand| Wants {
                    tracks: match protocol {
                        // A file is all its tracks.
                        Protocol::File => (0..show.film.title.tracks.len()).collect(),
                        _ => Vec::new(),
                    },
                    demand,
                    carriage: Carriage::Http,
                }),
        };
        // The lock is held so that two requests of one newcomer do not make two of him.
        let mut present = lock(&self.0.present);
        let known = key.as_ref().and_then(|key| present.get(key));
        if let Some(viewer) = known.filter(|viewer| !viewer.session.is_ended()) {
            return Ok(viewer.clone());
        }
        let session = self.0.sessions.open(newcomer).map_err(Denied::Refused)?;
        let key = key.unwrap_or_else(|| Key::Token(session.token().to_owned()));
        let token = match &key {
            Key::Token(token) => token.clone(),
            Key::Anonymous { .. } => String::new(),
        };
        let watcher = self.0.store.watcher();
        let viewer = Viewer::new(
            session.clone(),
            token,
            self.0.pace,
            show,
            self.0.timeout,
            watcher,
        );
        let viewer = Arc::new(viewer);
        present.insert(key.clone(), viewer.clone());
        drop(present);
        let probed = Arc::downgrade(&viewer);
        session.set_probe(move || {
            probed
                .upgrade()
                .map(|viewer| viewer.progress())
                .unwrap_or_default()
        });
        let inner = Arc::downgrade(&self.0);
        let id = session.id().to_owned();
        let query = self.query_of(caller);
        session.on_end(move |reason| {
            if let Some(inner) = inner.upgrade() {
                inner.forget(&key, &id, (protocol, query), reason);
            }
        });
        Ok(viewer)
    }
}

impl Inner {
    fn forget(
        &self,
        key: &Key,
        id: &str,
        (protocol, query): (Protocol, Option<String>),
        reason: &EndReason,
    ) {
        let mut present = lock(&self.present);
        // He may have come anew meanwhile.
        if present
            .get(key)
            .is_some_and(|viewer| viewer.session.id() == id)
        {
            present.remove(key);
        }
        drop(present);
        let (ended, keep) = match (reason, key) {
            (EndReason::Failed(why), Key::Token(_)) => (Some(format!(": {why}")), REMEMBERED),
            (EndReason::Kicked, Key::Token(_)) => (Some(String::new()), REMEMBERED),
            (EndReason::Kicked, Key::Anonymous { .. }) => (Some(String::new()), KEPT_OUT),
            (EndReason::Slower, Key::Token(_)) => (Some(format!(": {reason}")), REMEMBERED),
            (EndReason::Expired | EndReason::MadeRoom, Key::Token(_)) => (None, REMEMBERED),
            _ => return,
        };
        let now = reelway_clock::now();
        let mut past = lock(&self.past);
        if past.len() >= MOST_REMEMBERED {
            past.retain(|_, past| now < past.until && past.ended.is_some());
        }
        if past.len() < MOST_REMEMBERED {
            past.insert(
                key.clone(),
                Past {
                    until: now + keep,
                    ended: ended.map(Arc::from),
                    protocol,
                    query,
                },
            );
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    supervise::whole(mutex.lock())
}

/// Whether this could be a token of ours.
fn is_token(text: &str) -> bool {
    text.len() == TOKEN_LENGTH
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}
