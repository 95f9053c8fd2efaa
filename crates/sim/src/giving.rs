//! Connections of viewers over HTTP are given copies of blocks that are sent often, and keep the pages until they are read.

use crate::config::Rule;
use crate::events::Event;
use crate::fetcher::Answering;
use crate::node::{Ask, Held, Node};
use crate::trace::Line;
use crate::world::BLOCK;

/// Fewer bytes of a block are not worth giving away.
const LEAST: u64 = 16 << 10;

impl Node {
    /// A window's blocks are here, and may be pinned until it has left. Of those that are sent often there are copies, so that
    /// they need not be.
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

    /// A connection is given the copies that a window has.
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

    /// The server has no more of a window: what the connection was given of it is read some time.
    pub fn has_given(&mut self, window: u64) {
        if let Some(copied) = &mut self.copied {
            let after = copied.reads_after();
            self.after(after, Event::HasRead(window));
        }
    }

    /// What a connection was given of a window has been read.
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
