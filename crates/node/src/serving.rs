//! A machine that serves films over every protocol: makes all parts and connects them.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use reelway_catalogue::{IndexMemory, Placement};
use reelway_http::{HttpConfig, HttpServer, TlsConfig};
use reelway_library::Library;
use reelway_rtp::PayloadOptions;
use reelway_rtsp_server::{RtspConfig, RtspServer};
use reelway_sender::{BackendChoice, Sender, SenderConfig, SenderError};
use reelway_session::{EndReason, Gate, GateConfig, Limits, Sessions};
use reelway_store::{Store, StoreConfig};
use tokio::task::JoinHandle;
use tracing::warn;

use crate::addresses::{
    Addresses, http_address, https_listen, https_reached_at, listen, media_addresses, reached_at,
};
use crate::calibration::calibrated;
use crate::config::{Config, Downloads};
use crate::film_addresses::AtFilmAddresses;
use crate::films::{Films, Opened};
use crate::judging::{gate, links};
use crate::kept::Kept;
use crate::popularity::Popularity;
use crate::prefill::Prefill;
use crate::ticking::tick;
use crate::token::{api_token, node_id};
use crate::view::Node;

/// Time that streams and connections get to end by themselves when the server stops.
const GRACE: Duration = Duration::from_secs(3);

/// A server that serves films.
pub struct Serving {
    /// The addresses at which users reach it.
    pub shown: reelway_http::Addresses,
    /// Directory of its indexes and its token.
    pub state: PathBuf,
    /// Addresses of RTSP.
    pub rtsp: Vec<SocketAddr>,
    /// Addresses of HTTP.
    pub http: Vec<SocketAddr>,
    /// Addresses of HTTP over TLS.
    pub https: Vec<SocketAddr>,
    /// UDP ports of RTP and RTCP.
    pub rtp: (u16, u16),
    sessions: Sessions,
    tasks: [JoinHandle<()>; 2],
}

impl Serving {
    /// Starts to serve. To be called within a multi-threaded tokio runtime.
    ///
    /// # Errors
    /// A part cannot be started; the error names it and says what to do.
    pub async fn start(config: &Config, given: Addresses) -> anyhow::Result<Serving> {
        let state = config.state_directory()?;
        let films = Films::of(config)?;
        let token = api_token(&state);
        let id = node_id(&state);

        // Steps that can fail because of another program come first.
        let rtsp_listen = listen(config, given.rtsp, config.rtsp.port);
        let http_listen = listen(config, given.http, config.http.port);
        let store = store(config)?;
        let media_from = media_addresses(&rtsp_listen);
        let judging = gate(config, PayloadOptions::for_mtu(config.rtp.mtu.into()))?;
        let sender = sender(config, media_from, &judging, &store)?;
        let sessions = Sessions::with_gate(limits(config), Gate::new(judging));
        let indexes = IndexMemory::new(config.index.memory.as_u64() as usize);
        let Opened { library, elsewhere } = films.open(config, (&store, &state, &id), &indexes)?;
        let watched = sessions.clone();
        library.on_change(move |change| {
            for title in &change.replaced {
                watched.end_title(title, EndReason::Failed("the film was replaced".into()));
            }
        });

        let mut films = Library::new(library.clone(), store.clone());
        let placement = match config.film_addresses {
            Some(addresses) => {
                let port =
                    |listen: &[SocketAddr], port| listen.first().map_or(port, SocketAddr::port);
                let ports = (
                    port(&rtsp_listen, config.rtsp.port),
                    port(&http_listen, config.http.port),
                );
                let placement: Arc<dyn Placement> = Arc::new(AtFilmAddresses { addresses, ports });
                Some(placement)
            }
            None => elsewhere.placement(&sessions, library.clone()),
        };
        if let Some(placement) = placement {
            films = films.placed_by(placement);
        }
        let rtsp = RtspServer::bind(
            rtsp_config(config, rtsp_listen, &sender)?,
            films.clone(),
            sessions.clone(),
            sender.clone(),
        )
        .await
        .context("RTSP server (choose another address: --rtsp)")?;
        let shown = reelway_http::Addresses {
            rtsp: format!("rtsp://{}", reached_at(config, rtsp.addresses()[0])),
            http: format!("http://{}", reached_at(config, http_address(&http_listen))),
            https: https_listen(config, &http_listen)
                .first()
                .map(|at| format!("https://{}", https_reached_at(config, *at))),
        };
        let node = Arc::new(Node::new(
            sender.clone(),
            sessions.clone(),
            (id, shown.clone()),
            calibrated(&state),
            indexes,
            (
                Kept::of(&state),
                Prefill::new(config.tier.prefill, Popularity::of(&state)),
                elsewhere,
            ),
        ));
        let http = HttpServer::bind(
            http_config(config, http_listen, token, config.edge_tokens()?),
            films,
            sessions.clone(),
            node.clone(),
        )
        .await
        .map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::InvalidInput => "HTTPS",
                _ => "HTTP server (choose another address: --http, tls.port)",
            };
            anyhow::Error::new(error).context(advice)
        })?;
        let tell_pages = http.library_listener();
        library.on_change(move |change| tell_pages(&change.changed));

        let mut serving = Serving {
            shown,
            state,
            rtsp: rtsp.addresses().to_vec(),
            http: http.addresses(),
            https: http.tls_addresses(),
            rtp: sender.ports(),
            sessions: sessions.clone(),
            tasks: [
                tokio::spawn(async {}),
                tokio::spawn(async move {
                    tokio::join!(rtsp.run(), http.run());
                }),
            ],
        };
        let of = (sessions, node, library, store, sender);
        serving.tasks[0] = tokio::spawn(reelway_supervise::keep("server tick", move || {
            let (sessions, node, library, store, sender) = of.clone();
            tick(sessions, node, library, store, sender)
        }));
        Ok(serving)
    }

    /// Stops admission, and ends all sessions and connections. Those that take too long are
    /// abandoned.
    pub async fn stop(self) {
        let [ticking, serving] = self.tasks;
        self.sessions.drain();
        let ending = async {
            self.sessions.end_all(EndReason::Shutdown);
            // Time for BYEs and answers under way.
            tokio::time::sleep(Duration::from_millis(200)).await;
            serving.abort();
            let _ = serving.await;
        };
        if tokio::time::timeout(GRACE, ending).await.is_err() {
            warn!("some connections did not end in time");
        }
        ticking.abort();
    }
}

