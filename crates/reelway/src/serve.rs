//! `reelway serve`: one machine, every protocol, no other process.

use std::io::{ErrorKind, IsTerminal};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use reelway_catalogue::{Catalogue, Directory, DirectoryConfig, IndexMemory, Several, State};
use reelway_http::{HttpConfig, HttpServer, NodeView};
use reelway_origin::{Address, Origin, SourceConfig};
use reelway_rtp::PayloadOptions;
use reelway_rtsp_server::{RtspConfig, RtspServer};
use reelway_sender::{BackendChoice, Sender, SenderConfig, SenderError};
use reelway_session::{EndReason, Gate, Limits, Resource, Sessions};
use reelway_store::{Store, StoreConfig};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::capacity;
use crate::config::{Config, Downloads, Listen, LogFormat};
use crate::disks::Disks;
use crate::lan;
use crate::node::Node;
use crate::sources::places;
use crate::wire::Wire;

/// How long streams and connections get to end by themselves once the server stops.
const GRACE: Duration = Duration::from_secs(3);

/// Packets that leave later than this, 1 of 100 of them, are felt by viewers; so are streams that stand, 1 of 100.
const LATE_MS: f64 = 500.0;

/// Addresses given by flag, which override `listen` and the ports of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    pub rtsp: Option<SocketAddr>,
    pub http: Option<SocketAddr>,
}

