//! A viewer's session.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use reelway_admission::{Activity, BookingId, Refusal, Reservation};
use reelway_clock::Monotonic;
use reelway_demand::{Carriage, Demand, Schedule};
use reelway_media::Nanos;
use reelway_supervise as supervise;
use reelway_time::excused;
use tracing::{debug, info};

use crate::end_reason::EndReason;
use crate::identity::{new_token, public_id};
use crate::newcomer::NewSession;
use crate::protocol::Protocol;
use crate::register::Register;
use crate::view::{Moment, Progress, SessionView, State};

type Probe = Box<dyn Fn() -> Progress + Send + Sync>;
type OnEnd = Box<dyn FnOnce(&EndReason) + Send>;

/// A handle on one viewer's session; clones refer to the same one. It ends by [`Session::end`] or
/// by the register (expiry, operator, shutdown), never by being dropped: HTTP viewers live between
/// requests.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    register: Weak<Register<Session>>,
    booking: BookingId,
    id: String,
    token: String,
    viewer: NewSession,
    user: Option<String>,
    started: Monotonic,
    started_text: String,
    /// Time of the last sign of life, in nanoseconds.
    alive: AtomicU64,
    /// Nanoseconds without a sign of life after which the viewer is given up; `u64::MAX`: never.
    idle_limit: AtomicU64,
    /// Total standstill of the server since the session began, in nanoseconds.
    missed: AtomicU64,
    ended: AtomicBool,
    live: Mutex<Live>,
    /// How long the viewer waits for their film to begin.
    wait: Duration,
}

/// An ended session that has not been reported yet.
pub(crate) struct Ended {
    session: Session,
    reason: EndReason,
    on_end: Option<OnEnd>,
    progress: Progress,
}

impl Ended {
    /// Notifies the protocol and writes the log line.
    pub fn finish(mut self) {
        self.call();
        self.report();
    }

    fn call(&mut self) {
        if let Some(act) = self.on_end.take() {
            act(&self.reason);
        }
    }

    fn report(self) {
        self.session.log_end(&self.reason, &self.progress);
        // The probe may hold the stream or the connection; drop them now, not with the last handle.
        let probe = self.session.live().probe.take();
        drop(probe);
    }
}

/// The changing part of a session.
#[derive(Default)]
struct Live {
    probe: Option<Probe>,
    on_end: Option<OnEnd>,
    /// Time and byte count at the last tick.
    at_tick: Option<(Monotonic, u64)>,
    rate: u64,
}

impl Session {
    pub(crate) fn new(
        register: &Arc<Register<Session>>,
        (viewer, user): (NewSession, Option<String>),
        reservation: &Reservation,
        idle: Duration,
    ) -> Self {
        let (now, wait) = (reelway_clock::now(), reservation.starts_in);
        Session(Arc::new(Inner {
            register: Arc::downgrade(register),
            booking: reservation.id,
            id: public_id(),
            token: new_token(),
            viewer,
            user,
            started: now,
            started_text: reelway_clock::real().to_string(),
            alive: AtomicU64::new(now.nanos()),
            idle_limit: AtomicU64::new(nanos(idle.saturating_add(wait))),
            missed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            live: Mutex::default(),
            wait,
        }))
    }

    /// Returns the public identifier: eight characters, shown to people.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the session's number; a register numbers its sessions in the order in which they
    /// began.
    pub fn number(&self) -> u64 {
        self.0.booking.number()
    }

    /// Returns the secret identifier: its holder counts as this viewer.
    pub fn token(&self) -> &str {
        &self.0.token
    }

    /// Returns the title being watched.
    pub fn title(&self) -> &str {
        &self.0.viewer.title
    }

    /// Returns the film's length.
    pub fn duration(&self) -> Duration {
        self.0.viewer.duration
    }

    /// Returns the viewer's address at the beginning of the session.
    pub fn peer(&self) -> SocketAddr {
        self.0.viewer.peer
    }

    /// Returns how the film is delivered.
    pub fn protocol(&self) -> Protocol {
        self.0.viewer.protocol
    }

    /// Returns how long the viewer waits before their film begins: 0, unless there was no room when
    /// they arrived and they were admitted with a delay.
    pub fn starts_in(&self) -> Duration {
        self.0.wait
    }

    /// Sets which tracks the viewer really takes, and how; to be called before [`Session::plays`].
    pub fn takes(&self, tracks: Vec<usize>, carriage: Carriage) {
        if let Some(register) = self.register() {
            let mut desk = register.gate.desk();
            desk.takes(self.0.booking, tracks, carriage);
        }
    }

    /// Records that the viewer's film is a recording that has grown and now needs `demand`: it is
    /// booked from their current position.
    pub fn grows(&self, demand: Arc<Demand>) {
        let Some(register) = self.register() else {
            return;
        };
        let booking = self.0.booking;
        register.gate.desk().grows(booking, demand);
        let progress = self.live().progress();
        if progress.state == State::Playing {
            let from = (progress.position.unwrap_or(0.0) * 1e9) as Nanos;
            // Viewers may always continue, and these do; a viewer who never began may not.
            let outcome = register.gate.plays(booking, (from, Nanos::MAX), false);
            end_for_others(&register, &outcome.ended);
        }
    }

