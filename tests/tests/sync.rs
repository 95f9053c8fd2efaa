//! Decoded audio and video are within 40 ms of each other: the demo film has a flash and a beep at
//! each full second.

use std::path::Path;
use std::time::Duration;

use reelway_tests::films::temp_dir;
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::server::Server;

/// ITU-R BT.1359: viewers notice audio that is 45 ms early or 125 ms late.
const LIMIT: f64 = 0.040;

fn demo() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/demo.mp4"))
}

/// A server of the demo film.
fn server() -> (Server, tempfile::TempDir) {
    let dir = temp_dir("films");
    std::fs::copy(demo(), dir.path().join("demo.mp4")).expect("a copy");
    (Server::start(dir.path()), dir)
}

/// The times in seconds at which flashes and beeps begin in what ffmpeg decodes from an input.
fn flashes_and_beeps(input: &[&str], seconds: u32) -> (Vec<f64>, Vec<f64>) {
    let dir = temp_dir("sync");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let picture = format!(
        "crop=48:48:370:132,signalstats,metadata=mode=print:key=lavfi.signalstats.YAVG:file={}",
        file("luma")
    );
    let sound = format!(
        "asetnsamples=n=240:p=0,astats=metadata=1:reset=1,ametadata=mode=print:key=lavfi.astats.Overall.RMS_level:file={}",
        file("level")
    );
    let time = seconds.to_string();
    let mut arguments = input.to_vec();
    arguments.extend([
        "-t",
        &time,
        "-map",
        "0:v:0",
        "-vf",
        &picture,
        "-fps_mode",
        "passthrough",
        "-f",
        "null",
        "-",
    ]);
    arguments.extend([
        "-t", &time, "-map", "0:a:0", "-af", &sound, "-f", "null", "-",
    ]);
    run(ffmpeg(arguments), Duration::from_secs(60)).expect(input.last().expect("an input"));
    let luma = rises(&std::fs::read_to_string(file("luma")).expect("luma"), 200.0);
    let level = rises(
        &std::fs::read_to_string(file("level")).expect("levels"),
        -30.0,
    );
    (luma, level)
}

/// The times at which a printed value rises above `threshold`.
fn rises(text: &str, threshold: f64) -> Vec<f64> {
    let (mut times, mut time, mut above) = (Vec::new(), 0.0, false);
    for line in text.lines() {
        if let Some((_, at)) = line.split_once("pts_time:") {
            time = at.trim().parse().expect("a time");
        } else if let Some((_, value)) = line.split_once('=') {
            let now = value.parse::<f64>().is_ok_and(|value| value > threshold);
            if now && !above {
                times.push(time);
            }
            above = now;
        }
    }
    times
}

#[track_caller]
fn in_step(input: &[&str], seconds: u32) {
    let (flashes, beeps) = flashes_and_beeps(input, seconds);
    let mut apart = Vec::new();
    for beep in &beeps {
        let nearest = flashes
            .iter()
            .map(|flash| beep - flash)
            .min_by(|a, b| a.abs().total_cmp(&b.abs()));
        // At either end, one of the two may lie outside the decoded range.
        apart.extend(nearest.filter(|apart| apart.abs() < 0.4));
    }
    assert!(
        apart.len() + 2 >= seconds as usize,
        "{} flashes, {} beeps in {seconds} s",
        flashes.len(),
        beeps.len()
    );
    let worst = apart.iter().copied().fold(0.0, |worst: f64, apart| {
        if apart.abs() > worst.abs() {
            apart
        } else {
            worst
        }
    });
    eprintln!(
        "{}: sound and picture at most {:.1} ms apart",
        input.last().expect("an input"),
        worst * 1e3
    );
    assert!(
        worst.abs() <= LIMIT,
        "sound comes {} ms after the picture; flashes at {flashes:?}, beeps at {beeps:?}",
        worst * 1e3
    );
}

#[test]
fn the_demo_film_itself_is_in_step() {
    in_step(&["-i", &demo().display().to_string()], 24);
}

#[test]
fn over_rtsp_udp_sound_and_picture_are_in_step_from_the_start_and_after_a_seek() {
    let (server, _dir) = server();
    let url = server.rtsp_url("demo");
    in_step(&["-rtsp_transport", "udp", "-i", &url], 7);
    in_step(&["-rtsp_transport", "udp", "-ss", "9.3", "-i", &url], 6);
}

#[test]
fn over_rtsp_tcp_sound_and_picture_are_in_step_from_the_start_and_after_a_seek() {
    let (server, _dir) = server();
    let url = server.rtsp_url("demo");
    in_step(&["-rtsp_transport", "tcp", "-i", &url], 7);
    in_step(&["-rtsp_transport", "tcp", "-ss", "13.7", "-i", &url], 6);
}

#[test]
fn over_hls_sound_and_picture_are_in_step_from_the_start_and_after_a_seek() {
    let (server, _dir) = server();
    let url = server.http_url("demo/hls/main.m3u8");
    in_step(&["-i", &url], 20);
    // ffmpeg 5.1 cannot seek in fragmented HLS, from any server: it reads on at the wrong position.
    // So it gets what a player that seeks requests: the initialisation segments and those from 12 s
    // on.
    let dir = playlists_from_segment(&server, 2);
    let main = dir.path().join("main.m3u8").display().to_string();
    let local = [
        "-protocol_whitelist",
        "file,http,tcp",
        "-allowed_extensions",
        "ALL",
    ];
    in_step(&[&local[..], &["-i", &main]].concat(), 10);
}

/// Writes the demo film's playlists to files, without the first `skip` segments.
fn playlists_from_segment(server: &Server, skip: usize) -> tempfile::TempDir {
    let dir = temp_dir("playlists");
    let main = server.get("/demo/hls/main.m3u8").text();
    let mut local = main.clone();
    let addresses = main
        .split(['"', '\n'])
        .filter(|part| part.contains(".m3u8"));
    for (n, address) in addresses.enumerate() {
        let media = server.get(&format!("/demo/hls/{address}")).text();
        let media = media.replace("../seg/", &server.http_url("demo/seg/"));
        let (head, segments) = media.split_once("#EXTINF").expect("segments");
        let kept: String = segments
            .split("#EXTINF")
            .skip(skip)
            .map(|segment| format!("#EXTINF{segment}"))
            .collect();
        std::fs::write(
            dir.path().join(format!("{n}.m3u8")),
            format!("{head}{kept}"),
        )
        .expect("a file");
        local = local.replace(address, &format!("{n}.m3u8"));
    }
    std::fs::write(dir.path().join("main.m3u8"), local).expect("a file");
    dir
}

#[test]
fn over_dash_sound_and_picture_are_in_step_from_the_start_and_after_a_seek() {
    let (server, _dir) = server();
    let url = server.http_url("demo/dash/main.mpd");
    in_step(&["-i", &url], 20);
    in_step(&["-ss", "9.3", "-i", &url], 10);
}
