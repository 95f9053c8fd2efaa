//! Requests for bytes of a film.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use reelway_clock::Monotonic;
use reelway_pool::Purpose;

use crate::error::ReadError;
use crate::inner::Inner;
use crate::live::{Given, Request};
use crate::source::Source;
use crate::span::{Pin, Span};
use crate::view::{Files, Got};

impl Inner {
    /// See [`crate::Store::most_blocks`].
    pub fn most_blocks(&self) -> u64 {
        (self.config.pool_bytes / 4 / self.block_bytes()).max(2)
    }

    /// See [`crate::Store::most_bytes`].
    pub fn most_bytes(&self) -> u64 {
        (self.most_blocks() - 1) * self.block_bytes()
    }

    /// See [`crate::Store::fetch`].
    pub fn fetch(
        self: &Arc<Self>,
        source: &Arc<Source>,
        range: Range<u64>,
        deadline: Monotonic,
        done: impl FnOnce(Result<Span, ReadError>) + Send + 'static,
    ) {
        let path = || source.path().to_path_buf();
        if source.is_changed() {
            return done(Err(ReadError::Changed { path: path() }));
        }
        if range.start > range.end || range.end > source.len() {
            return done(Err(ReadError::OutOfRange {
                path: path(),
                range,
                len: source.len(),
            }));
        }
        let most = self.most_bytes();
        if range.end - range.start > most {
            return done(Err(ReadError::TooLarge {
                path: path(),
                range,
                most,
            }));
        }
        let block_bytes = self.block_bytes();
        let first = range.start / block_bytes;
        let numbers = (
            u32::try_from(first),
            u32::try_from(range.end.div_ceil(block_bytes).max(first)),
        );
        let (Ok(first), Ok(end)) = numbers else {
            // Block numbers have 32 bits, which is enough for 1 PiB at 256 KiB each.
            let error = io::Error::new(io::ErrorKind::FileTooLarge, "more blocks than are counted");
            return done(Err(ReadError::Io {
                path: path(),
                offset: range.start,
                error: Arc::new(error),
            }));
        };
        // Pending reads must not keep the store open.
        let inner = Arc::downgrade(self);
        let done = Box::new(move |result: Result<Given, ReadError>| {
            let span = match (result, inner.upgrade()) {
                (Ok(Given::Blocks(blocks)), Some(inner)) => {
                    let pins = blocks
                        .into_iter()
                        .map(|block| Pin::new(block, inner.clone()))
                        .collect();
                    Ok(Span::new(pins, range, block_bytes))
                }
                (Ok(_), _) => Err(ReadError::Closed),
                (Err(error), _) => Err(error),
            };
            done(span);
        });
        self.ask(Request {
            what: Purpose::Blocks(Arc::clone(source), first..end),
            deadline,
            tag: done,
        });
    }
}

impl Files for Inner {
    fn fetch(
        self: Arc<Self>,
        file: &Arc<Source>,
        range: Range<u64>,
        deadline: Monotonic,
        got: Got,
    ) {
        Inner::fetch(&self, file, range, deadline, got);
    }
}
