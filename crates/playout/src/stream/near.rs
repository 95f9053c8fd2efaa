//! What a turn will read of a stream, fetched into the processor's cache before: other streams and the films'
//! bytes have pushed it out since the stream's last turn.

use reelway_hint as hint;

use super::body::{HOT, Stream};
use super::track::Track;
use crate::cursor::Cursor;
use crate::host::{Host, Prefetch};

impl<H: Host> Stream<H> {
    /// Steps of [`Stream::prefetch`].
    pub(crate) const STEPS: u32 = 2 + Cursor::<H::Bytes>::STEPS;

    /// Fetches what a turn will read of the stream, a step further with each `step` from 0 on: where the memory
    /// of one step lies is written in that of the one before. Between two steps on the same stream go those of
    /// all others, so that nobody waits.
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
