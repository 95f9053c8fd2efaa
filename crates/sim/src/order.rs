//! Events are scheduled, and occur in the order of their time.

use std::time::Duration;

use reelway_time::Monotonic;

use crate::events::Event;
use crate::node::Node;

impl Node {
    pub fn at(&mut self, at: Monotonic, event: Event) {
        let number = self.events.number();
        self.events.coming.insert((at, number), event);
    }

    pub fn after(&mut self, after: Duration, event: Event) {
        self.at(self.now + after, event);
    }

    /// Returns the next event; a standstill advances the clock before it is handled.
    pub fn next(&mut self) -> Option<Event> {
        let first = self.events.coming.first_key_value().map(|((at, _), _)| *at);
        let turn = self.lane.next_turn(self.now.nanos());
        let turn = turn.map(Monotonic::from_nanos);
        let (at, event) = match turn.filter(|turn| first.is_none_or(|first| *turn < first)) {
            Some(turn) => (turn, Event::Turn(turn.nanos())),
            None => {
                let ((at, _), event) = self.events.coming.pop_first()?;
                (at, event)
            }
        };
        self.now = self.now.max(at).max(self.frozen);
        self.counters.events += 1;
        Some(event)
    }
}
