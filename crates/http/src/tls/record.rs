//! Reads that stop at the end of a TLS record, so that no data after the handshake is read with it:
//! that data may be for the kernel to decrypt.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Size of a record's header: its type, a version, and the length of the rest (RFC 8446, section
/// 5.1).
const HEAD: usize = 5;

/// A connection whose records are read one by one, or freely.
pub(crate) struct Records<IO> {
    io: IO,
    /// The record being read; `None`: reads ignore record boundaries.
    record: Option<Record>,
}

/// How far a record has been read.
#[derive(Default)]
struct Record {
    head: [u8; HEAD],
    /// Bytes of the header that have arrived.
    came: usize,
    /// Bytes after the header that have not.
    left: usize,
}

impl Record {
    /// Returns how many bytes may be read now without exceeding this record.
    fn wanted(&self) -> usize {
        match HEAD - self.came {
            0 => self.left,
            head => head,
        }
    }

    /// Records bytes that were read, at most as many as wanted.
    fn take(&mut self, bytes: &[u8]) {
        if self.came == HEAD {
            self.left -= bytes.len();
        } else {
            self.head[self.came..][..bytes.len()].copy_from_slice(bytes);
            self.came += bytes.len();
            if self.came == HEAD {
                self.left = usize::from(u16::from_be_bytes([self.head[3], self.head[4]]));
            }
        }
        if self.came == HEAD && self.left == 0 {
            *self = Record::default();
        }
    }
}

impl<IO> Records<IO> {
    /// Wraps a new connection: no read crosses the end of a record.
    pub fn one_by_one(io: IO) -> Records<IO> {
        Records {
            io,
            record: Some(Record::default()),
        }
    }

    /// Ignores record boundaries from now on.
    pub fn read_freely(&mut self) {
        self.record = None;
    }

    pub fn into_inner(self) -> IO {
        self.io
    }
}

impl<IO: AsFd> AsFd for Records<IO> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Records<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Records { io, record } = &mut *self;
        let Some(record) = record else {
            return Pin::new(io).poll_read(cx, buf);
        };
        let most = record.wanted().min(buf.remaining());
        let mut some = ReadBuf::new(buf.initialize_unfilled_to(most));
        ready!(Pin::new(io).poll_read(cx, &mut some))?;
        record.take(some.filled());
        let came = some.filled().len();
        buf.advance(came);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Records<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn record(bytes: usize) -> Vec<u8> {
        let mut record = vec![22, 3, 3];
        record.extend((bytes as u16).to_be_bytes());
        record.extend((0..bytes).map(|at| at as u8));
        record
    }

    proptest! {
        #[test]
        fn no_read_goes_beyond_a_record(lengths in prop::collection::vec(0..3000usize, 1..6), room in 1..4000usize) {
            let all: Vec<Vec<u8>> = lengths.iter().map(|bytes| record(*bytes)).collect();
            let stream = all.concat();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut records = Records::one_by_one(&stream[..]);
                for record in &all {
                    let (mut came, mut buffer) = (Vec::<u8>::new(), vec![0u8; room]);
                    while came.len() < record.len() {
                        let bytes = records.read(&mut buffer).await.unwrap();
                        came.extend(&buffer[..bytes]);
                    }
                    assert_eq!(&came, record);
                }
                assert_eq!(records.read(&mut [0]).await.unwrap(), 0, "the end");
            });
        }

        #[test]
        fn read_freely_all_comes_at_once(first in 0..3000usize, second in 0..3000usize) {
            let stream = [record(first), record(second)].concat();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut records = Records::one_by_one(&stream[..]);
                records.read_freely();
                let mut buffer = vec![0; stream.len()];
                assert_eq!(records.read(&mut buffer).await.unwrap(), stream.len());
                assert_eq!(buffer, stream);
            });
        }
    }
}
