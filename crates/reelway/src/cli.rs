//! The command line: a contract that scripts and users rely on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use bytesize::ByteSize;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::{Config, Listen, LogFormat};
use crate::yardstick::Yardstick;
use crate::{cachesim, capacity, check, config, index, serve};

/// Serves films over RTSP, HLS and DASH, untranscoded, each packet in time.
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
    /// Index films and print what was found: tracks, GOPs, bit rates, problems
    Index(Index),
    /// Play films as viewers do, and judge: every packet there, in time, the film's
    Yardstick(Box<Yardstick>),
    /// Run one of the experiments, or list them
    Bench(Bench),
    /// Simulate replacement policies of the block cache over a made workload
    Cachesim(Box<cachesim::Cachesim>),
    /// Tell what this machine offers, and what Reelway will use
    Check {
        /// Film directories whose disks are tried
        films: Vec<PathBuf>,
    },
}

/// Flags of `reelway serve`. Each goes over its environment variable, and both over the file.
#[derive(Debug, Args)]
pub struct Serve {
    /// Film directories, single films, or addresses of films elsewhere (http://, https://, s3://)
    films: Vec<PathBuf>,
    /// Configuration file (see --print-config)
    #[arg(long, value_name = "FILE", env = "REELWAY_CONFIG")]
    config: Option<PathBuf>,
    /// Print the commented reference configuration and leave
    #[arg(long)]
    print_config: bool,
    /// Who may reach the server: loopback, lan, or an IP address of this machine [default: loopback]
    #[arg(long, value_name = "WHO", env = "REELWAY_LISTEN")]
    listen: Option<Listen>,
    /// Address of the RTSP server, over --listen [default: port 8554]
    #[arg(long, value_name = "ADDR", env = "REELWAY_RTSP", value_parser = config::socket_address)]
    rtsp: Option<SocketAddr>,
    /// Address of the HTTP server, over --listen [default: port 8080]
    #[arg(long, value_name = "ADDR", env = "REELWAY_HTTP", value_parser = config::socket_address)]
    http: Option<SocketAddr>,
    /// UDP ports for RTP and RTCP; 0,0 takes two free ones side by side [default: 8000,8001]
    #[arg(long, value_name = "RTP,RTCP", env = "REELWAY_RTP_PORTS", value_parser = port_pair)]
    rtp_ports: Option<(u16, u16)>,
    /// Where indexes and the API token are kept [default: /var/lib/reelway for root]
    #[arg(long, value_name = "DIR", env = "REELWAY_STATE")]
    state: Option<PathBuf>,
    /// Memory for film blocks [default: 256MiB]
    #[arg(long, value_name = "SIZE", env = "REELWAY_POOL", value_parser = config::size)]
    pool: Option<ByteSize>,
    /// What this machine can carry: net=100Mbit,disk=80MB/s,mem=128MiB,cpu=2Gbit, any of them [default: what the links
    /// say]
    #[arg(long, value_name = "AMOUNTS", env = "REELWAY_CAPACITY", value_parser = capacity::flag)]
    capacity: Option<capacity::Amounts>,
    /// Find out in some minutes what this machine's disks and processor carry, keep it in the state directory, and leave
    #[arg(long)]
    calibrate: bool,
    /// Log filter: error, warn, info, debug, trace, or info,reelway_rtsp=debug [default: info]
    #[arg(long, value_name = "FILTER", env = "REELWAY_LOG")]
    log: Option<String>,
    /// Log lines for people or for machines [default: human]
    #[arg(long, value_name = "FORMAT", env = "REELWAY_LOG_FORMAT")]
    log_format: Option<LogFormat>,
}

/// Flags of `reelway index`.
#[derive(Debug, Args)]
pub struct Index {
    /// Film files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// With --json: every sample with its position and times as well
    #[arg(long, requires = "json")]
    pub samples: bool,
}

