//! HTTP connections are given copies of frequently sent blocks, and keep the pages until
//! these are read.

use crate::config::Rule;
use crate::events::Event;
use crate::fetcher::Answering;
use crate::node::{Ask, Held, Node};
use crate::trace::Line;
use crate::world::BLOCK;

/// The smallest part of a block that is worth giving away, bytes.
const LEAST: u64 = 16 << 10;

impl Node {
    /// Pins a window's blocks until it has left. Frequently sent blocks have copies, and need not
    /// be pinned.
    pub fn pins_window(&mut self, ask: &Ask, answering: Answering, held: Held) {
        let fetcher = self.fetchers.get_mut(&answering.viewer);
        let Some(answer) = fetcher.and_then(|fetcher| fetcher.answer(answering)) else {
            return self.lets_go(held);
        };
        let Some(copied) = &mut self.copied else {
            answer.pins = held;
            return;
        };
        let range = answer.window.film.clone().unwrap_or_default();
        let mut others = Held::new();
        for (block, pin) in (ask.first..).zip(held) {
            let begins = u64::from(block) * BLOCK;
            let ends = range.end.min(begins + BLOCK);
            let bytes = ends.saturating_sub(range.start.max(begins));
            let block = (ask.film, block);
            let copy = (bytes >= LEAST).then(|| copied.copy(block));
            match copy.flatten() {
                Some(copy) => {
                    answer.copies.push((block, copy));
                    others.push(pin);
                }
                None => answer.pins.push(pin),
            }
        }
        self.lets_go(others);
    }

    /// Gives the copies in a window to its connection.
    pub fn gives_copies(&mut self, answering: Answering) {
        let fetcher = self.fetchers.get_mut(&answering.viewer);
        let answer = fetcher.and_then(|fetcher| fetcher.answer(answering));
        let (Some(answer), Some(copied)) = (answer, &mut self.copied) else {
            return;
        };
        if answer.copies.is_empty() {
            return;
        }
        let window = copied.give(&answer.copies);
        answer.given = Some(window);
        let copies = answer.copies.len() as u64;
        self.counters.given += copies;
        self.note(&Line::Given {
            viewer: answering.viewer,
            window,
            copies,
        });
    }

    /// Handles a window that the server has finished: what the connection was given of it is read
    /// at some time.
    pub fn has_given(&mut self, window: u64) {
        if let Some(copied) = &mut self.copied {
            let after = copied.reads_after();
            self.after(after, Event::HasRead(window));
        }
    }

    /// Handles that a connection has read what it was given of a window.
    pub fn has_read(&mut self, window: u64) {
        let Some(copied) = &mut self.copied else {
            return;
        };
        let others = copied.read(window);
        self.note(&Line::HasRead { window });
        for what in others {
            self.broken(Rule::GivenStays, what);
        }
    }
}
