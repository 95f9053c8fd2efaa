//! Streams that could send but wait for room on a limited link: the earliest deadline goes first.

use std::cmp::Reverse;

use super::body::Lane;
use super::state::{AT_WORK, IN_LINE, PART};
use crate::host::Host;

impl<H: Host> Lane<H> {
    /// Queues a stream for room on its limited links; returns false if it may not send anything
    /// over any of them now.
    pub(super) fn line_up(&mut self, place: u32, now: u64) -> bool {
        let Some(stream) = self.streams[place as usize].as_deref_mut() else {
            return false;
        };
        let next = stream.next_on_link(now);
        let Some((link, (due, _))) = stream.link.as_mut().zip(next) else {
            return false;
        };
        link.in_line_for = due;
        self.waiting.put(&link.way, due, place);
        self.armed[place as usize] = IN_LINE;
        true
    }

    /// Handles a change of a waiting stream, such as a seek: it then waits with its new deadline.
    /// Its previous entry is ignored when it comes up.
    pub(super) fn touch_in_line(&mut self, place: u32, now: u64) {
        let Some(stream) = self.streams[place as usize].as_deref() else {
            return;
        };
        let before = stream.link.as_ref().map_or(0, |link| link.in_line_for);
        match stream.next_on_link(now) {
            Some((due, _)) if due >= before => {}
            Some(_) => {
                self.line_up(place, now);
            }
            None => {
                self.armed[place as usize] = AT_WORK;
                self.walk.work.push((0, place));
            }
        }
    }

    /// Adds the streams whose links have room for them to those walked now, the earliest deadline
    /// first.
    pub(super) fn serve_waiting(&mut self, now: u64) {
        let mut lines = std::mem::take(&mut self.waiting.0);
        for line in lines.iter_mut().flatten() {
            while let Some(Reverse((due, place))) = line.streams.peek().copied() {
                let stream = self.streams[place as usize].as_deref_mut();
                // The stream may have left, and another one may have its place: neither waits.
                let waits = self.armed[place as usize] == IN_LINE;
                if let Some(stream) = stream.filter(|_| waits) {
                    if let Some(next) = stream.next_on_link(now)
                        && !stream.takes_room(now, next, self.number)
                    {
                        break;
                    }
                    self.armed[place as usize] = AT_WORK;
                    self.walk.served.push((due / PART, place));
                }
                line.streams.pop();
            }
        }
        // Ways share links: the earliest deadline of each link counts.
        let lines_there = || lines.iter().flatten();
        lines_there().for_each(|line| line.way.nothing_waits(self.number));
        for line in lines_there() {
            if let Some(Reverse((due, _))) = line.streams.peek() {
                line.way.waits(self.number, *due);
            }
        }
        self.waiting.0 = lines;
    }
}
