//! A connection whose records the kernel encrypts and decrypts.

use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use reelway_sys::ktls::{self, Read};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Watched;

/// Data is written as without TLS; reads return records, some of which are not data.
pub(crate) struct KernelTls {
    connection: Watched,
    /// The peer has closed its side.
    is_read: bool,
    /// The peer was notified that nothing more follows.
    is_closed: bool,
}

impl KernelTls {
    /// Wraps a connection whose keys the kernel has.
    pub fn new(connection: Watched) -> KernelTls {
        KernelTls {
            connection,
            is_read: false,
            is_closed: false,
        }
    }
}

impl AsyncRead for KernelTls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_read || buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let room = buf.initialize_unfilled();
        let read = |socket: BorrowedFd<'_>| ktls::read(socket, room);
        match ready!(self.connection.poll_receive(cx, read))? {
            Read::Data(bytes) => {
                self.connection.received(bytes);
                buf.advance(bytes);
                Poll::Ready(Ok(()))
            }
            // Any alert ends the connection's input (RFC 8446, section 6).
            Read::Alert => {
                self.is_read = true;
                Poll::Ready(Ok(()))
            }
            // For example a key update, which clients send only after more data than a request has.
            Read::Other(kind) => {
                let words = format!("a record of type {kind} after the handshake");
                Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, words)))
            }
        }
    }
}

impl AsyncWrite for KernelTls {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_closed {
            ready!(self.connection.poll_transmit(cx, ktls::close))?;
            self.is_closed = true;
        }
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}
