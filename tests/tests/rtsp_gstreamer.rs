//! GStreamer's rtspsrc: seeks three times, pauses past the session's timeout, and plays to the end.
//! What comes between is the film without a hole.

mod rtsp_viewers;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reelway_tests::films::{film, library};
use reelway_tests::players::run;
use reelway_tests::server::{Options, Server};
use rtsp_viewers::{Expected, Unit};
use serde::Deserialize;

/// A line of `players/rtspsrc.py`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    unit: Option<String>,
    frame: Option<String>,
    run: usize,
    at: Option<f64>,
    hashes: Vec<String>,
    end: bool,
}

fn watch(url: &str, protocol: &str, steps: &[&str]) -> Vec<Line> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("players/rtspsrc.py");
    let mut command = Command::new("/usr/bin/python3");
    command
        .arg(script)
        .args([url, protocol])
        .args(steps)
        .env("GST_REGISTRY_FORK", "no");
    let ran = run(command, Duration::from_secs(90)).expect("rtspsrc");
    let text = String::from_utf8(ran.out.clone()).unwrap();
    let lines: Vec<Line> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert!(lines.last().is_some_and(|line| line.end), "{}", ran.tail());
    lines
}

/// As the script hashes.
fn hashes(unit: &Unit) -> Vec<String> {
    unit.parts
        .iter()
        .map(|part| format!("{}-{:08x}", part.len(), crc32fast::hash(part)))
        .collect()
}

/// The units of one track are runs of the film without holes: the first begins with the film, each
/// other where `starts` says, the last one reaches the end.
fn without_holes(
    kind: &str,
    lines: &[Line],
    units: &[Unit],
    starts: &[std::ops::RangeInclusive<usize>],
) {
    let film: Vec<Vec<String>> = units.iter().map(hashes).collect();
    let mut next = 0;
    let mut run = 0;
    for line in lines
        .iter()
        .filter(|line| line.unit.as_deref() == Some(kind))
    {
        // After the call to seek, what was under way of the old place may still come.
        if line.hashes == film.get(next).cloned().unwrap_or_default() && run == line.run {
            next += 1;
            continue;
        }
        let start = line
            .run
            .checked_sub(1)
            .map(|seek| starts[seek].clone())
            .filter(|_| run != line.run);
        match start.and_then(|mut start| start.find(|&at| film[at] == line.hashes)) {
            Some(start) => (run, next) = (line.run, start + 1),
            None if line.hashes == film.get(next).cloned().unwrap_or_default() => next += 1,
            None => panic!(
                "{kind}, run {}: unit at {:?} should be number {next} at {:?}",
                line.run,
                line.at,
                units.get(next).map(|unit| unit.at)
            ),
        }
    }
    assert_eq!(
        (run, next),
        (starts.len(), film.len()),
        "{kind}: last run and unit"
    );
}

/// What comes is decoded: in the last run every picture, in those before all but what the seek
/// throws away on its way (the latency of 200 ms, and what the decoder holds to bring it in order).
fn decoded(lines: &[Line]) {
    let last = lines.last().expect("lines").run;
    for run in 0..=last {
        let of = |kind: &Option<String>| kind.as_deref() == Some("video");
        let came = lines
            .iter()
            .filter(|line| line.run == run && of(&line.unit))
            .count();
        let shown = lines
            .iter()
            .filter(|line| line.run == run && of(&line.frame))
            .count();
        let lost = if run == last { 0 } else { 15 };
        assert!(
            shown + lost >= came && shown > 0,
            "run {run}: {came} pictures came, {shown} were shown"
        );
    }
}

fn seeks_and_pauses(protocol: &str) {
    let library = library(&["seeks"]);
    let server = Options::new(library.path()).set("rtsp.timeout", 2).start();
    server.wait_indexed();
    let expected = Expected::of(&film("seeks").path);
    let wishes = [20.7, 4.0, 36.2];
    let steps = [
        "play:2",
        "seek:20.7",
        "play:1.5",
        "seek:4",
        "play:1.5",
        "pause:5",
        "play:1.5",
        "seek:36.2",
        "end:30",
    ];
    let lines = watch(&server.rtsp_url("seeks"), protocol, &steps);

    let pictures = wishes
        .map(|wish| expected.start_of(wish))
        .map(|start| start..=start);
    without_holes("video", &lines, &expected.video, &pictures);
    // The sound begins with the packet in which the picture's start lies.
    let sounds = pictures.map(|picture| {
        let start = expected.video[*picture.start()].at;
        let beside = expected
            .audio
            .partition_point(|unit| unit.at + unit.duration <= start);
        beside.saturating_sub(5)..=beside + 5
    });
    without_holes("audio", &lines, &expected.audio, &sounds);
    decoded(&lines);
}

#[test]
fn rtspsrc_seeks_and_pauses_over_udp() {
    seeks_and_pauses("udp");
}

#[test]
fn rtspsrc_seeks_and_pauses_over_tcp() {
    seeks_and_pauses("tcp");
}

#[test]
fn rtspsrc_plays_every_codec_to_the_end() {
    let names = ["bunny", "hvc1", "opus", "surround"];
    let library = library(&names);
    let server = Server::start(library.path());
    std::thread::scope(|scope| {
        for (nth, name) in names.into_iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let expected = Expected::of(&film(name).path);
                let lines = watch(
                    &server.rtsp_url(name),
                    ["udp", "tcp"][nth % 2],
                    &["play:1", "end:30"],
                );
                without_holes("video", &lines, &expected.video, &[]);
                without_holes("audio", &lines, &expected.audio, &[]);
            });
        }
    });
}
