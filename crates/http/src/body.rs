//! Bodies of media: read from the store window by window, paced, and one window ahead only for who takes one faster than
//! the next can be read. A window is a block; of several blocks, which are asked for and read at once, for who is that
//! fast, as long as most of what may be pinned is free.
//!
//! What hyper holds and what is read ahead are slices of the store's blocks, which stay pinned until
//! the socket has taken them. A viewer who stopped reading would so keep two windows for as long as
//! his connection lives, and enough of them the whole pool. So only half of the pool may be pinned by
//! HTTP ([`Budget`]); connections beyond it get copies of at most 64 KiB, one at a time, and pin
//! nothing.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reelway_clock::Monotonic;
use reelway_media::SamplesError;
use reelway_session::EndReason;
use reelway_store::{ReadError, Source, Span, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::connection::Speed;
use crate::films::Show;
use crate::pace::Pace;
use crate::pieces::{Window, Windows};
use crate::spare::Share;
use crate::viewer::Sending;

/// What one connection may copy at once when it may not pin.
const COPIED: u64 = 64 << 10;

/// Bytes a second that a connection is never held below.
const LEAST_SPEED: u64 = 256 << 10;

/// Bytes of a window for who takes one faster than the next can be read, and is not held to his pace by so much: what a
/// window costs (the cache's policy, the pool's lock, a wake where it must be read) is shared by so many, and a disk has
/// several reads to do at once.
const WIDE: u64 = 1 << 20;

/// How long a window makes the viewer wait for the next, if it need not hold more than [`COPIED`] bytes for that: one of
/// few bits would play for many seconds, and he may seek meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Seconds within which a poster's bytes are wanted: after those of all who watch.
const POSTER_DUE: f64 = 60.0;

/// Blocks of a pool of `blocks` that all answers over HTTP may pin together. Whoever comes when these are taken gets
/// copies, so that HTTP never waits for what RTSP's viewers hold, nor they for it.
pub fn pinned_blocks(blocks: u64) -> u64 {
    (blocks / 4).max(1)
}

/// How many blocks of the store HTTP may pin.
#[derive(Clone)]
pub(crate) struct Budget {
    blocks: Arc<Semaphore>,
    all: usize,
    block_bytes: u64,
}

impl Budget {
    /// [`pinned_blocks`] of the store's.
    pub fn new(store: &Store) -> Budget {
        let stats = store.stats();
        let blocks = pinned_blocks(stats.blocks) as usize;
        Budget {
            blocks: Arc::new(Semaphore::new(blocks)),
            all: blocks,
            block_bytes: stats.block_bytes.into(),
        }
    }

    /// Leave to pin a window, and its bytes: a wide one if that is wanted and half of the budget is left after it,
    /// else of one block; `None` where all is pinned.
    fn window(&self, wide: bool) -> Option<(OwnedSemaphorePermit, u64)> {
        let take = |blocks| self.blocks.clone().try_acquire_many_owned(blocks).ok();
        let blocks = (WIDE / self.block_bytes) as usize;
        if wide && blocks > 1 && self.blocks.available_permits() >= self.all / 2 + blocks {
            let permit = take(blocks as u32)?;
            return Some((permit, blocks as u64 * self.block_bytes));
        }
        Some((take(1)?, self.block_bytes))
    }
}

/// Why media cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MediaError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Samples(#[from] SamplesError),
    #[error("the session was ended")]
    Ended,
}

/// Who is sent media, and at what pace.
pub(crate) enum Flow {
    /// A viewer, held to the pace of his flow.
    Viewer {
        /// His answer, under way.
        sending: Sending,
        /// Film seconds that a byte plays.
        seconds_per_byte: f64,
        /// Whether it tells where the viewer is.
        main: bool,
        /// The connection's.
        speed: Speed,
        /// What it is held to.
        pace: Pace,
        /// What goes beyond the pace; `None`: nothing.
        beyond: Option<Share>,
    },
    /// Nobody who watches: a piece for a poster.
    Poster { _turn: OwnedSemaphorePermit },
}

