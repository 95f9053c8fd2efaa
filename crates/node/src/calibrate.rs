//! What this machine carries, found out by loading it: `reelway serve --calibrate`.
//!
//! The disks by reading blocks at random places of the films past the page cache; the processor by a server on one core
//! and virtual viewers on the others, more and more of them until some are harmed or frames come late. The machine is taken
//! to carry as many times that as it has cores.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use reelway_store::{Store, StoreConfig};
use reelway_yardstick::film::{self, Recipe};
use reelway_yardstick::load::{
    self, Arrivals, Bisection, Choice, Habits, LoadStory, Options, Plan, Watch,
};

use crate::calibration::{Calibration, Tried};
use crate::config::Pool;
use crate::process::Server;

/// Default length of a calibration.
pub const USUAL: Duration = Duration::from_secs(240);
/// Shortest calibration: it has time for one or two numbers of viewers.
pub const SHORTEST: Duration = Duration::from_secs(10);
/// Reads under way at once: as many as viewers at different places make.
const AT_ONCE: usize = 32;
/// Blocks of the pool that the disks are read into: few, for what is there already is not read.
const POOL: u64 = 2 * AT_ONCE as u64;
/// 99.9 of 100 frames must not be later than this.
const LATE_MS: f64 = 20.0;
/// Bytes a second of one viewer on the wire: 4 Mbit/s of picture, 128 kbit/s of sound, and headers.
const VIEWER: u64 = 4_128_000 / 8 * 106 / 100;

/// Viewers of the first try, and the most that are tried.
const VIEWERS: (u32, u32) = (50, 4000);
/// Viewers who come in a tenth of a second.
const COMING: u32 = 10;
/// How long after the last of them came begins what is judged.
const SETTLING: Duration = Duration::from_secs(2);

/// Lengths of a calibration's parts.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// How long the disks are read.
    reading: Duration,
    /// No other number of viewers is tried after this, once the server kept up with one.
    patience: Duration,
    /// How long each number of viewers is judged.
    judging: Duration,
    /// Length of the films that are served.
    films: Duration,
}

impl Times {
    fn of(whole: Duration) -> Times {
        let whole = whole.max(SHORTEST);
        let second = Duration::from_secs(1);
        Times {
            reading: (whole / 30).clamp(second, 8 * second),
            patience: whole * 5 / 8,
            judging: (whole / 48).clamp(second, 5 * second),
            // A trial takes less than a minute.
            films: (whole / 2).clamp(60 * second, 120 * second),
        }
    }
}

/// Loads the machine for about `whole`, [`USUAL`] or less; at least [`SHORTEST`] is taken. Shorter calibrations give coarser
/// figures. `films` are read as a server with this `pool` reads them. Films of its own are made in `folder` meanwhile. `tell`
/// gets a line for each step.
///
/// # Errors
/// The server cannot be started, or its films not made; or it cannot serve a single viewer on time, which says more about what
/// else the machine does than about what it can carry.
pub fn calibrate(
    (films, pool): (&[PathBuf], &Pool),
    folder: &Path,
    whole: Duration,
    tell: &dyn Fn(&str),
) -> anyhow::Result<Calibration> {
    let (times, cores) = (Times::of(whole), cores());
    tell("reading from the films' disks …");
    let disk = disks(films, pool, times.reading)?;
    match disk {
        Some(rate) => tell(&format!("  {} MB/s at random places", rate / 1_000_000)),
        None => tell("  the films are too few or too small to tell"),
    }
    tell("serving more and more viewers of 4 Mbit/s on one core …");
    let (most, tried) = processor((times, &cores), folder, tell)?;
    if most == 0 {
        bail!(
            "not even one viewer was served on time, so nothing was stored: stop what else uses this machine, and calibrate again"
        );
    }
    Ok(Calibration {
        when: reelway_clock::real().to_string(),
        cpu: Some(u64::from(most) * VIEWER * cores.len() as u64),
        disk,
        tried,
    })
}

/// Regular files below these, with their lengths, each once, whatever leads to it; bounded.
fn files(films: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    const MOST: usize = 2000;
    let (mut found, mut left) = (Vec::new(), films.to_vec());
    let mut seen = HashSet::new();
    while let Some(path) = left.pop() {
        let Ok(meta) = std::fs::metadata(&path) else {
            continue;
        };
        if !seen.insert((meta.dev(), meta.ino())) {
            continue;
        }
        if meta.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.take(MOST).map(|entry| entry.path()));
        } else if meta.len() > 16 << 20 {
            found.push((path, meta.len()));
        }
        if found.len() >= MOST || left.len() > 10 * MOST {
            break;
        }
    }
    found
}

