//! Sending bytes to a connection without a copy.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reelway_sys::once::{Addresses, Written};
use reelway_sys::splice::Pipe;

/// Fewer bytes than this are copied: the system calls would cost more.
pub(crate) const LEAST: usize = 16 << 10;

thread_local! {
    /// Created when this thread first gives bytes away.
    static PIPE: RefCell<Option<Pipe>> = const { RefCell::new(None) };
}

/// Gives bytes away without a copy, as long as the kernel supports it.
#[derive(Clone)]
pub(crate) struct Giving {
    addresses: Arc<Addresses>,
    refused: Arc<AtomicBool>,
}

/// The result of giving bytes away.
pub(crate) enum Given {
    /// The result of a write.
    Done(io::Result<usize>),
    /// The kernel does not support it: the bytes must be written.
    Refused,
}

impl Giving {
    /// Creates it for bytes at these addresses.
    pub fn new(addresses: Arc<Addresses>) -> Giving {
        Giving {
            addresses,
            refused: Arc::default(),
        }
    }

    /// Returns these bytes if they may be given away and there are enough of them.
    pub fn find<'a>(&self, bytes: &'a [u8]) -> Option<Written<'a>> {
        if bytes.len() < LEAST || self.refused.load(Ordering::Relaxed) {
            return None;
        }
        self.addresses.find(bytes)
    }

    /// Gives as many of the bytes to a connection as it takes now.
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
                        "the kernel does not send from the pool without a copy ({error}): film data is copied"
                    );
                }
                Given::Refused
            }
            given => Given::Done(given),
        }
    }
}

/// Whether an error concerns the call rather than the connection.
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
