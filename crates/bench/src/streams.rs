//! `reelway bench streams`: how fast transport and program streams are indexed, beside ffprobe, which reads all packets too.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use reelway_catalogue::index_path;
use reelway_media::IndexOptions;
use serde_json::json;

use crate::arguments::arguments;
use crate::bed::{Folder, packages};
use crate::made::{ffmpeg, text};
use crate::report::{Figure, Report};
use crate::stats::Spread;

/// Pairs of runs.
const RUNS: usize = 7;
/// How often a minute of film is repeated.
const TIMES: &str = "9";

/// What is indexed: its name in figures and for people, its file, and how ffmpeg codes it.
const FILMS: [(&str, &str, &str, &[&str]); 3] = [
    (
        "transport",
        "transport stream, H.264 and AAC",
        "film.ts",
        &["-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac"],
    ),
    (
        "transport_mpeg2",
        "transport stream, MPEG-2 and MP2",
        "film2.ts",
        &["-c:v", "mpeg2video", "-bf", "2", "-c:a", "mp2"],
    ),
    (
        "program",
        "program stream, MPEG-2 and MP2",
        "film.mpg",
        &["-c:v", "mpeg2video", "-bf", "2", "-c:a", "mp2", "-f", "vob"],
    ),
];

/// How fast transport and program streams are indexed, beside ffprobe
#[derive(clap::Parser)]
struct Args {}

/// Indexes films of some hundred megabytes that are in the page cache, in turns with ffprobe.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let Args {} = arguments("streams", args);
    packages::install(&["ffmpeg"])?;
    let folder = Folder::make("bench-streams")?;
    let mut report = Report::new("streams");
    report.title = "Indexing transport and program streams".into();
    report.text.push(format!(
        "  Ten minutes of 720p at 8 Mbit/s from the page cache, one thread; medians of {RUNS} pairs. ffprobe -show_packets does \
         what indexing must: it finds every packet and its times."
    ));
    for (id, name, file, codecs) in FILMS {
        let path = folder.path().join(file);
        make(folder.path(), &path, codecs).with_context(|| format!("making a {name}"))?;
        measure(&mut report, id, name, &path)?;
        std::fs::remove_file(&path)?;
    }
    Ok(report)
}

/// Makes a film: a minute, many times.
fn make(folder: &Path, path: &Path, codecs: &[&str]) -> anyhow::Result<()> {
    let short = folder
        .join("short")
        .with_extension(path.extension().unwrap_or_default());
    let (short, path) = (text(&short)?, text(path)?);
    let picture = "testsrc2=size=1280x720:rate=25:duration=60,noise=alls=30:allf=t";
    let mut arguments = vec![
        "-f",
        "lavfi",
        "-i",
        picture,
        "-f",
        "lavfi",
        "-i",
        "sine=duration=60:sample_rate=48000",
    ];
    arguments.extend([
        "-pix_fmt", "yuv420p", "-g", "50", "-b:v", "8M", "-maxrate", "8M", "-bufsize", "4M",
        "-b:a", "192k",
    ]);
    arguments.extend(codecs);
    arguments.push(short);
    ffmpeg(&arguments)?;
    let form = codecs
        .iter()
        .position(|word| *word == "-f")
        .map_or("mpegts", |at| codecs[at + 1]);
    ffmpeg(&[
        "-stream_loop",
        TIMES,
        "-i",
        short,
        "-map",
        "0",
        "-c",
        "copy",
        "-f",
        form,
        path,
    ])
}

fn measure(report: &mut Report, id: &str, name: &str, path: &Path) -> anyhow::Result<()> {
    let bytes = std::fs::read(path)?.len() as f64;
    let (mut rates, mut times, mut samples) = (Vec::new(), Vec::new(), 0);
    for _ in 0..RUNS {
        let start = reelway_clock::now();
        let (_, index) = index_path(path, IndexOptions::default())?;
        let own = reelway_clock::now().since(start);
        samples = index.title.tracks.iter().map(|track| track.samples).sum();
        let theirs = ffprobe(path)?;
        rates.push(bytes / own.as_secs_f64() / 1e9);
        times.push(theirs.as_secs_f64() / own.as_secs_f64());
    }
    let (rate, times) = (Spread::of(rates), Spread::of(times));
    report.figures.push(
        Figure::at_least(&format!("{id}_gb_a_second"), rate.median, "GB/s", 1.0)
            .spread(rate.low, rate.high),
    );
    report.figures.push(
        Figure::without_goal(
            &format!("{id}_times_faster"),
            times.median,
            "× as fast as ffprobe -show_packets",
        )
        .spread(times.low, times.high),
    );
    report.text.push(format!(
        "  {name}: {:.0} MB, {samples} samples",
        bytes / 1e6
    ));
    report.details.insert(format!("{id}_bytes"), json!(bytes));
    Ok(())
}

/// How long ffprobe takes to show all packets.
fn ffprobe(path: &Path) -> anyhow::Result<Duration> {
    let start = reelway_clock::now();
    let status = Command::new("ffprobe")
        .args(["-v", "error", "-show_packets", "-of", "csv"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("starting ffprobe")?;
    if !status.success() {
        bail!("ffprobe failed");
    }
    Ok(reelway_clock::now().since(start))
}
