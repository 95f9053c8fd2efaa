//! What a lane has its caller do.

use std::collections::VecDeque;

use reelway_media::Nanos;

use crate::error::StreamError;
use crate::host::Host;
use crate::play::{PlayInfo, State};

/// Something that is to be done for a stream.
pub enum Effect<H: Host> {
    /// Find where the stream's tracks begin for this wish; the answer goes to [`crate::Lane::located`].
    Locate {
        /// Which of the stream's beginnings it is: an answer to an earlier one is dropped.
        epoch: u32,
        /// Presentation time.
        wish: Nanos,
    },
    /// Have a group ready; the answer goes to [`crate::Lane::planned`].
    Want(Want),
    /// Answer a request for a beginning.
    Answer(H::Reply, Result<PlayInfo, StreamError>),
    /// The stream has gone over to this state.
    State(State),
    /// It cannot go on, and nobody waits for an answer that would say so.
    Failed(StreamError),
    /// Send a sender report for each track; with BYE if the range's end has been reached.
    Report {
        /// With BYE.
        bye: bool,
    },
}

/// A group that a stream needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Which of the stream's beginnings it is for: an answer to an earlier one is dropped.
    pub epoch: u32,
    /// Index among the stream's tracks.
    pub track: usize,
    /// Number of the group in its track.
    pub group: usize,
    /// When it is due, ns.
    pub deadline: u64,
    /// Whether the stream waits for it.
    pub urgent: bool,
    /// Whether it is where the viewer comes to next, and of the track that tells where they are.
    pub leads: bool,
}

/// Effects for which there is room from the beginning: those of some dozens of streams that are late together.
const ROOM: usize = 256;

/// What is to be done, each for the stream in a place of the lane, in this order.
pub(crate) struct Effects<H: Host>(VecDeque<(u32, Effect<H>)>);

impl<H: Host> Effects<H> {
    /// Nothing is to be done yet.
    pub fn new() -> Effects<H> {
        Effects(VecDeque::with_capacity(ROOM))
    }

    pub fn push(&mut self, place: u32, effect: Effect<H>) {
        self.0.push_back((place, effect));
    }

    pub fn pop(&mut self) -> Option<(u32, Effect<H>)> {
        self.0.pop_front()
    }
}
