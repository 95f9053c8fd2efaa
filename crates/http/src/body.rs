//! Media bodies: read from the store window by window and paced. One window is read ahead, but only
//! for connections that send a window faster than the next can be read. A window is a block. For
//! connections that fast it is several blocks, requested and read at once, while most of the budget
//! is free.
//!
//! The data held by hyper and the data read ahead are slices of the store's blocks, which stay
//! pinned until the socket has taken them. A viewer who stops reading would thus keep two windows
//! for as long as the connection lives, and enough such viewers the whole pool. So HTTP may pin
//! only a quarter of the pool ([`Budget`]); connections beyond that get copies of at most 64 KiB,
//! one at a time, and pin nothing.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reelway_clock::Monotonic;
use reelway_store::{BlockPart, ReadError, Source, Span, Store};
use reelway_viewing::{COPIED, Epoch, WIDE, Window};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::budget::Budget;
use crate::films::Show;
use crate::flow::{Flow, MediaError, Turn};
use crate::pieces::{self, Pieces};
use crate::repeated::Repeated;

/// The source of media bodies.
#[derive(Clone)]
pub(crate) struct Bodies {
    store: Store,
    budget: Budget,
    repeated: Arc<Repeated>,
}

impl Bodies {
    pub fn new(store: Store, repeated: Arc<Repeated>) -> Bodies {
        let budget = Budget::new(&store);
        Bodies {
            store,
            budget,
            repeated,
        }
    }

    /// Makes a body of `len` bytes from these pieces of a film. Reads the first pieces, so that a
    /// failure can still be answered with a status.
    pub async fn begin(
        &self,
        show: Arc<Show>,
        flow: Flow,
        pieces: Pieces,
        len: u64,
    ) -> Result<MediaBody, MediaError> {
        if let Flow::Viewer { sending, .. } = &flow {
            sending.viewer.answered();
        }
        let mut producer = Producer {
            store: self.store.clone(),
            budget: self.budget.clone(),
            repeated: self.repeated.clone(),
            source: pieces.source(&show).clone(),
            show,
            flow,
            pieces,
            ahead: None,
            handed: None,
        };
        let first = producer.next().await;
        let ready = first
            .inspect_err(|error| producer.flow.fail(&producer.show.film.name, error))?
            .unwrap_or_default();
        Ok(MediaBody {
            ready,
            remaining: len,
            state: State::Idle(Box::new(producer)),
        })
    }
}

/// A window being read from the store.
struct Coming {
    window: Window,
    asked: Epoch,
    span: Option<oneshot::Receiver<Result<Span, ReadError>>>,
    /// Permission to pin its blocks; without it the bytes are copied.
    permit: Option<OwnedSemaphorePermit>,
}

/// Produces the pieces of a body.
struct Producer {
    store: Store,
    budget: Budget,
    repeated: Arc<Repeated>,
    show: Arc<Show>,
    /// The source that it reads from.
    source: Arc<Source>,
    flow: Flow,
    pieces: Pieces,
    ahead: Option<Coming>,
    /// When the last window was handed over.
    handed: Option<Monotonic>,
}

/// Bytes of a block, with the permission to keep it pinned.
struct BlockBytes {
    bytes: Bytes,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Producer {
    /// Whether the next window must be requested before this one is sent: this one's turn came
    /// sooner after the previous one than a read may last. Slower connections would only keep a
    /// block from others.
    fn is_fast(&self) -> bool {
        let took = self.handed.map(|handed| reelway_clock::now().since(handed));
        took.is_some_and(|took| took < self.source.lead())
    }

    /// Requests the next window from the store, with the time when the viewer will have played what
    /// they have as its deadline.
    fn ask(&mut self, turn: &Turn, wide: bool) -> Result<Option<Coming>, MediaError> {
        let ahead = turn.ahead;
        let (permit, size) = match self.budget.window(wide) {
            Some((permit, size)) => (Some(permit), size),
            None => (None, COPIED),
        };
        let size = match turn.beyond {
            Some(most) => size.min(most),
            None => self.flow.window(size),
        };
        let Some(window) = self.pieces.next(size)? else {
            return Ok(None);
        };
        let asked = self.repeated.asked();
        let span = window.film.clone().map(|range| {
            self.flow.comes_to(&self.source, range.start);
            let (sender, receiver) = oneshot::channel();
            let deadline: Monotonic =
                reelway_clock::now() + Duration::from_secs_f64(ahead.clamp(0.0, 3600.0));
            self.store
                .fetch(&self.source, range, deadline, move |span| {
                    // The receiver is gone if the connection was closed.
                    let _ = sender.send(span);
                });
            receiver
        });
        Ok(Some(Coming {
            window,
            asked,
            span,
            permit,
        }))
    }

    /// Returns the next pieces when they are due; `None` at the end.
    async fn next(&mut self) -> Result<Option<VecDeque<Bytes>>, MediaError> {
        let asked = self.ahead.as_ref().map(|coming| coming.window.bytes());
        let turn = self.flow.turn(asked, self.budget.block_bytes()).await?;
        let fast = self.is_fast();
        // With a limited share, the size of the next window is not known before its turn.
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
            asked,
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
        let sent = |part: BlockPart| match copy {
            true => Bytes::from_owner(part),
            false => self.repeated.bytes(self.source.identity(), part, asked),
        };
        let mut pieces = pieces::bytes(window, span.as_ref(), copy, sent);
        drop(span);
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if let Some(permit) = permit {
            let permit = Arc::new(permit);
            for piece in &mut pieces {
                let bytes = std::mem::take(piece);
                *piece = Bytes::from_owner(BlockBytes {
                    bytes,
                    _permit: permit.clone(),
                });
            }
            // Read the next window while these pieces are written, unless its blocks would stay
            // pinned while the viewer waits.
            if fast && may_ask && self.flow.wait_after(bytes) < self.source.lead() {
                let wide = self.flow.wait_after(bytes + WIDE).is_zero();
                self.ahead = self.ask(&turn, wide)?;
            }
        }
        self.handed = Some(reelway_clock::now());
        self.flow.sent(bytes, turn.beyond.is_none());
        Ok(Some(pieces))
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
                // The length shows which window is the last: no request is made in vain.
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
                            // Only the log and the session can still be notified.
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
