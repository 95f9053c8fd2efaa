//! A group that is ready to be sent.

use std::sync::Arc;

use reelway_demand::Leaving;
use reelway_rtp::Plan;

use crate::making::GroupPlan;

/// Bytes of a film in memory.
pub trait InMemory {
    /// Blocks of memory that they keep.
    fn blocks(&self) -> usize;

    /// The first of these bytes, counted from the film's beginning.
    fn start(&self) -> u64;

    /// Fetches into the processor's cache what leads to the byte at `offset` of the film, a step further with each `step`
    /// from 0 to 2: each needs what the one before has fetched.
    fn prefetch(&self, offset: u64, step: u32);
}

/// A group ready to be sent: its plan, and its bytes in memory.
#[derive(Debug)]
pub struct Group<B> {
    /// Its frames and packets.
    pub plan: Arc<Plan>,
    /// The bytes of the film that its packets point to.
    pub bytes: B,
    /// When each frame leaves, where that is not its own time; none otherwise.
    pub leaving: Arc<[Leaving]>,
}

impl<B> Group<B> {
    /// A planned group, with its bytes.
    pub fn new(planned: GroupPlan, bytes: B) -> Group<B> {
        let GroupPlan { plan, leaving, .. } = planned;
        Group {
            plan,
            bytes,
            leaving,
        }
    }
}