    /// Records that the viewer plays the film times `from..to` from now on, instead of what they
    /// played before. Returns the schedule to send by, if it is not the film's own timing.
    ///
    /// An admitted viewer may always continue, unless the configuration makes them ask again and
    /// `may_refuse` allows a refusal here. A viewer who has not played yet is judged in any case if
    /// nothing is booked for them, or if they begin elsewhere or take other tracks than was judged.
    ///
    /// # Errors
    /// There is no room for the viewer.
    pub fn plays(
        &self,
        from: Nanos,
        to: Nanos,
        may_refuse: bool,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        let Some(register) = self.register() else {
            return Ok(None);
        };
        let outcome = register.gate.plays(self.0.booking, (from, to), may_refuse);
        end_for_others(&register, &outcome.ended);
        outcome.answer
    }

    /// Records that the viewer requests media: from now on the session is not ended to admit
    /// others. Returns false if it has ended, or is about to end for another viewer.
    pub fn begins(&self) -> bool {
        let now = reelway_clock::now();
        let begins =
            |register: Arc<Register<Session>>| register.gate.desk().begins(now, self.0.booking);
        self.register().is_none_or(begins) && !self.is_ended()
    }

    /// Records that the requested media could not be provided: the viewer waits again.
    pub fn waits_again(&self) {
        if let Some(register) = self.register() {
            register.gate.desk().waits_again(self.0.booking);
        }
    }

    /// Records that the viewer is not playing at the moment, and frees their booking.
    pub fn rests(&self) {
        if let Some(register) = self.register() {
            let now = reelway_clock::now();
            register.gate.desk().rests(now, self.0.booking);
        }
    }

    /// Frees the booking of a viewer who is not playing, and books for one who is.
    fn keep_books(&self, register: &Register<Session>, progress: &Progress) {
        if !register.gate.books() {
            return;
        }
        let activity = match progress.state {
            State::Ready => Activity::Ready,
            State::Playing => Activity::Playing,
            State::Paused => Activity::Paused,
        };
        let (now, booking) = (reelway_clock::now(), self.0.booking);
        let mut desk = register.gate.desk();
        let is_due = desk.keep_books(now, booking, activity, self.missed());
        drop(desk);
        if is_due {
            let from = (progress.position.unwrap_or(0.0) * 1e9) as Nanos;
            // Viewers may always continue, and these do; a viewer who never began may not.
            let outcome = register.gate.plays(booking, (from, Nanos::MAX), false);
            end_for_others(register, &outcome.ended);
        }
    }

    fn register(&self) -> Option<Arc<Register<Session>>> {
        self.0.register.upgrade()
    }

    /// Records a sign of life.
    pub fn touch(&self) {
        self.0
            .alive
            .store(reelway_clock::now().nanos(), Ordering::Relaxed);
    }

    /// Returns how long the viewer has been silent, not counting standstills of the server.
    pub fn silence(&self) -> Duration {
        let alive = Monotonic::from_nanos(self.0.alive.load(Ordering::Relaxed));
        reelway_clock::now().since(alive)
    }

    /// Excuses a standstill of the server of length `missed` that ends at `now`: it does not count
    /// as silence of the viewer.
    pub(crate) fn excuse(&self, missed: Duration, now: Monotonic) {
        self.0.missed.fetch_add(nanos(missed), Ordering::Relaxed);
        let later = |alive| Some(excused(Monotonic::from_nanos(alive), missed, now).nanos());
        let alive = &self.0.alive;
        let _ = alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    fn missed(&self) -> Duration {
        Duration::from_nanos(self.0.missed.load(Ordering::Relaxed))
    }

    /// Sets how long the viewer may be silent (longer while paused, for example); `Duration::MAX`:
    /// for ever.
    pub fn set_idle_limit(&self, limit: Duration) {
        self.0.idle_limit.store(nanos(limit), Ordering::Relaxed);
    }

    /// Sets the source of [`Progress`], called about once a second and for every view. It must not
    /// block.
    pub fn set_probe(&self, probe: impl Fn() -> Progress + Send + Sync + 'static) {
        self.live().probe = Some(Box::new(probe));
    }

    /// Sets what to do when others end the session. It is called once, on any thread, without
    /// holding a lock, and immediately if the session has already ended.
    pub fn on_end(&self, act: impl FnOnce(&EndReason) + Send + 'static) {
        let mut live = self.live();
        if self.is_ended() {
            drop(live);
            act(&EndReason::Left);
        } else {
            live.on_end = Some(Box::new(act));
        }
    }

    /// Whether the session has ended.
    pub fn is_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }

    /// Ends the session: calls what [`Session::on_end`] was given, removes the session from the
    /// register and writes its log line. A second call does nothing.
    pub fn end(&self, reason: EndReason) {
        if let Some(mut ended) = self.close(reason) {
            ended.call();
            self.leave();
            ended.report();
        }
    }

