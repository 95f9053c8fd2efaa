//! `reelway director try`: an origin, edges, a director and viewers on this machine, each in its
//! own network namespace, to try out a complete setup without several machines.
//!
//! | file | content |
//! |---|---|
//! | `network.rs` | the namespaces and how they are connected. Pure |
//! | `programs.rs` | the programs on the machines |
//! | `carried.rs` | traffic of each machine. Pure |

mod carried;
mod network;
mod programs;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reelway_ipvs::{IpvsError, Method, Scheduler, Table};
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval};

use self::carried::Carried;
use self::network::{DIRECTOR, ORIGIN, SWITCH, VIEWERS, VIRTUAL, edge, edge_name, namespace};
use self::programs::Program;
use crate::journal::directory;
use crate::report::document;
use crate::setup::{Setup, run as run_program};

/// Maximum number of edges.
pub const MOST_EDGES: u8 = 9;
/// Maximum number of films that viewers choose from.
const MOST_FILMS: usize = 8;
/// Size of the tier of each edge.
const TIER: &str = "256MiB";
/// The secret that edges share; nobody else is on their network.
const SECRET: &str = "edges of a trial";
/// Everything that is percent-encoded in the path of a URL.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_');
/// Time between two lines about the traffic.
const SHOWN: Duration = Duration::from_secs(5);
/// How long viewers watch if no duration is given: practically until the program is stopped.
const DAY: Duration = Duration::from_secs(86_400);

/// The parameters of a trial.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Files and directories with films.
    pub films: Vec<PathBuf>,
    /// Number of edges, 1 to [`MOST_EDGES`].
    pub edges: u8,
    /// How packets reach the edges.
    pub method: Method,
    /// Chooses the edge for each viewer.
    pub scheduler: Scheduler,
    /// Whether edges redirect viewers to the one that has their film.
    pub redirect: bool,
    /// Number of simultaneous viewers.
    pub viewers: u32,
    /// Duration of the trial; `None`: until it is stopped.
    pub duration: Option<Duration>,
}

/// Results of the viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Story {
    viewers: u64,
    harmed: u64,
    refused: u64,
}

/// The parts of a page of `GET /api/films` that are used here.
#[derive(Deserialize)]
struct Films {
    films: Vec<Film>,
}

#[derive(Deserialize)]
struct Film {
    title: String,
    state: String,
    protocols: Protocols,
}

/// Reasons why a film cannot be played over these protocols.
#[derive(Deserialize)]
struct Protocols {
    rtsp: Option<String>,
    hls: Option<String>,
}

/// Checks that this kernel can run a trial.
///
/// # Errors
/// The kernel has no IPVS, or the caller is not root.
pub fn check() -> Result<(), IpvsError> {
    Table::open().map(drop)
}

/// Makes the network, starts viewers, and prints the traffic until `stop` or the end of the trial.
/// Everything that was made is removed. Returns `false` if some viewer did not play well.
///
/// # Errors
/// The kernel has no IPVS, a part of the network cannot be made, or a program does not start.
pub async fn run(trial: &Trial, stop: impl Future<Output = ()>) -> anyhow::Result<bool> {
    check()?;
    let notes = directory("try", "network").context("a directory in /run")?;
    let lock = std::fs::File::create(notes.join("lock")).context("a file in /run")?;
    if lock.try_lock().is_err() {
        bail!("another `reelway director try` runs on this machine");
    }
    // Remove what a killed trial has left.
    drop(Setup::make(&[], &notes, false)?);
    let setup = Setup::make(&network::namespaces(trial.edges), &notes, false)?;
    for command in network::connections(trial.edges, trial.method) {
        run_program(&command, "")
            .map_err(|reason| anyhow::anyhow!("{}: {reason}", command.join(" ")))?;
    }
    // Not in /run, which is in memory: the edges' caches lie there, too.
    let files = std::env::temp_dir().join(namespace(std::process::id()));
    std::fs::create_dir(&files).with_context(|| files.display().to_string())?;
    let mut programs = Vec::new();
    let tried = watch(trial, &files, &mut programs, stop).await;
    // The director ends first, as it puts its settings back.
    for program in programs.into_iter().rev() {
        program.end().await;
    }
    drop(setup);
    match &tried {
        Ok(_) => {
            let _ = std::fs::remove_dir_all(&files);
        }
        Err(_) => eprintln!("What the programs said is in {}", files.display()),
    }
    let _ = std::fs::remove_dir_all(&notes);
    tried
}