fn store(config: &Config) -> anyhow::Result<Store> {
    Store::new(StoreConfig {
        pool_bytes: config.bytes_of_blocks(),
        block_bytes: config.pool.block.as_u64() as u32,
        depth: config.pool.depth,
        policy: config.pool.policy.parse()?,
        tier: config.tier()?,
        ..StoreConfig::default()
    })
    .context("block pool")
}

fn sender(
    config: &Config,
    addresses: Vec<IpAddr>,
    judging: &GateConfig,
    store: &Store,
) -> anyhow::Result<Sender> {
    let sender = SenderConfig {
        addresses,
        rtp_port: config.rtp.port,
        rtcp_port: config.rtp.rtcp_port,
        threads: config.sender.threads,
        backend: backend(config),
        catch_up: Duration::from_millis(config.sender.catch_up.into()),
        drop_after: Duration::from_millis(config.sender.drop_after.into()),
        realtime: config.sender.realtime,
        cores: config.sender.cores.clone(),
        burst: config.rtp.burst as u16,
        dscp: config.rtp.dscp,
        smooth_ahead: Duration::from_millis(config.rtp.sent_evenly().into()),
        link_ahead: judging.admission.link_ahead,
        links: links(config, &judging.admission.capacity),
        payload: PayloadOptions::for_mtu(config.rtp.mtu.into()),
        lag_limit: Duration::from_secs(config.rtsp.max_lag.into()),
        ..SenderConfig::default()
    };
    Sender::new(sender, store.clone()).map_err(|error| {
        let advice = match &error {
            SenderError::Bind { error, .. } if error.kind() == ErrorKind::AddrNotAvailable => {
                "RTP sender (--listen: this machine has no such address)"
            }
            SenderError::Bind { .. } => "RTP sender (choose other ports: --rtp-ports)",
            _ => "RTP sender",
        };
        anyhow::Error::new(error).context(advice)
    })
}

/// Returns how packets are handed to the kernel; warns if the configured way no longer exists.
fn backend(config: &Config) -> BackendChoice {
    config.sender.backend.unwrap_or_else(|| {
        warn!("sender.backend = \"io_uring\": packets do not leave through rings any more; \"auto\" is used");
        BackendChoice::Auto
    })
}

fn limits(config: &Config) -> Limits {
    Limits {
        sessions: config.sessions.max,
        per_address: config.sessions.per_address,
        unplayed_per_address: config.sessions.unplayed_per_address,
        unplayed_per_connection: config.sessions.unplayed_per_connection,
        idle: Duration::from_secs(config.http.timeout.into()),
    }
}

fn rtsp_config(
    config: &Config,
    listen: Vec<SocketAddr>,
    sender: &Sender,
) -> anyhow::Result<RtspConfig> {
    Ok(RtspConfig {
        listen,
        session_timeout: Duration::from_secs(config.rtsp.timeout.into()),
        paused_timeout: Duration::from_secs(config.rtsp.paused_timeout.into()),
        connections: config.rtsp.max_connections,
        offer_retransmission: config.rtsp.offer_retransmission,
        plain_udp: config.plain_udp()?,
        payload: sender.payload_options(),
        connections_per_peer: config.rtsp.max_connections_per_peer,
        sessions_per_connection: config.rtsp.max_sessions_per_connection,
        ..RtspConfig::default()
    })
}

fn http_config(
    config: &Config,
    listen: Vec<SocketAddr>,
    api_token: String,
    edge_tokens: Vec<String>,
) -> HttpConfig {
    let https = https_listen(config, &listen);
    let tls = (!https.is_empty()).then(|| TlsConfig {
        listen: https,
        certificate: config.tls.certificate.clone(),
        key: config.tls.key.clone(),
        kernel: config.tls.kernel,
    });
    HttpConfig {
        listen,
        tls,
        names: config.names.clone(),
        allowed_origins: config.http.allowed_origins.clone(),
        uploads: config.http.uploads,
        max_upload: config.http.max_upload.as_u64(),
        api_token,
        edge_tokens,
        segment: Duration::from_secs(config.http.segment.into()),
        viewer_timeout: Duration::from_secs(config.http.timeout.into()),
        ahead: Duration::from_secs(config.http.ahead.into()),
        pace: config.http.pace,
        eager_downloads: config.http.downloads == Downloads::Spare,
        download_dscp: config.http.download_dscp,
        repeated: config.repeated_bytes(),
        tokens_in_segments: config.http.tokens_in_segments,
        compare_policies: config.pool.compare,
        max_connections: config.http.max_connections,
        max_connections_per_peer: config.http.max_connections_per_peer,
        max_listeners: config.http.max_listeners,
        answers: config.http.answers.as_u64(),
        ..HttpConfig::default()
    }
}
