//! `reelway serve`: one machine, all protocols, no other process.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;
use reelway_node::config::{Config, LogFormat};
use reelway_node::{Addresses, Serving, lan};
use reelway_origin::Address;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

/// Serves until a signal stops it.
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
    // A thread that is still blocked (by a disk that does not answer) must not keep the process
    // alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

/// Starts the log as configured.
pub(crate) fn start_log(config: &Config) -> anyhow::Result<()> {
    // `notify` warns about every watch that disappears with its folder; the catalogue logs what
    // matters. If the configuration names a level for `notify`, it comes later and takes
    // precedence.
    let levels = format!("notify=error,{}", config.log.level);
    // tracing's own message is redundant.
    let filter = tracing_subscriber::EnvFilter::try_new(levels).map_err(|_| {
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
    let serving = Serving::start(&config, given).await?;
    announce(&config, &serving);
    stop_signal().await?;
    info!("stopping: streams are being ended; signal again to stop at once");
    tokio::select! {
        () = serving.stop() => Ok(()),
        again = stop_signal() => again,
    }
}

/// Waits for a signal that ends the process.
pub(crate) async fn stop_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Prints the server's addresses on standard output.
fn announce(config: &Config, serving: &Serving) {
    let (shown, state, udp) = (&serving.shown, &serving.state, serving.rtp);
    println!("Reelway {} serves", env!("CARGO_PKG_VERSION"));
    for film in &config.films {
        match film.to_str().filter(|text| Address::is_meant(text)) {
            // Without any secret in it.
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
    if let Some(https) = &shown.https {
        println!("  HTTPS  {https}/, and the same below it");
    }
    println!();
    println!("  index and token in {}", state.display());
    // The bound addresses, not the requested ones: flags override `listen`, and port 0 is any free
    // one.
    let open =
        [&serving.rtsp, &serving.http].map(|bound| bound.iter().find(|at| !at.ip().is_loopback()));
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
    let https = serving.https.iter().find(|at| !at.ip().is_loopback());
    ports.extend(https.map(|https| format!("TCP {}", https.port())));
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
