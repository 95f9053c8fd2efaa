//! `reelway cache`: shows what a server holds of films, and keeps or drops it through the API.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use bytesize::ByteSize;
use clap::{Args, Subcommand, ValueEnum};
use reelway_node::config::Config;
use reelway_origin::{Address, Api, Secret};
use serde::Deserialize;

/// Flags of `reelway cache`.
#[derive(Debug, Args)]
pub struct Flags {
    /// HTTP address of the server
    #[arg(
        long,
        value_name = "URL",
        env = "REELWAY_SERVER",
        default_value = "http://127.0.0.1:8080/"
    )]
    server: String,
    /// API token of the server, as env:NAME or file:PATH [default: read from the state directory of
    /// the server on this machine]
    #[arg(
        long,
        value_name = "TOKEN",
        env = "REELWAY_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// State directory of the server on this machine [default: /var/lib/reelway for root, otherwise
    /// ~/.local/state/reelway]
    #[arg(long, value_name = "DIR", env = "REELWAY_STATE")]
    state: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print how much of each film is in memory and on disk
    Show {
        /// Print the API's JSON document
        #[arg(long)]
        json: bool,
    },
    /// Keep remote films on disk, and fetch missing parts now
    Keep {
        /// Titles of films
        #[arg(required = true)]
        titles: Vec<String>,
    },
    /// Drop films from memory and disk, and no longer keep them
    Drop {
        /// Titles of films
        #[arg(required = true)]
        titles: Vec<String>,
    },
    /// Start or stop fetching the most watched films, whatever the configured hours
    Prefill {
        /// Whether to start or stop
        what: Prefill,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Prefill {
    Start,
    Stop,
}

/// `GET /api/cache`, as far as it is printed.
#[derive(Deserialize)]
struct Cache {
    bytes: u64,
    used: u64,
    hits: u64,
    misses: u64,
    films: Vec<Held>,
    tier: Option<Tier>,
}

#[derive(Deserialize)]
struct Held {
    title: String,
    held: u64,
    size: u64,
}

#[derive(Deserialize)]
struct Tier {
    bytes: u64,
    used: u64,
    kept: Vec<Lacking>,
    prefill: Option<Fetched>,
}

#[derive(Deserialize)]
struct Fetched {
    hours: Option<String>,
    running: bool,
    films: Vec<Lacking>,
}

#[derive(Deserialize)]
struct Lacking {
    title: String,
    lacking: Option<u64>,
}

/// Sends the command to the server.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let address = Address::parse(&flags.server).context("--server")?;
    let token = match &flags.command {
        Command::Show { .. } => Secret::default(),
        _ => token(flags)?,
    };
    let api = Api::new(address, token).map_err(anyhow::Error::msg)?;
    let mut failed = false;
    let mut judge = |result: Result<(), String>, title: &str| {
        if let Err(why) = result {
            failed = true;
            eprintln!("reelway: {title}: {why}");
        }
    };
    runtime.block_on(async {
        match &flags.command {
            Command::Show { json } => {
                let text = api.get("api/cache").await.map_err(anyhow::Error::msg)?;
                if *json {
                    println!("{text}");
                } else {
                    print(&serde_json::from_str(&text).context("/api/cache")?);
                }
            }
            Command::Keep { titles } => {
                for title in titles {
                    judge(api.put(&format!("api/cache/{title}")).await, title);
                }
            }
            Command::Drop { titles } => {
                for title in titles {
                    judge(api.delete(&format!("api/cache/{title}")).await, title);
                }
            }
            Command::Prefill { what } => {
                let done = match what {
                    Prefill::Start => api.put("api/prefill").await,
                    Prefill::Stop => api.delete("api/prefill").await,
                };
                done.map_err(anyhow::Error::msg)?;
            }
        }
        anyhow::Ok(())
    })?;
    Ok(if failed {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// The token, which is needed for changes.
fn token(flags: &Flags) -> anyhow::Result<Secret> {
    if let Some(token) = &flags.token {
        return Ok(Secret::new(token.clone()).resolve()?);
    }
    let config = Config {
        state: flags.state.clone().unwrap_or_default(),
        ..Config::default()
    };
    let path = config.state_directory()?.join("token");
    let secret = Secret::new(format!("file:{}", path.display()));
    let token = secret.resolve();
    token.context("the token (give it with --token, or the server's state directory with --state)")
}

fn size(bytes: u64) -> impl std::fmt::Display {
    ByteSize(bytes).display().iec()
}

fn print(cache: &Cache) {
    let requests = cache.hits + cache.misses;
    let hits = 100.0 * cache.hits as f64 / requests.max(1) as f64;
    println!(
        "memory    {} of {} used; {hits:.0}% of {requests} requests served from it",
        size(cache.used),
        size(cache.bytes)
    );
    for film in &cache.films {
        println!(
            "  {}  {} of {}",
            film.title,
            size(film.held),
            size(film.size)
        );
    }
    let Some(tier) = &cache.tier else {
        println!("disk      no tier: nothing is kept (docs/guide/origins.md)");
        return;
    };
    println!("disk      {} of {} used", size(tier.used), size(tier.bytes));
    films("kept", &tier.kept);
    if let Some(prefill) = &tier.prefill {
        let when = match (&prefill.hours, prefill.running) {
            (_, true) => "being fetched now".to_owned(),
            (Some(hours), _) => format!("fetched between {}", hours.replace('-', " and ")),
            (None, _) => "fetched on request".to_owned(),
        };
        films(&format!("watched most, {when}"), &prefill.films);
    }
}

fn films(what: &str, films: &[Lacking]) {
    if films.is_empty() {
        return;
    }
    println!("  {what}:");
    for film in films {
        let state = match film.lacking {
            None => "waiting".to_owned(),
            Some(0) => "complete".to_owned(),
            Some(lacking) => format!("{} to fetch", size(lacking)),
        };
        println!("    {}  {state}", film.title);
    }
}