/// Bytes a second of whole blocks at random places.
fn disks(films: &[PathBuf], pool: &Pool, reading: Duration) -> anyhow::Result<Option<u64>> {
    let store = Store::new(StoreConfig {
        pool_bytes: POOL * pool.block.as_u64(),
        block_bytes: pool.block.as_u64() as u32,
        depth: pool.depth,
        ..StoreConfig::default()
    })?;
    let block = u64::from(store.block_bytes());
    let files = files(films);
    let blocks: u64 = files.iter().map(|(_, len)| len / block).sum();
    // Of fewer, so many are in the pool already that the disks are not kept busy.
    if blocks < 4 * POOL {
        return Ok(None);
    }
    let sources: Vec<_> = files
        .iter()
        .filter_map(|(path, len)| Some((store.open(path).ok()?, *len)))
        .collect();
    if sources.is_empty() {
        bail!("none of the films can be read");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let began = reelway_clock::now();
    let sources = Arc::new(sources);
    let reader = |number: u64| {
        let (store, sources) = (store.clone(), sources.clone());
        async move {
            // A step that has no factor in common with many numbers of blocks.
            let mut place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            while reelway_clock::now().since(began) < reading {
                place = place
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let (source, len) = &sources[(place >> 33) as usize % sources.len()];
                let at = (place >> 20) % (len / block) * block;
                store
                    .read(source, at..at + block, reelway_clock::now())
                    .await?;
            }
            Ok::<(), reelway_store::ReadError>(())
        }
    };
    runtime.block_on(async {
        let mut readers: tokio::task::JoinSet<_> = (0..AT_ONCE as u64).map(reader).collect();
        while let Some(one) = readers.join_next().await {
            one?.context("reading the films")?;
        }
        anyhow::Ok(())
    })?;
    let took = reelway_clock::now().since(began);
    // Without what was in the pool.
    let read = store.stats().bytes_read;
    Ok(Some((read as f64 / took.as_secs_f64()) as u64))
}

/// The most viewers that are kept up with, and what was tried.
fn processor(
    (times, cores): (Times, &[usize]),
    folder: &Path,
    tell: &dyn Fn(&str),
) -> anyhow::Result<(u32, Vec<Tried>)> {
    leave_the_first(cores);
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let folder = Folder(folder.to_owned());
    let films = folder.0.join("films");
    make(&films, times.films)?;
    // What it carries is to be found, not what it books.
    let unlimited = ["--capacity", "net=none,disk=none,mem=none,cpu=none"];
    let core = cores.first().copied().unwrap_or(0);
    let server = Server::start_on(core, &films, &folder.0.join("state"), &unlimited)?;
    let urls: Vec<String> = (0..FILMS)
        .map(|number| format!("rtsp://{}/film{number}", server.rtsp))
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let began = reelway_clock::now();
    let mut search = Bisection::new(VIEWERS.0, VIEWERS.1);
    let mut tried: Vec<Tried> = Vec::new();
    while let Some(viewers) = search.next() {
        // The search goes on until the server kept up with some number, however little time there is.
        if search.well() > 0 && reelway_clock::now().since(began) >= times.patience {
            break;
        }
        let plays = load::run(
            watching((&urls, viewers), times.judging, cores.len()),
            |_| {},
        );
        let story = runtime.block_on(plays)?;
        let late_ms = story.late.percentile(0.999).as_secs_f64() * 1e3;
        let trouble = trouble(&story, viewers, late_ms);
        tell(&match &trouble {
            None => format!("  {viewers} viewers: well, 999 of 1000 frames within {late_ms:.1} ms"),
            Some(trouble) => format!("  {viewers} viewers: {trouble}"),
        });
        tried.push(Tried {
            viewers,
            well: trouble.is_none(),
            late_ms,
        });
        search.told(trouble.is_none());
    }
    tried.sort_by_key(|tried| tried.viewers);
    Ok((search.well(), tried))
}

/// Viewers of all films, who stay for the whole of a try.
fn watching((urls, viewers): (&[String], u32), judging: Duration, cores: usize) -> Options {
    let coming = Duration::from_millis(100) * viewers.div_ceil(COMING);
    Options {
        plan: Plan {
            arrivals: Arrivals::Steps {
                first: COMING,
                more: COMING,
                every: Duration::from_millis(100),
            },
            viewers: Some(viewers as usize),
            choice: Choice::Even,
            watch: Watch::Film,
            habits: Habits::default(),
            seed: u64::from(viewers),
        },
        urls: urls.to_vec(),
        duration: Some(coming + SETTLING + judging),
        depth: Duration::from_secs(1),
        patience: Duration::from_secs(5),
        tcp: false,
        threads: cores.saturating_sub(1).max(1),
        sources: None,
        again: false,
    }
}

/// Why so many were not kept up with; `None`: they were.
fn trouble(story: &LoadStory, viewers: u32, late_ms: f64) -> Option<String> {
    let unwell = story.refused + story.harmed;
    if story.viewers < viewers as usize {
        return Some(format!("only {} of them came", story.viewers));
    }
    if unwell > 0 {
        return Some(format!("{unwell} harmed or refused ({})", story.word()));
    }
    if story.lost > 0 {
        return Some(format!("{} packets lost", story.lost));
    }
    (late_ms > LATE_MS).then(|| format!("1 of 1000 frames is {late_ms:.1} ms late or more"))
}

/// Films that are served.
const FILMS: u64 = 4;

/// Films long enough for a try.
fn make(folder: &Path, length: Duration) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for number in 0..FILMS {
        let path = folder.join(format!("film{number}.mp4"));
        let recipe = Recipe {
            seed: 200 + number,
            ..Recipe::usual(length.as_secs() as u32, 4_000_000)
        };
        film::make(&path, &recipe).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("{}: {error}", self.0.display());
        }
    }
}

/// The cores that this program may use.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let is_set = |core: &usize| allowed.is_set(*core).unwrap_or(false);
    (0..CpuSet::count()).filter(is_set).collect()
}

/// Leaves the first of several cores to the server: this thread, and those that it starts, use the others.
fn leave_the_first(cores: &[usize]) {
    let mut set = CpuSet::new();
    for core in cores.iter().skip(1) {
        let _ = set.set(*core);
    }
    if cores.len() > 1 {
        // Where it is not allowed the figure is less exact.
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}
