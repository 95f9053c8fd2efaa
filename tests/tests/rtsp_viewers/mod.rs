//! What the tests of RTSP viewers share: what must arrive of a film, and viewers that are
//! controlled by scripts.
#![allow(dead_code)]

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use reelway_tests::boxes::Movie;
use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::players::{run, scripted};
use reelway_tests::probe::{Edits, streams};
use reelway_tests::server::Options;
use serde::Deserialize;

/// A sample as a viewer must receive it.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Presentation time in the film, in seconds.
    pub at: f64,
    /// Duration in seconds.
    pub duration: f64,
    /// Whether a decoder may start here.
    pub sync: bool,
    /// Its NAL units without access unit delimiters and parameter sets, or the access unit of the
    /// audio.
    pub parts: Vec<Vec<u8>>,
}

/// The samples of a film's video and first audio track in decode order.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Pictures.
    pub video: Vec<Unit>,
    /// Audio access units.
    pub audio: Vec<Unit>,
}

impl Expected {
    /// Reads a progressive film all of whose samples are played.
    pub fn of(path: &Path) -> Expected {
        let movie = Movie::read(path).expect("a film");
        let streams = streams(path, Edits::Apply);
        let units = |handler: &[u8; 4], kind: &str| -> Vec<Unit> {
            let Some(track) = movie.tracks.iter().find(|track| track.handler == *handler) else {
                return vec![];
            };
            let stream = streams
                .iter()
                .find(|stream| stream.kind == kind)
                .expect("the same track");
            assert_eq!(
                track.samples.len(),
                stream.packets.len(),
                "{kind} of {}",
                path.display()
            );
            let parts = |sample: &[u8]| match stream.codec.as_str() {
                "h264" => nals(sample, false),
                "hevc" => nals(sample, true),
                "av1" => obus(sample),
                _ => vec![sample.to_vec()],
            };
            let scale = f64::from(track.timescale);
            let samples = track.samples.iter().zip(&stream.packets);
            samples
                .map(|(sample, packet)| Unit {
                    at: packet.pts as f64 / scale,
                    duration: f64::from(sample.duration) / scale,
                    sync: sample.sync,
                    parts: parts(&sample.data),
                })
                .collect()
        };
        Expected {
            video: units(b"vide", "video"),
            audio: units(b"soun", "audio"),
        }
    }

    /// Video or audio.
    pub fn units(&self, kind: &str) -> &[Unit] {
        if kind == "video" {
            &self.video
        } else {
            &self.audio
        }
    }

    /// The index of the sync sample presented at or before `at`, where a viewer who requests `at`
    /// begins.
    pub fn start_of(&self, at: f64) -> usize {
        self.video
            .iter()
            .rposition(|unit| unit.sync && unit.at <= at + 1e-6)
            .expect("a sync picture")
    }
}

