//! Scheduled events, in the order of their time.

use std::collections::BTreeMap;

use reelway_time::Monotonic;

use crate::client::Asked;
use crate::fetcher::Answering;

/// A scheduled event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The next viewer arrives.
    Come,
    /// A newcomer with a reservation is confirmed, or not.
    Confirm(u64, bool),
    /// The reservation of a newcomer who disappeared has expired.
    Forget(u64),
    /// The time has come for a viewer's film to begin.
    Begin(u64, u32),
    /// A turn of the lane is due.
    Turn(u64),
    /// A viewer does something else.
    Change(u64),
    /// A paused viewer tries to resume.
    Resume(u64),
    /// A client sends a request.
    Asks(u64, Asked),
    /// The place reserved for a newcomer is free.
    Welcome(u64),
    /// A read is complete, successfully or not.
    Read(u64, bool),
    /// An answer over HTTP continues.
    Answers(Answering),
    /// The last byte that was sent of a window should have left, over a limited link.
    Leaves(Answering),
    /// What was sent of the answer has been taken.
    Taken(Answering),
    /// The client stops taking the answer.
    Cut(Answering),
    /// The part of a window that a connection was given without a copy has been read.
    HasRead(u64),
    /// An HTTP viewer requests more of a track.
    Fetches(u64, usize, u64),
    /// A viewer requests a packet again: number of the beginning, track, and sequence number.
    Misses(u64, u32, usize, u16),
    /// A fault returns the blocks of the pool that it has taken.
    ReturnsBlocks(u64),
    /// A fault occurs.
    Fault,
    /// The checks of each second.
    Second,
    /// All viewers leave.
    Close,
}

/// Events by time, then in the order in which they were scheduled.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub coming: BTreeMap<(Monotonic, u64), Event>,
    serial: u64,
}

impl Events {
    /// Returns a new number.
    pub fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
