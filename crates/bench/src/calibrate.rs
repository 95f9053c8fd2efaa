//! What this machine carries, found out by loading it: `reelway serve --calibrate`.
//!
//! The disks by reading blocks at random places of the films past the page cache; the processor by a server on one core
//! and lightweight viewers on the others, more and more of them until a frame comes late or a packet is lost. The machine is
//! taken to carry as many times that as it has cores.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use reelway_store::{Store, StoreConfig};
use serde::{Deserialize, Serialize};

use crate::bed::{Folder, Net, cores};
use crate::chart::{self, Axis, Mark, Series};
use crate::density::search;
use crate::density::servers::Peer;
use crate::density::trial::{Stage, Trial};
use crate::film::{self, Recipe};

/// Default length of a calibration.
pub const USUAL: Duration = Duration::from_secs(240);
/// Shortest calibration: it has time for one or two numbers of viewers.
pub const SHORTEST: Duration = Duration::from_secs(10);
/// Reads under way at once: as many as viewers at different places make.
const AT_ONCE: usize = 32;
/// A frame later than this counts as one too many.
const LATE_MS: f64 = 20.0;
/// Bytes a second of one viewer on the wire: 4 Mbit/s of picture, 128 kbit/s of sound, and headers.
const VIEWER: u64 = 4_128_000 / 8 * 106 / 100;

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// When, RFC 3339.
    pub when: String,
    /// Bytes a second that all cores together send; none if no viewer could be served.
    pub cpu: Option<u64>,
    /// Bytes a second that the disks give; none where the films are too small to tell.
    pub disk: Option<u64>,
    /// What was tried, by viewers.
    pub tried: Vec<Tried>,
}

/// One try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// Viewers of 4 Mbit/s.
    pub viewers: u32,
    /// Whether all of them were kept up with.
    pub well: bool,
    /// 99.9th percentile of their frames' lateness, ms.
    pub late_ms: f64,
}

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
/// figures. `tell` gets a line for each step.
///
/// # Errors
/// The server cannot be started, or its films not made.
pub fn calibrate(
    films: &[PathBuf],
    whole: Duration,
    tell: &dyn Fn(&str),
) -> anyhow::Result<Calibration> {
    let times = Times::of(whole);
    tell("reading from the films' disks …");
    let disk = disks(films, times.reading)?;
    match disk {
        Some(rate) => tell(&format!("  {} MB/s at random places", rate / 1_000_000)),
        None => tell("  the films are too few or too small to tell"),
    }
    tell("serving more and more viewers of 4 Mbit/s on one core …");
    let (most, tried) = processor(times, tell)?;
    Ok(Calibration {
        when: reelway_clock::real().to_string(),
        cpu: (most > 0).then(|| u64::from(most) * VIEWER * cores::configured() as u64),
        disk,
        tried,
    })
}

