//! A connection as hyper sees it: counted, and given up when its reader takes nothing.

use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt;
use reelway_clock::Monotonic;
use reelway_session::{last_look, patience};
use reelway_sys::{marks, tcp};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::metrics::Metrics;
use crate::node::NodeView;

/// What a connection carries, for the queues on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Answers and playlists: little, so that they go first.
    #[default]
    Said,
    /// Media: bulk, which does not go before what others are told.
    Media,
    /// A file, which goes after all else.
    File {
        /// Its differentiated services code point.
        dscp: u8,
        /// Whether its speed changes with what others need. Then the kernel holds little that has not left: what is held leaves
        /// at the speed of before.
        is_held: bool,
    },
}

/// Bytes of a held file that the kernel may have before they leave.
const UNSENT: u32 = 128 << 10;

/// How fast a connection may send, bytes a second, and what it carries; told by its bodies, done by the kernel
/// (`SO_MAX_PACING_RATE`, marks) from the next write on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speed(Arc<Mutex<Told>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    speed: u64,
    carried: Carried,
    /// When what is written now must have been taken; [`NEVER`]: there is no such time.
    due: Monotonic,
}

const NEVER: Monotonic = Monotonic::from_nanos(u64::MAX);

impl Default for Told {
    fn default() -> Told {
        Told {
            speed: tcp::NO_LIMIT,
            carried: Carried::Said,
            due: NEVER,
        }
    }
}

impl Speed {
    /// At most so many bytes a second; `None`: as fast as the network goes.
    pub fn limit(&self, bytes_per_second: Option<u64>) {
        self.told().speed = bytes_per_second.unwrap_or(tcp::NO_LIMIT);
    }

    /// This is sent from now on.
    pub fn carries(&self, carried: Carried) {
        self.told().carried = carried;
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is written from now on must have been taken whole when this time is over, else the connection is closed: a
    /// client that takes a byte now and then must not keep an answer in memory.
    pub fn must_be_taken_within(&self, time: Duration) {
        self.told().due = reelway_clock::now() + time;
    }

    /// What is written from now on may take as long as some of it is taken now and then.
    pub fn may_be_taken_slowly(&self) {
        self.told().due = NEVER;
    }

    /// Time that is left for what is written now.
    fn left(&self) -> Duration {
        self.told().due.since(reelway_clock::now())
    }
}

/// The number of the connection that a request came over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionNumber(pub u64);

/// Timers for hyper that pass only after the reactor has looked once more: a request that waited while the server stood
/// still is read before its connection is given up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PatientTimer;

/// A patient timer's wait.
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

/// Bytes on the wire for 16 of an answer: headers of TCP, IP and Ethernet take less than a sixteenth.
pub(crate) const WIRE: u64 = 17;

/// The limited networks that a connection's packets pass, and its number: what it is handed is counted there.
pub(crate) struct OnNetworks {
    pub node: Arc<dyn NodeView>,
    pub numbers: Vec<u8>,
    pub connection: ConnectionNumber,
}

impl OnNetworks {
    fn handed(&self, bytes: u64, speed: u64) {
        let wire = |bytes: u64| (bytes / 16).saturating_mul(WIRE) + bytes % 16;
        let speed = (speed != tcp::NO_LIMIT).then(|| wire(speed));
        self.node
            .is_handed(&self.numbers, self.connection.0, wire(bytes), speed);
    }
}

/// A TCP stream that fails with `TimedOut` when a write has waited for `patience`, or what is written had to be taken by
/// now.
pub(crate) struct Watched {
    stream: TcpStream,
    metrics: Arc<Metrics>,
    patience: Duration,
    speed: Speed,
    networks: Option<OnNetworks>,
    /// What the kernel knows.
    known: Told,
    /// Set while a write waits.
    stalled: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Watched {
    pub fn new(
        stream: TcpStream,
        metrics: Arc<Metrics>,
        patience: Duration,
        speed: Speed,
    ) -> Watched {
        Watched {
            stream,
            metrics,
            patience,
            speed,
            networks: None,
            known: Told::default(),
            stalled: None,
        }
    }

    /// The same, over limited networks.
    pub fn over(mut self, networks: Option<OnNetworks>) -> Watched {
        self.networks = networks;
        self
    }

    /// Tells the kernel the speed and what goes, where it is another than before.
    fn keep_speed(&mut self) {
        let told = *self.speed.told();
        let before = std::mem::replace(&mut self.known, told);
        if told.carried != before.carried
            && let Err(error) = self.mark(told.carried)
        {
            tracing::debug!(
                "a connection's media cannot be marked and keeps the mark of answers: {error}"
            );
        }
        if told.speed != before.speed
            && let Err(error) = tcp::set_max_rate(self.stream.as_fd(), told.speed)
        {
            tracing::debug!("a connection's pacing rate cannot be set: {error}");
        }
    }

    fn mark(&self, carried: Carried) -> io::Result<()> {
        let socket = self.stream.as_fd();
        let (marked, is_held) = match carried {
            Carried::Said => (marks::set_said(socket), false),
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
            // Once its time is over, taking a little does not give an answer more.
            if !self.speed.left().is_zero() {
                self.stalled = None;
            }
            if let Ok(bytes) = &result {
                self.metrics
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
        self.metrics.stalled.fetch_add(1, Ordering::Relaxed);
        self.stalled = None;
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client read nothing, or too little, for too long",
        )))
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
        let bytes = (buf.filled().len() - before) as u64;
        self.metrics.received.fetch_add(bytes, Ordering::Relaxed);
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
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.keep_speed();
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
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
        let (metrics, patience) = (Arc::default(), Duration::from_secs(1));
        let mut watched = Watched::new(stream, metrics, patience, speed.clone());
        let known = |watched: &Watched| tcp::max_rate(watched.stream.as_fd()).unwrap();
        speed.limit(Some(1_500_000));
        watched.write_all(b"film").await.unwrap();
        assert_eq!(known(&watched), 1_500_000);
        speed.limit(None);
        assert_eq!(known(&watched), 1_500_000);
        watched.write_all(b"film").await.unwrap();
        assert_eq!(known(&watched), tcp::NO_LIMIT);
        let priority = |watched: &Watched| marks::priority(watched.stream.as_fd()).unwrap();
        marks::set_said(watched.stream.as_fd()).unwrap();
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
