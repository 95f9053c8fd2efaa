//! The only writer of a TCP connection: media, RTCP and RTSP responses, always in whole frames.
//!
//! What the connection does not accept at once waits in a small backlog: the rest of a partly
//! written packet, responses and RTCP. Media does not wait here except for that rest: a packet that
//! finds the connection full is not taken, its stream does not advance, and the film's plan serves
//! as its backlog.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

use reelway_supervise as supervise;
use reelway_sys::udp::Batch;
use reelway_sys::{marks, tcp};

/// Maximum backlog of responses and RTCP for a slow reader, in bytes. The longest response
/// (DESCRIBE) is far smaller; a reader who lets the backlog grow this much sends requests without
/// reading.
const MOST_BACKLOG: usize = 256 << 10;

/// Memory kept for an empty backlog, in bytes.
const KEPT: usize = 4 << 10;

/// Maximum unsent data of one connection in the kernel, in bytes: 250 ms at 4 Mb/s.
const UNSENT: u32 = 128 << 10;

/// Minimum rate of a connection in bytes per second: leaves room for responses and RTCP beside
/// media.
const LEAST_RATE: u64 = 256 << 10;

/// Why nothing can be written any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriterError {
    /// The connection is broken.
    #[error("connection lost: {0}")]
    Broken(String),
    /// The peer sends requests without reading responses.
    #[error("the peer does not read: more than {MOST_BACKLOG} bytes of answers wait for it")]
    Backlog,
}

/// The write side of an RTSP connection.
pub struct FrameWriter {
    connection: Arc<dyn AsFd + Send + Sync>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    backlog: Vec<u8>,
    /// Number of bytes of it that are written.
    done: usize,
    broken: Option<WriterError>,
    /// Rate that its streams may need together, in bytes per second.
    rate: u64,
}

impl std::fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FrameWriter")
    }
}