impl Flow {
    /// A viewer's flow over a connection, on average as fast as `pace` says.
    pub fn of(
        sending: Sending,
        seconds_per_byte: f64,
        main: bool,
        pace: Pace,
        speed: Speed,
    ) -> Flow {
        Flow::Viewer {
            sending,
            seconds_per_byte,
            main,
            speed,
            pace,
            beyond: None,
        }
    }

    /// The same, sent beyond its pace what this share gives.
    pub fn beyond(mut self, share: Option<Share>) -> Flow {
        if let Flow::Viewer { beyond, .. } = &mut self {
            *beyond = share;
        }
        self
    }

    /// Whether it goes as fast as TCP takes it.
    fn is_unlimited(&self) -> bool {
        matches!(self, Flow::Viewer { beyond: Some(share), .. } if share.is_all())
    }

    /// The film's bytes from here on are asked for.
    fn comes_to(&self, source: &Source, offset: u64) {
        if let Flow::Viewer {
            sending,
            main: true,
            ..
        } = self
        {
            sending.viewer.comes_to(source, offset);
        }
    }

    /// Waits until it is time for more: `asked` bytes, where they have been asked for already, else at most
    /// `most_beyond` where they go beyond the pace.
    async fn turn(&self, asked: Option<u64>, most_beyond: u64) -> Result<Turn, MediaError> {
        let Flow::Viewer {
            sending: Sending { viewer, flow, .. },
            seconds_per_byte,
            speed,
            pace,
            beyond,
            ..
        } = self
        else {
            return Ok(Turn::at_pace(POSTER_DUE));
        };
        // The first seconds go as fast as the network does, unless what is sent was booked.
        let mut waited = !pace.is_free();
        loop {
            if viewer.session.is_ended() {
                return Err(MediaError::Ended);
            }
            let refilled = viewer.refilled();
            let (mut wait, ahead) = viewer.wait(*flow);
            let now = reelway_clock::now();
            let limit = || {
                let most = pace.speed(ahead) / seconds_per_byte;
                let most = (most.is_normal() && most > 0.0).then(|| (most as u64).max(LEAST_SPEED));
                let beyond = beyond.as_ref().map(|share| share.speed(now));
                match beyond {
                    // Nothing limits it, or nothing but its pace.
                    Some(None) => None,
                    None => most,
                    Some(Some(beyond)) => most.map(|most| most.saturating_add(beyond)),
                }
            };
            if wait.is_zero() {
                if let Some(share) = beyond {
                    share.rests();
                }
                speed.limit(limit().filter(|_| waited));
                return Ok(Turn::at_pace(ahead));
            }
            waited = true;
            if let Some(share) = beyond {
                match share.take(asked, most_beyond, now) {
                    Ok(bytes) => {
                        speed.limit(limit());
                        return Ok(Turn {
                            ahead: ahead.max(POSTER_DUE),
                            beyond: Some(bytes),
                        });
                    }
                    Err(again) => wait = wait.min(again),
                }
            }
            // Looks up now and then whether the session was ended.
            let _ = tokio::time::timeout(wait.min(Duration::from_secs(1)), refilled).await;
        }
    }

    /// How long the viewer would have to wait for more if `bytes` were sent now.
    fn wait_after(&self, bytes: u64) -> Duration {
        match self {
            _ if self.is_unlimited() => Duration::ZERO,
            Flow::Viewer {
                sending: Sending { viewer, flow, .. },
                seconds_per_byte,
                ..
            } => viewer.wait_after(*flow, bytes as f64 * seconds_per_byte),
            Flow::Poster { .. } => Duration::ZERO,
        }
    }

    /// Bytes were handed over, at the film's pace or beyond it.
    fn sent(&self, bytes: u64, at_pace: bool) {
        if let Flow::Viewer {
            sending: Sending { viewer, flow, .. },
            seconds_per_byte,
            ..
        } = self
        {
            let seconds = bytes as f64 * seconds_per_byte;
            viewer.sent(*flow, bytes, if at_pace { seconds } else { 0.0 });
        }
    }

    /// All was handed over.
    fn is_done(&mut self) {
        if let Flow::Viewer { sending, .. } = self {
            sending.is_done();
        }
    }

