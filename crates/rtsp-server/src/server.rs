//! Listeners, connection limits, and the tick once a second.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_connections::{Limits, TooMany};
use reelway_library::Library;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::machine::{ConnId, Event, Settings};
use reelway_sender::Sender;
use reelway_session::{Sessions, new_connection};
use reelway_supervise as supervise;
use reelway_sys::marks;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::connection::Connection;
use crate::hub::{Hub, News};
use crate::services::Services;

/// The RTSP server of a machine.
pub struct RtspServer {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    config: Arc<RtspConfig>,
    hub: Arc<Hub>,
    news: News,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be bound.
    #[error("TCP {address}: {error}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The kernel's error.
        error: io::Error,
    },
    /// No address is configured.
    #[error("no address to listen on")]
    NoAddress,
}

/// Maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 1024;

impl RtspServer {
    /// Binds the listeners. [`RtspServer::run`] serves connections.
    pub async fn bind(
        config: RtspConfig,
        library: Library,
        sessions: Sessions,
        sender: Sender,
    ) -> Result<RtspServer, BindError> {
        let mut listeners = Vec::new();
        for address in &config.listen {
            let listener = listen(*address).map_err(|error| BindError::Listen {
                address: *address,
                error,
            })?;
            listeners.push(listener);
        }
        let bound: io::Result<Vec<SocketAddr>> =
            listeners.iter().map(TcpListener::local_addr).collect();
        let addresses = bound.unwrap_or_else(|_| config.listen.clone());
        if addresses.is_empty() {
            return Err(BindError::NoAddress);
        }
        // Media leaves from the addresses that the server listens on.
        let ports = sender.ports();
        let has = |of: fn(&SocketAddr) -> bool| addresses.iter().any(of).then_some(ports);
        let (udp_v4, udp_v6) = (has(SocketAddr::is_ipv4), has(SocketAddr::is_ipv6));
        let its = config.clone();
        let settings = move || Settings {
            config: its.clone(),
            udp_v4,
            udp_v6,
            random: Box::new(random),
        };
        let services = Services::new(library, sessions, sender, config.payload);
        let (hub, news) = Hub::new(settings, services);
        Ok(RtspServer {
            listeners,
            addresses,
            config: Arc::new(config),
            hub: Arc::new(hub),
            news,
        })
    }

    /// The addresses that it listens on, with the actual ports in place of port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until it is dropped. Its connections end with it; streams end when the register ends
    /// their sessions.
    pub async fn run(self) {
        let RtspServer {
            listeners,
            config,
            hub,
            news,
            ..
        } = self;
        let limits = Limits::new(config.connections, config.connections_per_peer);
        let mut tasks = JoinSet::new();
        for listener in listeners {
            let door = Arc::new(Door {
                listener,
                limits: limits.clone(),
                config: config.clone(),
                hub: hub.clone(),
                connections: Mutex::default(),
            });
            tasks.spawn(supervise::keep("rtsp accept", move || accept(door.clone())));
        }
        let ticking = hub.clone();
        tasks.spawn(supervise::keep("rtsp tick", move || tick(ticking.clone())));
        let news = Arc::new(tokio::sync::Mutex::new(news));
        tasks.spawn(supervise::keep("rtsp news", move || {
            let (hub, news) = (hub.clone(), news.clone());
            async move { hub.listen(&news).await }
        }));
        while tasks.join_next().await.is_some() {}
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    // Lets a restarted server bind while connections of its predecessor linger.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Allows an IPv4 listener on the same port.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    // Applies to the first packet to each peer; connections are marked once accepted.
    if let Err(error) = marks::set_control(socket.as_fd()) {
        tracing::debug!("marks of {address}: {error}");
    }
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

async fn tick(hub: Arc<Hub>) {
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        second.tick().await;
        let heard_until = hub.heard_until();
        hub.happen(Event::Tick { heard_until });
    }
}

/// A listener and the state its connections need. A panic in the accept loop ends none of them.
struct Door {
    listener: TcpListener,
    limits: Limits,
    config: Arc<RtspConfig>,
    hub: Arc<Hub>,
    /// Connection tasks; they end with the server.
    connections: Mutex<JoinSet<()>>,
}

async fn accept(door: Arc<Door>) {
    let mut complaints = Complaints::default();
    loop {
        let accepted = door.listener.accept().await;
        supervise::inject("rtsp.accept");
        match accepted {
            Ok((stream, peer)) => match door.limits.enter(peer.ip()) {
                Ok(counted) => {
                    let conn = ConnId(new_connection());
                    let connection = Connection {
                        hub: door.hub.clone(),
                        conn,
                        stream: Arc::new(stream),
                        config: door.config.clone(),
                    };
                    let mut connections = supervise::whole(door.connections.lock());
                    // Reap finished tasks.
                    while connections.try_join_next().is_some() {}
                    connections.spawn(reelway_clock::reactor::metered(async move {
                        connection.run().await;
                        drop(counted);
                    }));
                }
                Err(which) => {
                    let why = why(which, &door.config);
                    complaints.say(&format!("rtsp connection of {peer} is not taken: {why}"));
                    refuse(stream);
                }
            },
            Err(error) => {
                // Usually out of file descriptors: the connection stays in the queue and is tried
                // again.
                complaints.say(&format!("rtsp connections cannot be accepted: {error}"));
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Describes the limit that a connection ran into, with its value.
fn why(which: TooMany, config: &RtspConfig) -> String {
    match which {
        TooMany::InAll { open } => format!(
            "{open} connections are open, and `rtsp.max_connections` is {}",
            config.connections
        ),
        TooMany::OfPeer { network, open } => format!(
            "{open} connections of {network} are open, and `rtsp.max_connections_per_peer` is {}",
            config.connections_per_peer
        ),
    }
}

/// Refuses in the shortest form; the peer may not have sent a request yet.
fn refuse(stream: TcpStream) {
    let _ = stream.try_write(b"RTSP/1.0 503 Service Unavailable (rtsp.max_connections or rtsp.max_connections_per_peer is reached)\r\n\r\n");
}

/// Rate-limits warnings about events that may occur a thousand times a second.
#[derive(Default)]
struct Complaints {
    last: Option<reelway_clock::Monotonic>,
    swallowed: u64,
}

impl Complaints {
    fn say(&mut self, words: &str) {
        let now = reelway_clock::now();
        if self
            .last
            .is_some_and(|last| now.since(last) < Duration::from_secs(10))
        {
            self.swallowed += 1;
            return;
        }
        tracing::warn!(like_it = self.swallowed, "{words}");
        (self.last, self.swallowed) = (Some(now), 0);
    }
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    // The kernel's generator cannot fail once it is seeded, which it is before any daemon starts.
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    u32::from_ne_bytes(bytes)
}
