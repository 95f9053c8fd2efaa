//! Bodies of media: read from the store window by window, paced, and one window ahead only for connections that take one
//! faster than the next can be read. A window is a block. For connections that fast it is several blocks, which are asked for
//! and read at once, as long as most of what may be pinned is free.
//!
//! What hyper holds and what is read ahead are slices of the store's blocks, which stay pinned until
//! the socket has taken them. A viewer who stopped reading would so keep two windows for as long as
//! the connection lives, and enough of them the whole pool. So only a quarter of the pool may be pinned by
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
use reelway_store::{BlockPart, ReadError, Source, Span, Store};
use reelway_viewing::{COPIED, Epoch, WIDE, Window};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::budget::Budget;
use crate::films::Show;
use crate::flow::{Flow, MediaError, Turn};
use crate::pieces::{self, Pieces};
use crate::repeated::Repeated;

/// Where bodies of media come from.
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

    /// A body of `len` bytes, which are these pieces of a film. Reads the first pieces, so that a failure can still be
    /// answered with a status.
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

/// A window on its way from the store.
struct Coming {
    window: Window,
    asked: Epoch,
    span: Option<oneshot::Receiver<Result<Span, ReadError>>>,
    /// Leave to pin its blocks; without it the bytes are copied.
    permit: Option<OwnedSemaphorePermit>,
}

/// Makes the pieces of a body.
struct Producer {
    store: Store,
    budget: Budget,
    repeated: Arc<Repeated>,
    show: Arc<Show>,
    /// Where what is sent of it is read.
    source: Arc<Source>,
    flow: Flow,
    pieces: Pieces,
    ahead: Option<Coming>,
    /// When the last window was handed over.
    handed: Option<Monotonic>,
}

/// Bytes of a block, and the leave to keep it.
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
    /// Whether the next window must be asked for before this one is taken: it is this one's turn in less time after the
    /// last one than a read may last. Whoever is slower would only keep a block from others.
    fn is_fast(&self) -> bool {
        let took = self.handed.map(|handed| reelway_clock::now().since(handed));
        took.is_some_and(|took| took < self.source.lead())
    }

    /// Asks the store for the next window, due when the viewer will have played what is ahead.
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
                    // Nobody waits any more when the connection was closed.
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

    /// The next pieces, when it is time for them; `None` at the end.
    async fn next(&mut self) -> Result<Option<VecDeque<Bytes>>, MediaError> {
        let asked = self.ahead.as_ref().map(|coming| coming.window.bytes());
        let turn = self.flow.turn(asked, self.budget.block_bytes()).await?;
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
            // While these are written the next are read, unless they would be kept while the viewer waits for them.
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
