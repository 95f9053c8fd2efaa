//! Films as other people's tools write them: each plays as its file does, or the refusal says what
//! can be done about it.

use std::path::Path;
use std::time::Duration;

use reelway_tests::films::temp_dir;
use reelway_tests::players::{ffmpeg, run, start};
use reelway_tests::server::{Options, Server};

const LIMIT: Duration = Duration::from_secs(60);
/// A moving picture, and sound.
const SHOWN: &str = "testsrc2=s=320x180:r=25";
const HEARD: &str = "aevalsrc=sin(440*2*PI*t)/3|sin(660*2*PI*t)/3:s=48000";

/// Makes a film of two seconds in a folder with ffmpeg and these coding options.
fn make(dir: &Path, name: &str, coding: &[&str]) {
    make_of(dir, name, &[SHOWN, HEARD], &[coding, &["-t", "2"]].concat());
}

fn make_of(dir: &Path, name: &str, sources: &[&str], coding: &[&str]) {
    let mut arguments = vec!["-v", "error"];
    for source in sources {
        arguments.extend(["-f", "lavfi", "-i", source]);
    }
    let path = dir.join(name).display().to_string();
    arguments.extend(coding);
    arguments.extend(["-y", &path]);
    run(ffmpeg(arguments), LIMIT).expect(name);
}

/// Returns the decoded pictures of an input's first video stream, or the packets of its first audio
/// stream: each one's time in ticks of 90 kHz, and its hash.
fn frames(input: &str, kind: &str) -> Vec<(i64, String)> {
    let map = format!("0:{kind}:0");
    let arguments = ["-v", "error", "-i", input, "-map", &map];
    let coded = match kind {
        "v" => ["-enc_time_base", "1:90000", "-fps_mode", "passthrough"],
        _ => ["-c", "copy", "-time_base", "1:90000"],
    };
    let written = ["-copyts", "-f", "framehash", "-hash", "md5", "-"];
    let ran = run(
        ffmpeg(arguments.into_iter().chain(coded).chain(written)),
        LIMIT,
    );
    let ran = ran.expect(input);
    let text = String::from_utf8_lossy(&ran.out).into_owned();
    let base = text.lines().find_map(|line| line.strip_prefix("#tb 0: "));
    let (above, below) = base
        .expect("a time base")
        .split_once('/')
        .expect("a fraction");
    let (above, below): (i64, i64) = (above.parse().unwrap(), below.parse().unwrap());
    let frames = text.lines().filter(|line| !line.starts_with('#'));
    let fields = frames.map(|line| line.split(',').map(str::trim).collect::<Vec<_>>());
    fields
        .map(|fields| {
            let at = fields[2].parse::<i64>().unwrap() * above * 90_000 / below;
            (at, fields[5].to_owned())
        })
        .collect()
}

/// A hash of all decoded audio of an input.
fn decoded_sound(input: &str) -> String {
    let arguments = ["-v", "error", "-i", input, "-map", "0:a:0"];
    let written = ["-f", "hash", "-hash", "md5", "-"];
    let ran = run(ffmpeg(arguments.into_iter().chain(written)), LIMIT);
    String::from_utf8_lossy(&ran.expect(input).out).into_owned()
}

/// Hashes without times.
fn hashes(frames: &[(i64, String)]) -> Vec<&str> {
    frames.iter().map(|(_, hash)| &hash[..]).collect()
}

/// Fails unless both have the same hashes, and the same times after their first within a
/// millisecond.
#[track_caller]
fn same(file: &[(i64, String)], received: &[(i64, String)]) {
    assert!(!file.is_empty());
    assert_eq!(hashes(file), hashes(received));
    let apart = file.iter().zip(received).map(|(file, got)| got.0 - file.0);
    let first = received[0].0 - file[0].0;
    let most = apart.map(|apart| (apart - first).abs()).max();
    assert!(most <= Some(90), "times are off by {most:?} ticks");
}

fn film(server: &Server, title: &str) -> serde_json::Value {
    server.get(&format!("/api/films/{title}")).json()
}

fn hls(server: &Server, title: &str) -> String {
    server.http_url(&format!("{title}/hls/main.m3u8"))
}

