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

/// Limits of the register. Each is named after its configuration key.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of sessions.
    pub sessions: usize,
    /// Maximum number of sessions per address (IPv6: per /64).
    pub per_address: usize,
    /// Maximum number of sessions per address that have not requested media yet.
    pub unplayed_per_address: usize,
    /// Maximum number of sessions per connection that have not requested media yet: beyond it, the
    /// oldest of them ends.
    pub unplayed_per_connection: usize,
    /// Silence after which a viewer is given up, unless their protocol sets another limit.
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
    /// The limits that newcomers are judged by.
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
    /// Creates an empty register that admits by the number of sessions alone.
    pub fn new(limits: Limits) -> Self {
        Self::with_gate(limits, Gate::new(GateConfig::default()))
    }

    /// Creates an empty register of sessions admitted by this gate, up to these limits.
    pub fn with_gate(limits: Limits, gate: Gate) -> Self {
        gate.desk().set_bounds(limits.bounds());
        Sessions(Arc::new(Inner {
            register: Arc::new(Register::new(gate)),
            idle: limits.idle,
            draining: AtomicBool::new(false),
            listening: Mutex::default(),
        }))
    }

    /// Admits a newcomer, or returns why not. Sessions that have not requested media yet may be
    /// ended for it: they have left the register when this returns, and [`Sessions::run_farewells`]
    /// notifies their protocols.
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
        // Its length was chosen by a stranger, and it is not needed any more.
        newcomer.query = None;
        let session = Session::new(register, (newcomer, user), &reservation, self.0.idle);
        register.enter(session.token(), reservation.id, session.clone());
        // From now on the session may be ended for others, which look it up in the register.
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

    /// Notifies the protocols whose sessions were ended for others. Called after [`Sessions::open`]
    /// and [`Session::plays`] by callers that hold no lock of a protocol, and with each
    /// [`Sessions::tick`].
    pub fn run_farewells(&self) {
        self.0.register.run_farewells();
    }

    /// Returns the number of sessions ended for others since the start, before they requested
    /// media.
    pub fn made_room(&self) -> u64 {
        self.0.register.made_room()
    }

    /// Returns the gate that admits newcomers.
    pub fn gate(&self) -> &Gate {
        &self.0.register.gate
    }

    /// Returns the session with this secret.
    pub fn by_token(&self, token: &str) -> Option<Session> {
        self.0.register.by_token(token)
    }

    /// Ends the session with this public identifier; returns false if there is none.
    pub fn end(&self, id: &str, reason: EndReason) -> bool {
        let mut sessions = self.in_order().into_iter();
        let found = sessions.find(|session| session.id() == id);
        found.map(|session| session.end(reason)).is_some()
    }

    /// Returns views of all sessions, oldest first.
    pub fn list(&self) -> Vec<SessionView> {
        let mut views: Vec<_> = self.in_order().iter().map(Session::view).collect();
        views.sort_by(|a, b| a.started.cmp(&b.started).then_with(|| a.id.cmp(&b.id)));
        views
    }

    /// Returns handles on all sessions, oldest first.
    pub fn in_order(&self) -> Vec<Session> {
        self.0.register.in_order()
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.0.register.len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a number that changes when a session begins or ends.
    pub fn changes(&self) -> u64 {
        self.0.register.changes()
    }

    /// Ends silent viewers' sessions and measures rates; to be called about once a second. After a
    /// standstill of the server no viewer is judged before the input that arrived meanwhile has
    /// been read, and the standstill does not count as silence. Returns the length of the
    /// standstill.
    pub fn tick(&self) -> Duration {
        self.tick_at(reelway_clock::now())
    }

    fn tick_at(&self, now: Monotonic) -> Duration {
        self.run_farewells();
        // A single value that is replaced in one step.
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

    /// Stops admitting newcomers.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// Whether newcomers are refused because the server is stopping.
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
