//! What a turn will read of a stream, fetched into the processor's cache before: other streams and the films'
//! bytes have pushed it out since the stream's last turn.

use reelway_hint as prefetch;

use super::track::HOT_TRACK;
use super::{Active, HOT, Path};
use crate::plans::Cursor;

impl Active {
    /// Steps of [`Active::prefetch`].
    pub const STEPS: u32 = 2 + Cursor::STEPS;

    /// Fetches what a turn will read of the stream, a step further with each `step` from 0 on: where the memory
    /// of one step lies is written in that of the one before. Between two steps on the same stream go those of
    /// all others, so that nobody waits.
    pub fn prefetch(&self, step: u32, horizon: u64) {
        match step {
            0 => prefetch::head(self, HOT),
            1 => {
                prefetch::value(&self.shared.tally);
                for track in &self.tracks {
                    prefetch::head(track, HOT_TRACK);
                }
            }
            _ => {
                for (number, track) in self.tracks.iter().enumerate() {
                    let due = self.slice(number).is_some_and(|(due, _)| due.at < horizon);
                    if !due {
                        continue;
                    }
                    if let (2, Path::Udp(udp)) = (step, &track.path) {
                        prefetch::value(&**udp);
                    }
                    track.cursor.prefetch(step - 2);
                }
            }
        }
    }
}
