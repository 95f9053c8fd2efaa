//! One viewer.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use reelway_admission::BookingId;
use reelway_clock::Monotonic;
use reelway_media::Nanos;
use reelway_supervise as supervise;
use reelway_time::excused;
use reelway_timetable::{Carriage, Schedule};
use tracing::{debug, info};

use crate::gate::Booked;
use crate::registry::{NewSession, Protocol, Refusal, Registry};
use crate::unplayed::{Claim, Owner, Seat};
use crate::view::{Moment, Progress, SessionView, State};

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The viewer said goodbye (TEARDOWN, RTCP BYE).
    Left,
    /// The viewer's connection closed.
    Disconnected,
    /// No sign of life within the limit.
    Expired,
    /// Somebody ended it through the API.
    Kicked,
    /// The server is stopping.
    Shutdown,
    /// It had not asked for media, and others needed the room.
    MadeRoom,
    /// The network or the disks carry less than they did.
    Slower,
    /// It could not go on; in words.
    Failed(String),
}

impl EndReason {
    /// What the viewer is told, where it is not his own doing.
    pub fn told(&self) -> Option<String> {
        match self {
            EndReason::Left | EndReason::Disconnected | EndReason::Expired => None,
            EndReason::Failed(why) => Some(why.clone()),
            EndReason::Kicked | EndReason::Shutdown | EndReason::MadeRoom | EndReason::Slower => {
                Some(self.to_string())
            }
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::Left => f.write_str("left"),
            EndReason::Disconnected => f.write_str("connection closed"),
            EndReason::Expired => f.write_str("no sign of life"),
            EndReason::Kicked => f.write_str("ended by the operator"),
            EndReason::Shutdown => f.write_str("server stopping"),
            EndReason::MadeRoom => f.write_str("not played yet, and others needed the room"),
            EndReason::Slower => {
                f.write_str("newest sessions make room, as the network or the disks became slower")
            }
            EndReason::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

type Probe = Box<dyn Fn() -> Progress + Send + Sync>;
type OnEnd = Box<dyn FnOnce(&EndReason) + Send>;

/// A handle on one viewer; clones are the same viewer. Ends by [`Session::end`], by the registry
/// (expiry, operator, shutdown), never by being dropped: HTTP viewers live between requests.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    registry: Weak<Registry>,
    number: u64,
    id: String,
    token: String,
    viewer: NewSession,
    user: Option<String>,
    owner: Owner,
    started: Monotonic,
    started_text: String,
    /// Nanoseconds of the last sign of life.
    alive: AtomicU64,
    /// Nanoseconds without a sign of life after which the viewer is given up; `u64::MAX`: never.
    idle_limit: AtomicU64,
    /// Time since the beginning for which the server stood still, in nanoseconds.
    missed: AtomicU64,
    ended: AtomicBool,
    /// The place among those who have not asked for media; 0: media was asked for.
    seat: AtomicU64,
    live: Mutex<Live>,
    /// What is booked for him.
    booked: Mutex<Option<Booked>>,
    booking: Option<BookingId>,
    /// How long he waits for his beginning.
    wait: Duration,
}

/// The next session's number.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// How long a place is kept for one who was let in and does not begin.
const KEPT: Duration = Duration::from_secs(10);

/// How often room is made for one who asks for media, if others take it meanwhile.
const ROUNDS: usize = 8;

/// A session that has ended, of which nobody has heard yet.
pub(crate) struct Ended {
    session: Session,
    reason: EndReason,
    on_end: Option<OnEnd>,
    progress: Progress,
}

impl Ended {
    /// Tells the protocol and the log.
    pub fn finish(mut self) {
        self.call();
        self.tell();
    }

    fn call(&mut self) {
        if let Some(act) = self.on_end.take() {
            act(&self.reason);
        }
    }

    fn tell(self) {
        self.session.tell_story(&self.reason, &self.progress);
        // The probe may hold the stream or the connection; they go now, not with the last handle.
        let probe = self.session.live().probe.take();
        drop(probe);
    }
}

/// What changes while the session lives.
#[derive(Default)]
struct Live {
    probe: Option<Probe>,
    on_end: Option<OnEnd>,
    protocol: Option<Protocol>,
    /// What the probe said at the last tick.
    at_tick: Option<(Monotonic, u64)>,
    rate: u64,
}

impl Session {
    pub(crate) fn new(
        registry: Weak<Registry>,
        (viewer, user): (NewSession, Option<String>),
        (booked, wait): (Option<Booked>, Duration),
        idle: Duration,
        now: Monotonic,
        started: String,
    ) -> Self {
        let owner = Owner::new(viewer.peer.ip(), viewer.connection);
        Session(Arc::new(Inner {
            registry,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            id: crate::identity::public_id(),
            token: crate::identity::new_token(),
            viewer,
            user,
            owner,
            started: now,
            started_text: started,
            alive: AtomicU64::new(now.nanos()),
            idle_limit: AtomicU64::new(nanos(idle.saturating_add(wait))),
            missed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            seat: AtomicU64::new(0),
            live: Mutex::default(),
            booking: booked.as_ref().map(|booked| booked.id),
            booked: Mutex::new(booked),
            wait,
        }))
    }

    /// Public identifier: eight characters, shown to people.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Numbers the sessions of this process in the order in which they began.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Secret identifier: who knows it is this viewer.
    pub fn token(&self) -> &str {
        &self.0.token
    }

    /// Title being watched.
    pub fn title(&self) -> &str {
        &self.0.viewer.title
    }

    /// The film's length.
    pub fn duration(&self) -> Duration {
        self.0.viewer.duration
    }

    /// The viewer's address as it was when the session began.
    pub fn peer(&self) -> SocketAddr {
        self.0.viewer.peer
    }

    /// How the film is delivered.
    pub fn protocol(&self) -> Protocol {
        self.live().protocol.unwrap_or(self.0.viewer.protocol)
    }

    /// Corrects the protocol once the viewer has chosen (RTSP over UDP or TCP).
    pub fn set_protocol(&self, protocol: Protocol) {
        self.live().protocol = Some(protocol);
    }

    /// How long the viewer is to wait before his film begins: 0, unless he came when there was no room and is
    /// let in a little later.
    pub fn starts_in(&self) -> Duration {
        self.0.wait
    }

    /// Which tracks he really takes, and how; before [`Session::plays`].
    pub fn takes(&self, tracks: Vec<usize>, carriage: Carriage) {
        if let Some(booked) = &mut *self.booked() {
            booked.takes(tracks, carriage);
        }
    }

    /// He plays the film times `from..to` from now on, instead of what he did before. The schedule to send by, where
    /// it is not the film's own time.
    ///
    /// A viewer who was let in may always go on, unless the configuration wants him to ask again, or he let his place
    /// go before he ever began; then `may_refuse` must say that he can be refused here.
    ///
    /// # Errors
    /// There is no room for him.
    pub fn plays(
        &self,
        from: Nanos,
        to: Nanos,
        may_refuse: bool,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        let Some(registry) = self.0.registry.upgrade() else {
            return Ok(None);
        };
        let play = || {
            let mut booked = self.booked();
            let Some(booked) = booked.as_mut() else {
                return (Ok(None), Vec::new());
            };
            let (range, is_new) = ((from, to), !booked.played);
            let played = registry.gate.plays(booked, range, may_refuse);
            let go = match (&played, is_new) {
                // Others may hold the room who have not asked for media.
                (Err(_), true) => registry.who_must_go(self, Claim::Player, |candidates| {
                    registry.gate.who_must_go_for(booked, range, candidates)
                }),
                _ => Vec::new(),
            };
            (played, go)
        };
        for _ in 0..ROUNDS {
            let (played, go) = play();
            if go.is_empty() {
                return played;
            }
            registry.send_away(go);
        }
        play().0
    }

    /// The viewer asks for media. From now on the session is not among the first to go when room is short. False if it
    /// has ended, or is being sent away for somebody else.
    pub fn begins(&self) -> bool {
        let seat = self.0.seat.swap(0, Ordering::AcqRel);
        if let Some(registry) = self.0.registry.upgrade().filter(|_| seat != 0) {
            let place = registry.unplayed().leave(seat, reelway_clock::now(), false);
            if place.is_none() {
                return false;
            }
        }
        !self.is_ended()
    }

    /// Media that was asked for could not be had: the session waits again.
    pub fn waits_again(&self) {
        if let Some(registry) = self.0.registry.upgrade() {
            registry.seat(self);
        }
        if self.is_ended() {
            self.begins();
        }
    }

    /// Whose it is.
    pub(crate) fn owner(&self) -> Owner {
        self.0.owner
    }

    /// When it began.
    pub(crate) fn started(&self) -> Monotonic {
        self.0.started
    }

    /// Takes its place among those who have not asked for media.
    pub(crate) fn sit(&self, seat: Seat) {
        self.0.seat.store(seat, Ordering::Release);
    }

    /// The place among those who have not asked for media, which it has no more.
    pub(crate) fn stand_up(&self) -> Option<Seat> {
        Some(self.0.seat.swap(0, Ordering::AcqRel)).filter(|seat| *seat != 0)
    }

    /// Whether room is kept for him, or none is needed.
    pub fn holds_place(&self) -> bool {
        let (booked, registry) = (self.booked(), self.0.registry.upgrade());
        let (Some(booked), Some(registry)) = (booked.as_ref(), registry) else {
            return true;
        };
        !registry.gate.keeps(booked) || registry.gate.booked_for(booked).is_some()
    }

    /// He does not play at the moment: what was booked for him is free.
    pub fn rests(&self) {
        if let (Some(booked), Some(registry)) = (self.booked().as_ref(), self.0.registry.upgrade())
        {
            registry.gate.rests(booked);
        }
    }

    /// Gives back what is booked for one who does not play, and books for one who does.
    fn keep_books(&self, registry: &Registry, progress: &Progress) {
        let mut booked = self.booked();
        let Some(booked) = booked.as_mut().filter(|booked| registry.gate.keeps(booked)) else {
            return;
        };
        let idle = registry.gate.booked_for(booked);
        match (progress.state, idle) {
            (State::Paused, Some(_)) => registry.gate.rests(booked),
            (State::Ready, Some(idle))
                if idle > KEPT.saturating_add(self.0.wait) + self.missed() =>
            {
                registry.gate.rests(booked);
            }
            (State::Playing, None) => {
                let from = progress.position.unwrap_or(0.0) * 1e9;
                // He may always go on, and does.
                let _ = registry
                    .gate
                    .plays(booked, (from as Nanos, Nanos::MAX), false);
            }
            _ => {}
        }
    }

    /// The booking, where there was one at the beginning.
    pub(crate) fn booking(&self) -> Option<BookingId> {
        self.0.booking
    }

    fn booked(&self) -> MutexGuard<'_, Option<Booked>> {
        // One value; the bookings themselves have a lock of their own.
        supervise::whole(self.0.booked.lock())
    }

    /// A sign of life.
    pub fn touch(&self) {
        self.0
            .alive
            .store(reelway_clock::now().nanos(), Ordering::Relaxed);
    }

    /// How long the viewer has been silent, standstills of the server not counted.
    pub fn silence(&self) -> Duration {
        let alive = Monotonic::from_nanos(self.0.alive.load(Ordering::Relaxed));
        reelway_clock::now().since(alive)
    }

    /// The server listened to nobody for `missed`, up to `now`: that was no silence of the viewer's.
    pub(crate) fn excuse(&self, missed: Duration, now: Monotonic) {
        self.0.missed.fetch_add(nanos(missed), Ordering::Relaxed);
        let later = |alive| Some(excused(Monotonic::from_nanos(alive), missed, now).nanos());
        let alive = &self.0.alive;
        let _ = alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    fn missed(&self) -> Duration {
        Duration::from_nanos(self.0.missed.load(Ordering::Relaxed))
    }

    /// Changes how long the viewer may be silent (a paused one longer, say); `Duration::MAX`: for ever.
    pub fn set_idle_limit(&self, limit: Duration) {
        self.0.idle_limit.store(nanos(limit), Ordering::Relaxed);
    }

    /// Where [`Progress`] is asked for, about once a second and for every view. Must not block.
    pub fn set_probe(&self, probe: impl Fn() -> Progress + Send + Sync + 'static) {
        self.live().probe = Some(Box::new(probe));
    }

    /// What to do when somebody else ends the session; called once, not under a lock, on any
    /// thread. Called at once if the session has ended already.
    pub fn on_end(&self, act: impl FnOnce(&EndReason) + Send + 'static) {
        let mut live = self.live();
        if self.is_ended() {
            drop(live);
            act(&EndReason::Left);
        } else {
            live.on_end = Some(Box::new(act));
        }
    }

    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }

    /// Ends the session, calls what [`Session::on_end`] was given, takes it off the register and
    /// writes its story. The second call does nothing.
    pub fn end(&self, reason: EndReason) {
        if let Some(mut ended) = self.close(reason) {
            ended.call();
            self.leave();
            ended.tell();
        }
    }

    /// The same, but nobody hears of it before [`Ended::finish`]: for those who hold locks of a protocol's.
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

    /// Gives back the places in the register and in the calendar.
    fn leave(&self) {
        if let Some(registry) = self.0.registry.upgrade() {
            registry.remove(self);
            if let Some(booked) = self.booked().take() {
                registry.gate.leaves(booked.id);
            }
        }
    }

    /// What a protocol cannot know has no place in the line.
    fn tell_story(&self, reason: &EndReason, progress: &Progress) {
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        let seconds = reelway_clock::now().since(self.0.started).as_secs_f64();
        if *reason == EndReason::MadeRoom {
            // Thousands of them a second are one line of the register's.
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
            "session ended: {reason}"
        );
    }

    /// Whether the viewer has been silent for longer than he may.
    pub(crate) fn is_expired(&self, now: Monotonic) -> bool {
        let limit = self.0.idle_limit.load(Ordering::Relaxed);
        let silent = now
            .nanos()
            .saturating_sub(self.0.alive.load(Ordering::Relaxed));
        silent > limit
    }

    /// Takes the rate over the time since the last tick.
    pub(crate) fn tick(&self, now: Monotonic) {
        let progress = self.live().progress();
        if let Some(registry) = self.0.registry.upgrade() {
            self.keep_books(&registry, &progress);
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

    /// What to show.
    pub fn view(&self) -> SessionView {
        self.view_at(&self.moment())
    }

    /// What moves while the session lives, as it is now: what [`Session::view`] shows, without its texts.
    pub fn moment(&self) -> Moment {
        let live = self.live();
        let progress = live.progress();
        Moment {
            protocol: live.protocol.unwrap_or(self.0.viewer.protocol),
            rate: match progress.state {
                State::Playing => live.rate,
                State::Ready | State::Paused => 0,
            },
            progress,
        }
    }

    /// What to show of it as it was at a moment.
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
        // Single values that are shown.
        supervise::whole(self.0.live.lock())
    }
}

impl Live {
    fn progress(&self) -> Progress {
        self.probe.as_ref().map(|probe| probe()).unwrap_or_default()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the token: debug output ends in logs.
        f.debug_struct("Session")
            .field("id", &self.0.id)
            .field("title", &self.0.viewer.title)
            .finish_non_exhaustive()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