    /// Ends the session without notifying anybody before [`Ended::finish`]: for callers that hold a
    /// protocol's locks.
    pub(crate) fn end_quietly(&self, reason: EndReason) -> Option<Ended> {
        let ended = self.close(reason)?;
        self.leave();
        Some(ended)
    }

    fn close(&self, reason: EndReason) -> Option<Ended> {
        let mut live = self.live();
        if self.0.ended.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(Ended {
            session: self.clone(),
            reason,
            on_end: live.on_end.take(),
            progress: live.progress(),
        })
    }

    /// Removes the session from the register and the desk.
    fn leave(&self) {
        if let Some(register) = self.register() {
            register.leave(&self.0.token, self.0.booking);
            let now = reelway_clock::now();
            register.gate.desk().end(now, self.0.booking);
        }
    }

    /// Writes the session's log line. Values that its protocol cannot know are left out.
    fn log_end(&self, reason: &EndReason, progress: &Progress) {
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        let seconds = reelway_clock::now().since(self.0.started).as_secs_f64();
        if *reason == EndReason::MadeRoom {
            // There may be thousands of these per second; the register summarises them in one line.
            debug!(session = self.id(), peer = %self.0.viewer.peer, "session ended: {reason}");
            return;
        }
        info!(
            session = self.id(),
            protocol = %self.protocol(),
            peer = %self.0.viewer.peer,
            title = self.title(),
            user = self.0.user,
            user_agent = self.0.viewer.user_agent.as_deref().unwrap_or("-"),
            seconds = tenths(seconds),
            position = progress.position.map(tenths),
            bytes = progress.bytes,
            packets = progress.packets,
            lost = progress.lost,
            jitter_ms = progress.jitter_ms.map(tenths),
            late_max_ms = progress.late_max_ms.map(tenths),
            dropped_frames = progress.dropped_frames.filter(|dropped| *dropped > 0),
            "session ended: {reason}"
        );
    }

    /// Whether the viewer has been silent for longer than allowed.
    pub(crate) fn is_expired(&self, now: Monotonic) -> bool {
        let limit = self.0.idle_limit.load(Ordering::Relaxed);
        let silent = now
            .nanos()
            .saturating_sub(self.0.alive.load(Ordering::Relaxed));
        silent > limit
    }

    /// Measures the rate since the last tick.
    pub(crate) fn tick(&self, now: Monotonic) {
        let progress = self.live().progress();
        if let Some(register) = self.register() {
            self.keep_books(&register, &progress);
        }
        let mut live = self.live();
        let bytes = progress.bytes;
        if let Some((then, before)) = live.at_tick {
            let seconds = now.since(then).as_secs_f64();
            if seconds < 0.5 {
                return;
            }
            live.rate = (bytes.saturating_sub(before) as f64 * 8.0 / seconds) as u64;
        }
        live.at_tick = Some((now, bytes));
    }

    /// Returns the session as it is to be shown.
    pub fn view(&self) -> SessionView {
        self.view_at(&self.moment())
    }

    /// Returns the changing part of what [`Session::view`] shows, without its texts.
    pub fn moment(&self) -> Moment {
        let live = self.live();
        let progress = live.progress();
        Moment {
            protocol: self.0.viewer.protocol,
            rate: match progress.state {
                State::Playing => live.rate,
                State::Ready | State::Paused => 0,
            },
            progress,
        }
    }

    /// Returns the session as it is to be shown with the values of a moment.
    pub fn view_at(&self, moment: &Moment) -> SessionView {
        let (viewer, progress) = (&self.0.viewer, &moment.progress);
        SessionView {
            id: self.0.id.clone(),
            protocol: moment.protocol,
            peer: viewer.peer.to_string(),
            user: self.0.user.clone(),
            user_agent: viewer.user_agent.clone(),
            title: viewer.title.clone(),
            state: progress.state,
            position: progress.position,
            duration: viewer.duration.as_secs_f64(),
            started: self.0.started_text.clone(),
            rate: moment.rate,
            bytes: progress.bytes,
            packets: progress.packets,
            lost: progress.lost,
            jitter_ms: progress.jitter_ms,
            late_p99_ms: progress.late_p99_ms,
            late_max_ms: progress.late_max_ms,
        }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        // Only single values for display.
        supervise::whole(self.0.live.lock())
    }
}

/// Ends sessions that have not requested media, so that others can be admitted; the desk has
/// already removed them. Their protocols are notified later.
pub(crate) fn end_for_others(register: &Register<Session>, bookings: &[BookingId]) {
    for session in register.by_bookings(bookings) {
        if let Some(ended) = session.end_quietly(EndReason::MadeRoom) {
            register.makes_room(Box::new(move || ended.finish()));
        }
    }
}

impl Live {
    fn progress(&self) -> Progress {
        self.probe.as_ref().map(|probe| probe()).unwrap_or_default()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the token: debug output ends up in logs.
        f.debug_struct("Session")
            .field("id", &self.0.id)
            .field("title", &self.0.viewer.title)
            .finish_non_exhaustive()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
