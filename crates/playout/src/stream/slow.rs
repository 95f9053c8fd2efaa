//! What a TCP stream keeps of the film while its connection takes no more.

use crate::host::Share;

/// How long a connection that took nothing is left alone at first; twice as long each time, up to [`MOST_ALONE`].
/// When the kernel says that there is room, it still holds [`MOST_ALONE`] of a film of 2 Mb/s.
const ALONE: u64 = 10_000_000;
const MOST_ALONE: u64 = 250_000_000;

/// What a stream does whose connection takes no more.
pub(super) struct Slow<S: Share> {
    pub has: Has<S>,
    /// How often in a row the connection took nothing.
    pub tries: u32,
    /// When the next packet was due, while its plan is not here.
    pub due: u64,
    /// Blocks that it held, and needs again to go on.
    pub blocks: usize,
}

/// What such a stream has of the film.
pub(super) enum Has<S: Share> {
    /// Its bytes, since this time.
    Bytes { since: u64, _part: S::Part },
    /// Its place, and perhaps a place in the line for its bytes.
    Place(Option<S::Ticket>),
    /// Its bytes, or they are on their way.
    BytesAgain { part: S::Part },
}

impl<S: Share> Slow<S> {
    /// When the connection is to be tried again.
    pub fn wait(&mut self, now: u64) -> u64 {
        let wait = (ALONE << self.tries.min(8)).min(MOST_ALONE);
        self.tries += 1;
        now + wait
    }
}
