//! How much of an answer is read from the store, pinned and sent at once: windows of a block, or of some blocks side by side.

use std::time::Duration;

/// Bytes of a window for a connection that takes one faster than the next can be read, and is not held to its pace by so
/// much: what a window costs (the cache's policy, the pool's lock, a wake where it must be read) is shared by so many, and a
/// disk has several reads to do at once.
pub const WIDE: u64 = 1 << 20;

/// Bytes that one connection may copy at once when it may not pin.
pub const COPIED: u64 = 64 << 10;

/// How long a window makes the viewer wait for the next, if it need not hold more than [`COPIED`] bytes for that: one of
/// few bits would play for many seconds, and the viewer may seek meanwhile.
pub const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Blocks of a pool of `blocks` that all answers over HTTP may pin together. Connections that come when these are taken get
/// copies, so that HTTP never waits for what RTSP's viewers hold, nor they for it.
pub fn pinned_blocks(blocks: u64) -> u64 {
    (blocks / 4).max(1)
}

/// How much of the pool answers may pin.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Blocks that all of them may pin together.
    pub blocks: usize,
    /// Bytes of a block.
    pub block_bytes: u64,
}

/// A window that may be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Blocks that it pins at most.
    pub blocks: u32,
    /// Its bytes.
    pub bytes: u64,
}

impl Budget {
    /// That of a pool of so many blocks of so many bytes.
    pub fn of(blocks: u64, block_bytes: u64) -> Budget {
        Budget {
            blocks: pinned_blocks(blocks) as usize,
            block_bytes,
        }
    }

    /// The window that may be pinned while so many blocks of the budget are `free`: a wide one if that is wanted and half
    /// of the budget is left after it, else one block; `None` where all is pinned.
    pub fn window(&self, free: usize, wide: bool) -> Option<Leave> {
        let many = (WIDE / self.block_bytes) as usize;
        let blocks = match wide && many > 1 && free >= self.blocks / 2 + many {
            true => many,
            false => 1,
        };
        (free >= blocks).then_some(Leave {
            blocks: blocks as u32,
            bytes: blocks as u64 * self.block_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_wide_for_the_fast_while_half_of_what_may_be_pinned_is_left_for_others() {
        let budget = Budget {
            blocks: 16,
            block_bytes: 256 << 10,
        };
        let mut free = budget.blocks;
        let mut sizes = Vec::new();
        while let Some(leave) = budget.window(free, true) {
            free -= leave.blocks as usize;
            sizes.push(leave.bytes >> 10);
        }
        assert_eq!(sizes[..2], [1024, 1024]);
        assert_eq!(sizes[2..], [256; 8], "one block each of the other half");
        assert_eq!(free, 0, "all is pinned");
        let one = Leave {
            blocks: 1,
            bytes: 256 << 10,
        };
        assert_eq!(budget.window(16, false), Some(one));
    }

    #[test]
    fn a_block_that_is_large_is_a_window_by_itself() {
        let budget = Budget {
            blocks: 16,
            block_bytes: 2 << 20,
        };
        let leave = budget.window(16, true);
        assert_eq!(leave.map(|leave| leave.bytes), Some(2 << 20));
    }

    #[test]
    fn http_pins_a_quarter_of_the_pool_and_at_least_a_block() {
        assert_eq!([0, 3, 400].map(pinned_blocks), [1, 1, 100]);
    }
}
