//! `reelway director`: several edges behind one virtual address.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use reelway_director::{
    self as director, Config, EdgeConfig, FailoverConfig, Order, Page, Setup, Step,
};
use reelway_film_addresses::FilmAddresses;
use reelway_ipvs::{Method, Scheduler};
use reelway_node::config::Config as NodeConfig;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::serve::{start_log, stop_signal};
use crate::trial::Try;

/// The maximum number of consecutive addresses that are all shown before they are set.
const MOST_SHOWN: usize = 8;

/// What `reelway director` takes.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Director {
    #[command(subcommand)]
    command: Option<Other>,
    /// Configuration file (see --print-config)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the commented reference configuration and exit
    #[arg(long)]
    pub print_config: bool,
    /// Virtual address, which viewers use
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// An edge: its address, its weight compared with the other edges [default: 100], and its UDP
    /// port for RTP, if no other edge has the same; may be repeated
    #[arg(long = "edge", value_name = "IP[=WEIGHT][,RTP]", value_parser = director::parse_edge)]
    edges: Vec<EdgeConfig>,
    /// How packets reach the edges: direct, ipip, gue:PORT or nat [default: direct]
    #[arg(long, value_parser = director::parse_method)]
    method: Option<Method>,
    /// IPVS scheduler that selects the edge of a new viewer: rr, wrr, lc, wlc, lblc, lblcr, dh, sh,
    /// mh, sed or nq [default: wlc]
    #[arg(long)]
    scheduler: Option<Scheduler>,
    /// Seconds for which a viewer's address stays with its edge; 0 turns persistence off [default:
    /// 300]
    #[arg(long, value_name = "SECONDS")]
    persistence: Option<u32>,
    /// Network of film addresses, in addition to the virtual address: edges with the same
    /// --film-addresses redirect each viewer to the address of their film
    #[arg(long, value_name = "NETWORK")]
    film_addresses: Option<FilmAddresses>,
    /// IPVS scheduler that selects the edge of a film address [default: dh]
    #[arg(long, value_name = "SCHEDULER")]
    film_scheduler: Option<Scheduler>,
    /// Network interface of the virtual address [default: the one that leads to the edges]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Share the virtual address with other directors of the same VRRP ID (1 to 255): if the active
    /// one fails, another takes over; the one with the highest priority (1 to 254) is active first
    /// [default priority: 100]
    #[arg(long, value_name = "ID[=PRIORITY]", value_parser = director::parse_failover)]
    failover: Option<FailoverConfig>,
    /// Address of the page, API and metrics that show the edges, or none [default: 127.0.0.1:8090]
    #[arg(long, value_name = "ADDR")]
    http: Option<Page>,
    /// Also make the settings that this machine needs, and restore the previous ones at exit
    #[arg(long)]
    setup: bool,
    /// Only make the settings that this machine needs as an edge, and restore the previous ones at
    /// exit
    #[arg(long, conflicts_with_all = ["setup", "edges", "failover"])]
    on_edge: bool,
    /// Print the settings that would be made, and exit
    #[arg(long)]
    dry_run: bool,
    /// Leave all settings in place at exit, so that viewers continue while the director restarts
    #[arg(long)]
    keep: bool,
}

/// What else it does.
#[derive(Debug, Subcommand)]
enum Other {
    /// Try a director on this machine, with an origin, edges and viewers in network namespaces
    /// (needs root)
    Try(Try),
}

impl Director {
    /// Directs, or sets up an edge, until a signal stops it.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(Other::Try(trial)) = self.command {
            return trial.run();
        }
        let config = self.config()?;
        let steps = match self.on_edge {
            true => {
                let address = config.virtual_address()?;
                director::for_edge(config.method, address, config.films.addresses)
            }
            false => {
                config.check()?;
                match self.setup || self.dry_run {
                    true => director::steps(&config)?,
                    false => Vec::new(),
                }
            }
        };
        say(&steps);
        if !self.on_edge
            && let Some(text) = director::keepalived(&config)?
        {
            println!("Configuration of keepalived, which is started:");
            text.lines().for_each(|line| println!("  {line}"));
        }
        if self.dry_run {
            return Ok(ExitCode::SUCCESS);
        }
        start_log(&NodeConfig::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("tokio")?;
        runtime.block_on(async {
            match self.on_edge {
                true => {
                    let address = config.virtual_address()?;
                    director::say_way_back(&config, address);
                    set_edge_up(&steps, address, self.keep).await
                }
                false => {
                    let mut hangup = signal(SignalKind::hangup())?;
                    let orders = async || self.order(&mut hangup).await;
                    director::run(config, &steps, self.keep, orders).await
                }
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Waits for a signal: the director ends, or reads its configuration again.
    async fn order(&self, hangup: &mut Signal) -> Order {
        loop {
            tokio::select! {
                stopped = stop_signal() => {
                    if let Err(error) = stopped {
                        warn!("signals: {error:#}");
                    }
                    return Order::Stop;
                }
                _ = hangup.recv() => {
                    let config = self.config().and_then(|config| {
                        config.check()?;
                        Ok(config)
                    });
                    match config {
                        Ok(config) => return Order::Take(Box::new(config)),
                        Err(error) => warn!("the configuration stays as it is: {error:#}"),
                    }
                }
            }
        }
    }

    /// The configuration from the file and the flags.
    fn config(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        if !self.edges.is_empty() {
            config.edge.clone_from(&self.edges);
        }
        if let Some(interface) = &self.interface {
            config.interface.clone_from(interface);
        }
        config.address = self.address.or(config.address);
        config.method = self.method.unwrap_or(config.method);
        config.scheduler = self.scheduler.unwrap_or(config.scheduler);
        config.persistence = self.persistence.unwrap_or(config.persistence);
        config.http = self.http.unwrap_or(config.http);
        config.films.addresses = self.film_addresses.or(config.films.addresses);
        config.films.scheduler = self.film_scheduler.unwrap_or(config.films.scheduler);
        if let Some(FailoverConfig {
            router, priority, ..
        }) = self.failover
        {
            (config.failover.router, config.failover.priority) = (router, priority);
        }
        Ok(config)
    }
}

/// Prints the settings before they are made.
fn say(steps: &[Step]) {
    if steps.is_empty() {
        return;
    }
    println!("Settings of this machine:");
    let is_address = |step: &Step| matches!(step, Step::Address { .. });
    for run in steps.chunk_by(|one, other| is_address(one) && is_address(other)) {
        match run {
            // The addresses of a network, which differ in their last number.
            [first, second, .., last] if run.len() > MOST_SHOWN => {
                println!("  {first}\n  {second}\n  … and so on, each up to\n  {last}");
            }
            _ => run.iter().for_each(|step| println!("  {step}")),
        }
    }
}

async fn set_edge_up(steps: &[Step], address: IpAddr, keep: bool) -> anyhow::Result<()> {
    let dir = director::directory("edge", &address.to_string()).context("a directory in /run")?;
    let setup = Setup::make(steps, &dir, keep)?;
    if keep {
        setup.leave();
        return Ok(());
    }
    info!(
        "this machine has the settings of an edge; the previous ones are restored when this program ends"
    );
    stop_signal().await?;
    drop(setup);
    // Another program may have put a file there.
    let _ = std::fs::remove_dir(&dir);
    Ok(())
}
