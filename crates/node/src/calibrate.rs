//! Measurement of what this machine carries, by loading it: `reelway serve --calibrate`.
//!
//! Disks: blocks at random places of the films are read past the page cache. Processor: a server on
//! one core serves virtual viewers on the other cores. The number of viewers grows until some are
//! harmed or frames come late. The machine is assumed to carry this load times its number of cores.

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
/// Shortest calibration: enough time for one or two numbers of viewers.
pub const SHORTEST: Duration = Duration::from_secs(10);
/// Concurrent reads: as many as viewers at different places cause.
const AT_ONCE: usize = 32;
/// Number of blocks in the pool for reading the disks: few, as blocks that are in the pool are not
/// read again.
const POOL: u64 = 2 * AT_ONCE as u64;
/// Limit of the lateness of 99.9 % of the frames, in milliseconds.
const LATE_MS: f64 = 20.0;
/// Bytes per second of one viewer on the wire: 4 Mbit/s of video, 128 kbit/s of audio, and headers.
const VIEWER: u64 = 4_128_000 / 8 * 106 / 100;

/// Number of viewers in the first try, and maximum number.
const VIEWERS: (u32, u32) = (50, 4000);
/// New viewers per tenth of a second.
const COMING: u32 = 10;
/// Time from the arrival of the last viewer to the start of the measurement.
const SETTLING: Duration = Duration::from_secs(2);

/// Durations of a calibration's parts.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// How long the disks are read.
    reading: Duration,
    /// Once the server has kept up with some number of viewers, no other number is tried after this
    /// time.
    patience: Duration,
    /// Length of the measurement for each number of viewers.
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
            // A try takes less than a minute.
            films: (whole / 2).clamp(60 * second, 120 * second),
        }
    }
}

/// Loads the machine for about `whole`, but at least for [`SHORTEST`]. Calibrations shorter than
/// [`USUAL`] give coarser figures. `films` are read as a server with this `pool` reads them. Films
/// for the server are made in `folder` and removed at the end. `tell` gets a line for each step.
///
/// # Errors
/// The server cannot be started, its films cannot be made, or it cannot serve a single viewer on
/// time. The last says more about the machine's other load than about its capacity.
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

/// Returns the regular files at or below these paths with their lengths. Each file appears once,
/// whatever links lead to it; the number is bounded.
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

/// Returns the bytes per second of whole blocks read at random places.
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
    // With fewer blocks, too many would be in the pool already to keep the disks busy.
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
            // Each reader has a sequence of its own from a linear congruential generator.
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
    // Blocks found in the pool do not count.
    let read = store.stats().bytes_read;
    Ok(Some((read as f64 / took.as_secs_f64()) as u64))
}

/// Returns the largest number of viewers that the server kept up with, and all tries.
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
    // Without limits, as the server's capacity is measured, not its admission.
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
        // The search continues until the server has kept up with some number, however little time
        // there is.
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
        search.record(trouble.is_none());
    }
    tried.sort_by_key(|tried| tried.viewers);
    Ok((search.well(), tried))
}

/// Returns a load of viewers of all films who stay for the whole try.
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

/// Returns why the server did not keep up with this number of viewers; `None` if it did.
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

/// Number of films that are served.
const FILMS: u64 = 4;

/// Makes films that are long enough for a try.
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

/// A folder that is removed when this is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("{}: {error}", self.0.display());
        }
    }
}

/// Returns the cores that this program may use.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let is_set = |core: &usize| allowed.is_set(*core).unwrap_or(false);
    (0..CpuSet::count()).filter(is_set).collect()
}

/// Leaves the first of several cores to the server: this thread and those that it starts use the
/// others.
fn leave_the_first(cores: &[usize]) {
    let mut set = CpuSet::new();
    for core in cores.iter().skip(1) {
        let _ = set.set(*core);
    }
    if cores.len() > 1 {
        // If this is not allowed, the figure is less exact.
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}
