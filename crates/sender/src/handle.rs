//! The owner's handle of a stream.

use std::sync::{Arc, Mutex, OnceLock};

use reelway_demand::Schedule;
use reelway_media::Nanos;
use reelway_playout::{PlayInfo, StreamError};
use reelway_supervise as supervise;
use tokio::sync::oneshot;

use crate::inbox::{Command, Inbox};
use crate::shared::Shared;
use crate::stream::Progress;

/// Handle of a stream. Dropping it stops the stream with BYE.
///
/// A new stream is being prepared; [`StreamHandle::ready`] returns where it will begin, and nothing
/// is sent before [`StreamHandle::go`], so that the response to PLAY can be sent first. The same
/// holds after [`StreamHandle::seek`] and [`StreamHandle::resume`].
pub struct StreamHandle {
    shared: Arc<Shared>,
    inbox: Inbox,
    first: Mutex<Option<oneshot::Receiver<Result<PlayInfo, StreamError>>>>,
    /// Reason for BYE.
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

    /// Waits until the first packets are planned and in memory; returns where the stream will
    /// begin. May be called only once; [`StreamHandle::seek`] and [`StreamHandle::resume`] return
    /// the same for later starts.
    pub async fn ready(&self) -> Result<PlayInfo, StreamError> {
        let first = supervise::lock(&self.first).take();
        match first {
            Some(first) => first.await.unwrap_or_else(|_| Err(closing())),
            None => Err(StreamError(
                "where the stream begins was asked before".to_owned(),
            )),
        }
    }

    /// Starts sending, now or as soon as it is ready.
    pub fn go(&self) {
        self.inbox.send(Command::Go(self.shared.id));
    }

    /// Sends by this schedule, ahead of the film's own times, from the next [`StreamHandle::go`]
    /// until the stream is moved again; `None` means by the film's own times.
    pub fn send_by(&self, schedule: Option<Arc<Schedule>>) {
        self.inbox.send(Command::SendBy(self.shared.id, schedule));
    }

    /// Pauses; returns the presentation time of the position. When this returns, nothing more is
    /// sent. A paused stream holds no film bytes in memory.
    pub async fn pause(&self) -> Nanos {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Command::Pause(self.shared.id, reply));
        match answer.await {
            Ok(position) => position,
            Err(_) => self.progress().position,
        }
    }

    /// Prepares to continue with exactly the next packet; [`StreamHandle::go`] starts it.
    pub async fn resume(&self) -> Result<PlayInfo, StreamError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Command::Resume(self.shared.id, reply));
        answer.await.unwrap_or_else(|_| Err(closing()))
    }

    /// Leaves the current position, whatever the state, and prepares to play from `start` to `end`
    /// (or the film's end); [`StreamHandle::go`] starts it. When this returns, nothing from the old
    /// position is sent any more; sequence numbers continue.
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

    /// Ends the stream with BYE. Dropping the handle does the same.
    pub fn stop(self) {}

    /// Sets the reason in BYE, for viewers who did not end the stream themselves (RFC 3550 section
    /// 6.6); only the first call counts.
    pub fn say_why(&self, why: &str) {
        let _ = self.why.set(why.into());
    }

    /// Returns the progress.
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Takes in RTCP that arrived over the stream's RTSP connection (interleaved).
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