    /// Nothing more can be sent, for this reason.
    pub fn fail(&self, title: &str, error: &MediaError) {
        match self {
            _ if matches!(error, MediaError::Ended) => {}
            Flow::Viewer {
                sending: Sending { viewer, .. },
                ..
            } => {
                tracing::warn!(%title, session = viewer.session.id(), "cannot send: {error}");
                if !matches!(error, MediaError::Read(ReadError::Closed)) {
                    viewer.session.end(EndReason::Failed(error.to_string()));
                }
            }
            Flow::Poster { .. } => {
                tracing::warn!(%title, "cannot send a piece for a poster: {error}")
            }
        }
    }
}

/// It is time for a window.
struct Turn {
    /// Seconds of film that are ahead already.
    ahead: f64,
    /// It goes beyond the film's pace, and may have so many bytes.
    beyond: Option<u64>,
}

impl Turn {
    fn at_pace(ahead: f64) -> Turn {
        Turn {
            ahead,
            beyond: None,
        }
    }
}

/// A window on its way from the store.
struct Coming {
    window: Window,
    span: Option<oneshot::Receiver<Result<Span, ReadError>>>,
    /// Leave to pin its blocks; without it the bytes are copied.
    permit: Option<OwnedSemaphorePermit>,
}

/// Makes the pieces of a body.
pub(crate) struct Producer {
    store: Store,
    budget: Budget,
    show: Arc<Show>,
    flow: Flow,
    windows: Windows,
    ahead: Option<Coming>,
    /// When the last window was handed over.
    handed: Option<Monotonic>,
}