/// Regular files below these, with their lengths; bounded.
fn files(films: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    const MOST: usize = 2000;
    let (mut found, mut left) = (Vec::new(), films.to_vec());
    while let Some(path) = left.pop() {
        let Ok(meta) = std::fs::metadata(&path) else {
            continue;
        };
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
fn disks(films: &[PathBuf], reading: Duration) -> anyhow::Result<Option<u64>> {
    let store = Store::new(StoreConfig {
        pool_bytes: 32 << 20,
        ..StoreConfig::default()
    })?;
    let block = u64::from(store.block_bytes());
    let files = files(films);
    let blocks: u64 = files.iter().map(|(_, len)| len / block).sum();
    // Fewer would be read twice, and come from the pool.
    if blocks < 512 {
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
            let mut read = 0;
            // A step that has no factor in common with many numbers of blocks.
            let mut place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            while reelway_clock::now().since(began) < reading {
                place = place
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let (source, len) = &sources[(place >> 33) as usize % sources.len()];
                let at = (place >> 20) % (len / block) * block;
                let span = store
                    .read(source, at..at + block, reelway_clock::now())
                    .await?;
                read += span.range().end - span.range().start;
            }
            Ok::<u64, reelway_store::ReadError>(read)
        }
    };
    let mut read = 0;
    runtime.block_on(async {
        let mut readers: tokio::task::JoinSet<_> = (0..AT_ONCE as u64).map(reader).collect();
        while let Some(one) = readers.join_next().await {
            read += one?.context("reading the films")?;
        }
        anyhow::Ok(())
    })?;
    let took = reelway_clock::now().since(began);
    Ok(Some((read as f64 / took.as_secs_f64()) as u64))
}

/// The most viewers that are kept up with, and what was tried.
fn processor(times: Times, tell: &dyn Fn(&str)) -> anyhow::Result<(u32, Vec<Tried>)> {
    cores::leave_the_servers();
    let folder = Folder::make("calibrate")?;
    let films = made(folder.path(), times.films)?;
    let judging = times.judging.as_secs_f64();
    let stage = Stage::new(Net::make()?, films, folder.path(), judging);
    let began = reelway_clock::now();
    let mut tried = Vec::new();
    // The search goes on until the server kept up with some number, however little time there is.
    let any_well = Cell::new(false);
    let found = search::largest(
        50,
        4000,
        || !any_well.get() || reelway_clock::now().since(began) < times.patience,
        |viewers| {
            let trial = stage.trial(&Peer::Reelway, viewers, false)?;
            let well = trial.trouble(LATE_MS).is_none();
            any_well.set(any_well.get() || well);
            tell(&line(viewers, well, &trial));
            tried.push(Tried {
                viewers,
                well,
                late_ms: trial.seen.late_p999_ms,
            });
            Ok(well)
        },
    )?;
    tried.sort_by_key(|tried: &Tried| tried.viewers);
    Ok((found.most, tried))
}

fn line(viewers: u32, well: bool, trial: &Trial) -> String {
    let how = match trial.trouble(LATE_MS) {
        None if well => format!(
            "well, 999 of 1000 frames within {:.1} ms",
            trial.seen.late_p999_ms
        ),
        trouble => trouble.unwrap_or_default(),
    };
    format!("  {viewers} viewers: {how}")
}

/// Four films, long enough for a trial.
fn made(folder: &Path, length: Duration) -> anyhow::Result<Vec<PathBuf>> {
    (0..4)
        .map(|number| {
            let path = folder.join(format!("film{number}.mp4"));
            let recipe = Recipe {
                seconds: length.as_secs() as u32,
                fps: 25,
                gop: 50,
                picture_rate: 4_000_000,
                sound_rate: 128_000,
                with_media: true,
                seed: 200 + number,
            };
            film::make(&path, &recipe).with_context(|| path.display().to_string())?;
            Ok(path)
        })
        .collect()
}

impl Calibration {
    /// Lateness over viewers, as a picture.
    pub fn chart(&self) -> String {
        let most = self.tried.last().map_or(1, |tried| tried.viewers);
        let late = self.tried.iter().map(|tried| tried.late_ms);
        let latest = late.fold(1.0, f64::max);
        let points = |well: bool| {
            let of = self.tried.iter().filter(|tried| tried.well == well);
            of.map(|tried| (f64::from(tried.viewers), tried.late_ms))
                .collect()
        };
        let series = [
            Series {
                name: "kept up with".into(),
                mark: Mark::Line,
                colour: 0,
                points: points(true),
            },
            Series {
                name: "too many".into(),
                mark: Mark::Dashed,
                colour: 1,
                points: points(false),
            },
        ];
        chart::lines(
            "Viewers of 4 Mbit/s on one core of this machine",
            &Axis::linear("viewers", 0.0, f64::from(most)),
            &Axis::linear("ms late, 99.9th percentile", 0.0, latest),
            &series,
        )
    }
}
