//! One viewer over HTTP: their session, and what their requests show of where they are.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_media::Nanos;
use reelway_session::{Progress, Refusal, Session, State};
use reelway_store::{Source, Watcher};
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use reelway_viewing::{Doing, FlowKind, Pace, Piece, Standing};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// One viewer.
pub(crate) struct Viewer {
    pub session: Session,
    /// Their name in addresses; empty for viewers without one.
    pub token: String,
    /// How fast they are sent media.
    pub pace: Pace,
    place: Mutex<reelway_viewing::Viewer>,
    /// The file of their film, as long as it was when they asked last.
    film: Mutex<FileIdentity>,
    /// Tells the store's cache where they are.
    watcher: Watcher,
    /// Wakes the flows that wait: one of them need not any more.
    refilled: Notify,
}

impl Viewer {
    /// One who has asked for nothing yet.
    pub fn new(
        session: Session,
        token: String,
        film: FileIdentity,
        (pace, timeout): (Pace, Duration),
        watcher: Watcher,
    ) -> Viewer {
        let place = reelway_viewing::Viewer::new(pace, timeout);
        // Viewers who wait for their turn cannot ask for more meanwhile.
        session.set_idle_limit(place.idle_limit().saturating_add(session.starts_in()));
        Viewer {
            session,
            token,
            pace,
            place: Mutex::new(place),
            film: Mutex::new(film),
            watcher,
            refilled: Notify::new(),
        }
    }

    /// They ask for something of their film, whose file is this by now; whether it has grown since they asked last.
    pub fn has_grown(&self, film: FileIdentity) -> bool {
        let mut before = supervise::whole(self.film.lock());
        let has_grown = film.size > before.size;
        if has_grown {
            *before = film;
        }
        has_grown
    }

    /// The bytes of the film from here on are asked for next.
    pub fn comes_to(&self, source: &Source, offset: u64) {
        self.watcher.comes_to(source, offset, 1.0);
    }

    /// A piece of media is asked for: its answer is under way until what this gives is dropped.
    ///
    /// # Errors
    /// The viewer has not begun, their place was given away or this is not the film's first piece, and there is no room.
    pub fn asks(self: &Arc<Self>, piece: &Piece) -> Result<Sending, Refusal> {
        self.session.touch();
        let mut place = self.place();
        let moved = place.asks(piece, reelway_clock::now());
        self.session.set_idle_limit(place.idle_limit());
        drop(place);
        let sending = Sending {
            viewer: self.clone(),
            flow: piece.flow,
            at: piece.at,
            is_whole: false,
        };
        if let Some(moved) = moved {
            // Where they are now is what is booked. Viewers who have begun may always go on. Newcomers were judged by the film's
            // beginning: they are judged again if they begin elsewhere, or if their place was given away. Not under the lock:
            // others may have to leave for them.
            let played = self.session.plays(moved.to, Nanos::MAX, moved.begins);
            if let Err(refusal) = played {
                self.place().is_refused();
                return Err(refusal);
            }
        }
        Ok(sending)
    }

    /// How a flow stands against its pace: how long to wait before more of it is sent.
    pub fn standing(&self, flow: FlowKind) -> Standing {
        self.place().standing(flow, reelway_clock::now())
    }

    /// The same of media that went out of what nobody has booked.
    pub fn caught_up(&self, flow: FlowKind, bytes: u64, seconds: f64) {
        let begins = self.place().caught_up(flow, bytes, seconds);
        self.went(begins);
    }

    /// Comes when a flow of theirs need not wait any more, from this call on.
    pub fn refilled(&self) -> Notified<'_> {
        self.refilled.notified()
    }

    /// How long there would be to wait if `seconds` of a flow were sent now.
    pub fn wait_after(&self, flow: FlowKind, seconds: f64) -> Duration {
        self.place().wait_after(flow, seconds)
    }

    /// Bytes of a flow's next window ([`reelway_viewing::Viewer::window`]).
    pub fn window(&self, flow: FlowKind, most: u64, seconds_per_byte: f64) -> u64 {
        self.place().window(flow, most, seconds_per_byte)
    }

    /// Media went out: `bytes` of flow `flow`, which play for `seconds`.
    pub fn sent(&self, flow: FlowKind, bytes: u64, seconds: f64) {
        let begins = self.place().sent(flow, bytes, seconds);
        self.went(begins);
    }

    fn went(&self, begins: bool) {
        if begins {
            self.session.begins();
        }
        self.session.touch();
    }

    /// Viewers who are let in a little later than they came wait for their answer, at the beginning and never after.
    pub async fn wait_for_turn(&self) {
        let wait = self.session.starts_in();
        if !wait.is_zero() && self.place().is_new() {
            tokio::time::sleep(wait).await;
        }
    }

    /// An answer was begun.
    pub fn answered(&self) {
        self.place().answered();
        self.session.touch();
    }

    fn place(&self) -> MutexGuard<'_, reelway_viewing::Viewer> {
        supervise::whole(self.place.lock())
    }

    /// What is shown of them.
    pub fn progress(&self) -> Progress {
        let now = reelway_clock::now();
        let progress = self.place().progress(self.session.silence(), now);
        Progress {
            state: match progress.doing {
                Doing::Ready => State::Ready,
                Doing::Playing => State::Playing,
                Doing::Paused => State::Paused,
            },
            position: progress.position,
            bytes: progress.bytes,
            packets: progress.answers,
            ..Progress::default()
        }
    }
}

/// An answer under way.
pub(crate) struct Sending {
    pub viewer: Arc<Viewer>,
    /// The viewer's flow that it belongs to.
    pub flow: FlowKind,
    /// The piece that it answers.
    at: u64,
    /// Whether all of it was handed over.
    is_whole: bool,
}

impl Sending {
    /// All of it was handed over.
    pub fn is_done(&mut self) {
        self.is_whole = true;
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let viewer = &self.viewer;
        let mut place = viewer.place();
        let now = reelway_clock::now();
        let is_refilled = place.ends(self.flow, self.at, self.is_whole, now);
        viewer.session.touch();
        viewer.session.set_idle_limit(place.idle_limit());
        if is_refilled {
            viewer.refilled.notify_waiters();
        }
    }
}
