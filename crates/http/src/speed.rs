//! How a connection sends the data written next: its speed, its queue, and the deadline by which it
//! must be read. The answer's handler sets these; the connection applies them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use reelway_clock::Monotonic;

/// The kind of data on a connection, for the queues on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Answers and playlists: small, so they go first.
    #[default]
    Control,
    /// Media: bulk data that does not go before other viewers' answers.
    Media,
    /// A file, which goes after everything else.
    File {
        /// Its differentiated services code point.
        dscp: u8,
        /// Whether its speed follows the demand of others. Then the kernel holds little unsent
        /// data, since that still leaves at the previous speed.
        is_held: bool,
    },
}

/// The speed limit of a connection and the kind of its data; set by its bodies, applied by the
/// kernel (`SO_MAX_PACING_RATE`, marks) from the next write on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speed(Arc<Mutex<SpeedState>>);

/// The values of a [`Speed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpeedState {
    /// Bytes per second; `None`: as fast as the network allows.
    pub speed: Option<u64>,
    pub carried: Carried,
    /// Deadline by which the data being written must have been read; [`NEVER`]: there is none.
    due: Monotonic,
}

const NEVER: Monotonic = Monotonic::from_nanos(u64::MAX);

impl Default for SpeedState {
    fn default() -> SpeedState {
        SpeedState {
            speed: None,
            carried: Carried::Control,
            due: NEVER,
        }
    }
}

impl Speed {
    /// Returns the speed of the connection on which a request arrived.
    pub fn of(request: &Parts) -> Speed {
        let speed = request.extensions.get::<Speed>();
        speed.cloned().unwrap_or_default()
    }

    /// Resets all values when the next answer begins.
    pub fn reset(&self) {
        *self.state() = SpeedState::default();
    }

    /// Limits the speed to this many bytes per second; `None`: as fast as the network allows.
    pub fn limit(&self, bytes_per_second: Option<u64>) {
        self.state().speed = bytes_per_second;
    }

    /// Sets the kind of data sent from now on.
    pub fn carries(&self, carried: Carried) {
        self.state().carried = carried;
    }

    /// Returns the current values.
    pub fn state(&self) -> MutexGuard<'_, SpeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requires the data written from now on to be read completely within this time; otherwise the
    /// connection is closed. A client that reads a byte now and then must not keep an answer in
    /// memory.
    pub fn must_be_taken_within(&self, time: Duration) {
        self.state().due = reelway_clock::now() + time;
    }

    /// Removes the deadline: the client may take any time as long as it makes some progress.
    pub fn may_be_taken_slowly(&self) {
        self.state().due = NEVER;
    }

    /// Returns the time left for the data being written.
    pub fn left(&self) -> Duration {
        self.state().due.since(reelway_clock::now())
    }
}