/// Bytes of a block, and the leave to keep it.
struct Held {
    bytes: Bytes,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Producer {
    pub fn new(
        store: Store,
        budget: Budget,
        show: Arc<Show>,
        flow: Flow,
        windows: Windows,
    ) -> Producer {
        Producer {
            store,
            budget,
            show,
            flow,
            windows,
            ahead: None,
            handed: None,
        }
    }

    /// Whether the next window must be asked for before this one is taken: it is this one's turn in less time after the
    /// last one than a read may last. Whoever is slower would only keep a block from others.
    fn is_fast(&self) -> bool {
        let took = self.handed.map(|handed| reelway_clock::now().since(handed));
        took.is_some_and(|took| took < self.show.source.lead())
    }

    /// Asks the store for the next window, due when the viewer will have played what is ahead.
    fn ask(&mut self, turn: &Turn, wide: bool) -> Result<Option<Coming>, MediaError> {
        let ahead = turn.ahead;
        let (permit, mut size) = match self.budget.window(wide) {
            Some((permit, size)) => (Some(permit), size),
            None => (None, COPIED),
        };
        match turn.beyond {
            Some(most) => size = size.min(most),
            None => {
                while size / 2 >= COPIED && self.flow.wait_after(size) > LONGEST_WAIT {
                    size /= 2;
                }
            }
        }
        let Some(window) = self.windows.next(size)? else {
            return Ok(None);
        };
        let span = window.film.clone().map(|range| {
            self.flow.comes_to(&self.show.source, range.start);
            let (sender, receiver) = oneshot::channel();
            let deadline: Monotonic =
                reelway_clock::now() + Duration::from_secs_f64(ahead.clamp(0.0, 3600.0));
            self.store
                .fetch(&self.show.source, range, deadline, move |span| {
                    // Nobody waits any more when the connection was closed.
                    let _ = sender.send(span);
                });
            receiver
        });
        Ok(Some(Coming {
            window,
            span,
            permit,
        }))
    }

    /// The next pieces, when it is time for them; `None` at the end.
    async fn next(&mut self) -> Result<Option<VecDeque<Bytes>>, MediaError> {
        let asked = self.ahead.as_ref().map(|coming| coming.window.len());
        let turn = self.flow.turn(asked, self.budget.block_bytes).await?;
        let fast = self.is_fast();
        // Of a share it is not known before its turn how large the next window may be.
        let may_ask = turn.beyond.is_none() || self.flow.is_unlimited();
        let coming = match self.ahead.take() {
            Some(coming) => Some(coming),
            None => {
                let wide = fast && may_ask && self.flow.wait_after(WIDE).is_zero();
                self.ask(&turn, wide)?
            }
        };
        let Some(Coming {
            window,
            span,
            permit,
        }) = coming
        else {
            return Ok(None);
        };
        let span = match span {
            Some(span) => Some(span.await.unwrap_or(Err(ReadError::Closed))?),
            None => None,
        };
        let copy = permit.is_none();
        let mut pieces = window.bytes(span.as_ref(), copy);
        drop(span);
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if let Some(permit) = permit {
            let permit = Arc::new(permit);
            for piece in &mut pieces {
                let bytes = std::mem::take(piece);
                *piece = Bytes::from_owner(Held {
                    bytes,
                    _permit: permit.clone(),
                });
            }
            // While these are written the next are read, unless they would be kept while he waits for them.
            if fast && may_ask && self.flow.wait_after(bytes) < self.show.source.lead() {
                let wide = self.flow.wait_after(bytes + WIDE).is_zero();
                self.ahead = self.ask(&turn, wide)?;
            }
        }
        self.handed = Some(reelway_clock::now());
        self.flow.sent(bytes, turn.beyond.is_none());
        Ok(Some(pieces))
    }

    /// Reads the first pieces, so that a failure can still be answered with a status.
    pub async fn start(mut self, len: u64) -> Result<MediaBody, MediaError> {
        let first = self.next().await;
        let ready = first
            .inspect_err(|error| self.flow.fail(&self.show.film.name, error))?
            .unwrap_or_default();
        Ok(MediaBody {
            ready,
            remaining: len,
            state: State::Idle(Box::new(self)),
        })
    }
}

type Produced = (Box<Producer>, Result<Option<VecDeque<Bytes>>, MediaError>);

enum State {
    Idle(Box<Producer>),
    Busy(Pin<Box<dyn Future<Output = Produced> + Send>>),
    Done,
}

/// A body of known length.
pub(crate) struct MediaBody {
    ready: VecDeque<Bytes>,
    remaining: u64,
    state: State,
}

impl http_body::Body for MediaBody {
    type Data = Bytes;
    type Error = MediaError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, MediaError>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                self.remaining = self.remaining.saturating_sub(bytes.len() as u64);
                if self.remaining == 0
                    && let State::Idle(producer) = &mut self.state
                {
                    producer.flow.is_done();
                }
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Poll::Ready(None),
                // The last window is known by the length: nothing is asked for in vain.
                State::Idle(_) if self.remaining == 0 => return Poll::Ready(None),
                State::Idle(mut producer) => {
                    self.state = State::Busy(Box::pin(async move {
                        let produced = producer.next().await;
                        (producer, produced)
                    }));
                }
                State::Busy(mut future) => {
                    let polled = future.as_mut().poll(cx);
                    if polled.is_pending() {
                        self.state = State::Busy(future);
                    }
                    let (producer, produced) = ready!(polled);
                    match produced {
                        Ok(Some(pieces)) => {
                            self.ready = pieces;
                            self.state = State::Idle(producer);
                        }
                        Ok(None) => return Poll::Ready(None),
                        Err(error) => {
                            // Nobody can be told any more but the log and the session.
                            producer.flow.fail(&producer.show.film.name, &error);
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(blocks: usize, block_bytes: u64) -> Budget {
        Budget {
            blocks: Arc::new(Semaphore::new(blocks)),
            all: blocks,
            block_bytes,
        }
    }

    #[test]
    fn windows_are_wide_for_the_fast_while_half_of_what_may_be_pinned_is_left_for_others() {
        let budget = budget(16, 256 << 10);
        let mut pinned = Vec::new();
        let mut sizes = Vec::new();
        for _ in 0..11 {
            let Some((permit, bytes)) = budget.window(true) else {
                break;
            };
            pinned.push(permit);
            sizes.push(bytes >> 10);
        }
        assert_eq!(sizes[..2], [1024, 1024]);
        assert_eq!(sizes[2..10], [256; 8], "one block each of the other half");
        assert!(budget.window(true).is_none(), "all is pinned");
        pinned.clear();
        assert_eq!(
            budget.window(false).map(|(_, bytes)| bytes),
            Some(256 << 10)
        );
    }

    #[test]
    fn a_block_that_is_large_is_a_window_by_itself() {
        let budget = budget(16, 2 << 20);
        assert_eq!(budget.window(true).map(|(_, bytes)| bytes), Some(2 << 20));
    }
}
