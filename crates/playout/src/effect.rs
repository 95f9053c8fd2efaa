//! The actions that a lane requests from its caller.

use std::collections::VecDeque;

use reelway_media::Nanos;

use crate::error::StreamError;
use crate::host::Host;
use crate::play::{PlayInfo, State};

/// An action to be taken for a stream.
pub enum Effect<H: Host> {
    /// Find where the stream's tracks begin for a requested position; the answer
    /// goes to [`crate::Lane::located`].
    Locate {
        /// The number of the stream's beginning that this is for: answers for earlier
        /// ones are dropped.
        epoch: u32,
        /// The requested position, presentation time.
        wish: Nanos,
    },
    /// Prepare a group; the answer goes to [`crate::Lane::planned`].
    Want(Want),
    /// Answer a request for a beginning.
    Answer(H::Reply, Result<PlayInfo, StreamError>),
    /// The stream has changed to this state.
    State(State),
    /// The stream cannot go on, and no request is pending that could be answered with the error.
    Failed(StreamError),
    /// Send a sender report for each track, with a BYE if the end of the range has been reached.
    Report {
        /// Whether to send a BYE as well.
        bye: bool,
    },
}

/// A group that a stream needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The number of the stream's beginning that this is for: answers for earlier ones are dropped.
    pub epoch: u32,
    /// Index into the stream's tracks.
    pub track: usize,
    /// Number of the group in its track.
    pub group: usize,
    /// When it is due, ns.
    pub deadline: u64,
    /// Whether the stream is waiting for it.
    pub urgent: bool,
    /// Whether it is the group that the viewer reaches next, in the track that
    /// defines their position.
    pub leads: bool,
}

/// Capacity reserved from the beginning: enough for some dozens of streams that are late together.
const ROOM: usize = 256;

/// Pending effects in order, each with the place of its stream in the lane.
pub(crate) struct Effects<H: Host>(VecDeque<(u32, Effect<H>)>);

impl<H: Host> Effects<H> {
    /// Creates an empty queue.
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