/// Splits a sample with four-byte lengths into NAL units, without access unit delimiters and
/// parameter sets.
pub fn nals(mut sample: &[u8], hevc: bool) -> Vec<Vec<u8>> {
    let mut nals = Vec::new();
    while let Some((length, rest)) = sample.split_first_chunk() {
        let (nal, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        sample = rest;
        let Some(first) = nal.first() else { continue };
        let skip = match hevc {
            true => (32..=35).contains(&(first >> 1 & 0x3f)),
            false => matches!(first & 0x1f, 7..=9),
        };
        if !skip {
            nals.push(nal.to_vec());
        }
    }
    nals
}

/// Splits a temporal unit into OBUs without their sizes, and without temporal delimiters and
/// sequence headers (AV1 Bitstream Specification 5.3).
pub fn obus(mut sample: &[u8]) -> Vec<Vec<u8>> {
    let mut obus = Vec::new();
    while let Some(first) = sample.first() {
        let (head, rest) = sample.split_at(if first & 4 != 0 { 2 } else { 1 });
        assert_eq!(first & 2, 2, "an OBU without a size");
        let last = rest.iter().position(|byte| byte & 0x80 == 0);
        let (size, rest) = rest.split_at(last.expect("a size") + 1);
        let size = size
            .iter()
            .rev()
            .fold(0, |size, byte| size << 7 | usize::from(byte & 0x7f));
        let (body, rest) = rest.split_at(size);
        if !matches!(first >> 3 & 15, 1 | 2) {
            obus.push([&[first & !2], &head[1..], body].concat());
        }
        sample = rest;
    }
    obus
}

/// The environment in which GStreamer finds the plugins built by `scripts/need-tests`: AV1 over
/// RTP.
pub fn with_built_plugins() -> Vec<(&'static str, String)> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/gst-rtp");
    let target = target.canonicalize().expect("scripts/need-tests builds it");
    let registry = target.join("registry.bin");
    vec![
        ("GST_PLUGIN_PATH", target.display().to_string()),
        // Keeps the plugin registry of other tests unchanged.
        ("GST_REGISTRY", registry.display().to_string()),
    ]
}

/// Joins consecutive AV1 lines with the same timestamp into one unit: GStreamer's depayloader
/// returns it packet by packet.
pub fn joined(lines: Vec<Line>) -> Vec<Line> {
    let mut all: Vec<Line> = Vec::new();
    for line in lines {
        let is_picture = |line: &Line| line.unit.as_deref() == Some("video");
        let before = all.iter_mut().rfind(|line| is_picture(line));
        match before {
            Some(before) if line.stamp.is_some() && before.stamp == line.stamp => {
                before.hashes.extend(line.hashes);
            }
            _ => all.push(line),
        }
    }
    all
}

/// A line printed by a script in `players`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Line {
    /// The step that begins.
    pub step: Option<String>,
    /// The kind of an access unit that was received.
    pub unit: Option<String>,
    /// The kind of a decoded frame.
    pub frame: Option<String>,
    /// The number of seeks before it.
    pub run: usize,
    /// Film time in seconds.
    pub at: Option<f64>,
    /// RTP timestamp of AV1.
    pub stamp: Option<u32>,
    /// The hashes of the unit's parts.
    pub hashes: Vec<String>,
    /// Whether the film's end was reached.
    pub end: bool,
    /// Whether it is a unit from before the seek, as found by [`without_holes`].
    #[serde(skip)]
    pub stale: bool,
}

/// Runs a viewer in `players` with these steps to the film's end.
#[track_caller]
pub fn watch(script: &str, url: &str, protocol: &str, steps: &[&str]) -> Vec<Line> {
    watch_with(script, url, protocol, steps, &[])
}

/// The same with environment variables.
#[track_caller]
pub fn watch_with(
    script: &str,
    url: &str,
    protocol: &str,
    steps: &[&str],
    environment: &[(&str, &str)],
) -> Vec<Line> {
    let diary = temp_dir("diary-");
    let diary = diary.path().join("rtspsrc");
    let mut command = scripted(script, url, protocol, steps);
    command.env("GST_DEBUG", "rtspsrc:5");
    command.env("GST_DEBUG_FILE", &diary);
    command.envs(environment.iter().copied());
    let ran = run(command, Duration::from_secs(90));
    if !ran.status.is_some_and(|status| status.success()) {
        eprintln!("--- what rtspsrc did ---\n{}", what_rtspsrc_did(&diary));
    }
    let ran = ran.expect(script);
    let text = String::from_utf8(ran.out.clone()).unwrap();
    let lines: Vec<Line> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert!(lines.last().is_some_and(|line| line.end), "{}", ran.tail());
    lines
}

/// Commands, requests and responses in rtspsrc's log: the last of them show what it waits for.
fn what_rtspsrc_did(log: &Path) -> String {
    let log = std::fs::read(log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let of = [
        "cmd",
        "flush",
        "sending message",
        "got response",
        "interrupted",
        "task",
    ];
    let lines = log
        .lines()
        .filter(|line| of.iter().any(|what| line.contains(what)));
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(80)..].join("\n")
}

/// The hashes of a unit's parts, computed as the script does.
pub fn hashes(unit: &Unit) -> Vec<String> {
    unit.parts
        .iter()
        .map(|part| format!("{}-{:08x}", part.len(), crc32fast::hash(part)))
        .collect()
}

/// The most units that rtspsrc buffers: more than two seconds of audio, sent up to two seconds
/// early.
const HELD: usize = 200;

