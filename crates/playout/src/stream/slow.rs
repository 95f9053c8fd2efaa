//! What a TCP stream keeps of the film while its connection takes no more.

use crate::host::Share;

/// How long to wait before a connection that took nothing is tried again; doubled each time, up to
/// [`MOST_ALONE`]. When the kernel reports room, it still holds [`MOST_ALONE`] of a 2 Mb/s film.
const ALONE: u64 = 10_000_000;
const MOST_ALONE: u64 = 250_000_000;

/// The state of a stream whose connection takes no more.
pub(super) struct Slow<S: Share> {
    pub has: Has<S>,
    /// How many times in a row the connection took nothing.
    pub tries: u32,
    /// When the next packet was due, while its plan is not in memory.
    pub due: u64,
    /// The number of blocks that it held, and needs again to go on.
    pub blocks: usize,
}

/// What such a stream holds of the film.
pub(super) enum Has<S: Share> {
    /// Its bytes, since this time.
    Bytes { since: u64, _part: S::Part },
    /// Its position, and possibly a place in the queue for its bytes.
    Place(Option<S::Ticket>),
    /// Its bytes, or a pending request for them.
    BytesAgain { part: S::Part },
}

impl<S: Share> Slow<S> {
    /// Returns when the connection is to be tried again.
    pub fn wait(&mut self, now: u64) -> u64 {
        let wait = (ALONE << self.tries.min(8)).min(MOST_ALONE);
        self.tries += 1;
        now + wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Free;

    impl Share for Free {
        type Part = ();
        type Ticket = ();

        fn take(&self, _: usize) -> Option<()> {
            Some(())
        }

        fn take_in_turn(&self, _: &mut Option<()>, _: usize) -> Option<()> {
            Some(())
        }
    }

    #[test]
    fn a_connection_that_takes_nothing_is_left_alone_twice_as_long_each_time() {
        let mut slow: Slow<Free> = Slow {
            has: Has::Place(None),
            tries: 0,
            due: 0,
            blocks: 0,
        };
        let waits: Vec<u64> = (0..300).map(|_| slow.wait(5_000) - 5_000).collect();
        let millis: Vec<u64> = waits.iter().map(|wait| wait / 1_000_000).collect();
        assert_eq!(millis[..7], [10, 20, 40, 80, 160, 250, 250]);
        assert!(millis[7..].iter().all(|wait| *wait == 250));
    }
}
