//! `reelway bench memory`: the memory of the server's process beside its pool, with many viewers of
//! as many two-hour films, over RTSP, then over HLS. The films' tables are those of real films;
//! their media is a hole in the file, except for the first bytes of the pictures that are sent over
//! RTSP. The second run limits the network, the disks, the processor and the memory, so that each
//! viewer's needs are booked second by second.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use reelway_catalogue::index_path;
use reelway_media::{IndexOptions, Kind};
use reelway_yardstick::{http, rtsp};
use serde_json::json;

use crate::arguments::one_or_more;
use crate::bed::{Folder, cores};
use crate::film::{Recipe, make};
use crate::report::{Figure, Report};
use reelway_node::process::Server;

/// Its arguments.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench memory",
    about = "Memory that the process uses in addition to its pool: many viewers of as many two-hour films"
)]
struct Args {
    /// Number of viewers, each of a different film
    #[arg(long, default_value_t = 200, value_parser = one_or_more::<usize>)]
    viewers: usize,
    /// Seconds that they watch over RTSP, and then over HLS
    #[arg(long, default_value_t = 20, value_parser = one_or_more::<u32>)]
    seconds: u32,
    /// Memory for film blocks, in MiB
    #[arg(long, default_value_t = 256)]
    pool: u64,
}

const FILM: Recipe = Recipe {
    seconds: 7200,
    fps: 25,
    gop: 50,
    picture_rate: 2_000_000,
    sound_rate: 128_000,
    with_media: false,
    seed: 1,
};

/// Nothing is booked.
const UNLIMITED: &str = "mem=none";

/// Limits of every kind, each higher than what the viewers need.
const LIMITED: &str = "net=20Gbit,disk=10GB/s,mem=64GiB,cpu=20Gbit";

/// Memory that the process may hold beside the pool, in bytes: in all, and for each viewer.
const BESIDE: u64 = 64 << 20;
const A_VIEWER: u64 = 64 << 10;

/// Memory of the process at one moment, and its peak, in bytes.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Memory {
    /// The moment.
    what: &'static str,
    /// Resident memory that is not backed by files.
    own: u64,
    /// Resident pages of files: the program and mapped indexes. The kernel reclaims them when
    /// needed.
    files: u64,
    /// Peak of all resident memory so far.
    peak: u64,
}

impl Memory {
    fn of(what: &'static str, server: &Server) -> anyhow::Result<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()))?;
        let field = |key: &str| -> anyhow::Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let text = line.with_context(|| key.to_owned())?.trim();
            Ok(text.trim_end_matches(" kB").parse::<u64>()? * 1024)
        };
        Ok(Memory {
            what,
            own: field("RssAnon:")? + field("RssShmem:")?,
            files: field("RssFile:")?,
            peak: field("VmHWM:")?,
        })
    }
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let words = std::iter::once("reelway bench memory".to_owned()).chain(args.iter().cloned());
    let args = Args::parse_from(words);
    let mut report = Report::new("memory");
    let folder = Folder::make("memory")?;
    let films = folder.path().join("films");
    std::fs::create_dir_all(&films)?;
    for number in 0..args.viewers {
        let path = films.join(name(number)).with_extension("mp4");
        make(&path, &FILM).with_context(|| path.display().to_string())?;
        let from = place(number, &args).1;
        fill(&path, from, args.seconds + 30).with_context(|| path.display().to_string())?;
    }
    cores::leave_the_servers();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores::configured() - 1).max(1))
        .enable_all()
        .build()?;
    let pool = format!("{}MiB", args.pool);
    let mut harmed = 0;
    for (what, capacity) in [("", UNLIMITED), ("_booked", LIMITED)] {
        let options = ["--pool", &pool, "--capacity", capacity];
        let server = Server::start(&films, &folder.path().join("state"), &options)?;
        let mut memory = vec![Memory::of("films indexed, no viewers", &server)?];
        harmed += runtime.block_on(over_rtsp(&server, &args))?;
        memory.push(Memory::of("after RTSP", &server)?);
        harmed += runtime.block_on(over_hls(&server, &args))?;
        memory.push(Memory::of("after HLS", &server)?);
        drop(server);

        let peak = memory.last().map_or(0, |last| last.peak);
        let allowed = BESIDE + A_VIEWER * args.viewers as u64;
        report.figures.push(Figure::at_most(
            &format!("beside_the_pool{what}"),
            mb(peak.saturating_sub(args.pool << 20)),
            "MiB",
            mb(allowed),
        ));
        report.text.push(match capacity {
            UNLIMITED => "nothing booked:".to_owned(),
            capacity => format!("booked, --capacity {capacity}:"),
        });
        report.text.extend(memory.iter().map(|at| {
            format!(
                "  {}: {:.1} MiB of its own, {:.1} MiB of files, {:.1} MiB at peak; the pool is {} of them",
                at.what,
                mb(at.own),
                mb(at.files),
                mb(at.peak),
                args.pool
            )
        }));
        report
            .details
            .insert(format!("memory{what}"), json!(memory));
    }
    let on_disk = size_of(&folder.path().join("state"));
    report
        .figures
        .push(Figure::at_most("viewers_harmed", harmed as f64, "", 0.0));
    report.text.push(format!(
        "the films' indexes take {:.0} MiB on disk, {:.1} MiB each",
        mb(on_disk),
        mb(on_disk) / args.viewers.max(1) as f64
    ));
    report.details.insert("index_bytes".into(), json!(on_disk));
    Ok(report)
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn name(number: usize) -> String {
    format!("film{number:03}")
}

