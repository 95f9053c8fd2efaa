//! The command line: a contract that scripts and users rely on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bytesize::ByteSize;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use reelway_film_addresses::FilmAddresses;
use reelway_node::config::{self, Config, Listen, LogFormat};
use reelway_node::{Addresses, amounts, edge};
use reelway_origin::Secret;
use reelway_sys::pipes;

use crate::yardstick::Yardstick;
use crate::{bench, cache, cachesim, calibrate, check, director, index, serve, sim};

/// Serve films over RTSP, HLS and DASH, without transcoding, every packet on time.
///
/// Point it at a directory of films and open the address it prints.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve directories of films on this machine
    Serve(Box<Serve>),
    /// Serve films from other servers, through a cache on this machine's disk
    Edge(Box<Edge>),
    /// Put several edges behind one virtual address, with the kernel's IPVS
    Director(Box<director::Director>),
    /// Show how much of each film a server holds in memory and on disk, and keep or drop films
    Cache(cache::Flags),
    /// Index films and print what was found: tracks, GOPs, bit rates, problems
    Index(index::Flags),
    /// Play films as viewers do, and check that every packet arrives, on time and unchanged
    Yardstick(Box<Yardstick>),
    /// Run the experiments, or list them
    Bench(bench::Bench),
    /// Simulate the block cache's replacement policies on a generated workload or a trace
    Cachesim(Box<cachesim::Cachesim>),
    /// Run a node on a simulated clock, with generated viewers and faults, and check its invariants
    Sim(sim::Sim),
    /// Report what this machine offers, and what Reelway will use
    Check {
        /// Films or film directories, to test for direct I/O and fragmentation
        films: Vec<PathBuf>,
    },
}

/// What `reelway serve` takes.
#[derive(Debug, Args)]
pub struct Serve {
    /// Film directories, single films, or addresses of remote films (http://, https://, s3://)
    films: Vec<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// What `reelway edge` takes.
#[derive(Debug, Args)]
pub struct Edge {
    /// Addresses of the origins: another Reelway, a web server (http://, https://) or a bucket
    /// (s3://)
    origins: Vec<PathBuf>,
    /// Disk space for fetched films [default: half of the free space, at most 64GiB]
    #[arg(long, value_name = "SIZE", env = "REELWAY_TIER", value_parser = config::size)]
    tier: Option<ByteSize>,
    /// Hours of the day in which the most watched films are fetched whole, such as 02:00-06:00
    /// [default: never]
    #[arg(long, value_name = "HOURS", env = "REELWAY_PREFILL")]
    prefill: Option<config::Hours>,
    /// HTTP address of an edge with the same origins, asked before them; may be repeated, and may
    /// include this edge itself
    #[arg(
        long = "sibling",
        value_name = "URL",
        env = "REELWAY_SIBLINGS",
        value_delimiter = ','
    )]
    siblings: Vec<String>,
    /// Token shared by all siblings, as env:NAME or file:PATH
    #[arg(
        long,
        value_name = "TOKEN",
        env = "REELWAY_SIBLING_TOKEN",
        hide_env_values = true
    )]
    sibling_token: Option<String>,
    /// Redirect new viewers to the sibling that has their film
    #[arg(long, env = "REELWAY_REDIRECT")]
    redirect: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Flags of a server. Each overrides its environment variable, and both override the file.
