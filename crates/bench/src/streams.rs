//! `reelway bench streams`: how fast transport and program streams are indexed, compared with
//! ffprobe and mediainfo, which also read all packets.

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

/// Rounds; in each, all programs run in turn.
const RUNS: usize = 7;
/// How many more times ffmpeg repeats one minute of film.
const TIMES: &str = "9";

/// The indexed films: name in figures and for people, file, and ffmpeg's arguments for the codecs.
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

/// Other programs that read a whole file: the figure's name, and the program with its arguments, of
/// which the first identifies its task.
const OTHERS: [(&str, &[&str]); 2] = [
    (
        "times_faster",
        &["ffprobe", "-show_packets", "-v", "error", "-of", "csv"],
    ),
    (
        "times_faster_than_mediainfo",
        &["mediainfo", "--ParseSpeed=1"],
    ),
];

/// How fast transport and program streams are indexed, beside ffprobe and mediainfo
#[derive(clap::Parser)]
struct Args {}

/// Indexes films of several hundred megabytes in the page cache, alternating with ffprobe and
/// mediainfo.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let Args {} = arguments("streams", args);
    packages::install(&["ffmpeg", "mediainfo"])?;
    let folder = Folder::make("bench-streams")?;
    let mut report = Report::new("streams");
    report.title = "Indexing transport and program streams".into();
    report.text.push(format!(
        "  Ten minutes of 720p at 8 Mbit/s from the page cache, one thread; medians of {RUNS} rounds, in each of which all \
         are run in turn. ffprobe -show_packets does what indexing must: it finds every packet and its times. mediainfo reads the \
         whole file with --ParseSpeed=1, and shows of it what is the same for all packets."
    ));
    for (id, name, file, codecs) in FILMS {
        let path = folder.path().join(file);
        make(folder.path(), &path, codecs).with_context(|| format!("making a {name}"))?;
        measure(&mut report, id, name, &path)?;
        std::fs::remove_file(&path)?;
    }
    Ok(report)
}

/// Makes a film: one minute, repeated.
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
    let (mut rates, mut samples) = (Vec::new(), 0);
    let mut times = OTHERS.map(|_| Vec::new());
    for _ in 0..RUNS {
        let start = reelway_clock::now();
        let (_, index) = index_path(path, IndexOptions::default())?;
        let own = reelway_clock::now().since(start);
        samples = index.title.tracks.iter().map(|track| track.samples).sum();
        rates.push(bytes / own.as_secs_f64() / 1e9);
        for ((_, command), times) in OTHERS.iter().zip(&mut times) {
            let theirs = time_of(command, path)?;
            times.push(theirs.as_secs_f64() / own.as_secs_f64());
        }
    }
    let rate = Spread::of(rates);
    report.figures.push(
        Figure::at_least(&format!("{id}_gb_a_second"), rate.median, "GB/s", 1.0)
            .spread(rate.low, rate.high),
    );
    for ((figure, command), times) in OTHERS.iter().zip(times) {
        let than = format!("× as fast as {}", command[..2].join(" "));
        let times = Spread::of(times);
        report.figures.push(
            Figure::without_goal(&format!("{id}_{figure}"), times.median, &than)
                .spread(times.low, times.high),
        );
    }
    report.text.push(format!(
        "  {name}: {:.0} MB, {samples} samples",
        bytes / 1e6
    ));
    report.details.insert(format!("{id}_bytes"), json!(bytes));
    Ok(())
}

/// Measures how long a program takes to read a film.
fn time_of(command: &[&str], path: &Path) -> anyhow::Result<Duration> {
    let [program, arguments @ ..] = command else {
        bail!("no program");
    };
    let start = reelway_clock::now();
    let status = Command::new(program)
        .args(arguments)
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("starting {program}"))?;
    if !status.success() {
        bail!("{program} failed");
    }
    Ok(reelway_clock::now().since(start))
}