/// Writes the configuration of a server, with `more` at its end, and returns the server's
/// arguments.
fn server(
    machine: &str,
    role: &str,
    films: &[String],
    more: &str,
    files: &Path,
) -> anyhow::Result<Vec<String>> {
    let state = files.join(machine);
    std::fs::create_dir_all(&state)?;
    let config = files.join(format!("{machine}.toml"));
    let text = format!(
        "listen = \"lan\"\nstate = {:?}\n[capacity]\nnet = \"none\"\n[pool]\nsize = \"32MiB\"\n{more}",
        state.display().to_string()
    );
    std::fs::write(&config, text)?;
    let mut words = vec![
        role.to_owned(),
        "--config".to_owned(),
        config.display().to_string(),
        "--".to_owned(),
    ];
    words.extend_from_slice(films);
    Ok(words)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Starts all programs, and prints the traffic.
async fn watch(
    trial: &Trial,
    files: &Path,
    programs: &mut Vec<Program>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<bool> {
    let mut stop = pin!(stop);
    let started = start(trial, files, programs);
    let urls = tokio::select! {
        urls = started => urls?,
        () = &mut stop => return Ok(true),
    };
    println!("The director's page: http://{DIRECTOR}:8090/");
    println!(
        "Films, through the virtual address: http://{VIRTUAL}:8080/, rtsp://{VIRTUAL}:8554/TITLE"
    );
    println!("Viewers at a time: {}", trial.viewers);
    let story = files.join("viewers.json");
    let mut arguments = vec!["yardstick".to_owned()];
    arguments.extend(urls);
    arguments.extend(words(&format!(
        "--clients {} --arrivals poisson:2 --sources {}-{} --again --duration {}",
        trial.viewers,
        VIEWERS.0,
        VIEWERS.1,
        trial.duration.unwrap_or(DAY).as_secs().max(1)
    )));
    arguments.extend(["--json".to_owned(), story.display().to_string()]);
    let began = reelway_clock::now();
    let first = carried()?;
    let mut viewers = Program::start("viewers", "viewers", &arguments, files).await?;
    let mut ticks = interval(SHOWN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The first tick comes at once.
    ticks.tick().await;
    let mut before = (reelway_clock::now(), first.clone());
    let ended = loop {
        tokio::select! {
            ended = viewers.ended() => break Some(ended?),
            () = &mut stop => break None,
            _ = ticks.tick() => {
                let now = (reelway_clock::now(), carried()?);
                let seconds = now.0.since(before.0).as_secs_f64().max(1e-3);
                let rate = |bytes: u64| format!("{:.2} Mbit/s", bytes as f64 * 8e-6 / seconds);
                let at = now.0.since(began).as_secs();
                println!("{at:>4} s: {}", now.1.since(&before.1).words(rate));
                before = now;
            }
        }
    };
    let whole = carried()?.since(&first);
    viewers.end().await;
    let sum = |bytes: u64| format!("{:.2} MB", bytes as f64 / 1e6);
    println!("In all: {}", whole.words(sum));
    if ended.is_none() {
        return Ok(true);
    }
    let text = std::fs::read_to_string(&story).context("the viewers' report")?;
    let Story {
        viewers,
        harmed,
        refused,
    } = serde_json::from_str(&text).context("the viewers' report")?;
    println!("{viewers} films were watched: {harmed} did not play well, {refused} were refused");
    Ok(harmed + refused == 0)
}

/// Starts origin, edges and director, and returns the URLs of the films for the viewers.
async fn start(
    trial: &Trial,
    files: &Path,
    programs: &mut Vec<Program>,
) -> anyhow::Result<Vec<String>> {
    let films: Vec<String> = trial
        .films
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    println!("Origin at {ORIGIN}: {}", films.join(", "));
    let arguments = server("origin", "serve", &films, "", files)?;
    let mut origin = Program::start("origin", "origin", &arguments, files).await?;
    let ready = origin.says("films are ready").await;
    programs.push(origin);
    ready?;
    let path = format!("/api/films?per_page={MOST_FILMS}");
    let Some(Films { films }) = document((ORIGIN, 8080).into(), &path).await else {
        bail!("the origin does not list its films");
    };
    let origin = [format!("http://{ORIGIN}:8080/")];
    let siblings: Vec<String> = (1..=trial.edges)
        .map(|number| format!("\"http://{}:8080/\"", edge(number)))
        .collect();
    let more = format!(
        "[tier]\nsize = \"{TIER}\"\n[siblings]\nurls = [{}]\ntoken = \"{SECRET}\"\nredirect = {}\n",
        siblings.join(", "),
        trial.redirect
    );
    for number in 1..=trial.edges {
        let name = edge_name(number);
        println!("Edge at {}", edge(number));
        let arguments = server(&name, "edge", &origin, &more, files)?;
        let server = Program::start(&name, &name, &arguments, files).await?;
        programs.push(server);
        let arguments = words(&format!(
            "director --on-edge --address {VIRTUAL} --method {}",
            trial.method
        ));
        let settings =
            Program::start(&name, &format!("{name}-settings"), &arguments, files).await?;
        programs.push(settings);
    }
    for (number, program) in programs.iter_mut().skip(1).enumerate() {
        let ready = match number % 2 {
            0 => "films are ready",
            _ => "settings of an edge",
        };
        program.says(ready).await?;
    }
    println!(
        "Director at {DIRECTOR}: {VIRTUAL} leads to {} ({}, {})",
        match trial.edges {
            1 => "1 edge".to_owned(),
            edges => format!("{edges} edges"),
        },
        trial.method,
        trial.scheduler
    );
    let mut arguments = words(&format!(
        "director --setup --address {VIRTUAL} --method {} --scheduler {} --http {DIRECTOR}:8090",
        trial.method, trial.scheduler
    ));
    for number in 1..=trial.edges {
        arguments.extend(["--edge".to_owned(), edge(number).to_string()]);
    }
    let mut director = Program::start("director", "director", &arguments, files).await?;
    let mut ready = Ok(());
    for _ in 0..trial.edges {
        if ready.is_ok() {
            ready = director.says("gets viewers").await;
        }
    }
    programs.push(director);
    ready?;
    let playable = films.iter().filter(|film| film.state == "ready");
    let urls: Vec<String> = playable
        .flat_map(|film| {
            let title = utf8_percent_encode(&film.title, IN_PATH);
            let rtsp = format!("rtsp://{VIRTUAL}:8554/{title}");
            let hls = format!("http://{VIRTUAL}:8080/{title}/hls/main.m3u8");
            let over = [(&film.protocols.rtsp, rtsp), (&film.protocols.hls, hls)];
            over.map(|(why_not, url)| why_not.is_none().then_some(url))
        })
        .flatten()
        .collect();
    if urls.is_empty() {
        bail!("none of the films can be played over RTSP or HLS");
    }
    Ok(urls)
}

/// Reads the counters of the switch.
fn carried() -> anyhow::Result<Carried> {
    let command = words(&format!("ip -n {} -s -j link", namespace(SWITCH)));
    let text = run_program(&command, "").map_err(anyhow::Error::msg)?;
    Carried::read(&text).context("counters of the switch")
}
