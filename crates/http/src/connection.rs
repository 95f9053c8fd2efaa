//! A connection as hyper sees it: counted, and closed if its client reads nothing.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt;
use reelway_session::{last_look, patience};
use reelway_sys::{marks, tcp};
use reelway_viewing::on_wire;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::giving::{Given, Giving};
use crate::metrics::counters::Counters;
use crate::node::NodeView;
use crate::speed::{Carried, Speed, SpeedState};

/// Maximum unsent bytes in the kernel for a connection that carries a held file.
const UNSENT: u32 = 128 << 10;

/// The number of the connection on which a request arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionNumber(pub u64);

/// Timers for hyper that expire only after the reactor has polled once more: a request that waited
/// during a standstill of the server is read before its connection is closed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PatientTimer;

/// The sleep of a patient timer.
struct PatientSleep(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Future for PatientSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl rt::Sleep for PatientSleep {}

impl rt::Timer for PatientTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(PatientSleep(Box::pin(patience(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(PatientSleep(Box::pin(async move {
            tokio::time::sleep_until(deadline.into()).await;
            last_look().await;
        })))
    }
}

/// The limited networks that a connection's packets pass, and its number: the bytes it is handed
/// are counted there.
pub(crate) struct OnNetworks {
    pub node: Arc<dyn NodeView>,
    pub numbers: Vec<u8>,
    pub connection: ConnectionNumber,
}

impl OnNetworks {
    fn handed(&self, bytes: u64, speed: Option<u64>) {
        let (bytes, speed) = (on_wire(bytes), speed.map(on_wire));
        self.node
            .is_handed(&self.numbers, self.connection.0, bytes, speed);
    }
}

/// A TCP stream that fails with `TimedOut` if a write has waited for `patience`, or if the deadline
/// for the written data has passed.
pub(crate) struct Watched {
    stream: TcpStream,
    counters: Arc<Counters>,
    patience: Duration,
    speed: Speed,
    networks: Option<OnNetworks>,
    giving: Option<Giving>,
    /// The settings that the kernel has.
    known: SpeedState,
    /// Set while a write waits.
    stalled: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Watched {
    pub fn new(
        stream: TcpStream,
        counters: Arc<Counters>,
        patience: Duration,
        speed: Speed,
    ) -> Watched {
        Watched {
            stream,
            counters,
            patience,
            speed,
            networks: None,
            giving: None,
            known: SpeedState::default(),
            stalled: None,
        }
    }

    /// Sets the limited networks that the stream passes.
    pub fn over(mut self, networks: Option<OnNetworks>) -> Watched {
        self.networks = networks;
        self
    }

    /// Enables sending bytes without a copy.
    pub fn giving(mut self, giving: Option<Giving>) -> Watched {
        self.giving = giving;
        self
    }

    /// Calls `receive` once data has arrived.
    pub fn poll_receive<T>(
        &self,
        cx: &mut Context<'_>,
        mut receive: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let call = || receive(self.stream.as_fd());
            match self.stream.try_io(Interest::READABLE, call) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return Poll::Ready(received),
            }
        }
    }

    /// Counts received bytes.
    pub fn received(&self, bytes: usize) {
        self.counters
            .received
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Calls `send` once there is room, with the same timeouts as a write.
    pub fn poll_transmit(
        &mut self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let sent = loop {
            match self.stream.poll_write_ready(cx) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            let call = || send(self.stream.as_fd());
            match self.stream.try_io(Interest::WRITABLE, call) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => break Poll::Ready(sent),
            }
        };
        self.watch(cx, sent)
    }

    /// Writes the first of these bytes; gives them away if they need no copy.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Watched { stream, giving, .. } = self;
        let free = giving.as_ref().and_then(|giving| {
            let of = |buf: &io::IoSlice<'_>| giving.find(buf).is_some();
            Some((giving, bufs.iter().position(of)?))
        });
        let Some((giving, at)) = free else {
            return Pin::new(stream).poll_write_vectored(cx, bufs);
        };
        loop {
            ready!(stream.poll_write_ready(cx))?;
            let mut is_refused = false;
            let sent = stream.try_io(Interest::WRITABLE, || {
                if at > 0 {
                    return tcp::write_before_more(stream.as_fd(), &bufs[..at]);
                }
                let bytes = giving.find(&bufs[0]);
                let more = bufs.len() > 1;
                match bytes.map(|bytes| giving.give(stream.as_fd(), bytes, more)) {
                    Some(Given::Done(given)) => given,
                    Some(Given::Refused) | None => {
                        is_refused = true;
                        Ok(0)
                    }
                }
            });
            match sent {
                _ if is_refused => return Pin::new(stream).poll_write_vectored(cx, bufs),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(bytes) if at == 0 => {
                    self.counters
                        .given
                        .fetch_add(bytes as u64, Ordering::Relaxed);
                    return Poll::Ready(Ok(bytes));
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Passes speed and marks to the kernel if they have changed.
    fn keep_speed(&mut self) {
        let state = *self.speed.state();
        let before = std::mem::replace(&mut self.known, state);
        if state.carried != before.carried
            && let Err(error) = self.mark(state.carried)
        {
            tracing::debug!(
                "a connection's media cannot be marked and keeps the mark of answers: {error}"
            );
        }
        if state.speed != before.speed
            && let Err(error) = self.set_max_rate(state.speed)
        {
            tracing::debug!("a connection's pacing rate cannot be set: {error}");
        }
    }

    fn set_max_rate(&self, speed: Option<u64>) -> io::Result<()> {
        tcp::set_max_rate(self.stream.as_fd(), speed.unwrap_or(tcp::NO_LIMIT))
    }

    fn mark(&self, carried: Carried) -> io::Result<()> {
        let socket = self.stream.as_fd();
        let (marked, is_held) = match carried {
            Carried::Control => (marks::set_control(socket), false),
            Carried::Media => (marks::set_bulk(socket), false),
            Carried::File { dscp, is_held } => (marks::set_last(socket, dscp), is_held),
        };
        tcp::set_unsent_limit(socket, if is_held { UNSENT } else { u32::MAX })?;
        marked
    }

    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = written {
            // Once the deadline has passed, progress does not extend it.
            if !self.speed.left().is_zero() {
                self.stalled = None;
            }
            if let Ok(bytes) = &result {
                self.counters
                    .sent
                    .fetch_add(*bytes as u64, Ordering::Relaxed);
                if let Some(networks) = &self.networks {
                    networks.handed(*bytes as u64, self.known.speed);
                }
            }
            return Poll::Ready(result);
        }
        let patience = self.patience.min(self.speed.left());
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(reelway_session::patience(patience)));
        if stalled.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.counters.stalled.fetch_add(1, Ordering::Relaxed);
        self.stalled = None;
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client read nothing, or too little, for too long",
        )))
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.received(buf.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.keep_speed();
        let written = self.poll_send(cx, &[io::IoSlice::new(buf)]);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.keep_speed();
        let written = self.poll_send(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_kernel_is_told_a_speed_with_the_next_write_and_that_there_is_none_any_more() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let _other = listener.accept().await.unwrap();
        let speed = Speed::default();
        let (counters, patience) = (Arc::default(), Duration::from_secs(1));
        let mut watched = Watched::new(stream, counters, patience, speed.clone());
        let known = |watched: &Watched| tcp::max_rate(watched.stream.as_fd()).unwrap();
        speed.limit(Some(1_500_000));
        watched.write_all(b"film").await.unwrap();
        assert_eq!(known(&watched), 1_500_000);
        speed.limit(None);
        assert_eq!(known(&watched), 1_500_000);
        watched.write_all(b"film").await.unwrap();
        assert_eq!(known(&watched), tcp::NO_LIMIT);
        let priority = |watched: &Watched| marks::priority(watched.stream.as_fd()).unwrap();
        marks::set_control(watched.stream.as_fd()).unwrap();
        watched.write_all(b"playlist").await.unwrap();
        assert!(priority(&watched) > 0);
        speed.carries(Carried::Media);
        watched.write_all(b"film").await.unwrap();
        assert_eq!(priority(&watched), 0);
        speed.carries(Carried::File {
            dscp: 1,
            is_held: true,
        });
        watched.write_all(b"film").await.unwrap();
        assert_eq!(priority(&watched), marks::LAST);
    }
}
