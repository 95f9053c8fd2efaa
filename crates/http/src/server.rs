//! The server: accepts connections within limits, and passes each to hyper.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use reelway_clock::reactor::metered;
use reelway_connections::{Limits, TooMany};
use reelway_library::Library;
use reelway_session::{Sessions, new_connection};
use reelway_supervise as supervise;
use reelway_sys::{marks, tcp};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::answer;
use crate::api::events;
use crate::app::App;
use crate::config::HttpConfig;
use crate::connection::{ConnectionNumber, OnNetworks, PatientTimer, Watched};
use crate::front::Front;
use crate::giving::Giving;
use crate::node::NodeView;
use crate::shadow;
use crate::speed::Speed;
use crate::status::Status;
use crate::tls::{IsSecure, Secure, Tls};
use crate::upload::clean_up::clean_up;
use crate::upload::slots;

/// Maximum unsent bytes that the kernel holds for a connection: the cost of a client that stops
/// reading, besides the bytes in flight.
const UNSENT: u32 = 128 << 10;
/// Maximum bytes that hyper buffers of a request's head, and of an answer before it waits for the
/// socket (plus the piece that exceeded it).
const BUFFERED: usize = 32 << 10;
/// Maximum number of headers in a request.
const HEADERS: usize = 64;
/// Maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 1024;
/// The answer to a connection beyond the limits.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
Content-Length: 108\r\nRetry-After: 10\r\nConnection: close\r\n\r\n\
There are too many connections (`http.max_connections`, `http.max_connections_per_peer`); come again later.\n";

/// The HTTP side of the server: HLS, DASH, files, API, web pages.
pub struct HttpServer {
    app: App,
    listeners: Vec<TcpListener>,
    /// Listeners for TLS connections.
    tls_listeners: Vec<TcpListener>,
    tls: Option<Arc<Tls>>,
}

impl HttpServer {
    /// Binds the configured addresses. Fails if one of them is taken, or if the certificate cannot
    /// be used.
    pub async fn bind(
        config: HttpConfig,
        library: Library,
        sessions: Sessions,
        node: Arc<dyn NodeView>,
    ) -> io::Result<HttpServer> {
        let tls = config.tls.as_ref().map(Tls::new).transpose()?.map(Arc::new);
        let listeners = listen_on(&config.listen)?;
        let tls_listeners = listen_on(config.tls.as_ref().map_or(&[], |tls| &tls.listen))?;
        if let Some(intake) = library.catalogue().intake().filter(|_| config.uploads) {
            clean_up(intake);
        }
        let app = App::new(config, library, sessions, node);
        Ok(HttpServer {
            app,
            listeners,
            tls_listeners,
            tls,
        })
    }

    /// Returns the addresses that it listens on, with the actual ports in place of port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        addresses_of(&self.listeners)
    }

    /// Returns the addresses that it listens on for TLS connections.
    pub fn tls_addresses(&self) -> Vec<SocketAddr> {
        addresses_of(&self.tls_listeners)
    }

    /// Returns a function to be called with the names of films that are added, removed or changed;
    /// it informs event listeners.
    pub fn library_listener(&self) -> impl Fn(&[String]) + Send + Sync + 'static {
        let events = self.app.events.clone();
        move |names| events.films_changed(names)
    }

    /// Serves until it is dropped, which ends all connections.
    pub async fn run(self) {
        let HttpServer {
            app,
            listeners,
            tls_listeners,
            tls,
        } = self;
        let mut loops = JoinSet::new();
        let config = &app.config;
        let limits = Limits::new(config.max_connections, config.max_connections_per_peer);
        let hall = Arc::new(Hall {
            config: app.config.clone(),
            limits,
            status: app.status.clone(),
            front: app.front.clone(),
            giving: app.giving,
        });
        let open = listeners.into_iter().map(|listener| (listener, None));
        let secure = tls_listeners.into_iter();
        let secure = secure.map(|listener| (listener, tls.clone()));
        for (listener, tls) in open.chain(secure) {
            let door = Arc::new(Door {
                hall: hall.clone(),
                listener,
                tls,
                connections: Mutex::default(),
            });
            loops.spawn(supervise::keep("http accept", move || accept(door.clone())));
        }
        if let Some(tls) = tls {
            loops.spawn(supervise::keep("http certificate", move || {
                tls.clone().keep_certificate()
            }));
        }
        let uploads = app.uploads;
        loops.spawn(supervise::keep("http uploads", move || {
            slots::expire(uploads.clone())
        }));
        let shadow = app.shadow;
        loops.spawn(supervise::keep("http cache comparison", move || {
            shadow::watch(shadow.clone())
        }));
        let (listeners, overview) = (app.events, app.overview);
        loops.spawn(supervise::keep("http events", move || {
            events::tell(listeners.clone(), overview.clone())
        }));
        while loops.join_next().await.is_some() {}
    }
}

fn listen_on(addresses: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
    let listen = |address: &SocketAddr| {
        listen(*address)
            .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
    };
    addresses.iter().map(listen).collect()
}

fn addresses_of(listeners: &[TcpListener]) -> Vec<SocketAddr> {
    let addresses = listeners.iter().map(TcpListener::local_addr);
    addresses.filter_map(Result::ok).collect()
}

/// Makes a listener of one IP version, so that both versions can use the same port.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Lets a restarted server bind while its predecessor's connections linger.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    // Applies to the first packet to each peer; connections are marked once accepted.
    if let Err(error) = marks::set_control(socket.as_fd()) {
        tracing::debug!("marks of {address}: {error}");
    }
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// State shared by all connections.
struct Hall {
    config: Arc<HttpConfig>,
    limits: Limits,
    status: Arc<Status>,
    front: Arc<Front>,
    giving: Option<Giving>,
}

