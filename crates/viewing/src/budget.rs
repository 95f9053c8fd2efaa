//! How much of an answer is read from the store, pinned and sent at once: windows of one block or
//! several adjacent blocks.

use std::time::Duration;

/// Size in bytes of a wide window. Wide windows are for connections that send a window faster than
/// the next can be read and whose pace allows that much. The cost per window (the cache's policy,
/// the pool's lock, a wake-up if it must be read) is spread over more bytes, and a disk has several
/// reads to do at once.
pub const WIDE: u64 = 1 << 20;

/// Bytes that a connection that may not pin blocks copies at once.
pub const COPIED: u64 = 64 << 10;

/// How long a window may make the viewer wait for the next; windows never shrink below [`COPIED`]
/// bytes for that. A window with a low bit rate would play for many seconds, and the viewer may
/// seek meanwhile.
pub const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Returns how many of a pool's `blocks` all HTTP answers together may pin. Connections that find
/// these taken get copies, so HTTP never waits for blocks that RTSP viewers hold, and vice versa.
pub fn pinned_blocks(blocks: u64) -> u64 {
    (blocks / 4).max(1)
}

/// How much of the pool answers may pin.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Blocks that all answers together may pin.
    pub blocks: usize,
    /// Size of a block in bytes.
    pub block_bytes: u64,
}

/// Permission to pin a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Maximum number of blocks that it pins.
    pub blocks: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Budget {
    /// Returns the budget for a pool of `blocks` blocks of `block_bytes` bytes each.
    pub fn of(blocks: u64, block_bytes: u64) -> Budget {
        Budget {
            blocks: pinned_blocks(blocks) as usize,
            block_bytes,
        }
    }

    /// Returns the window that may be pinned while `free` blocks of the budget are free: a wide one
    /// if `wide` is set and half of the budget remains free, otherwise one block; `None` if all
    /// blocks are pinned.
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
