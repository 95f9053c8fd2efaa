//! Commands to a sender thread.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use reelway_demand::Schedule;
use reelway_media::Nanos;
use reelway_playout::{Beginning, StreamError, StreamId};
use reelway_sys::wake::Waker;
use tokio::sync::oneshot;

use crate::plans::Planned;
use crate::streams::{Reply, Stream};

/// A command to a sender thread.
pub(crate) enum Command {
    /// Take a new stream and prepare it.
    Add(Box<Stream>),
    /// Take a stream that another thread has sent so far.
    Arrive(Box<Stream>),
    /// Start sending a stream.
    Go(StreamId),
    /// Pause; replies with the position.
    Pause(StreamId, oneshot::Sender<Nanos>),
    /// Prepare to continue at the current position.
    Resume(StreamId, Reply),
    /// Leave the current position and prepare another.
    Seek {
        stream: StreamId,
        start: Nanos,
        end: Option<Nanos>,
        reply: Reply,
    },
    /// Use this schedule from the next start on.
    SendBy(StreamId, Option<Arc<Schedule>>),
    /// End a stream with BYE and a reason; empty if the viewer asked for it.
    Stop(StreamId, Box<str>),
    /// A beginning was located.
    Located {
        stream: StreamId,
        epoch: u32,
        result: Result<Beginning, StreamError>,
    },
    /// A group was planned.
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
    /// End all streams with BYE, then the thread.
    Close,
}

impl Command {
    /// Returns the stream if the command reaches it by way of the thread that had it first, as
    /// those of handles and reports of lost packets do.
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

/// The sending side of a thread's command queue.
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

    /// Sends a command that can wait until the thread wakes by itself and reads its queue.
    pub fn send_quietly(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Sends a command; ignored if the thread has ended.
    pub fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}
