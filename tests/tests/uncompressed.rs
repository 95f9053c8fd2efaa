//! Uncompressed audio arrives as it is in the file, number by number, over every protocol that
//! carries it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use reelway_media::{Codec, Index, IndexOptions, Kind, Sample, index_with};
use reelway_tests::films::{self, Film};
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::probe::{Edits, streams};
use reelway_tests::server::{Options, Server};

/// Bytes per number in ffmpeg's output.
const NUMBER: usize = 4;

/// The numbers of the first audio track, 32 bits each.
fn numbers(before: &[&str], input: &str) -> Vec<u8> {
    let mut arguments = before.to_vec();
    arguments.extend(["-i", input, "-map", "0:a:0", "-c:a", "pcm_s32le"]);
    arguments.extend(["-f", "s32le", "-"]);
    run(ffmpeg(arguments), Duration::from_secs(100))
        .expect(input)
        .out
}

fn index(path: &Path) -> Index {
    let file = std::fs::read(path).expect("the film");
    let read = |range: std::ops::Range<u64>, bytes: &mut Vec<u8>| {
        *bytes = file[range.start as usize..range.end as usize].to_vec();
        Ok(())
    };
    let index = index_with(read, file.len() as u64, IndexOptions::default());
    index.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether this film can be sent over RTP: its audio is big-endian and has at most two channels.
fn goes_over_rtp(film: &Film) -> bool {
    let index = index(&film.path);
    let (_, track) = index.title.audio().next().expect("sound");
    let Codec::Pcm(config) = track.codec else {
        panic!("{}: {:?}", film.name, track.codec)
    };
    !config.little_endian && config.channels <= 2
}

/// Receives each film from the server, and passes the received audio and the file's to `check`.
fn received(
    films: Vec<Film>,
    before: &[&str],
    url: impl Fn(&Server, &Film) -> String + Sync,
    check: impl Fn(&Film, &[u8], &[u8]) + Sync,
) {
    let names: Vec<&str> = films.iter().map(|film| film.name).collect();
    let library = films::library(&names);
    let server = Options::new(library.path())
        .patient()
        .set("http.ahead", 3600)
        .start();
    server.wait_indexed();
    let (left, failed) = (Mutex::new(films), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(film) = { left.lock().unwrap().pop() } {
                    let checked = catch_unwind(AssertUnwindSafe(|| {
                        let theirs = numbers(&[], film.path.to_str().expect("UTF-8"));
                        let mine = numbers(before, &url(&server, &film));
                        check(&film, &mine, &theirs);
                    }));
                    if checked.is_err() {
                        failed.lock().unwrap().push(film.name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "not as in the file: {failed:?}");
}

/// Checks that everything arrived, and nothing else.
fn whole(film: &Film, mine: &[u8], theirs: &[u8]) {
    let apart = mine
        .iter()
        .zip(theirs)
        .position(|(mine, theirs)| mine != theirs);
    assert!(
        apart.is_none() && mine.len() == theirs.len() && !mine.is_empty(),
        "{}: {} of {} bytes came, the first that differs is {apart:?}",
        film.name,
        mine.len(),
        theirs.len()
    );
}

/// Checks that everything received is in the file. ffmpeg leaves out some of the beginning and the
/// end.
fn within(film: &Film, mine: &[u8], theirs: &[u8]) {
    let window = mine.get(..1 << 12).expect("sound");
    let start = theirs
        .windows(window.len())
        .position(|theirs| theirs == window);
    let start = start.unwrap_or_else(|| panic!("{}: other sound", film.name));
    assert!(
        theirs[start..].starts_with(mine),
        "{}: other sound from byte {start} on",
        film.name
    );
    // A tenth of a second.
    let most = index(&film.path)
        .title
        .audio()
        .next()
        .map_or(0, |(_, track)| {
            let sound = track.sound.clone().expect("sound");
            NUMBER * usize::from(sound.channels) * sound.rate as usize / 10
        });
    assert!(
        theirs.len() - mine.len() <= most,
        "{}: {} of {} bytes came",
        film.name,
        mine.len(),
        theirs.len()
    );
}

#[test]
fn uncompressed_sound_arrives_over_hls() {
    let url =
        |server: &Server, film: &Film| server.http_url(&format!("{}/hls/main.m3u8", film.name));
    received(films::uncompressed(), &[], url, whole);
}

#[test]
fn uncompressed_sound_arrives_over_dash() {
    let url =
        |server: &Server, film: &Film| server.http_url(&format!("{}/dash/main.mpd", film.name));
    received(films::uncompressed(), &[], url, whole);
}

#[test]
fn uncompressed_sound_arrives_over_rtsp_where_rtp_carries_it() {
    let mut films = films::uncompressed();
    films.retain(goes_over_rtp);
    assert!(films.len() >= 6);
    let over = ["-rtsp_transport", "tcp"];
    received(
        films,
        &over,
        |server, film| server.rtsp_url(film.name),
        within,
    );
}

#[test]
fn the_server_says_why_uncompressed_sound_does_not_go_over_rtsp() {
    let library = films::library(&["pcm_sowt", "pcm_surround"]);
    let server = Options::new(library.path()).patient().start();
    server.wait_indexed();
    for (film, words) in [
        ("pcm_sowt", "little-endian"),
        ("pcm_surround", "6 channels"),
    ] {
        let answer = server.get(&format!("/api/films/{film}")).json();
        let why = answer["protocols"]["rtsp"].to_string();
        assert!(why.contains(words), "{film}: {answer}");
    }
}

#[test]
fn uncompressed_sound_stands_to_the_picture_as_ffprobe_sees_it() {
    for film in films::uncompressed() {
        // ffprobe shifts pictures with negative offsets.
        if ["pcm_alone", "pcm_fragmented"].contains(&film.name) {
            continue;
        }
        let index = index(&film.path);
        let mine = |kind: Kind| {
            let mut all = (0..).zip(&index.title.tracks);
            let (number, track) = all.find(|(_, track)| track.kind == kind).expect("a track");
            let mut at = track.groups.first().map_or(0, |group| group.dts);
            let shown = index.tables[number].iter().map(|sample: Sample| {
                let shown = at + i64::from(sample.cts) + track.shift;
                at += i64::from(sample.duration);
                shown
            });
            shown.min().expect("samples") as f64 / f64::from(track.timescale)
        };
        let streams = streams(&film.path, Edits::Apply);
        let theirs = |kind: &str| {
            let stream = streams.iter().find(|stream| stream.kind == kind);
            let stream = stream.expect("a stream");
            let packets = stream.packets.iter().filter(|packet| packet.has_pts);
            let first = packets.map(|packet| packet.pts).min();
            first.expect("a time") as f64 / f64::from(stream.timescale)
        };
        let mine = mine(Kind::Audio) - mine(Kind::Video);
        let theirs = theirs("audio") - theirs("video");
        assert!(
            (mine - theirs).abs() < 0.0015,
            "{}: sound begins {mine} s after the picture, for ffprobe {theirs}",
            film.name
        );
    }
}

#[test]
fn sound_of_a_view_that_begins_before_the_picture_stays_whole() {
    let dir = films::temp_dir("early");
    let path = dir.path().join("early.m2ts");
    let (picture, sound) = (
        films::film("video_only").path,
        films::film("pcm_alone").path,
    );
    let arguments = [
        "-itsoffset".as_ref(),
        "0.07".as_ref(),
        "-i".as_ref(),
        picture.as_os_str(),
        "-i".as_ref(),
        sound.as_os_str(),
        "-c:v".as_ref(),
        "copy".as_ref(),
        "-c:a".as_ref(),
        "pcm_bluray".as_ref(),
        "-ar".as_ref(),
        "48000".as_ref(),
        path.as_os_str(),
    ];
    run(ffmpeg(arguments), Duration::from_secs(60)).expect("early sound");
    let index = index(&path);
    let (_, track) = index.title.audio().next().expect("sound");
    let begins = track.groups.get(0).map_or(0, |group| group.dts) + track.shift;
    // Back to the unit in which the video begins.
    assert!(
        (-7200..0).contains(&begins),
        "{begins} of {}",
        track.timescale
    );
    assert!(track.duration >= 5 * u64::from(track.timescale));
}

#[test]
fn units_of_uncompressed_sound_last_some_hundredths_of_a_second() {
    for film in films::uncompressed() {
        let index = index(&film.path);
        let (number, track) = index.title.audio().next().expect("sound");
        let Codec::Pcm(config) = track.codec else {
            panic!("{}: {:?}", film.name, track.codec)
        };
        let mut short = 0;
        for sample in index.tables[number].iter() {
            assert_eq!(sample.size % config.frame_bytes(), 0, "{}", film.name);
            // ffmpeg gives the first sample of fragments a different duration.
            if film.name == "pcm_fragmented" && sample.duration > 1024 {
                continue;
            }
            assert_eq!(
                sample.size / config.frame_bytes(),
                sample.duration,
                "{}: a unit lasts as long as its numbers",
                film.name
            );
            assert!(sample.duration <= track.timescale / 25, "{}", film.name);
            short += u32::from(sample.duration < track.timescale / 100);
        }
        assert_eq!(index.title.tracks[number].kind, Kind::Audio);
        assert!(short <= 2, "{}: {short} short units", film.name);
    }
}
