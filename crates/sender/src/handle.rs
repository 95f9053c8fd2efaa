//! What the owner of a stream has in hand.

use std::sync::{Arc, Mutex, OnceLock};

use reelway_demand::Schedule;
use reelway_media::Nanos;
use reelway_playout::{PlayInfo, StreamError};
use reelway_supervise as supervise;
use tokio::sync::oneshot;

use crate::inbox::{Command, Inbox};
use crate::shared::Shared;
use crate::stream::Progress;

/// A stream that was handed over. It is stopped, with BYE, when this is dropped.
///
/// A stream is born preparing; [`StreamHandle::ready`] tells where it will begin, and nothing is sent
/// before [`StreamHandle::go`], so that the answer to PLAY can go first. The same holds after
/// [`StreamHandle::seek`] and [`StreamHandle::resume`].
pub struct StreamHandle {
    shared: Arc<Shared>,
    inbox: Inbox,
    first: Mutex<Option<oneshot::Receiver<Result<PlayInfo, StreamError>>>>,
    /// What BYE says.
    why: OnceLock<Box<str>>,
}

impl std::fmt::Debug for StreamHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "StreamHandle({}, {:?})",
            self.shared.id,
            self.shared.state()
        )
    }
}

fn closing() -> StreamError {
    StreamError("the server is closing".to_owned())
}

impl StreamHandle {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: Inbox,
        first: oneshot::Receiver<Result<PlayInfo, StreamError>>,
    ) -> StreamHandle {
        StreamHandle {
            shared,
            inbox,
            first: Mutex::new(Some(first)),
            why: OnceLock::new(),
        }
    }

    /// Waits until the first packets are planned and in memory: where the stream will begin. To be asked
    /// once; after that [`StreamHandle::seek`] and [`StreamHandle::resume`] answer themselves.
    pub async fn ready(&self) -> Result<PlayInfo, StreamError> {
        let first = supervise::lock(&self.first).take();
        match first {
            Some(first) => first.await.unwrap_or_else(|_| Err(closing())),
            None => Err(StreamError(
                "where the stream begins was asked before".to_owned(),
            )),
        }
    }

    /// Begins to send, from now on; as soon as it is ready if it is not yet.
    pub fn go(&self) {
        self.inbox.send(Command::Go(self.shared.id));
    }

    /// Sends by this schedule, ahead of the film's own times, from where it waits for [`StreamHandle::go`] on, until
    /// it is moved again; `None`: by the film's own times.
    pub fn send_by(&self, schedule: Option<Arc<Schedule>>) {
        self.inbox.send(Command::SendBy(self.shared.id, schedule));
    }

    /// Stands still; returns the presentation time at which it does. When this returns nothing more
    /// leaves. A paused stream holds no film bytes in memory.
    pub async fn pause(&self) -> Nanos {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Command::Pause(self.shared.id, reply));
        match answer.await {
            Ok(position) => position,
            Err(_) => self.progress().position,
        }
    }

    /// Prepares to go on where it stands: exactly the next packet. [`StreamHandle::go`] lets it.
    pub async fn resume(&self) -> Result<PlayInfo, StreamError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Command::Resume(self.shared.id, reply));
        answer.await.unwrap_or_else(|_| Err(closing()))
    }

    /// Leaves the place it is at, whatever it does there, and prepares to play from `start` on (to `end`,
    /// or the film's end); [`StreamHandle::go`] lets it. When this returns nothing of the old place
    /// leaves any more; sequence numbers run on.
    pub async fn seek(&self, start: Nanos, end: Option<Nanos>) -> Result<PlayInfo, StreamError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Command::Seek {
            stream: self.shared.id,
            start,
            end,
            reply,
        });
        answer.await.unwrap_or_else(|_| Err(closing()))
    }

    /// Ends it for good, saying BYE. Dropping the handle does the same.
    pub fn stop(self) {}

    /// What its BYE says of why it was ended, to who did not ask for it (RFC 3550 section 6.6); the first words
    /// count.
    pub fn say_why(&self, why: &str) {
        let _ = self.why.set(why.into());
    }

    /// How it gets on.
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Takes in RTCP that came over the stream's RTSP connection (interleaved).
    pub fn rtcp(&self, data: &[u8]) {
        crate::rtcp::heard_by(&self.shared, data);
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let why = self.why.take().unwrap_or_default();
        self.inbox.send(Command::Stop(self.shared.id, why));
        self.shared.lane.leave();
    }
}
