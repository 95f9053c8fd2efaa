//! All sessions of this server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_admission::{Bounds, Refusal};
use reelway_clock::Monotonic;
use reelway_supervise as supervise;
use reelway_time::Listening;

use crate::end_reason::EndReason;
use crate::gate::{Gate, GateConfig};
use crate::newcomer::NewSession;
use crate::register::Register;
use crate::session::{Session, end_for_others};
use crate::view::SessionView;

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
        let bounds = Bounds::default();
        Limits {
            sessions: bounds.sessions,
            per_address: bounds.per_address,
            unplayed_per_address: bounds.unplayed_per_address,
            unplayed_per_connection: bounds.unplayed_per_connection,
            idle: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// Those that newcomers are judged by.
    fn bounds(&self) -> Bounds {
        Bounds {
            sessions: self.sessions,
            per_address: self.per_address,
            unplayed_per_address: self.unplayed_per_address,
            unplayed_per_connection: self.unplayed_per_connection,
        }
    }
}

/// The register of all sessions; clones are the same register.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    register: Arc<Register<Session>>,
    idle: Duration,
    draining: AtomicBool,
    listening: Mutex<Listening>,
}

impl Sessions {
    /// An empty register that admits by count.
    pub fn new(limits: Limits) -> Self {
        Self::with_gate(limits, Gate::new(GateConfig::default()))
    }

    /// An empty register of sessions that this gate admits, as far as there are no more than these.
    pub fn with_gate(limits: Limits, gate: Gate) -> Self {
        gate.desk().set_bounds(limits.bounds());
        Sessions(Arc::new(Inner {
            register: Arc::new(Register::new(gate)),
            idle: limits.idle,
            draining: AtomicBool::new(false),
            listening: Mutex::default(),
        }))
    }

    /// Admits a newcomer, or says why not. Sessions that have not asked for media yet may end for it: they are off the
    /// register when this returns, and their protocols hear of it by [`Sessions::say_farewell`].
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
        let register = &self.0.register;
        let user = register.gate.user_of(&newcomer)?;
        let outcome = register.gate.reserve(&newcomer, user.as_deref());
        end_for_others(register, &outcome.ended);
        let reservation = outcome.answer?;
        // A stranger chose how long it is, and it is not needed any more.
        newcomer.query = None;
        let session = Session::new(register, (newcomer, user), &reservation, self.0.idle);
        register.enter(session.token(), reservation.id, session.clone());
        // From now on it may end for others, who find it in the register.
        let now = reelway_clock::now();
        if !register.gate.desk().confirm(now, reservation.id) {
            let why = "the place was lost while the session was made";
            session.end(EndReason::Failed(why.into()));
            return Err(Refusal {
                reason: why.into(),
                retry_after: Some(Duration::from_secs(1)),
            });
        }
        Ok(session)
    }

    /// Tells the protocols whose sessions ended for others. Called after [`Sessions::open`] and [`Session::plays`], by a
    /// caller that holds no lock of a protocol; and with each [`Sessions::tick`].
    pub fn say_farewell(&self) {
        self.0.register.say_farewell();
    }

    /// Sessions that have ended for others since the start, before they asked for media.
    pub fn made_room(&self) -> u64 {
        self.0.register.made_room()
    }

    /// The gate by which newcomers are admitted.
    pub fn gate(&self) -> &Gate {
        &self.0.register.gate
    }

    /// The session that this secret stands for.
    pub fn by_token(&self, token: &str) -> Option<Session> {
        self.0.register.by_token(token)
    }

    /// Ends the session with this public identifier; false where there is none.
    pub fn end(&self, id: &str, reason: EndReason) -> bool {
        let mut sessions = self.in_order().into_iter();
        let found = sessions.find(|session| session.id() == id);
        found.map(|session| session.end(reason)).is_some()
    }

    /// All sessions, the oldest first.
    pub fn list(&self) -> Vec<SessionView> {
        let mut views: Vec<_> = self.in_order().iter().map(Session::view).collect();
        views.sort_by(|a, b| a.started.cmp(&b.started).then_with(|| a.id.cmp(&b.id)));
        views
    }

    /// Handles on all sessions, the oldest first.
    pub fn in_order(&self) -> Vec<Session> {
        self.0.register.in_order()
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.0.register.len()
    }

    /// Whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that changes when a session comes or goes.
    pub fn changes(&self) -> u64 {
        self.0.register.changes()
    }

    /// Gives up silent viewers and takes rates; to be called about once a second. After a standstill of the server
    /// nobody is judged before what has come meanwhile is read, and the time does not count as silence. Returns for how long
    /// it stood still.
    pub fn tick(&self) -> Duration {
        self.tick_at(reelway_clock::now())
    }

    fn tick_at(&self, now: Monotonic) -> Duration {
        self.say_farewell();
        // One moment, which is replaced by another.
        let missed = supervise::whole(self.0.listening.lock()).missed(now);
        for session in self.in_order() {
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
        let register = &self.0.register;
        for session in register.by_bookings(&register.gate.weigh()) {
            session.end(EndReason::Slower);
        }
        missed
    }

    /// From now on no newcomer is admitted.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// Whether newcomers are refused because the server stops.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Ends every session.
    pub fn end_all(&self, reason: EndReason) {
        for session in self.in_order() {
            session.end(reason.clone());
        }
    }

    /// Ends the sessions of one title.
    pub fn end_title(&self, title: &str, reason: EndReason) {
        for session in self.in_order() {
            if session.title() == title {
                session.end(reason.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
