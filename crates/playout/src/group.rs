//! A group that is ready to be sent.

use std::sync::Arc;

use reelway_demand::Leaving;
use reelway_rtp::Plan;

use crate::making::GroupPlan;

/// Bytes of a film in memory.
pub trait InMemory {
    /// The number of memory blocks that these bytes occupy.
    fn blocks(&self) -> usize;

    /// The offset of the first of these bytes in the film.
    fn start(&self) -> u64;

    /// Prefetches into the processor's cache what leads to the byte at `offset` of the film. Call
    /// it with `step` 0, 1 and 2: each step needs what the previous one has fetched.
    fn prefetch(&self, offset: u64, step: u32);
}

/// A group ready to be sent: its plan, and its bytes in memory.
#[derive(Debug)]
pub struct Group<B> {
    /// Its frames and packets.
    pub plan: Arc<Plan>,
    /// The bytes of the film that its packets point to.
    pub bytes: B,
    /// When each frame leaves, if that differs from its own time; empty otherwise.
    pub leaving: Arc<[Leaving]>,
}

impl<B> Group<B> {
    /// Combines a planned group with its bytes.
    pub fn new(planned: GroupPlan, bytes: B) -> Group<B> {
        let GroupPlan { plan, leaving, .. } = planned;
        Group {
            plan,
            bytes,
            leaving,
        }
    }
}