/// Serves until told to stop.
pub fn serve(config: Config, given: Addresses) -> anyhow::Result<()> {
    reelway_sys::alloc::hold_little();
    start_log(&config)?;
    reelway_supervise::install();
    info!("time from {}", reelway_clock::start());
    if let Err(error) = reelway_sys::limits::raise_descriptors() {
        warn!("the limit of open descriptors cannot be raised: {error}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("tokio")?;
    runtime.block_on(run(config, given))?;
    // What still blocks a thread (a disk that does not answer) must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

fn start_log(config: &Config) -> anyhow::Result<()> {
    // tracing's own message says the same twice.
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log.level).map_err(|_| {
        anyhow::anyhow!(
            "log.level = \"{}\": must be error, warn, info, debug or trace, or a filter such as info,reelway_rtsp=debug",
            config.log.level
        )
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match config.log.format {
        LogFormat::Json => log.json().init(),
        LogFormat::Human => log
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal())
            .init(),
    }
    Ok(())
}

async fn run(config: Config, given: Addresses) -> anyhow::Result<()> {
    let state = config.state_directory()?;
    let (films, mut elsewhere) = places(&config.films)?;
    for source in &config.source {
        elsewhere.push(source.config()?);
    }
    require_films(&films)?;
    let token = api_token(&state);

    // What can fail because another program is in the way comes first.
    let rtsp_listen = listen(&config, given.rtsp, config.rtsp.port);
    let http_listen = listen(&config, given.http, config.http.port);
    let store = Store::new(StoreConfig {
        pool_bytes: config.pool.size.as_u64(),
        block_bytes: config.pool.block.as_u64() as u32,
        depth: config.pool.depth,
        policy: config.pool.policy.parse()?,
        tier: config.tier()?,
        ..StoreConfig::default()
    })
    .context("block pool")?;
    let media_from = media_addresses(&rtsp_listen);
    let judging = capacity::gate(&config, PayloadOptions::for_mtu(config.rtp.mtu.into()))?;
    let sender = Sender::new(
        SenderConfig {
            addresses: media_from,
            rtp_port: config.rtp.port,
            rtcp_port: config.rtp.rtcp_port,
            threads: config.sender.threads,
            backend: backend(&config),
            catch_up: Duration::from_millis(config.sender.catch_up.into()),
            drop_after: Duration::from_millis(config.sender.drop_after.into()),
            realtime: config.sender.realtime,
            cores: config.sender.cores.clone(),
            burst: config.rtp.burst as u16,
            dscp: config.rtp.dscp,
            smooth_ahead: Duration::from_millis(config.rtp.sent_evenly().into()),
            link_ahead: judging.admission.link_ahead,
            links: capacity::links(&config, &judging.admission.capacity),
            payload: PayloadOptions::for_mtu(config.rtp.mtu.into()),
            lag_limit: Duration::from_secs(config.rtsp.max_lag.into()),
            ..SenderConfig::default()
        },
        store.clone(),
    )
    .map_err(|error| {
        let advice = match &error {
            SenderError::Bind { error, .. } if error.kind() == ErrorKind::AddrNotAvailable => {
                "RTP sender (--listen: this machine has no such address)"
            }
            SenderError::Bind { .. } => "RTP sender (choose other ports: --rtp-ports)",
            _ => "RTP sender",
        };
        anyhow::Error::new(error).context(advice)
    })?;

    let gate = Gate::new(judging);
    let limits = Limits {
        sessions: config.sessions.max,
        per_address: config.sessions.per_address,
        unplayed_per_address: config.sessions.unplayed_per_address,
        unplayed_per_connection: config.sessions.unplayed_per_connection,
        idle: Duration::from_secs(config.http.timeout.into()),
    };
    let sessions = Sessions::with_gate(limits, gate);
    let indexes = IndexMemory::new(config.index.memory.as_u64() as usize);
    let mut libraries = vec![Arc::new(Directory::open(DirectoryConfig {
        films,
        index: Some(state.join("index")),
        memory: indexes.clone(),
        block_bytes: config.pool.block.as_u64() as u32,
        ..DirectoryConfig::default()
    }))];
    for source in elsewhere {
        libraries.push(library_elsewhere(source, &store, &state, &indexes)?);
    }
    let library = Arc::new(Several(libraries));
    let watched = sessions.clone();
    library.on_change(move |change| {
        for title in &change.replaced {
            watched.end_title(title, EndReason::Failed("the film was replaced".into()));
        }
    });

    let rtsp = RtspServer::bind(
        RtspConfig {
            listen: rtsp_listen,
            session_timeout: Duration::from_secs(config.rtsp.timeout.into()),
            paused_timeout: Duration::from_secs(config.rtsp.paused_timeout.into()),
            connections: config.rtsp.max_connections,
            offer_retransmission: config.rtsp.offer_retransmission,
            payload: sender.payload_options(),
            connections_per_peer: config.rtsp.max_connections_per_peer,
            sessions_per_connection: config.rtsp.max_sessions_per_connection,
            ..RtspConfig::default()
        },
        library.clone(),
        sessions.clone(),
        sender.clone(),
        store.clone(),
    )
    .await
    .context("RTSP server (choose another address: --rtsp)")?;

    let shown = reelway_http::Addresses {
        rtsp: format!("rtsp://{}", lan::shown(rtsp.addresses()[0])[0]),
        http: format!("http://{}", lan::shown(http_address(&http_listen))[0]),
    };
    let calibrated = capacity::calibrated(&state);
    let node = Arc::new(Node::new(
        sender.clone(),
        sessions.clone(),
        shown.clone(),
        calibrated,
        indexes,
    ));
    let http = HttpServer::bind(
        HttpConfig {
            listen: http_listen,
            names: config.names.clone(),
            allowed_origins: config.http.allowed_origins.clone(),
            uploads: config.http.uploads,
            max_upload: config.http.max_upload.as_u64(),
            api_token: token,
            segment: Duration::from_secs(config.http.segment.into()),
            viewer_timeout: Duration::from_secs(config.http.timeout.into()),
            ahead: Duration::from_secs(config.http.ahead.into()),
            pace: config.http.pace,
            eager_downloads: config.http.downloads == Downloads::Spare,
            download_dscp: config.http.download_dscp,
            tokens_in_segments: config.http.tokens_in_segments,
            compare_policies: config.pool.compare,
            max_connections: config.http.max_connections,
            max_connections_per_peer: config.http.max_connections_per_peer,
            max_listeners: config.http.max_listeners,
            answers: config.http.answers.as_u64(),
            ..HttpConfig::default()
        },
        library.clone(),
        sessions.clone(),
        store.clone(),
        node.clone(),
    )
    .await
    .context("HTTP server (choose another address: --http)")?;

    let tell_pages = http.library_listener();
    library.on_change(move |change| tell_pages(&change.changed));

    announce(
        &config,
        &shown,
        &state,
        [rtsp.addresses(), &http.addresses()],
        sender.ports(),
    );
    let of = (
        sessions.clone(),
        node.clone(),
        library.clone(),
        store.clone(),
        sender.clone(),
    );
    let ticking = tokio::spawn(reelway_supervise::keep("server tick", move || {
        let (sessions, node, library, store, sender) = of.clone();
        tick(sessions, node, library, store, sender)
    }));
    let serving = tokio::spawn(async move { tokio::join!(rtsp.run(), http.run()) });

    stop_signal().await?;
    info!("stopping: streams are being ended; signal again to stop at once");
    sessions.drain();
    let ending = async {
        sessions.end_all(EndReason::Shutdown);
        // Goodbyes and answers that are on their way.
        tokio::time::sleep(Duration::from_millis(200)).await;
        serving.abort();
        let _ = serving.await;
    };
    tokio::select! {
        () = ending => {}
        () = tokio::time::sleep(GRACE) => warn!("some connections did not end in time"),
        again = stop_signal() => again?,
    }
    ticking.abort();
    Ok(())
}

/// How packets are handed to the kernel; a way that is gone is warned of.
fn backend(config: &Config) -> BackendChoice {
    config.sender.backend.unwrap_or_else(|| {
        warn!("sender.backend = \"io_uring\": packets do not leave through rings any more; \"auto\" is used");
        BackendChoice::Auto
    })
}

/// A mistyped directory should be reported at once, not by an empty page. One of several may be missing
/// (a disk that is not mounted yet): it is warned of, and looked for again.
fn require_films(films: &[PathBuf]) -> anyhow::Result<()> {
    let mut problems = films
        .iter()
        .map_while(|film| std::fs::metadata(film).err().map(|error| (film, error)));
    // Stops at the first that can be read.
    match problems.next() {
        Some((film, error)) if problems.count() + 1 == films.len() => {
            anyhow::bail!("{}: {error}", film.display())
        }
        _ => Ok(()),
    }
}

/// The library of a source elsewhere; its index files have a folder of their own.
fn library_elsewhere(
    source: SourceConfig,
    store: &Store,
    state: &Path,
    indexes: &IndexMemory,
) -> anyhow::Result<Arc<Directory>> {
    let runtime = tokio::runtime::Handle::current();
    let origin = Origin::new(source, store, runtime).map_err(anyhow::Error::msg)?;
    let index = state.join("index").join(origin.folder());
    let library = Arc::new(Directory::of(origin.clone(), Some(index), indexes.clone()));
    origin.on_changed(library.waker());
    Ok(library)
}

/// Where to listen: the address given by flag, else this port on what `listen` says. A machine
/// without IPv6 is served over IPv4 alone.
fn listen(config: &Config, given: Option<SocketAddr>, port: u16) -> Vec<SocketAddr> {
    if let Some(address) = given {
        return vec![address];
    }
    let addresses = config.listen.addresses().into_iter();
    let usable = addresses.filter(|address| {
        address.is_ipv4() || has_ipv6() || config.listen == Listen::Address(*address)
    });
    usable
        .map(|address| SocketAddr::new(address, port))
        .collect()
}

/// Where media leaves from: the addresses of RTSP. A UDP socket on all of IPv6 takes all of IPv4 too, so
/// there is none beside it.
fn media_addresses(rtsp: &[SocketAddr]) -> Vec<IpAddr> {
    let all_of_v6 = IpAddr::from([0; 16]);
    let both = rtsp.iter().any(|address| address.ip() == all_of_v6);
    let addresses = rtsp.iter().map(SocketAddr::ip);
    addresses.filter(|ip| !(both && ip.is_ipv4())).collect()
}

fn has_ipv6() -> bool {
    std::net::UdpSocket::bind(("::1", 0)).is_ok()
}

fn http_address(listen: &[SocketAddr]) -> SocketAddr {
    listen
        .first()
        .copied()
        .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)))
}