/// Returns the bytes of all files below a directory.
fn size_of(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size_of(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Writes the beginning of a slice into each picture from a position on: all that RTP reads of
/// them.
fn fill(path: &Path, from: f64, seconds: u32) -> anyhow::Result<()> {
    let (_, index) = index_path(path, IndexOptions::default())?;
    let file = File::options().write(true).open(path)?;
    // Playback begins at the sync sample before that position.
    let first = (from - 4.0).max(0.0) * f64::from(FILM.fps);
    let count = (seconds * FILM.fps) as usize;
    for (track, table) in index.title.tracks.iter().zip(&index.tables) {
        if track.kind != Kind::Video {
            continue;
        }
        for sample in table.iter().skip(first as usize).take(count) {
            let length = sample.size.saturating_sub(4).to_be_bytes();
            file.write_all_at(&length, sample.offset)?;
            file.write_all_at(&[0x41, 0x9a], sample.offset + 4)?;
        }
    }
    Ok(())
}

/// Returns when and where a viewer begins: one after the other, spread over the whole film.
fn place(number: usize, args: &Args) -> (Duration, f64) {
    let share = number as f64 / args.viewers.max(1) as f64;
    (Duration::from_secs_f64(5.0 * share), 7000.0 * share)
}

/// Returns the number of viewers that were harmed.
async fn over_rtsp(server: &Server, args: &Args) -> anyhow::Result<usize> {
    let mut tasks = Vec::new();
    for number in 0..args.viewers {
        let (wait, from) = place(number, args);
        let url = format!("rtsp://{}/{}", server.rtsp, name(number));
        let options = rtsp::Options {
            from,
            duration: Some(Duration::from_secs(args.seconds.into())),
            ..rtsp::Options::default()
        };
        tasks.push(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            rtsp::play(&url, &options, None).await
        }));
    }
    let (mut harmed, mut packets) = (0, 0);
    for task in tasks {
        match task.await? {
            Ok(story) => {
                packets += story.tracks.iter().map(|track| track.packets).sum::<u64>();
                harmed += usize::from(story.lost() > 0);
            }
            Err(error) => {
                eprintln!("memory: {error}");
                harmed += 1;
            }
        }
    }
    if packets == 0 {
        bail!("nothing came over RTSP");
    }
    Ok(harmed)
}

async fn over_hls(server: &Server, args: &Args) -> anyhow::Result<usize> {
    let mut tasks = Vec::new();
    for number in 0..args.viewers {
        let (wait, _) = place(number, args);
        let url = format!("http://{}/{}/hls/main.m3u8", server.http, name(number));
        let options = http::Options {
            source: None,
            duration: Some(Duration::from_secs(args.seconds.into())),
            depth: Duration::from_secs(2),
            patience: Duration::from_secs(10),
            look: false,
            progress: Arc::default(),
        };
        tasks.push(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            http::watch(&url, &options, None, (|| false, |_, _| {})).await
        }));
    }
    let (mut harmed, mut bytes) = (0, 0);
    for task in tasks {
        let watched = task.await?;
        bytes += watched.bytes;
        if let Some(trouble) = watched.trouble {
            eprintln!("memory: {trouble}");
            harmed += 1;
        }
    }
    if bytes == 0 {
        bail!("nothing came over HLS");
    }
    Ok(harmed)
}
