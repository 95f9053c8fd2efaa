//! Bytes that a connection gets without a copy.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reelway_sys::once::{Addresses, Written};
use reelway_sys::splice::Pipe;

/// Fewer bytes at once are copied: the calls cost more than that.
pub(crate) const LEAST: usize = 16 << 10;

thread_local! {
    /// Made with the first bytes that this thread gives away.
    static PIPE: RefCell<Option<Pipe>> = const { RefCell::new(None) };
}

/// The way without a copy, for as long as the kernel goes it.
#[derive(Clone)]
pub(crate) struct Giving {
    addresses: Arc<Addresses>,
    refused: Arc<AtomicBool>,
}

/// What became of bytes that were to be given away.
pub(crate) enum Given {
    /// As of a write.
    Done(io::Result<usize>),
    /// The kernel does not do it: they are to be written.
    Refused,
}

impl Giving {
    /// For bytes that lie at these addresses.
    pub fn new(addresses: Arc<Addresses>) -> Giving {
        Giving {
            addresses,
            refused: Arc::default(),
        }
    }

    /// These bytes, if they may be given away and there are enough of them.
    pub fn find<'a>(&self, bytes: &'a [u8]) -> Option<Written<'a>> {
        if bytes.len() < LEAST || self.refused.load(Ordering::Relaxed) {
            return None;
        }
        self.addresses.find(bytes)
    }

    /// Gives as much of them to a connection as it takes now.
    pub fn give(&self, connection: BorrowedFd<'_>, bytes: Written<'_>, more: bool) -> Given {
        let given = PIPE.with_borrow_mut(|pipe| {
            let mut one = match pipe.take() {
                Some(one) => one,
                None => Pipe::new()?,
            };
            let given = one.give(connection, bytes, more);
            if !one.is_broken() {
                *pipe = Some(one);
            }
            given
        });
        match given {
            Err(error) if is_refusal(&error) => {
                if !self.refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "the kernel does not take film from memory without a copy ({error}): it is copied"
                    );
                }
                Given::Refused
            }
            given => Given::Done(given),
        }
    }
}

/// Whether an error says something of the call, and not of the connection.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let of_connection = [
        Kind::WouldBlock,
        Kind::BrokenPipe,
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::NotConnected,
        Kind::TimedOut,
        Kind::HostUnreachable,
        Kind::NetworkUnreachable,
        Kind::NetworkDown,
    ];
    !of_connection.contains(&error.kind())
}