/// Looks at disks and networks after a standstill of the server for which what is late says nothing of them.
const SHAKEN: u32 = 5;

/// Once a second: gives up silent viewers, takes rates, notices when the library is settled.
async fn tick(
    sessions: Sessions,
    node: Arc<Node>,
    library: Arc<Several>,
    store: Store,
    sender: Sender,
) {
    let (mut disks, mut wire, mut shifts) = (Disks::default(), Wire::default(), 0);
    let mut shaken = 0u32;
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut settled = false;
    loop {
        reelway_supervise::inject("server.tick");
        if !settled && library.is_settled() {
            settled = true;
            node.set_settled();
            let films = library.list();
            let mut ready = films
                .iter()
                .filter(|entry| matches!(entry.state, State::Ready(_)))
                .peekable();
            let first = ready.peek().map_or_else(String::new, |entry| {
                format!(": {}", node.addresses().rtsp_of(&entry.name))
            });
            let more = if films.len() > 1 && !first.is_empty() {
                " …"
            } else {
                ""
            };
            info!(
                "{} of {} films are ready{first}{more}",
                ready.count(),
                films.len()
            );
            if films.is_empty() {
                warn!("no films yet: copy some into the directory, and they will appear");
            }
        }
        // Looks at every session, which takes long where there are thousands: other tasks of this thread go on elsewhere.
        tokio::task::block_in_place(|| {
            // After a standstill of the server everything is late, and neither disks nor networks are to blame.
            shaken = match sessions.tick().is_zero() {
                true => shaken.saturating_sub(1),
                false => SHAKEN,
            };
            if sessions.gate().books() {
                let stats = sender.stats();
                // Of a stream that stands, nothing is late: it goes on where it was.
                let stood = stats.shifts - std::mem::replace(&mut shifts, stats.shifts);
                let late = node.sending().late_p99_ms;
                let late =
                    late.is_some_and(|late| late > LATE_MS) || stood * 100 > stats.playing as u64;
                let late = late && shaken == 0;
                disks.look(&store, sessions.gate(), late);
                if sessions.gate().books_network() {
                    wire.look(&sessions.list(), &stats, sessions.gate(), late);
                }
            }
            follow_links(&sessions, &sender);
            node.tick();
        });
        // Looked at often until the first films are ready, since somebody waits for them.
        if settled {
            second.tick().await;
        } else {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Has the sender pace limited links by what they carry at the moment.
fn follow_links(sessions: &Sessions, sender: &Sender) {
    let gate = sessions.gate();
    for (resource, limit) in gate.config().admission.capacity.limits() {
        if let Resource::Network(number) = resource {
            let share = gate.judge().share(*resource);
            let rate = u128::from(*limit) * u128::from(share) / 1000;
            sender.set_link_rate(*number, rate as u64);
        }
    }
}

async fn stop_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// The token for what changes anything: the one in the state directory, made at the first start.
/// Where it cannot be kept, one for this run, which nobody can know: nothing can be changed.
fn api_token(state: &Path) -> String {
    let path = state.join("token");
    if let Ok(token) = std::fs::read_to_string(&path)
        && token.trim().len() >= 16
    {
        return token.trim().to_owned();
    }
    let token = reelway_session::new_token();
    let kept = std::fs::create_dir_all(state).and_then(|()| write_private(&path, &token));
    if let Err(error) = kept {
        warn!(
            "the API's token cannot be stored in {}: {error}; sessions cannot be ended through the API",
            path.display()
        );
    }
    token
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{text}")
}

/// Tells where the server can be reached, on standard output.
fn announce(
    config: &Config,
    shown: &reelway_http::Addresses,
    state: &Path,
    tcp: [&[SocketAddr]; 2],
    udp: (u16, u16),
) {
    println!("Reelway {} serves", env!("CARGO_PKG_VERSION"));
    for film in &config.films {
        match film.to_str().filter(|text| Address::is_meant(text)) {
            // Without what may be secret in it.
            Some(text) => println!(
                "  {}",
                Address::parse(text).map_or_else(
                    |error| error.to_string(),
                    |address| address.shown().to_owned()
                )
            ),
            None => println!("  {}", film.display()),
        }
    }
    for source in &config.source {
        match Address::of(&source.url) {
            Ok(address) => println!("  {}", address.shown()),
            Err(error) => println!("  {error}"),
        }
    }
    println!();
    println!("  page   {}/", shown.http);
    println!("  RTSP   {}/TITLE", shown.rtsp);
    println!("  HLS    {}/TITLE/hls/main.m3u8", shown.http);
    println!("  DASH   {}/TITLE/dash/main.mpd", shown.http);
    println!("  file   {}/TITLE/file", shown.http);
    println!();
    println!("  index and token in {}", state.display());
    // As it is bound, not as it was wished: flags go over `listen`, and port 0 is any free one.
    let open = tcp.map(|bound| bound.iter().find(|at| !at.ip().is_loopback()));
    let [rtsp, http] = open;
    let Some(first) = rtsp.or(http) else {
        println!("  for this machine only; --listen lan opens it to the network");
        return;
    };
    if let [_, others @ ..] = &lan::shown(*first)[..]
        && !others.is_empty()
    {
        let others: Vec<String> = others.iter().map(|at| lan::host(at.ip())).collect();
        println!("  reached by {} as well", others.join(", "));
    }
    let mut ports: Vec<String> = Vec::new();
    ports.extend(rtsp.map(|rtsp| format!("TCP {}, UDP {} and {}", rtsp.port(), udp.0, udp.1)));
    ports.extend(http.map(|http| format!("TCP {}", http.port())));
    println!(
        "  open to the network: let {} through the firewall",
        ports.join(", ")
    );
    if http.is_some()
        && let Some(code) = lan::qr_code(&format!("{}/", shown.http))
    {
        println!("\n{code}");
    }
}