/// A listener and its connections. A panic in the accept loop ends none of them.
struct Door {
    hall: Arc<Hall>,
    listener: TcpListener,
    /// TLS for its connections, if any.
    tls: Option<Arc<Tls>>,
    /// Connection tasks; they end with the server.
    connections: Mutex<JoinSet<()>>,
}

async fn accept(door: Arc<Door>) {
    loop {
        let accepted = door.listener.accept().await;
        supervise::inject("http.accept");
        match accepted {
            Ok((stream, peer)) => {
                let mut connections = supervise::whole(door.connections.lock());
                // Reap finished tasks.
                while connections.try_join_next().is_some() {}
                take_in(&door, &mut connections, stream, peer);
            }
            Err(error) => {
                // For example, out of file descriptors: the connection stays in the kernel's queue
                // meanwhile.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn take_in(door: &Door, connections: &mut JoinSet<()>, stream: TcpStream, peer: SocketAddr) {
    let hall = &door.hall;
    let counters = &hall.status.counters;
    let counted = match hall.limits.enter(peer.ip()) {
        Ok(counted) => counted,
        Err(which) => {
            match which {
                TooMany::InAll { .. } => &counters.refused_total,
                TooMany::OfPeer { .. } => &counters.refused_peer,
            }
            .fetch_add(1, Ordering::Relaxed);
            // Fits into the socket's empty buffer. Clients that do not read it, and TLS clients,
            // which could not, do without.
            if door.tls.is_none() {
                let _ = stream.try_write(BUSY);
            }
            return;
        }
    };
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%peer, "socket options: {error}");
    }
    counters.connections_total.fetch_add(1, Ordering::Relaxed);
    counters.connections.fetch_add(1, Ordering::Relaxed);
    let (hall, tls) = (hall.clone(), door.tls.clone());
    connections.spawn(metered(async move {
        let conversation = converse(&hall, tls, stream, peer);
        let _ = supervise::caught("http connection", conversation).await;
        let counters = &hall.status.counters;
        counters.connections.fetch_sub(1, Ordering::Relaxed);
        drop(counted);
    }));
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Until media is sent over it.
    marks::set_control(stream.as_fd())?;
    tcp::set_nodelay(stream.as_fd())?;
    tcp::set_unsent_limit(stream.as_fd(), UNSENT)
}

/// Serves one connection until it ends.
async fn converse(hall: &Hall, tls: Option<Arc<Tls>>, stream: TcpStream, peer: SocketAddr) {
    let status = &hall.status;
    let about = About {
        peer,
        speed: Speed::default(),
        number: ConnectionNumber(new_connection()),
        is_secure: tls.is_some(),
    };
    let networks = OnNetworks {
        node: status.node.clone(),
        numbers: status.sessions.gate().networks_to(peer.ip()),
        connection: about.number,
    };
    let (counters, patience) = (status.counters.clone(), hall.config.stall_timeout);
    let watched = Watched::new(stream, counters, patience, about.speed.clone());
    let watched = watched.giving(hall.giving.clone());
    let watched = watched.over((!networks.numbers.is_empty()).then_some(networks));
    match tls {
        None => serve(hall, watched, about).await,
        // Boxed, so that connections without TLS do not hold memory for it.
        Some(tls) => Box::pin(converse_securely(hall, &tls, watched, about)).await,
    }
}

/// Serves one connection over TLS.
async fn converse_securely(hall: &Hall, tls: &Tls, connection: Watched, about: About) {
    let secure = Box::pin(tls.accept(connection, hall.config.request_timeout)).await;
    let counters = &hall.status.counters;
    let counter = match &secure {
        Ok(Secure::ByKernel(_)) => &counters.secured_by_kernel,
        Ok(Secure::ByLibrary(_)) => &counters.secured_by_library,
        Err(_) => &counters.not_secured,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    match secure {
        Ok(Secure::ByKernel(connection)) => Box::pin(serve(hall, connection, about)).await,
        Ok(Secure::ByLibrary(connection)) => Box::pin(serve(hall, *connection, about)).await,
        Err(error) => tracing::debug!(peer = %about.peer, "TLS: {error}"),
    }
}

/// Connection data that is attached to requests.
struct About {
    peer: SocketAddr,
    speed: Speed,
    number: ConnectionNumber,
    is_secure: bool,
}

/// Answers the requests of a connection.
async fn serve(hall: &Hall, connection: impl AsyncRead + AsyncWrite + Unpin, about: About) {
    let peer = about.peer;
    let service = service_fn(|mut request| {
        let front = hall.front.clone();
        request.extensions_mut().insert(about.speed.clone());
        request.extensions_mut().insert(about.number);
        if about.is_secure {
            request.extensions_mut().insert(IsSecure);
        }
        // Boxed, so that connections waiting for a request do not hold the memory for answering
        // one.
        Box::pin(async move {
            let answer = front.answer(request, peer);
            let answer = supervise::caught("http request", answer).await;
            let fault = |panicked| answer::error(StatusCode::INTERNAL_SERVER_ERROR, panicked);
            Ok::<_, Infallible>(answer.unwrap_or_else(fault))
        })
    });
    let connection = http1::Builder::new()
        .timer(PatientTimer)
        // Runs from the end of the previous request, so it limits idle time as well.
        .header_read_timeout(hall.config.request_timeout)
        .max_buf_size(BUFFERED)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(connection), service);
    if let Err(error) = connection.await {
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