#[derive(Debug, Args)]
struct Flags {
    /// Configuration file (see --print-config)
    #[arg(long, value_name = "FILE", env = "REELWAY_CONFIG")]
    config: Option<PathBuf>,
    /// Print the commented reference configuration and exit
    #[arg(long)]
    print_config: bool,
    /// Where to listen: loopback, lan, or an IP address of this machine [default: loopback]
    #[arg(long, value_name = "WHERE", env = "REELWAY_LISTEN")]
    listen: Option<Listen>,
    /// Address of the RTSP server; overrides --listen [default: port 8554]
    #[arg(long, value_name = "ADDR", env = "REELWAY_RTSP", value_parser = config::socket_address)]
    rtsp: Option<SocketAddr>,
    /// Address of the HTTP server; overrides --listen [default: port 8080]
    #[arg(long, value_name = "ADDR", env = "REELWAY_HTTP", value_parser = config::socket_address)]
    http: Option<SocketAddr>,
    /// UDP ports for RTP and RTCP; 0,0 selects two adjacent free ports [default: 8000,8001]
    #[arg(long, value_name = "RTP,RTCP", env = "REELWAY_RTP_PORTS", value_parser = port_pair)]
    rtp_ports: Option<(u16, u16)>,
    /// Network of film addresses, the same as on the director: new viewers are redirected to the
    /// address of their film
    #[arg(long, value_name = "NETWORK", env = "REELWAY_FILM_ADDRESSES")]
    film_addresses: Option<FilmAddresses>,
    /// Directory for indexes and the API token [default: /var/lib/reelway for root, otherwise
    /// ~/.local/state/reelway]
    #[arg(long, value_name = "DIR", env = "REELWAY_STATE")]
    state: Option<PathBuf>,
    /// Memory for film blocks [default: 256MiB]
    #[arg(long, value_name = "SIZE", env = "REELWAY_POOL", value_parser = config::size)]
    pool: Option<ByteSize>,
    /// Capacity of this machine: any of net=100Mbit,disk=80MB/s,mem=128MiB,cpu=2Gbit,origin=200Mbit
    /// [default: reported by the links, or measured by --calibrate]
    #[arg(long, value_name = "AMOUNTS", env = "REELWAY_CAPACITY", value_parser = amounts::flag)]
    capacity: Option<amounts::Amounts>,
    /// Measure the capacity of this machine's disks and processor, store it in the state directory
    /// and exit; SECONDS from 10 to 3600, fewer give coarser figures [default: 240]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "240",
        value_parser = clap::value_parser!(u64).range(10..=3600))]
    calibrate: Option<u64>,
    /// Log filter: error, warn, info, debug, trace, or by module as in info,reelway_rtsp=debug
    /// [default: info]
    #[arg(long, value_name = "FILTER", env = "REELWAY_LOG")]
    log: Option<String>,
    /// Format of log lines: for people or for machines [default: human]
    #[arg(long, value_name = "FORMAT", env = "REELWAY_LOG_FORMAT")]
    log_format: Option<LogFormat>,
}

fn port_pair(text: &str) -> Result<(u16, u16), String> {
    let pair = text
        .split_once(',')
        .and_then(|(rtp, rtcp)| Some((rtp.trim().parse().ok()?, rtcp.trim().parse().ok()?)));
    pair.ok_or_else(|| "two port numbers separated by a comma, such as 8000,8001".to_owned())
}