/// Checks that the units of one track are runs of the film without gaps: the first begins with the
/// film, each other one as `starts` says, the last one reaches the end. The viewer itself may
/// discard `lost` units at a pause. After a seek, units from the old position may arrive that were
/// in the viewer's socket while it discarded the `held` units before them; they are marked as
/// stale.
#[track_caller]
pub fn without_holes(
    kind: &str,
    lines: &mut [Line],
    units: &[Unit],
    starts: &[RangeInclusive<usize>],
    (lost, held): (usize, usize),
) {
    let film: Vec<Vec<String>> = units.iter().map(hashes).collect();
    let is = |line: &Line, at: usize| film.get(at).is_some_and(|unit| *unit == line.hashes);
    let (mut next, mut run, mut forgiven) = (0, 0, 0);
    for line in lines {
        if line
            .step
            .as_deref()
            .is_some_and(|step| step.starts_with("pause"))
        {
            forgiven = lost;
        }
        if line.unit.as_deref() != Some(kind) {
            continue;
        }
        // After the call to seek, units from the old position may still arrive.
        if is(line, next) {
            line.stale = line.run != run;
            next += 1;
            continue;
        }
        let mut begins = if line.run == run {
            None
        } else {
            Some(starts[line.run - 1].clone())
        };
        let sought = begins.is_some();
        if let Some(start) = begins
            .as_mut()
            .and_then(|starts| starts.find(|&at| is(line, at)))
        {
            (run, next, forgiven) = (line.run, start + 1, 0);
        } else if let Some(later) = (next..=next + forgiven).find(|&at| is(line, at)) {
            (next, forgiven) = (later + 1, 0);
        } else if let Some(later) = (next..next + held).find(|&at| sought && is(line, at)) {
            line.stale = true;
            next = later + 1;
        } else {
            let (run, at) = (line.run, line.at);
            let due = units.get(next).map(|unit| unit.at);
            let came = (0..film.len()).filter(|&at| is(line, at));
            let came: Vec<usize> = came.take(3).collect();
            panic!(
                "{kind}, run {run}: unit at {at:?} should be number {next} at {due:?}, and is like {came:?}: {:?}",
                line.hashes
            );
        }
    }
    assert_eq!(
        (run, next),
        (starts.len(), film.len()),
        "{kind}: last run and unit"
    );
}

/// Runs a viewer that seeks three times, pauses for longer than the session's timeout, and plays to
/// the end. It must receive the film without gaps, except for `lost` units of each track that the
/// viewer itself discards at the pause.
#[track_caller]
pub fn seeks_and_pauses(script: &str, protocol: &str, lost: usize) -> Vec<Line> {
    seeks_and_pauses_where(script, protocol, lost, &[], &[])
}

/// The same with configuration keys for the server and environment variables for the viewer.
#[track_caller]
pub fn seeks_and_pauses_where(
    script: &str,
    protocol: &str,
    lost: usize,
    keys: &[(&str, &str)],
    environment: &[(&str, &str)],
) -> Vec<Line> {
    let library = library(&["seeks"]);
    let options = Options::new(library.path())
        .patient()
        .set("rtsp.timeout", 2);
    let options = options.flag("--log", "info,reelway_rtsp=debug");
    let set = |options: Options, (key, value): &(&str, &str)| options.set(key, value);
    let server = keys.iter().fold(options, set).start();
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
    let url = server.rtsp_url("seeks");
    let mut lines = watch_with(script, &url, protocol, &steps, environment);
    // Over TCP the responses to PAUSE and PLAY separate old units from new ones. Over UDP ffmpeg
    // empties its sockets before it seeks, but more may arrive before the server gets the PAUSE,
    // while ffmpeg discards the picture in its parser and the rest of an audio packet.
    let held = match (script, protocol) {
        ("rtspsrc.py", "udp") => HELD,
        ("avformat.py", "udp") => lost + 1,
        _ => 0,
    };

    let pictures = wishes
        .map(|wish| expected.start_of(wish))
        .map(|start| start..=start);
    without_holes(
        "video",
        &mut lines,
        &expected.video,
        &pictures,
        (lost, held),
    );
    // Audio begins with the packet that contains the video's start.
    let sounds = pictures.map(|picture| {
        let start = expected.video[*picture.start()].at;
        let beside = expected
            .audio
            .partition_point(|unit| unit.at + unit.duration <= start);
        beside.saturating_sub(4)..=beside
    });
    without_holes("audio", &mut lines, &expected.audio, &sounds, (lost, held));
    lines
}