impl FrameWriter {
    /// Creates a writer for `connection` (std's or tokio's `TcpStream` in an `Arc`). From now on
    /// nothing else may write to it.
    pub fn new(connection: Arc<dyn AsFd + Send + Sync>) -> FrameWriter {
        // Both are optimisations; a connection that rejects them still works.
        let _ = tcp::set_nodelay(connection.as_fd());
        let _ = tcp::set_unsent_limit(connection.as_fd(), UNSENT);
        FrameWriter {
            connection,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // After a panic it is unknown where the write stopped: more bytes could land inside a
        // frame.
        supervise::reset(&self.inner, "an RTSP connection", |inner| {
            let error = WriterError::Broken("ended by a fault of this program".to_owned());
            inner.broken = Some(error);
        })
    }

    /// Writes a whole message (an RTSP response, or `$`-framed RTCP) after what waits. Never
    /// blocks: what does not fit waits. Returns true if nothing waits now. On false, call
    /// [`FrameWriter::flush`] when the connection is writable again (a stream that plays over the
    /// connection does so, too).
    pub fn write(&self, message: &[u8]) -> Result<bool, WriterError> {
        let mut inner = self.lock();
        if inner.backlog.len() - inner.done + message.len() > MOST_BACKLOG {
            inner.broken.get_or_insert(WriterError::Backlog);
        }
        if let Some(error) = &inner.broken {
            return Err(error.clone());
        }
        inner.backlog.extend_from_slice(message);
        inner.flush(&*self.connection)
    }

    /// Writes what waits, as far as the connection accepts it; returns true if nothing waits any
    /// more.
    ///
    /// With tokio: `stream.writable().await?; stream.try_io(Interest::WRITABLE, || writer.flush_io())`.
    pub fn flush(&self) -> Result<bool, WriterError> {
        self.lock().flush(&*self.connection)
    }

    /// Like [`FrameWriter::flush`], but returns the error `WouldBlock` if something still waits, as
    /// readiness loops expect.
    pub fn flush_io(&self) -> io::Result<()> {
        match self.flush() {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(io::Error::new(io::ErrorKind::BrokenPipe, error)),
        }
    }

    /// Reserves a rate for a stream over the connection: the kernel limits all its streams together
    /// to the sum of their rates (`SO_MAX_PACING_RATE`), so that a large picture does not leave at
    /// the speed of the network card.
    ///
    /// From now on everything in the connection is marked as media (`dscp`, `priority`): a
    /// connection with a stream does not carry short responses only, which would be sent ahead of
    /// all others.
    pub(crate) fn room(
        self: &Arc<Self>,
        bytes_per_second: u64,
        (dscp, priority): (u8, u8),
    ) -> Room {
        if let Err(error) = marks::set(self.connection.as_fd(), dscp, priority) {
            tracing::debug!("marks of an RTSP connection: {error}");
        }
        self.change_rate(|rate| rate.saturating_add(bytes_per_second));
        Room {
            writer: Arc::clone(self),
            bytes_per_second,
        }
    }

    fn change_rate(&self, change: impl FnOnce(u64) -> u64) {
        let mut inner = self.lock();
        inner.rate = change(inner.rate);
        let rate = match inner.rate {
            0 => tcp::NO_LIMIT,
            rate => rate.max(LEAST_RATE),
        };
        if let Err(error) = tcp::set_max_rate(self.connection.as_fd(), rate) {
            tracing::debug!("an RTSP connection's pacing rate cannot be set: {error}");
        }
    }

    /// Returns whether something waits to be written.
    pub fn is_waiting(&self) -> bool {
        let inner = self.lock();
        inner.done < inner.backlog.len()
    }

    /// Returns whether the connection has room for packets again. A connection error counts as
    /// room: the next write reports it.
    pub(crate) fn has_room(&self) -> Result<bool, WriterError> {
        Ok(self.lock().flush(&*self.connection)? && tcp::is_writable(self.connection.as_fd()))
    }

    /// Writes the packets of a batch, each already framed. Returns how many were taken, completely
    /// or with the rest in the backlog; the others must be offered again.
    pub(crate) fn write_packets(&self, batch: &Batch<'_, '_>) -> Result<usize, WriterError> {
        let mut inner = self.lock();
        if !inner.flush(&*self.connection)? {
            return Ok(0);
        }
        let all = batch.packets();
        let mut taken = 0;
        while taken < all {
            // As many whole packets as one call accepts; a packet has far fewer slices than that.
            let fits = |packet: &usize| batch.slices_of(taken..packet + 1).len() <= tcp::MAX_SLICES;
            let end = (taken..all)
                .take_while(fits)
                .last()
                .map_or(taken + 1, |last| last + 1);
            let mut written =
                match tcp::write_now(self.connection.as_fd(), batch.slices_of(taken..end)) {
                    Ok(written) => written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                    Err(error) => return Err(inner.fail(&error)),
                };
            while taken < end {
                let bytes = batch.bytes_of(taken);
                if written == 0 {
                    return Ok(taken);
                }
                taken += 1;
                if written < bytes {
                    inner.keep_rest(batch.slices_of(taken - 1..taken), written);
                    return Ok(taken);
                }
                written -= bytes;
            }
        }
        Ok(taken)
    }
}

/// A stream's share of its connection's rate, returned when dropped.
pub(crate) struct Room {
    writer: Arc<FrameWriter>,
    bytes_per_second: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        let bytes_per_second = self.bytes_per_second;
        self.writer
            .change_rate(|rate| rate.saturating_sub(bytes_per_second));
    }
}

impl Inner {
    fn fail(&mut self, error: &io::Error) -> WriterError {
        let error = WriterError::Broken(error.to_string());
        self.broken.get_or_insert(error).clone()
    }

    fn flush(&mut self, connection: &(dyn AsFd + Send + Sync)) -> Result<bool, WriterError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        while self.done < self.backlog.len() {
            match tcp::write_now(
                connection.as_fd(),
                &[IoSlice::new(&self.backlog[self.done..])],
            ) {
                Ok(written) => self.done += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.backlog.drain(..self.done);
                    self.done = 0;
                    return Ok(false);
                }
                Err(error) => return Err(self.fail(&error)),
            }
        }
        self.backlog.clear();
        // A single large response must not hold its memory for hours.
        self.backlog.shrink_to(KEPT);
        self.done = 0;
        Ok(true)
    }

    /// Keeps what follows the first `written` bytes of a packet.
    fn keep_rest(&mut self, packet: &[IoSlice<'_>], written: usize) {
        let mut skip = written;
        for slice in packet {
            let from = skip.min(slice.len());
            self.backlog.extend_from_slice(&slice[from..]);
            skip -= from;
        }
    }
}
