//! What is to happen, in the order of its time.

use std::collections::BTreeMap;

use reelway_time::Monotonic;

use crate::client::Asked;
use crate::fetcher::Answering;

/// Something that is to happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The next viewer comes.
    Come,
    /// A newcomer for whom a place is reserved is admitted, or not.
    Confirm(u64, bool),
    /// The place of a newcomer of whom nothing was heard any more is free.
    Forget(u64),
    /// A viewer's film begins.
    Begin(u64, u32),
    /// A turn of the lane is due.
    Turn(u64),
    /// A viewer does something else.
    Change(u64),
    /// A viewer wants to go on.
    Resume(u64),
    /// A client asks.
    Asks(u64, Asked),
    /// A newcomer's place is free.
    Welcome(u64),
    /// A read is done, well or not.
    Read(u64, bool),
    /// The turn of an answer over HTTP.
    Answers(Answering),
    /// The last byte of a window that was sent of it is to have left, over a limited link.
    Leaves(Answering),
    /// What was sent of it has been taken.
    Taken(Answering),
    /// It is taken no more.
    Cut(Answering),
    /// What a connection was given without a copy of a window has been read.
    HasRead(u64),
    /// A viewer over HTTP asks for more of a track.
    Fetches(u64, usize, u64),
    /// A viewer asks for a packet again: which beginning it was of, which track, and its number.
    Misses(u64, u32, usize, u16),
    /// Something goes wrong.
    Fault,
    /// The checks of each second.
    Second,
    /// All leave.
    Close,
}

/// Events by time, then in the order in which they were arranged.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub coming: BTreeMap<(Monotonic, u64), Event>,
    serial: u64,
}

impl Events {
    /// A number that was not given before.
    pub fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
