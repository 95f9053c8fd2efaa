//! One viewer.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use reelway_admission::BookingId;
use reelway_clock::Monotonic;
use reelway_media::Nanos;
use reelway_timetable::{Carriage, Schedule};
use tracing::info;

use crate::gate::Booked;
use crate::registry::{NewSession, Protocol, Refusal, Registry};
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
    /// It could not go on; in words.
    Failed(String),
}

impl EndReason {
    /// What the viewer is told, where it is not his own doing.
    pub fn told(&self) -> Option<String> {
        match self {
            EndReason::Left | EndReason::Disconnected | EndReason::Expired => None,
            EndReason::Failed(why) => Some(why.clone()),
            EndReason::Kicked | EndReason::Shutdown => Some(self.to_string()),
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
    started: Monotonic,
    started_text: String,
    /// Nanoseconds of the last sign of life.
    alive: AtomicU64,
    /// Nanoseconds without a sign of life after which the viewer is given up; `u64::MAX`: never.
    idle_limit: AtomicU64,
    ended: AtomicBool,
    live: Mutex<Live>,
    /// What is booked for him.
    booked: Mutex<Option<Booked>>,
    /// How long he waits for his beginning.
    wait: Duration,
}

/// The next session's number.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// How long a place is kept for one who was let in and does not begin.
const KEPT: Duration = Duration::from_secs(10);

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
        Session(Arc::new(Inner {
            registry,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            id: crate::identity::public_id(),
            token: crate::identity::new_token(),
            viewer,
            user,
            started: now,
            started_text: started,
            alive: AtomicU64::new(now.nanos()),
            idle_limit: AtomicU64::new(nanos(idle.saturating_add(wait))),
            ended: AtomicBool::new(false),
            live: Mutex::default(),
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
        let (mut booked, registry) = (self.booked(), self.0.registry.upgrade());
        let (Some(booked), Some(registry)) = (booked.as_mut(), registry) else {
            return Ok(None);
        };
        registry.gate.plays(booked, (from, to), may_refuse)
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
            (State::Ready, Some(idle)) if idle > KEPT.saturating_add(self.0.wait) => {
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

    /// His booking, where he has one.
    pub(crate) fn booking(&self) -> Option<BookingId> {
        self.booked().as_ref().map(|booked| booked.id)
    }

    fn booked(&self) -> MutexGuard<'_, Option<Booked>> {
        self.0.booked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sign of life.
    pub fn touch(&self) {
        self.0
            .alive
            .store(reelway_clock::now().nanos(), Ordering::Relaxed);
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
        let (on_end, progress) = {
            let mut live = self.live();
            if self.0.ended.swap(true, Ordering::AcqRel) {
                return;
            }
            (live.on_end.take(), live.progress())
        };
        if let Some(act) = on_end {
            act(&reason);
        }
        if let Some(registry) = self.0.registry.upgrade() {
            registry.remove(self);
            if let Some(booked) = self.booked().take() {
                registry.gate.leaves(booked.id);
            }
        }
        self.tell_story(&reason, &progress);
        // The probe may hold the stream or the connection; they go now, not with the last handle.
        let probe = self.live().probe.take();
        drop(probe);
    }

    /// What a protocol cannot know has no place in the line.
    fn tell_story(&self, reason: &EndReason, progress: &Progress) {
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        let seconds = reelway_clock::now().since(self.0.started).as_secs_f64();
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
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
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
