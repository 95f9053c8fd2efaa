//! A viewer over HTTP: their session, and their position according to their requests.

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

/// A viewer.
pub(crate) struct Viewer {
    pub session: Session,
    /// Their token in addresses; empty for viewers without one.
    pub token: String,
    /// How fast they are sent media.
    pub pace: Pace,
    place: Mutex<reelway_viewing::Viewer>,
    /// Their film's file, with its size at their last request.
    film: Mutex<FileIdentity>,
    /// Reports their position to the store's cache.
    watcher: Watcher,
    /// Wakes waiting flows, one of which need not wait any more.
    refilled: Notify,
}

impl Viewer {
    /// Creates a viewer who has requested nothing yet.
    pub fn new(
        session: Session,
        token: String,
        film: FileIdentity,
        (pace, timeout): (Pace, Duration),
        watcher: Watcher,
    ) -> Viewer {
        let place = reelway_viewing::Viewer::new(pace, timeout);
        // Viewers who wait for their turn cannot request more meanwhile.
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

    /// Records a request for their film, whose current file is `film`. Returns whether it has grown
    /// since their last request.
    pub fn has_grown(&self, film: FileIdentity) -> bool {
        let mut before = supervise::whole(self.film.lock());
        let has_grown = film.size > before.size;
        if has_grown {
            *before = film;
        }
        has_grown
    }

    /// Records that the film's bytes from `offset` on are requested next.
    pub fn comes_to(&self, source: &Source, offset: u64) {
        self.watcher.comes_to(source, offset, 1.0);
    }

    /// Records a request for a piece of media. Its answer is in progress until the returned value
    /// is dropped.
    ///
    /// # Errors
    /// There is no room, and the viewer had no claim to it: they have not begun, and their place
    /// was given away or this is not the film's first piece.
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
            // Book from their new position. Viewers who have begun may always continue. Newcomers
            // were judged by the film's beginning: they are judged again if they begin elsewhere,
            // or if their place was given away. Not under the lock, since others may have to leave
            // for them.
            let played = self.session.plays(moved.to, Nanos::MAX, moved.begins);
            if let Err(refusal) = played {
                self.place().is_refused();
                return Err(refusal);
            }
        }
        Ok(sending)
    }

    /// Returns a flow's state relative to its pace, including the time to wait before more of it is
    /// sent.
    pub fn standing(&self, flow: FlowKind) -> Standing {
        self.place().standing(flow, reelway_clock::now())
    }

    /// Records media sent from unbooked capacity.
    pub fn caught_up(&self, flow: FlowKind, bytes: u64, seconds: f64) {
        let begins = self.place().caught_up(flow, bytes, seconds);
        self.went(begins);
    }

    /// Completes when a flow of theirs need not wait any more, counted from this call.
    pub fn refilled(&self) -> Notified<'_> {
        self.refilled.notified()
    }

    /// Returns the time to wait after sending `seconds` of a flow now.
    pub fn wait_after(&self, flow: FlowKind, seconds: f64) -> Duration {
        self.place().wait_after(flow, seconds)
    }

    /// Returns the size of a flow's next window ([`reelway_viewing::Viewer::window`]).
    pub fn window(&self, flow: FlowKind, most: u64, seconds_per_byte: f64) -> u64 {
        self.place().window(flow, most, seconds_per_byte)
    }

    /// Records `bytes` of `flow` sent, which play for `seconds`.
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

    /// Waits if the viewer was admitted with a delay: only before their first answer.
    pub async fn wait_for_turn(&self) {
        let wait = self.session.starts_in();
        if !wait.is_zero() && self.place().is_new() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Records that an answer has begun.
    pub fn answered(&self) {
        self.place().answered();
        self.session.touch();
    }

    fn place(&self) -> MutexGuard<'_, reelway_viewing::Viewer> {
        supervise::whole(self.place.lock())
    }

    /// Returns the progress that is shown of them.
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

/// An answer in progress.
pub(crate) struct Sending {
    pub viewer: Arc<Viewer>,
    /// The viewer's flow to which it belongs.
    pub flow: FlowKind,
    /// The position of the piece that it answers.
    at: u64,
    /// Whether all of it was handed over.
    is_whole: bool,
}

impl Sending {
    /// Records that all of it was handed over.
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
