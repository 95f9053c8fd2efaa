//! Windows of HTTP viewers leave at their connections' speeds, and over a limited link as fast as
//! it carries them. The lane's link is notified.

use std::time::Duration;

use crate::answering::PATIENCE;
use crate::config::Rule;
use crate::events::Event;
use crate::fetcher::{Answering, Plays};
use crate::flows::{Left, on_wire};
use crate::node::Node;

/// How soon a window that the link delayed is checked again.
const SOON: Duration = Duration::from_millis(1);
/// How long the link may delay a window: packets of streams share it, and all bookings are means of
/// a second.
const HELD_UP: Duration = Duration::from_millis(500);

impl Node {
    /// Hands a window to a connection, which sends it no faster than `limit`, in bytes per second,
    /// and no faster than its client reads.
    pub fn goes_out(&mut self, answering: Answering, bytes: u64, limit: Option<u64>) {
        let Some(fetcher) = self.fetchers.get(&answering.viewer) else {
            return;
        };
        let speed = fetcher.speed.min(limit.unwrap_or(u64::MAX)).max(1);
        let takes_nothing = fetcher.plays == Plays::Vanished;
        self.tells_of(answering, bytes, limit);
        if takes_nothing {
            return self.after(PATIENCE, Event::Cut(answering));
        }
        if self.way.is_none() {
            let takes = Duration::from_secs_f64(bytes as f64 / speed as f64);
            return self.after(takes, Event::Taken(answering));
        }
        let needs = self
            .flows
            .begin(answering.number, (bytes, speed), &mut self.wire, self.now);
        self.after(needs, Event::Leaves(answering));
    }

    /// Notifies the lane's link of what a connection was handed, as the server does.
    fn tells_of(&mut self, answering: Answering, bytes: u64, limit: Option<u64>) {
        let connection = answering.viewer * 2 + answering.track as u64;
        let (now, bytes, limit) = (self.now.nanos(), on_wire(bytes), limit.map(on_wire));
        for link in self.way.iter().flat_map(|way| &way.links) {
            let reported = &mut self.flows.reported;
            reported.hand_over(now, connection, bytes, limit, link.rate());
            link.set_others(reported.rate());
        }
    }

    /// Handles the time at which the last byte of a window should have left.
    pub fn leaves(&mut self, answering: Answering) {
        match self
            .flows
            .leaves(answering.number, &mut self.wire, self.now)
        {
            None => {}
            Some(Left::NotYet(needs)) => self.after(needs.max(SOON), Event::Leaves(answering)),
            Some(Left::All(by)) => {
                if by > HELD_UP && !self.explains(self.now) {
                    let what = format!(
                        "the link delays data for viewer {} by {:.3} s",
                        answering.viewer,
                        by.as_secs_f64()
                    );
                    self.broken(Rule::Carried, what);
                }
                self.is_taken(answering);
            }
        }
    }

    /// Notifies the lane's link of what is no longer in transit.
    pub fn tells_link(&mut self) {
        self.flows.reported.advance(self.now.nanos());
        for link in self.way.iter().flat_map(|way| &way.links) {
            link.set_others(self.flows.reported.rate());
        }
    }
}
