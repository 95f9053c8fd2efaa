//! All sessions of this server.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_admission::BookingId;
use reelway_clock::Monotonic;
use reelway_time::Listening;
use serde::{Serialize, Serializer};

use crate::gate::{Booked, Gate, GateConfig};
use crate::needs::Wants;
use crate::session::{EndReason, Ended, Session};
use crate::unplayed::{Claim, GRACE, Owner, Unplayed};
use crate::view::SessionView;
use reelway_supervise as supervise;

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
    /// The number of the connection that he came over ([`crate::new_connection`]).
    pub connection: u64,
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

/// Plain numbers that bound the register. Each is named after its key in the configuration.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most sessions at once.
    pub sessions: usize,
    /// Most sessions of one address (IPv6: /64) at once.
    pub per_address: usize,
    /// Most sessions of one address that have not asked for media yet.
    pub unplayed_per_address: usize,
    /// Most sessions of one connection that have not asked for media yet: over it the oldest of them ends.
    pub unplayed_per_connection: usize,
    /// Silence after which a viewer is given up, until its protocol says otherwise.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 10_000,
            per_address: 5_000,
            unplayed_per_address: 1_000,
            unplayed_per_connection: 16,
            idle: Duration::from_secs(60),
        }
    }
}

/// A bound of the register is reached.
fn full(words: String) -> Refusal {
    Refusal {
        reason: words,
        retry_after: Some(Duration::from_secs(30)),
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
    present: Mutex<Present>,
    /// The same sessions by their numbers: in the order in which they began. Locked after `present`.
    in_order: Mutex<BTreeMap<u64, Session>>,
    /// Locked after `present`.
    unplayed: Mutex<Unplayed<Session>>,
    /// Who was sent away, and nobody has heard of it yet.
    ended: Mutex<Vec<Ended>>,
    /// Sessions that were sent away before they asked for media.
    made_room: AtomicU64,
    listening: Mutex<Listening>,
}

/// Who is here.
#[derive(Default)]
struct Present {
    by_token: HashMap<String, Session>,
    by_home: HashMap<IpAddr, usize>,
}

impl Present {
    fn enter(&mut self, session: &Session) {
        *self.by_home.entry(session.owner().home).or_default() += 1;
        let token = session.token().to_owned();
        self.by_token.insert(token, session.clone());
    }

    fn leave(&mut self, session: &Session) {
        if self.by_token.remove(session.token()).is_none() {
            return;
        }
        let home = session.owner().home;
        if let Some(count) = self.by_home.get_mut(&home) {
            *count -= 1;
            if *count == 0 {
                self.by_home.remove(&home);
            }
        }
    }
}

/// Those who have not asked for media of whom is asked, at most, whether it would help a newcomer if they left.
const MOST_ASKED: usize = 256;

/// How often room is made for a newcomer, if others take it meanwhile.
const ROUNDS: usize = 8;

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
            in_order: Mutex::default(),
            present: Mutex::default(),
            unplayed: Mutex::default(),
            ended: Mutex::default(),
            made_room: AtomicU64::new(0),
            listening: Mutex::default(),
        }))
    }

    /// Takes in a newcomer, or says why not. Sessions that have not asked for media yet may be sent away for it: they are
    /// off the register when this returns, and their protocols hear of it by [`Sessions::say_farewell`].
    ///
    /// # Errors
    /// There is no room.
    pub fn open(&self, mut newcomer: NewSession) -> Result<Session, Refusal> {
        if self.is_draining() {
            return Err(Refusal {
                reason: "the server is stopping".into(),
                retry_after: Some(Duration::from_secs(10)),
            });
        }
        let owner = Owner::new(newcomer.peer.ip(), newcomer.connection);
        let registry = &self.0;
        let user = registry.gate.user_of(&newcomer)?;
        registry.keep_bounds(owner)?;
        registry.who_leaves(&registry.present(), owner)?;
        // Not under the lock: a film's curves may be made here.
        let (booked, wait) = registry.enter(&newcomer, user.as_deref(), owner)?;
        // A stranger chose how long it is, and it is not needed any more.
        newcomer.query = None;
        let mut present = registry.present();
        let mut leaving = Vec::new();
        let fits = loop {
            match registry.who_leaves(&present, owner) {
                Ok(None) => break Ok(()),
                Ok(Some(session)) => {
                    // It may ask for media in this very moment.
                    if registry.stand_up(&session) {
                        present.leave(&session);
                        leaving.push(session);
                    }
                }
                Err(refusal) => break Err(refusal),
            }
        };
        if let Err(refusal) = fits {
            drop(present);
            registry.say_later(leaving);
            if let Some(booked) = booked {
                registry.gate.leaves(booked.id);
            }
            return Err(refusal);
        }
        let now = reelway_clock::now();
        let started = reelway_clock::real().to_string();
        let session = Session::new(
            Arc::downgrade(registry),
            (newcomer, user),
            (booked, wait),
            registry.limits.idle,
            now,
            started,
        );
        registry.seat(&session);
        present.enter(&session);
        registry
            .in_order()
            .insert(session.number(), session.clone());
        drop(present);
        registry.changes.fetch_add(1, Ordering::Relaxed);
        registry.say_later(leaving);
        Ok(session)
    }

    /// Tells the protocols whose sessions were sent away for others. Called after [`Sessions::open`] and
    /// [`Session::plays`], by whoever holds no lock of a protocol's; and with each [`Sessions::tick`].
    pub fn say_farewell(&self) {
        let ended = std::mem::take(&mut *lock(&self.0.ended));
        ended.into_iter().for_each(Ended::finish);
    }

    /// Sessions that were sent away since the start, before they asked for media.
    pub fn made_room(&self) -> u64 {
        self.0.made_room.load(Ordering::Relaxed)
    }

    /// The gate that newcomers come through.
    pub fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// The session that this secret stands for.
    pub fn by_token(&self, token: &str) -> Option<Session> {
        self.0.present().by_token.get(token).cloned()
    }

    /// Ends the session with this public identifier; false where there is none.
    pub fn end(&self, id: &str, reason: EndReason) -> bool {
        let found = self
            .0
            .present()
            .by_token
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
        self.0.present().by_token.values().cloned().collect()
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.0.present().by_token.len()
    }

    /// Whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that changes when a session comes or goes.
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    /// Gives up silent viewers and takes rates; to be called about once a second. After a standstill of the server
    /// nobody is judged before what has come meanwhile is read, and the time does not count as silence. For how long it
    /// stood still.
    pub fn tick(&self) -> Duration {
        self.tick_at(reelway_clock::now())
    }

    fn tick_at(&self, now: Monotonic) -> Duration {
        self.say_farewell();
        let missed = lock(&self.0.listening).missed(now);
        for session in self.snapshot() {
            if !missed.is_zero() {
                session.excuse(missed, now);
            } else if session.is_expired(now) {
                session.end(EndReason::Expired);
            } else {
                session.tick(now);
            }
        }
        if !missed.is_zero() {
            let seconds = (missed.as_secs_f64() * 10.0).round() / 10.0;
            tracing::warn!("the server stood still for {seconds} s; timeouts are extended");
            return missed;
        }
        let too_many = self.0.gate.look_at_the_world();
        if too_many.is_empty() {
            return missed;
        }
        for session in self.snapshot() {
            if session.booking().is_some_and(|id| too_many.contains(&id)) {
                session.end(EndReason::Slower);
            }
        }
        missed
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
    fn present(&self) -> MutexGuard<'_, Present> {
        lock(&self.present)
    }

    pub(crate) fn unplayed(&self) -> MutexGuard<'_, Unplayed<Session>> {
        lock(&self.unplayed)
    }

    pub(crate) fn in_order(&self) -> MutexGuard<'_, BTreeMap<u64, Session>> {
        lock(&self.in_order)
    }

    pub(crate) fn remove(&self, session: &Session) {
        self.stand_up(session);
        self.present().leave(session);
        self.in_order().remove(&session.number());
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a session among those who have not asked for media.
    pub(crate) fn seat(&self, session: &Session) {
        let (owner, since) = (session.owner(), session.started());
        let (wait, of) = (session.starts_in(), session.clone());
        let mut unplayed = self.unplayed();
        session.sit(unplayed.enter(owner, since, wait, of));
    }

    /// Takes a session's place away, if it has not asked for media. Whether it had one.
    fn stand_up(&self, session: &Session) -> bool {
        let Some(seat) = session.stand_up() else {
            return false;
        };
        let now = reelway_clock::now();
        self.unplayed().leave(seat, now, true).is_some()
    }

    /// Keeps what an address and a connection may have of sessions that never asked for media.
    fn keep_bounds(&self, owner: Owner) -> Result<(), Refusal> {
        let most = self.limits.unplayed_per_address;
        for _ in 0..ROUNDS {
            let unplayed = self.unplayed();
            let (of_home, of_connection) = unplayed.of(owner);
            let goes = if of_connection >= self.limits.unplayed_per_connection {
                unplayed.oldest_of(owner)
            } else if of_home >= most {
                unplayed.of_home(owner, reelway_clock::now())
            } else {
                return Ok(());
            };
            drop(unplayed);
            let Some(goes) = goes else { break };
            self.send_away(vec![goes]);
        }
        Err(full(format!(
            "{most} sessions of {} have not played yet, as many as `sessions.unplayed_per_address` allows",
            owner.home
        )))
    }

    /// Who has to leave the register for a newcomer; `None` if there is room.
    fn who_leaves(&self, present: &Present, owner: Owner) -> Result<Option<Session>, Refusal> {
        let (limits, now) = (&self.limits, reelway_clock::now());
        let of_home = present.by_home.get(&owner.home).copied().unwrap_or(0);
        if of_home >= limits.per_address {
            let leaves = self.unplayed().of_home(owner, now);
            return leaves.map(Some).ok_or_else(|| {
                full(format!(
                    "there are {of_home} sessions of {}, and `sessions.per_address` is {}",
                    owner.home, limits.per_address
                ))
            });
        }
        let all = present.by_token.len();
        if all < limits.sessions {
            return Ok(None);
        }
        let unplayed = self.unplayed();
        let mut leaves = unplayed.candidates(owner, now, Claim::Newcomer, 1, |_| true);
        leaves.pop().map(Some).ok_or_else(|| {
            full(format!(
                "there are {all} sessions, and `sessions.max` is {}",
                limits.sessions
            ))
        })
    }

    /// Lets a newcomer through the gate. Sessions that have not asked for media leave for it, if that helps.
    fn enter(
        &self,
        newcomer: &NewSession,
        user: Option<&str>,
        owner: Owner,
    ) -> Result<(Option<Booked>, Duration), Refusal> {
        for _ in 0..ROUNDS {
            let go = self.who_of(owner, None, Claim::Newcomer, |candidates| {
                self.gate.who_must_go(newcomer, user, candidates)
            });
            if go.is_empty() {
                break;
            }
            self.send_away(go);
        }
        self.gate.enter(newcomer, user).map_err(|refusal| {
            // Those who hold the room may play in a moment, or be the first to go in another.
            let held = self.who_of(owner, None, Claim::Player, |candidates| {
                self.gate.who_must_go(newcomer, user, candidates)
            });
            match held.is_empty() {
                true => refusal,
                false => Refusal {
                    retry_after: refusal.retry_after.map(|after| after.min(GRACE)),
                    ..refusal
                },
            }
        })
    }

    /// Which sessions that have not asked for media have to leave for `session`, as `judge` says.
    pub(crate) fn who_must_go(
        &self,
        session: &Session,
        claim: Claim,
        judge: impl FnOnce(&[BookingId]) -> Vec<BookingId>,
    ) -> Vec<Session> {
        self.who_of(session.owner(), session.booking(), claim, judge)
    }

    fn who_of(
        &self,
        owner: Owner,
        own: Option<BookingId>,
        claim: Claim,
        judge: impl FnOnce(&[BookingId]) -> Vec<BookingId>,
    ) -> Vec<Session> {
        let unplayed = self.unplayed();
        if unplayed.is_empty() {
            return Vec::new();
        }
        let wanted = |session: &Session| session.booking().is_some() && session.booking() != own;
        let now = reelway_clock::now();
        let mut candidates = unplayed.candidates(owner, now, claim, MOST_ASKED, wanted);
        drop(unplayed);
        let ids: Vec<BookingId> = candidates.iter().filter_map(Session::booking).collect();
        let go = judge(&ids);
        candidates.retain(|session| session.booking().is_some_and(|id| go.contains(&id)));
        candidates
    }

    /// Ends sessions that have not asked for media, unless they do so in this moment.
    pub(crate) fn send_away(&self, sessions: Vec<Session>) {
        let go = sessions
            .into_iter()
            .filter(|session| self.stand_up(session));
        self.say_later(go.collect());
    }

    /// Ends sessions that have lost their places; their protocols hear of it later.
    fn say_later(&self, sessions: Vec<Session>) {
        for session in sessions {
            if let Some(ended) = session.end_quietly(EndReason::MadeRoom) {
                self.made_room.fetch_add(1, Ordering::Relaxed);
                lock(&self.ended).push(ended);
            }
        }
    }
}

/// Enters a list of sessions, who come and go one at a time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    supervise::whole(mutex.lock())
}

#[cfg(test)]
mod tests;
