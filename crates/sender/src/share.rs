//! A share of the block pool that one kind of streams may pin: those whose readers do not keep up,
//! or lost packets of groups that were already left. Neither may take memory from viewers who are
//! on time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use reelway_playout as playout;
use reelway_supervise as supervise;

/// One in this many of the pool's blocks is for TCP streams whose connections do not keep up.
const BEHIND: u64 = 8;
/// One in this many of the pool's blocks is for groups that are read again for lost packets.
const AGAIN: u64 = 16;

/// Returns how many blocks of a pool of `blocks` are reserved for streams beyond what viewers on
/// time hold: for TCP readers who do not keep up, and for retransmission of lost packets.
pub fn reserved_blocks(blocks: u64) -> u64 {
    part(blocks, BEHIND) + part(blocks, AGAIN)
}

fn part(blocks: u64, of: u64) -> u64 {
    (blocks / of).max(1)
}

/// A number of blocks for one kind of streams.
#[derive(Clone)]
pub(crate) struct Share(Arc<Inner>);

struct Inner {
    blocks: usize,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    taken: usize,
    /// Waiting streams in order of arrival, with the number of blocks that each needs.
    waiting: BTreeMap<u64, usize>,
    serial: u64,
}

/// Permission to pin some blocks of a share, held until dropped.
pub(crate) struct Part {
    share: Share,
    blocks: usize,
}

/// A place in the queue for a part.
pub(crate) struct Ticket {
    share: Share,
    number: u64,
}

impl Share {
    fn new(blocks: u64) -> Share {
        Share(Arc::new(Inner {
            blocks: blocks as usize,
            line: Mutex::default(),
        }))
    }

    /// Returns the share for TCP streams that are behind, of a pool with this many blocks.
    pub fn behind(pool: u64) -> Share {
        Share::new(part(pool, BEHIND))
    }

    /// Returns the share for groups that are read again for lost packets.
    pub fn again(pool: u64) -> Share {
        Share::new(part(pool, AGAIN))
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        // Counts, and queue entries that change one at a time.
        supervise::lock(&self.0.line)
    }

    /// Returns whether `blocks` more may be taken if streams ahead in the queue need `before`. A
    /// stream that needs more than the whole share gets it when it is first in the queue and no
    /// other stream holds any.
    fn fits(&self, line: &Line, before: usize, blocks: usize) -> bool {
        line.taken + before == 0 || line.taken + before + blocks <= self.0.blocks
    }

    fn part(&self, line: &mut Line, blocks: usize) -> Part {
        line.taken += blocks;
        Part {
            share: self.clone(),
            blocks,
        }
    }

    /// Returns the number of blocks taken.
    #[cfg(test)]
    fn taken(&self) -> usize {
        self.lock().taken
    }
}

impl playout::Share for Share {
    type Part = Part;
    type Ticket = Ticket;

    fn take(&self, blocks: usize) -> Option<Part> {
        let mut line = self.lock();
        let may = line.waiting.is_empty() && self.fits(&line, 0, blocks);
        may.then(|| self.part(&mut line, blocks))
    }

    fn take_in_turn(&self, ticket: &mut Option<Ticket>, blocks: usize) -> Option<Part> {
        let mut line = self.lock();
        let number = match ticket {
            Some(ticket) => ticket.number,
            None => line.serial,
        };
        let mut before = 0;
        for waiting in line.waiting.range(..number).map(|(_, blocks)| *blocks) {
            before += waiting;
            // Nothing is left for the caller, whatever the rest of the queue needs.
            if before > self.0.blocks {
                break;
            }
        }
        if self.fits(&line, before, blocks) {
            line.waiting.remove(&number);
            let part = self.part(&mut line, blocks);
            drop(line);
            *ticket = None;
            return Some(part);
        }
        line.waiting.insert(number, blocks);
        if ticket.is_none() {
            line.serial += 1;
            *ticket = Some(Ticket {
                share: self.clone(),
                number,
            });
        }
        None
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.share.lock().taken -= self.blocks;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.share.lock().waiting.remove(&self.number);
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Part({})", self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playout::Share as _;

    #[test]
    fn no_more_than_the_share_is_taken_and_free_blocks_go_to_the_first_in_line() {
        let share = Share::new(4);
        let held = [share.take(3).unwrap(), share.take(1).unwrap()];
        assert!(share.take(1).is_none());
        let (mut first, mut second) = (None, None);
        assert!(share.take_in_turn(&mut first, 2).is_none());
        assert!(share.take_in_turn(&mut second, 2).is_none());
        drop(held);
        assert!(share.take(1).is_none(), "others wait");
        let both = (
            share.take_in_turn(&mut second, 2),
            share.take_in_turn(&mut first, 2),
        );
        assert!(
            both.0.is_some() && both.1.is_some(),
            "there is room for both"
        );
        assert_eq!(share.taken(), 4);
        let mut third = None;
        assert!(share.take_in_turn(&mut third, 1).is_none());
        drop(both);
        assert!(share.take_in_turn(&mut third, 1).is_some());
        assert_eq!(share.taken(), 0);
    }

    #[test]
    fn a_later_stream_waits_for_an_earlier_one_in_line_and_not_for_one_that_left() {
        let share = Share::new(4);
        let held = share.take(3).unwrap();
        let (mut large, mut small) = (None, None);
        assert!(share.take_in_turn(&mut large, 4).is_none());
        assert!(
            share.take_in_turn(&mut small, 1).is_none(),
            "one block is free, but it is the first one's turn"
        );
        drop(large);
        assert!(share.take_in_turn(&mut small, 1).is_some());
        drop(held);
        let (mut large, mut small) = (None, None);
        let held = share.take(4).unwrap();
        assert!(share.take_in_turn(&mut large, 9).is_none());
        assert!(share.take_in_turn(&mut small, 1).is_none());
        drop(held);
        assert!(share.take_in_turn(&mut small, 1).is_none());
        assert!(share.take_in_turn(&mut large, 9).is_some(), "its turn");
        drop(small);
        assert!(share.take(9).is_some(), "alone, one may have more");
    }
}