fn in_dir(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

#[test]
fn quicktime_films_of_mpeg_picture_and_sound_play() {
    let dir = temp_dir("library-");
    let coded = |picture, sound| ["-c:v", picture, "-bf", "2", "-c:a", sound];
    make(dir.path(), "two.mov", &coded("mpeg2video", "libmp3lame"));
    make(dir.path(), "one.mov", &coded("mpeg1video", "mp2"));
    let server = Options::new(dir.path()).patient().start();
    server.wait_indexed();
    for title in ["two", "one"] {
        let file = in_dir(dir.path(), &format!("{title}.mov"));
        for kind in ["v", "a"] {
            same(&frames(&file, kind), &frames(&hls(&server, title), kind));
        }
        let shown = frames(&server.rtsp_url(title), "v");
        assert_eq!(hashes(&frames(&file, "v")), hashes(&shown), "{title}");
    }
}

#[test]
fn another_codec_under_the_number_of_a_stream_is_not_mixed_into_it() {
    let dir = temp_dir("library-");
    let coded = |picture, sound| ["-c:v", picture, "-c:a", sound];
    make(dir.path(), "first.ts", &coded("mpeg2video", "mp2"));
    make(dir.path(), "second.ts", &coded("libx264", "aac"));
    let [first, second] = ["first.ts", "second.ts"].map(|name| in_dir(dir.path(), name));
    let both = [&first, &second].map(|path| std::fs::read(path).expect("a film"));
    std::fs::write(dir.path().join("both.ts"), both.concat()).expect("a film");
    let server = Server::start(dir.path());
    server.wait_indexed();
    for kind in ["v", "a"] {
        same(&frames(&first, kind), &frames(&hls(&server, "both"), kind));
    }
}

/// ffmpeg writes the last audio frames when it ends the file, long after those before them. Where
/// the pieces are joined, the time goes back by less than a second, and pictures are also
/// reordered.
#[test]
fn joined_pieces_shorter_than_a_second_follow_each_other() {
    let dir = temp_dir("library-");
    let coding = ["-c:v", "libx264", "-bf", "2", "-c:a", "mp2", "-t", "0.8"];
    make_of(dir.path(), "piece.ts", &[SHOWN, HEARD], &coding);
    let piece = std::fs::read(dir.path().join("piece.ts")).expect("a film");
    std::fs::write(dir.path().join("three.ts"), piece.repeat(3)).expect("a film");
    let server = Server::start(dir.path());
    server.wait_indexed();
    let pictures = frames(&in_dir(dir.path(), "piece.ts"), "v");
    let received = frames(&hls(&server, "three"), "v");
    assert_eq!(received.len(), 3 * pictures.len());
    for received in received.chunks(pictures.len()) {
        same(&pictures, received);
    }
    let film = film(&server, "three");
    let seconds = film["duration"].as_f64().expect("a length");
    assert!((2.4..2.6).contains(&seconds), "{seconds} s");
}

#[test]
fn the_end_of_sound_that_is_over_before_the_picture_keeps_its_time() {
    let dir = temp_dir("library-");
    let sources = ["testsrc2=s=320x180:r=1:d=20", &format!("{HEARD}:d=3")];
    let coding = ["-c:v", "libx264", "-c:a", "aac"];
    make_of(dir.path(), "slow.ts", &sources, &coding);
    let server = Server::start(dir.path());
    server.wait_indexed();
    assert_eq!(film(&server, "slow")["notes"], serde_json::json!([]));
    let file = in_dir(dir.path(), "slow.ts");
    let url = hls(&server, "slow");
    same(&frames(&file, "v"), &frames(&url, "v"));
    let (file, heard) = (frames(&file, "a"), frames(&url, "a"));
    let lasts = |frames: &[(i64, String)]| frames[frames.len() - 1].0 - frames[0].0;
    assert!(
        (lasts(&file) - lasts(&heard)).abs() <= 90,
        "{file:?} {heard:?}"
    );
}

#[test]
fn a_picture_every_ten_seconds_may_be_shown_out_of_order() {
    let dir = temp_dir("library-");
    let coding = ["-c:v", "libx264", "-bf", "3", "-c:a", "aac"];
    let sources = ["testsrc2=s=320x180:r=1/10:d=60", &format!("{HEARD}:d=3")];
    make_of(dir.path(), "slides.mkv", &sources, &coding);
    let server = Server::start(dir.path());
    server.wait_indexed();
    let file = frames(&in_dir(dir.path(), "slides.mkv"), "v");
    same(&file, &frames(&hls(&server, "slides"), "v"));
}

#[test]
fn opus_of_six_channels_is_refused_over_rtsp_and_plays_over_hls() {
    let dir = temp_dir("library-");
    let coding = ["-c:v", "libx264", "-c:a", "libopus", "-ac", "6"];
    let names = ["around.mkv", "around_too.ts"];
    for name in names {
        make(dir.path(), name, &coding);
    }
    let server = Options::new(dir.path()).patient().start();
    server.wait_indexed();
    for name in names {
        let (title, _) = name.split_once('.').expect("a name");
        let why = film(&server, title)["protocols"]["rtsp"].clone();
        assert_eq!(
            why,
            "Opus cannot be sent over RTP (it has 6 channels, and RTP carries 1 or 2 of Opus); use HLS, DASH or the file"
        );
        let asked = run(
            ffmpeg(["-i", &server.rtsp_url(title), "-f", "null", "-"]),
            LIMIT,
        );
        assert!(asked.err.contains("it has 6 channels"), "{}", asked.err);
        let file = frames(&in_dir(dir.path(), name), "a");
        let heard = frames(&hls(&server, title), "a");
        assert_eq!(hashes(&file), hashes(&heard), "{name}");
    }
}

/// Headers have no number for this channel layout, so the frames themselves describe it.
#[test]
fn aac_whose_frames_say_its_channels_plays() {
    let dir = temp_dir("library-");
    let quad = "aevalsrc=sin(440*2*PI*t)/4|sin(550*2*PI*t)/4|sin(660*2*PI*t)/4|sin(770*2*PI*t)/4:c=quad:s=48000";
    let coding = ["-c:v", "libx264", "-c:a", "aac", "-t", "2"];
    let latm = ["-mpegts_flags", "latm"];
    make_of(dir.path(), "adts.ts", &[SHOWN, quad], &coding);
    make_of(
        dir.path(),
        "latm.ts",
        &[SHOWN, quad],
        &[&coding[..], &latm].concat(),
    );
    let server = Options::new(dir.path()).patient().start();
    server.wait_indexed();
    for title in ["adts", "latm"] {
        assert_eq!(film(&server, title)["audio"][0]["channels"], 4, "{title}");
        let file = decoded_sound(&in_dir(dir.path(), &format!("{title}.ts")));
        assert_eq!(decoded_sound(&hls(&server, title)), file, "{title}");
        assert_eq!(decoded_sound(&server.rtsp_url(title)), file, "{title}");
    }
}

#[test]
fn what_is_skipped_or_refused_is_named() {
    let dir = temp_dir("library-");
    make(dir.path(), "plain.ts", &["-c:v", "libx264", "-c:a", "aac"]);
    make(dir.path(), "stills.mov", &["-c:v", "mjpeg", "-c:a", "aac"]);
    let source = temp_dir("source-");
    let coding = ["-c:v", "mpeg4", "-vtag", "XVID", "-c:a", "libmp3lame"];
    make(source.path(), "plain.avi", &coding);
    let plain = in_dir(dir.path(), "plain.ts");
    let avi = in_dir(source.path(), "plain.avi");
    for (name, options) in [
        ("deflated.mkv", vec!["--compression", "-1:zlib", &plain]),
        ("boxed.mkv", vec![&avi[..]]),
    ] {
        let mut command = std::process::Command::new("mkvmerge");
        command.args(["-q", "-o", &in_dir(dir.path(), name)]);
        command.args(options);
        start(command).finish(LIMIT).expect(name);
    }
    // Removes the packets that list the programmes (PAT).
    let stream = std::fs::read(&plain).expect("a film");
    let packets = stream
        .chunks(188)
        .filter(|packet| packet[1] & 0x1f != 0 || packet[2] != 0);
    let nameless: Vec<u8> = packets.flatten().copied().collect();
    std::fs::write(dir.path().join("nameless.ts"), nameless).expect("a film");

    let server = Server::start(dir.path());
    server.wait_indexed();
    let says = |title: &str, key: &str, words: &str| {
        let film = film(&server, title);
        assert!(film[key].to_string().contains(words), "{title}: {film}");
    };
    says(
        "stills",
        "notes",
        "track 1 (cover art or Motion JPEG) skipped",
    );
    says(
        "boxed",
        "notes",
        "track 1 (picture as in AVI, coded in XVID) skipped",
    );
    let undone = "compressed once more, which `ffmpeg -i FILE -c copy NEW.mkv` undoes";
    says("deflated", "reason", undone);
    says(
        "nameless",
        "reason",
        "PAT and PMT at byte 0: are missing: the file does not say which streams it has; copy it again, or have it repaired with `ffmpeg",
    );
}
