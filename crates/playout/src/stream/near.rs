//! Prefetches what a turn will read of a stream into the processor's cache: other streams and the
//! films' bytes have evicted it since the stream's last turn.

use reelway_hint as hint;

use super::body::{HOT, Stream};
use super::track::Track;
use crate::cursor::Cursor;
use crate::host::{Host, Prefetch};

impl<H: Host> Stream<H> {
    /// The number of steps of [`Stream::prefetch`].
    pub(crate) const STEPS: u32 = 2 + Cursor::<H::Bytes>::STEPS;

    /// Prefetches what a turn will read of the stream. Call it with each `step` from 0 on: the
    /// addresses for a step are in the memory that the previous one has fetched. Between two steps
    /// on the same stream the caller does those of all others, so that the processor never waits.
    pub(crate) fn prefetch(&self, step: u32, horizon: u64) {
        match step {
            0 => hint::head(self, HOT),
            1 => {
                self.owner.prefetch();
                for track in &self.tracks {
                    hint::head(track, Track::<H>::HOT);
                }
            }
            _ => {
                for (number, track) in self.tracks.iter().enumerate() {
                    let due = self.slice(number).is_some_and(|(due, _)| due.at < horizon);
                    if !due {
                        continue;
                    }
                    if step == 2 {
                        track.path.prefetch();
                    }
                    track.cursor.prefetch(step - 2);
                }
            }
        }
    }
}