impl Cli {
    /// Runs the command, and returns the exit code.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.command.only_prints() {
            pipes::end_with_the_reader();
        }
        if let Some(reference) = self.command.printed_config() {
            print!("{reference}");
            return Ok(ExitCode::SUCCESS);
        }
        match self.command {
            Command::Serve(serve) => {
                let config = serve.config()?;
                if config.films.is_empty() && config.source.is_empty() {
                    Cli::command()
                        .error(
                            ErrorKind::MissingRequiredArgument,
                            "no films: name a directory (reelway serve /srv/films), or set `films` or a `[[source]]` in the configuration",
                        )
                        .exit();
                }
                serve.flags.start(config)
            }
            Command::Edge(edge) => {
                let Edge {
                    origins,
                    tier,
                    prefill,
                    siblings,
                    sibling_token,
                    redirect,
                    flags,
                } = *edge;
                let mut config = flags.config()?;
                if prefill.is_some() {
                    config.tier.prefill = prefill;
                }
                if !siblings.is_empty() {
                    config.siblings.urls = siblings.into_iter().map(Secret::new).collect();
                }
                if let Some(token) = sibling_token {
                    config.siblings.token = Secret::new(token);
                }
                config.siblings.redirect |= redirect;
                edge::configure(&mut config, origins, tier)?;
                flags.start(config)
            }
            Command::Director(director) => director.run(),
            Command::Cache(flags) => cache::run(&flags),
            Command::Index(flags) => index::run(&flags),
            Command::Yardstick(yardstick) => yardstick.run(),
            Command::Cachesim(flags) => cachesim::simulate(&flags),
            Command::Sim(flags) => sim::simulate(&flags),
            Command::Bench(bench) => bench.run(Cli::command()),
            Command::Check { films } => {
                check::run(&films)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Command {
    /// Whether it only prints something and opens no connections.
    fn only_prints(&self) -> bool {
        match self {
            Command::Serve(_) | Command::Edge(_) | Command::Director(_) => {
                self.printed_config().is_some()
            }
            Command::Index(_) | Command::Cachesim(_) | Command::Sim(_) | Command::Check { .. } => {
                true
            }
            Command::Yardstick(_) | Command::Bench(_) | Command::Cache(_) => false,
        }
    }

    /// The reference configuration that it prints, if requested.
    fn printed_config(&self) -> Option<&'static str> {
        let (is_asked, reference) = match self {
            Command::Serve(serve) => (serve.flags.print_config, config::REFERENCE),
            Command::Edge(edge) => (edge.flags.print_config, config::REFERENCE),
            Command::Director(director) => (director.print_config, reelway_director::REFERENCE),
            _ => return None,
        };
        is_asked.then_some(reference)
    }
}

impl Serve {
    /// The configuration from the file and the flags.
    fn config(&self) -> anyhow::Result<Config> {
        let mut config = self.flags.config()?;
        if !self.films.is_empty() {
            config.films.clone_from(&self.films);
        }
        Ok(config)
    }
}

impl Flags {
    /// Serves with this configuration, or measures the machine.
    fn start(&self, config: Config) -> anyhow::Result<ExitCode> {
        match self.calibrate.map(Duration::from_secs) {
            Some(whole) => calibrate::run(&config, whole)?,
            None => {
                let addresses = Addresses {
                    rtsp: self.rtsp,
                    http: self.http,
                };
                serve::serve(config, addresses)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The configuration from the file and the flags.
    fn config(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        fn over<T>(target: &mut T, given: Option<T>) {
            if let Some(value) = given {
                *target = value;
            }
        }
        over(&mut config.listen, self.listen);
        over(&mut config.state, self.state.clone());
        over(&mut config.pool.size, self.pool);
        if let Some(amounts) = self.capacity.clone() {
            amounts.over(&mut config.capacity);
        }
        over(&mut config.log.level, self.log.clone());
        over(&mut config.log.format, self.log_format);
        config.film_addresses = self.film_addresses.or(config.film_addresses);
        over(&mut config.rtp.port, self.rtp_ports.map(|ports| ports.0));
        over(
            &mut config.rtp.rtcp_port,
            self.rtp_ports.map(|ports| ports.1),
        );
        config.check()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn calibration_takes_its_usual_time_or_as_many_seconds_as_it_is_given() {
        let seconds = |flag: &str| {
            let cli = Cli::try_parse_from(["reelway", "serve", flag, "films"]).ok()?;
            match cli.command {
                Command::Serve(serve) => serve.flags.calibrate,
                _ => None,
            }
        };
        let usual = reelway_node::calibrate::USUAL.as_secs();
        let shortest = reelway_node::calibrate::SHORTEST.as_secs();
        assert_eq!(seconds("--calibrate"), Some(usual));
        assert_eq!(seconds("--calibrate=60"), Some(60));
        let flag = |seconds: u64| format!("--calibrate={seconds}");
        assert_eq!(seconds(&flag(shortest)), Some(shortest));
        assert_eq!(seconds(&flag(shortest - 1)), None);
    }

    #[test]
    fn flags_go_over_the_file() {
        let dir = std::env::temp_dir().join(format!("reelway-cli-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("a.toml");
        std::fs::write(
            &file,
            "films = [\"/a\"]\nlisten = \"lan\"\n[rtp]\nburst = 4\n",
        )
        .unwrap();
        let cli = Cli::parse_from([
            "reelway",
            "serve",
            "/b",
            "--config",
            file.to_str().unwrap(),
            "--listen",
            "loopback",
        ]);
        let Command::Serve(serve) = cli.command else {
            unreachable!()
        };
        let config = serve.config().unwrap();
        assert_eq!(config.films, [PathBuf::from("/b")]);
        assert_eq!(config.listen, Listen::Loopback);
        assert_eq!(config.rtp.burst, 4);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