/// Flags of `reelway bench`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
struct Bench {
    /// Experiment to run
    #[arg(required_unless_present_any = ["list", "help"])]
    name: Option<String>,
    /// List the experiments
    #[arg(long)]
    list: bool,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the page of results to DIR/NAME.md
    #[arg(long, value_name = "DIR")]
    markdown: Option<PathBuf>,
    /// Print help; after NAME, that of the experiment
    #[arg(short, long)]
    help: bool,
    /// What the experiment itself wants (see reelway bench NAME --help)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

fn port_pair(text: &str) -> Result<(u16, u16), String> {
    let pair = text
        .split_once(',')
        .and_then(|(rtp, rtcp)| Some((rtp.trim().parse().ok()?, rtcp.trim().parse().ok()?)));
    pair.ok_or_else(|| "two port numbers with a comma between them, such as 8000,8001".to_owned())
}

impl Cli {
    /// Does what was asked; the exit code is what it means to the caller.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Serve(serve) if serve.print_config => {
                print!("{}", config::REFERENCE);
                Ok(ExitCode::SUCCESS)
            }
            Command::Serve(flags) => {
                let calibrate = flags.calibrate;
                let (config, addresses) = flags.into_config()?;
                if config.films.is_empty() && config.source.is_empty() {
                    Cli::command()
                        .error(
                            ErrorKind::MissingRequiredArgument,
                            "no films: name a directory (reelway serve /srv/films), or set `films` or a `[[source]]` in the configuration",
                        )
                        .exit();
                }
                if calibrate {
                    capacity::calibrate(&config)?;
                } else {
                    serve::serve(config, addresses)?;
                }
                Ok(ExitCode::SUCCESS)
            }
            Command::Index(flags) => index::run(&flags),
            Command::Yardstick(yardstick) => yardstick.run(),
            Command::Cachesim(flags) => cachesim::simulate(&flags),
            Command::Bench(bench) => bench.run(),
            Command::Check { films } => {
                check::run(&films)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Addresses given by flag, which go over `listen` and the ports of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    pub rtsp: Option<SocketAddr>,
    pub http: Option<SocketAddr>,
}

impl Serve {
    fn into_config(self) -> anyhow::Result<(Config, Addresses)> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        if !self.films.is_empty() {
            config.films = self.films;
        }
        fn over<T>(target: &mut T, given: Option<T>) {
            if let Some(value) = given {
                *target = value;
            }
        }
        over(&mut config.listen, self.listen);
        over(&mut config.state, self.state);
        over(&mut config.pool.size, self.pool);
        if let Some(amounts) = self.capacity {
            amounts.over(&mut config.capacity);
        }
        over(&mut config.log.level, self.log);
        over(&mut config.log.format, self.log_format);
        over(&mut config.rtp.port, self.rtp_ports.map(|ports| ports.0));
        over(
            &mut config.rtp.rtcp_port,
            self.rtp_ports.map(|ports| ports.1),
        );
        config.check()?;
        Ok((
            config,
            Addresses {
                rtsp: self.rtsp,
                http: self.http,
            },
        ))
    }
}

impl Bench {
    fn run(mut self) -> anyhow::Result<ExitCode> {
        if self.help && self.name.is_none() {
            let mut cli = Cli::command();
            cli.build();
            if let Some(bench) = cli.find_subcommand_mut("bench") {
                bench.print_help()?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        if self.help {
            self.rest.push("--help".to_owned());
        }
        let Some(name) = self.name.filter(|_| !self.list) else {
            for (name, about) in reelway_bench::list() {
                println!("{name:<10} {about}");
            }
            return Ok(ExitCode::SUCCESS);
        };
        let report = reelway_bench::run(&name, &self.rest)?;
        print!("{report}");
        if let Some(path) = self.json {
            let text = serde_json::to_string_pretty(&report)?;
            std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
        }
        if let Some(dir) = self.markdown {
            let path = dir.join(format!("{}.md", report.bench));
            std::fs::write(&path, report.markdown()).with_context(|| path.display().to_string())?;
        }
        Ok(if report.all_met() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
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
        let (config, _) = serve.into_config().unwrap();
        assert_eq!(config.films, [PathBuf::from("/b")]);
        assert_eq!(config.listen, Listen::Loopback);
        assert_eq!(config.rtp.burst, 4);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
