//! What a sender thread is told.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use reelway_demand::Schedule;
use reelway_media::Nanos;
use reelway_playout::{Beginning, StreamError, StreamId};
use reelway_sys::wake::Waker;
use tokio::sync::oneshot;

use crate::plans::Planned;
use crate::streams::{Reply, Stream};

/// Something a sender thread is to do.
pub(crate) enum Command {
    /// Take a stream, and prepare it.
    Add(Box<Stream>),
    /// Take a stream that another thread has sent so far.
    Arrive(Box<Stream>),
    /// Begin to send what is ready.
    Go(StreamId),
    /// Stand still; answers with the position.
    Pause(StreamId, oneshot::Sender<Nanos>),
    /// Prepare to go on where it stands.
    Resume(StreamId, Reply),
    /// Leave the place it is at, and prepare another.
    Seek {
        stream: StreamId,
        start: Nanos,
        end: Option<Nanos>,
        reply: Reply,
    },
    /// Send by this schedule from the next beginning on.
    SendBy(StreamId, Option<Arc<Schedule>>),
    /// Leave, saying BYE and why; empty: as viewers leave who want to.
    Stop(StreamId, Box<str>),
    /// Where a stream begins has been found.
    Located {
        stream: StreamId,
        epoch: u32,
        result: Result<Beginning, StreamError>,
    },
    /// A group has been planned.
    Planned {
        stream: StreamId,
        epoch: u32,
        track: usize,
        group: usize,
        result: Result<Arc<Planned>, StreamError>,
    },
    /// The receiver of a track misses packets.
    Missed {
        stream: StreamId,
        track: usize,
        /// Their sequence numbers.
        lost: Vec<u16>,
    },
    /// All streams say BYE, and the thread ends.
    Close,
}

impl Command {
    /// The stream it comes to by way of the thread that had it first.
    pub fn of_handle(&self) -> Option<StreamId> {
        match self {
            Command::Go(id)
            | Command::Pause(id, _)
            | Command::Resume(id, _)
            | Command::Seek { stream: id, .. }
            | Command::Missed { stream: id, .. }
            | Command::SendBy(id, _)
            | Command::Stop(id, _) => Some(*id),
            _ => None,
        }
    }
}

/// The way to a sender thread.
#[derive(Clone)]
pub(crate) struct Inbox {
    commands: Sender<Command>,
    waker: Waker,
}

impl Inbox {
    pub fn new(waker: Waker) -> (Inbox, Receiver<Command>) {
        let (commands, receiver) = crossbeam_channel::unbounded();
        (Inbox { commands, waker }, receiver)
    }

    /// Sends a command that can wait until the thread wakes by itself: it looks before it walks.
    pub fn send_quietly(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Sends a command; a thread that has ended does not mind.
    pub fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}
