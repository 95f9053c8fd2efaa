//! A film served through a view, and the same film in MP4: the server's CPU time per RTP packet,
//! and the bytes read from the disk per byte sent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use reelway_catalogue::index_path;
use reelway_media::IndexOptions;
use reelway_node::process::Server;
use reelway_yardstick::rtsp;
use serde_json::json;

use super::args::Args;
use crate::bed::cores;
use crate::made;
use crate::report::{Figure, Report};
use crate::stats::Spread;

/// Seconds of each film beyond those that viewers watch.
const MORE: u32 = 10;
/// File formats: served directly, and through a view.
const FORMS: [&str; 2] = ["mp4", "ts"];
/// Seconds within which all viewers begin.
const BEGINNING: f64 = 2.0;

/// Measures both formats.
pub fn measure(report: &mut Report, folder: &Path, args: &Args) -> anyhow::Result<()> {
    let source = folder.join("source.mp4");
    made::film(&source, "1280x720", args.seconds + MORE, "4M")?;
    let mut libraries = Vec::new();
    for form in FORMS {
        let library = folder.join(form);
        std::fs::create_dir(&library)?;
        let first = library.join("film000").with_extension(form);
        made::remux(&source, &[], &[], &first)?;
        for number in 1..args.viewers {
            let copy = library
                .join(format!("film{number:03}"))
                .with_extension(form);
            std::fs::copy(&first, copy)?;
        }
        libraries.push(library);
    }
    cores::leave_the_servers();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores::configured() - 1).max(1))
        .enable_all()
        .build()?;
    for (id, films, most) in [("one_film", 1, 1.02), ("many_films", args.viewers, 1.25)] {
        let mut ratios = Vec::new();
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..args.rounds {
            let mut cost = [0.0; 2];
            for turn in 0..2 {
                // The formats take turns at being first.
                let nth = (round + turn) % 2;
                let watched = watch(&libraries[nth], folder, films, args);
                cost[nth] = runtime.block_on(watched)?;
                costs[nth].push(cost[nth]);
            }
            ratios.push(cost[1] / cost[0]);
        }
        let ratio = Spread::of(ratios);
        let figure = Figure::at_most(
            &format!("view_{id}"),
            ratio.median,
            "× the CPU of MP4",
            most,
        );
        report.figures.push(figure.spread(ratio.low, ratio.high));
        let [mp4, view] = costs.map(Spread::of);
        report.text.push(format!(
            "  {} viewers of {films} films of 4 Mbit/s over UDP, {} s: {:.2} µs of the server's CPU for a packet from MP4, {:.2} µs \
             from a transport stream; medians of {} rounds.",
            args.viewers, args.seconds, mp4.median, view.median, args.rounds
        ));
    }
    let read = read_for_sent(&libraries[1], folder)?;
    report.figures.push(Figure::at_most(
        "view_read",
        read,
        "bytes read for one sent",
        1.1,
    ));
    report.details.insert("viewers".into(), json!(args.viewers));
    Ok(())
}

/// Returns the server's CPU time per packet, µs.
async fn watch(library: &Path, folder: &Path, films: usize, args: &Args) -> anyhow::Result<f64> {
    let state = folder.join("state");
    let server = Server::start(
        library,
        &state,
        &["--pool", "512MiB", "--capacity", "mem=none"],
    )?;
    let before = server.cpu_seconds()?;
    let mut tasks = Vec::new();
    for number in 0..args.viewers {
        let url = format!("rtsp://{}/film{:03}", server.rtsp, number % films);
        let options = rtsp::Options {
            duration: Some(Duration::from_secs(args.seconds.into())),
            ..rtsp::Options::default()
        };
        let wait = Duration::from_secs_f64(BEGINNING * number as f64 / args.viewers as f64);
        tasks.push(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            rtsp::play(&url, &options, None).await
        }));
    }
    let mut packets = 0;
    for task in tasks {
        let story = task.await?.map_err(|error| anyhow::anyhow!("{error}"))?;
        ensure!(story.lost() == 0, "{} packets were lost", story.lost());
        packets += story.tracks.iter().map(|track| track.packets).sum::<u64>();
    }
    let spent = server.cpu_seconds()? - before;
    std::fs::remove_dir_all(&state)?;
    Ok(spent * 1e6 / packets.max(1) as f64)
}

/// Returns the bytes read from the disk for each byte of samples when a transport stream is fetched
/// completely over HLS.
fn read_for_sent(library: &Path, folder: &Path) -> anyhow::Result<f64> {
    let path: PathBuf = library.join("film000.ts");
    let (_, index) = index_path(&path, IndexOptions::default())?;
    let sent = index.title.view.context("a view")?.bytes;
    let (state, config) = (folder.join("state"), folder.join("config.toml"));
    // Not paced: as fast as the client reads.
    std::fs::write(&config, "[http]\nahead = 3600\n")?;
    let server = Server::start(&path, &state, &["--config", made::text(&config)?])?;
    let before = read_by(server.id())?;
    let url = format!("http://{}/film000/hls/main.m3u8", server.http);
    made::ffmpeg(&["-i", &url, "-map", "0", "-c", "copy", "-f", "null", "-"])?;
    let read = read_by(server.id())? - before;
    ensure!(
        read > sent * 9 / 10,
        "{} of {sent} bytes came from a disk: the films must lie on one (TMPDIR), not in memory",
        read
    );
    drop(server);
    std::fs::remove_dir_all(&state)?;
    Ok(read as f64 / sent as f64)
}

/// Returns the bytes that a process has read from disks.
fn read_by(pid: u32) -> anyhow::Result<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(line.context("read_bytes")?.parse()?)
}
