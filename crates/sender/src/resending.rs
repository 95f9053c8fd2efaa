//! Which streams of a thread send lost packets again, and how many.

use std::collections::VecDeque;

/// Packets that a thread sends again in a turn at most: a tenth of a processor. Thousands of receivers may ask at once, and
/// nobody's packets may be late for it.
const RESENDS: u32 = 32;

/// Streams of a thread whose receivers miss packets. Each in its turn: nobody waits for another one who asks all the time.
#[derive(Default)]
pub(crate) struct Resending {
    pub places: VecDeque<u32>,
    turn: u64,
    /// How many packets may still be sent again in this turn.
    pub left: u32,
}

impl Resending {
    /// The thread is in this turn.
    pub fn begin(&mut self, turn: u64) {
        if turn != self.turn {
            (self.turn, self.left) = (turn, RESENDS);
        }
    }

    /// Whether there is any.
    pub fn anyone(&self) -> bool {
        !self.places.is_empty()
    }
}
