//! What a connection is to do with what is written next: how fast it goes, in which queue, and until when it must have
//! been taken. Whoever answers a request sets it; the connection keeps to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use reelway_clock::Monotonic;

/// What a connection carries, for the queues on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Answers and playlists: little, so that they go first.
    #[default]
    Said,
    /// Media: bulk, which does not go before what others are told.
    Media,
    /// A file, which goes after all else.
    File {
        /// Its differentiated services code point.
        dscp: u8,
        /// Whether its speed changes with what others need. Then the kernel holds little that has not left: what is held leaves
        /// at the speed of before.
        is_held: bool,
    },
}

/// How fast a connection may send, bytes a second, and what it carries; told by its bodies, done by the kernel
/// (`SO_MAX_PACING_RATE`, marks) from the next write on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speed(Arc<Mutex<SpeedState>>);

/// What a [`Speed`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpeedState {
    /// Bytes a second; `None`: as fast as the network goes.
    pub speed: Option<u64>,
    pub carried: Carried,
    /// When what is written now must have been taken; [`NEVER`]: there is no such time.
    due: Monotonic,
}

const NEVER: Monotonic = Monotonic::from_nanos(u64::MAX);

impl Default for SpeedState {
    fn default() -> SpeedState {
        SpeedState {
            speed: None,
            carried: Carried::Said,
            due: NEVER,
        }
    }
}

impl Speed {
    /// That of the connection that a request came over.
    pub fn of(request: &Parts) -> Speed {
        let speed = request.extensions.get::<Speed>();
        speed.cloned().unwrap_or_default()
    }

    /// Another answer begins: nothing that was said for the one before holds for it.
    pub fn begins_anew(&self) {
        *self.told() = SpeedState::default();
    }

    /// At most so many bytes a second; `None`: as fast as the network goes.
    pub fn limit(&self, bytes_per_second: Option<u64>) {
        self.told().speed = bytes_per_second;
    }

    /// This is sent from now on.
    pub fn carries(&self, carried: Carried) {
        self.told().carried = carried;
    }

    /// What was set last.
    pub fn told(&self) -> MutexGuard<'_, SpeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is written from now on must have been taken whole when this time is over, else the connection is closed: a
    /// client that takes a byte now and then must not keep an answer in memory.
    pub fn must_be_taken_within(&self, time: Duration) {
        self.told().due = reelway_clock::now() + time;
    }

    /// What is written from now on may take as long as some of it is taken now and then.
    pub fn may_be_taken_slowly(&self) {
        self.told().due = NEVER;
    }

    /// Time that is left for what is written now.
    pub fn left(&self) -> Duration {
        self.told().due.since(reelway_clock::now())
    }
}
