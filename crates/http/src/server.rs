//! The server: takes connections in, within limits, and gives each to hyper.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reelway_catalogue::Catalogue;
use reelway_session::Sessions;
use reelway_store::Store;
use reelway_sys::tcp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::App;
use crate::config::HttpConfig;
use crate::connection::Watched;
use crate::limits::TooMany;
use crate::node::NodeView;

/// Bytes that the kernel holds for a connection and that have not left yet: what a reader who stopped
/// costs beside what is on the way to him.
const UNSENT: u32 = 128 << 10;
/// Bytes that hyper holds of a request's head, and of an answer before it waits for the socket (plus
/// the piece that went beyond).
const BUFFERED: usize = 32 << 10;
/// Most headers of a request.
const HEADERS: usize = 64;
/// How long connections may go on with what they are sending when the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// What one who is too many is told.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
Content-Length: 50\r\nRetry-After: 10\r\nConnection: close\r\n\r\n\
There are too many connections; come again later.\n";

/// What the HTTP side works with.
pub struct Rooms {
    /// Which films there are.
    pub catalogue: Arc<dyn Catalogue>,
    /// Where their bytes come from.
    pub store: Store,
    /// The register of viewers of all protocols.
    pub sessions: Sessions,
    /// The rest of the server.
    pub node: Arc<dyn NodeView>,
}

/// The HTTP side of the server: HLS, DASH, files, API, web pages.
pub struct HttpServer {
    app: Arc<App>,
}

impl HttpServer {
    /// A server that does not listen yet.
    pub fn new(config: HttpConfig, rooms: Rooms) -> HttpServer {
        HttpServer {
            app: Arc::new(App::new(config, rooms)),
        }
    }

    /// Tells those who listen to events that films of these names came, went or changed.
    pub fn films_changed(&self, names: &[String]) {
        self.app.events.films_changed(names);
    }

    /// Serves connections of these listeners until `stop` is done; then takes nobody in, lets answers
    /// under way end for some seconds, and returns.
    pub async fn serve(&self, listeners: Vec<TcpListener>, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let mut loops = JoinSet::new();
        for listener in listeners {
            loops.spawn(accept(self.app.clone(), listener, stopped.clone()));
        }
        loops.spawn(crate::api::tell(self.app.clone(), stopped));
        stop.await;
        let _ = stopping.send(true);
        while loops.join_next().await.is_some() {}
    }
}

/// Accepts until stopped, then waits for the connections.
async fn accept(app: Arc<App>, listener: TcpListener, mut stopped: watch::Receiver<bool>) {
    let router = crate::app::router(app.clone());
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
            // Finished ones are taken off the set as they come.
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok((stream, peer)) => take_in(&app, &router, &mut connections, stream, peer, &stopped),
            Err(error) => {
                // Out of descriptors, say: the connection stays in the kernel's queue meanwhile.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all).await;
}

fn take_in(
    app: &Arc<App>,
    router: &Router,
    connections: &mut JoinSet<()>,
    stream: TcpStream,
    peer: SocketAddr,
    stopped: &watch::Receiver<bool>,
) {
    let metrics = &app.metrics;
    let counted = match app.limits.enter(peer.ip()) {
        Ok(counted) => counted,
        Err(which) => {
            match which {
                TooMany::InAll => &metrics.refused_total,
                TooMany::OfPeer => &metrics.refused_peer,
            }
            .fetch_add(1, Ordering::Relaxed);
            // Fits into the socket's empty buffer; who does not want it does not get it.
            let _ = stream.try_write(BUSY);
            return;
        }
    };
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%peer, "socket options: {error}");
    }
    metrics.connections_total.fetch_add(1, Ordering::Relaxed);
    metrics.connections.fetch_add(1, Ordering::Relaxed);
    let (app, router, stopped) = (app.clone(), router.clone(), stopped.clone());
    connections.spawn(async move {
        converse(&app, router, stream, peer, stopped).await;
        app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        drop(counted);
    });
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    tcp::set_nodelay(stream.as_fd())?;
    tcp::set_unsent_limit(stream.as_fd(), UNSENT)
}

/// One connection, to its end.
async fn converse(
    app: &Arc<App>,
    router: Router,
    stream: TcpStream,
    peer: SocketAddr,
    mut stopped: watch::Receiver<bool>,
) {
    let io = TokioIo::new(Watched::new(
        stream,
        app.metrics.clone(),
        app.config.stall_timeout,
    ));
    let service = service_fn(|request| {
        let (app, router) = (app.clone(), router.clone());
        async move { Ok::<_, Infallible>(crate::app::handle(app, router, request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Runs from the end of the request before: it bounds idleness as well.
        .header_read_timeout(app.config.request_timeout)
        .max_buf_size(BUFFERED)
        .max_headers(HEADERS)
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        result = connection.as_mut() => Some(result),
        // The guard of the value must not live on.
        () = async { drop(stopped.wait_for(|stop| *stop).await) } => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%peer, "connection: {error}");
    }
}

#[cfg(test)]
#[test]
fn the_busy_answer_says_its_length() {
    let text = std::str::from_utf8(BUSY).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{}",
        body.len()
    );
}
