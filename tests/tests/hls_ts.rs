//! Transport streams over HLS (`TITLE/ts/main.m3u8`): segments are slices of the film's file.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::http::{self, Response};
use reelway_tests::players::{ffmpeg, run, vlc_records};
use reelway_tests::probe::{self, decoded};
use reelway_tests::recording::{Recording, SECONDS, duration};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

const PACKET: usize = 188;
/// H.264, H.265, MPEG-2, AC-3; one begins in the middle of a GOP, the times of one start over.
const FILMS: [&str; 6] = [
    "transport",
    "transport_cut",
    "transport_dolby",
    "transport_hevc",
    "transport_mpeg2",
    "transport_wrapped",
];

/// Starts a server of these films, with segments of one second.
fn serve(films: &Path) -> Server {
    let options = Options::new(films)
        .set("http.segment", 1)
        .set("http.ahead", 3600);
    let server = options.start();
    server.wait_indexed();
    server
}

/// What a player is offered of a film; all addresses are complete.
struct Offer {
    playlist: String,
    text: String,
    /// Each segment, its duration in seconds, its tables' index, and whether it is discontinuous.
    segments: Vec<(String, f64, usize, bool)>,
    tables: Vec<String>,
}

fn fetch(server: &Server, path: &str) -> Response {
    let answer = server.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer
}

fn offer(server: &Server, film: &str) -> Offer {
    let main = fetch(server, &format!("/{film}/ts/main.m3u8"));
    let playlist = main.text().lines().last().expect("an address").to_owned();
    read(server, &format!("/{film}/ts/{playlist}"))
}

fn read(server: &Server, playlist: &str) -> Offer {
    let text = fetch(server, playlist).text();
    let folder = &playlist[..=playlist.rfind('/').expect("a folder")];
    let (mut segments, mut tables) = (Vec::new(), Vec::<String>::new());
    let (mut length, mut anew) = (0.0, false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("#EXTINF:") {
            length = rest.trim_end_matches(',').parse().expect("a length");
        } else if line == "#EXT-X-DISCONTINUITY" {
            anew = true;
        } else if let Some(rest) = line.strip_prefix("#EXT-X-MAP:URI=\"") {
            tables.push(format!("{folder}{}", rest.trim_end_matches('"')));
        } else if !line.starts_with('#') {
            segments.push((format!("{folder}{line}"), length, tables.len() - 1, anew));
            anew = false;
        }
    }
    Offer {
        playlist: playlist.to_owned(),
        text,
        segments,
        tables,
    }
}

/// Joins all segments.
fn joined(server: &Server, offer: &Offer) -> Vec<u8> {
    let bodies = offer.segments.iter();
    let bodies = bodies.map(|(address, ..)| fetch(server, address).body);
    bodies.collect::<Vec<_>>().concat()
}

fn pid(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// Returns the file offsets of the packets with which its key frames begin.
fn key_frames(path: &Path) -> Vec<usize> {
    let keys = probe::key_frames(path).into_iter();
    keys.map(|(place, _)| place).collect()
}

#[test]
fn segments_are_the_files_bytes_from_the_first_key_frame_on() {
    let films = library(&FILMS);
    let server = serve(films.path());
    for name in FILMS {
        let path = film(name).path;
        let (file, keys) = (fs::read(&path).expect("the film"), key_frames(&path));
        let offer = offer(&server, name);
        let all = joined(&server, &offer);
        let begins = file.len() / PACKET * PACKET - all.len();
        assert!(
            all == file[begins..begins + all.len()],
            "{name}: other bytes"
        );
        let first = keys.iter().position(|at| *at == begins);
        assert!(
            first.is_some_and(|nth| nth < 2),
            "{name}: {begins} of {keys:?}"
        );
        // Each segment begins with a key frame.
        assert!(offer.segments.len() >= 4, "{name}: {}", offer.text);
        let mut at = begins;
        for (address, ..) in &offer.segments {
            assert!(keys.contains(&at), "{name}: {address} at {at} of {keys:?}");
            at += fetch(&server, address).body.len();
        }
        // PAT and PMT are those of the file.
        assert_eq!(
            (offer.tables.len(), offer.text.matches("#EXT-X-MAP").count()),
            (1, 1)
        );
        let tables = fetch(&server, &offer.tables[0]);
        assert_eq!(tables.headers["content-type"], "video/mp2t");
        let (own, rest) = tables.body.split_at(2 * PACKET);
        let is_nothing = |packet: &[u8]| packet[0] == 0x47 && pid(packet) == 0x1fff;
        assert!(rest.chunks_exact(PACKET).all(is_nothing), "{name}");
        for own in own.chunks(PACKET) {
            let theirs = file.chunks(PACKET).find(|packet| pid(packet) == pid(own));
            let theirs = theirs.expect("the table");
            // Only the continuity counter differs.
            assert!(own[..3] == theirs[..3] && own[4..] == theirs[4..], "{name}");
        }
        assert_eq!(pid(&tables.body), 0, "{name}");
    }
    // Ranges of segments, as for all media.
    let offer = offer(&server, "transport");
    let (address, ..) = &offer.segments[1];
    let whole = fetch(&server, address);
    assert_eq!(whole.headers["content-type"], "video/mp2t");
    let part = http::request(server.http, "GET", address, &[("Range", "bytes=1000-1999")]);
    let part = part.expect("an answer");
    assert_eq!(
        (part.status, &part.body[..]),
        (206, &whole.body[1000..2000])
    );
    let head = http::request(server.http, "HEAD", address, &[]).expect("an answer");
    let length = whole.body.len().to_string();
    assert_eq!(head.headers["content-length"], length);
}

#[test]
fn what_lies_between_packets_in_the_file_is_not_sent() {
    let names = ["transport_timed", "transport_corrected"];
    let films = library(&names);
    let server = serve(films.path());
    let plain = fs::read(film("transport").path).expect("the film");
    for name in names {
        let offer = offer(&server, name);
        assert!(offer.segments.len() >= 4, "{}", offer.text);
        let all = joined(&server, &offer);
        assert!(all == plain[plain.len() - all.len()..], "{name}");
        assert!(plain.len() - all.len() <= 10 * PACKET, "{name}");
    }
}

#[test]
fn the_playlists_say_what_is_in_the_segments() {
    let films = library(&FILMS);
    let server = serve(films.path());
    for name in FILMS {
        let main = fetch(&server, &format!("/{name}/ts/main.m3u8")).text();
        let own = fetch(&server, &format!("/{name}/hls/main.m3u8")).text();
        let offer = offer(&server, name);
        let value = |text: &str, key: &str| -> String {
            let after = text.split(key).nth(1).unwrap_or_else(|| panic!("{text}"));
            let end = after.find([',', '\n']).unwrap_or(after.len());
            after[..end].to_owned()
        };
        for key in ["RESOLUTION=", "FRAME-RATE="] {
            assert_eq!(value(&main, key), value(&own, key), "{name}");
        }
        // More than the film's own streams: the average, and the peak in the worst second.
        let number = |key: &str| value(&main, key).parse::<f64>().expect("a number");
        let (peak, average) = (number(":BANDWIDTH="), number("AVERAGE-BANDWIDTH="));
        let lengths: f64 = offer.segments.iter().map(|(_, length, ..)| length).sum();
        let bits = joined(&server, &offer).len() as f64 * 8.0;
        assert!((average - bits / lengths).abs() < 2.0, "{name}: {main}");
        assert!(peak >= average, "{name}: {main}");
        // From the first picture to the end of the film.
        let film = server.get(&format!("/api/films/{name}")).json();
        let duration = film["duration"].as_f64().expect("its duration");
        assert!(
            (duration - lengths - 0.3).abs() < 0.31,
            "{name}: {lengths} of {duration}"
        );
        let target: f64 = value(&offer.text, "TARGETDURATION:").parse().expect("it");
        assert!(
            offer
                .segments
                .iter()
                .all(|(_, length, ..)| length.round() <= target)
        );
        let address = film["urls"]["hls_ts"].as_str();
        assert_eq!(address, Some(&format!("/{name}/ts/main.m3u8")[..]));
    }
}

#[test]
fn ffmpeg_decodes_what_it_decodes_of_the_file() {
    let films = library(&FILMS);
    let server = serve(films.path());
    std::thread::scope(|scope| {
        for name in FILMS {
            let server = &server;
            scope.spawn(move || {
                let url = server.http_url(&format!("{name}/ts/main.m3u8"));
                let path = film(name).path;
                let path = path.to_str().expect("UTF-8");
                for stream in ["0:v:0", "0:a:0"] {
                    let (mut got, all) = (decoded(&url, stream), decoded(path, stream));
                    let is_cut = name == "transport_cut" && stream == "0:a:0";
                    if is_cut {
                        // Audio begins with the key frame; its first frames need earlier ones.
                        got.drain(..2);
                    }
                    let (left, most) = (all.len() - got.len(), if is_cut { 30 } else { 0 });
                    assert!(
                        got == all[left..],
                        "{name} {stream}: {} of {}",
                        got.len(),
                        all.len()
                    );
                    assert!(left <= most, "{name} {stream}: {left} missing");
                }
            });
        }
    });
}

/// Joins two films into one.
fn spliced(folder: &Path, name: &str, parts: [&Path; 2]) {
    let bytes = parts.map(|part| fs::read(part).expect("a part"));
    fs::write(folder.join(format!("{name}.ts")), bytes.concat()).expect("a film");
}

#[test]
fn a_jump_of_the_times_and_other_streams_begin_anew() {
    let folder = temp_dir("spliced");
    let mpeg2 = film("transport_mpeg2").path;
    let plain = film("transport").path;
    spliced(folder.path(), "jump", [&mpeg2, &mpeg2]);
    let other = folder.path().join("other.mpegts");
    let arguments = [
        "-v",
        "error",
        "-i",
        plain.to_str().expect("UTF-8"),
        "-c",
        "copy",
    ];
    let pids = [
        "-mpegts_start_pid",
        "0x200",
        "-mpegts_pmt_start_pid",
        "0x1500",
    ];
    let to = ["-f", "mpegts", other.to_str().expect("UTF-8")];
    let command = ffmpeg([&arguments[..], &pids, &to].concat());
    run(command, SECONDS).expect("ffmpeg");
    spliced(folder.path(), "streams", [&plain, &other]);
    fs::remove_file(&other).expect("it");
    let server = serve(folder.path());

    for (name, first, maps) in [("jump", &mpeg2, 1), ("streams", &plain, 2)] {
        let offer = offer(&server, name);
        let anew: Vec<usize> = (0..offer.segments.len())
            .filter(|nth| offer.segments[*nth].3)
            .collect();
        assert_eq!(anew.len(), 1, "{name}: {}", offer.text);
        // The discontinuity begins with the first packet of a picture in the second part.
        let first = fs::metadata(first).expect("the first").len() as usize;
        let file = fs::read(folder.path().join(format!("{name}.ts"))).expect("the film");
        let all = joined(&server, &offer);
        assert!(file.ends_with(&all), "{name}");
        let before: usize = offer.segments[..anew[0]]
            .iter()
            .map(|(address, ..)| fetch(&server, address).body.len())
            .sum();
        let begins = file.len() - all.len() + before;
        assert!(
            (first..first + 10 * PACKET).contains(&begins),
            "{name}: {begins}, not {first}"
        );
        // The tables are listed again, and are those of the second part.
        let (address, length, tables, _) = &offer.segments[anew[0]];
        assert_eq!(
            (offer.tables.len(), *tables),
            (2, 1),
            "{name}: {address} {length}"
        );
        let tables: Vec<Vec<u8>> = offer
            .tables
            .iter()
            .map(|address| fetch(&server, address).body)
            .collect();
        assert_eq!(tables[0] == tables[1], maps == 1, "{name}");
        let map = pid(&tables[1][PACKET..]);
        let in_use = file[begins..]
            .chunks(PACKET)
            .any(|packet| pid(packet) == map);
        assert!(in_use, "{name}: {map}");
        let lengths: f64 = offer.segments.iter().map(|(_, length, ..)| length).sum();
        assert!((9.9..10.2).contains(&lengths), "{name}: {}", offer.text);
        let url = server.http_url(&format!("{name}/ts/main.m3u8"));
        let path = folder.path().join(format!("{name}.ts"));
        let got = decoded(&url, "0:v:0");
        assert!(
            got == decoded(path.to_str().expect("UTF-8"), "0:v:0"),
            "{name}"
        );
    }
}

#[test]
fn ffmpeg_seeks_to_the_segment_of_a_time() {
    let names = ["transport", "transport_mpeg2"];
    let films = library(&names);
    let server = serve(films.path());
    for name in names {
        let path = film(name).path;
        let all = decoded(path.to_str().expect("UTF-8"), "0:v:0");
        let url = server.http_url(&format!("{name}/ts/main.m3u8"));
        let arguments = ["-v", "error", "-ss", "3.2", "-noaccurate_seek", "-i", &url];
        let output = [
            "-map",
            "0:v:0",
            "-fps_mode",
            "passthrough",
            "-f",
            "framehash",
        ];
        let hash = ["-hash", "md5", "-"];
        let command = ffmpeg([&arguments[..], &output, &hash].concat());
        let ran = run(command, Duration::from_secs(60)).expect("ffmpeg");
        let said = String::from_utf8_lossy(&ran.out).into_owned();
        let got: Vec<&str> = said
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some(line.rsplit(',').next()?.trim()))
            .collect();
        // From a key frame at or before picture 80 to the end, less an open GOP's leading pictures.
        let first = all
            .iter()
            .position(|hash| hash == got[0])
            .expect("a picture");
        assert!((50..=80).contains(&first), "{name}: from {first} on");
        assert!(
            got.iter().eq(&all[first..]),
            "{name}: {} from {first}",
            got.len()
        );
    }
}

#[test]
fn vlc_plays_it() {
    let names = ["transport", "transport_mpeg2"];
    let films = library(&names);
    let server = serve(films.path());
    for name in names {
        let url = server.http_url(&format!("{name}/ts/main.m3u8"));
        let path = film(name).path;
        let all = decoded(path.to_str().expect("UTF-8"), "0:v:0");
        let (recorded, _dir) = vlc_records(&url, 0.0);
        let got = decoded(recorded.to_str().expect("UTF-8"), "0:v:0");
        // At the end, VLC leaves out the last few pictures, of local files too.
        assert!(
            got.len() + 12 >= all.len(),
            "{name}: {} of {}",
            got.len(),
            all.len()
        );
        let same = got
            .iter()
            .zip(&all)
            .take_while(|(got, all)| got == all)
            .count();
        assert!(same + 12 >= all.len(), "{name}: {same} of {}", all.len());
    }
}

/// Returns the times of pictures that GStreamer shows in a second, and then from 3.2 s on.
fn shown(url: &str) -> [Vec<f64>; 2] {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("players/playbin.py");
    // Only Debian's Python has GStreamer's bindings.
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).arg(url);
    command.args(["play:1", "seek:3.2", "end:20"]);
    let ran = run(command, Duration::from_secs(60)).expect("playbin");
    let text = String::from_utf8_lossy(&ran.out).into_owned();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line));
    let lines: Vec<serde_json::Value> = lines.collect();
    let is_well = lines.iter().all(|line| line["error"].is_null());
    let is_over = lines.last().is_some_and(|line| line["end"] == true);
    assert!(is_well && is_over, "{url}: {}", ran.tail());
    [0, 1].map(|run| {
        let of_run = lines.iter();
        let of_run = of_run.filter(|line| line["kind"] == "video" && line["run"] == run);
        of_run.filter_map(|line| line["at"].as_f64()).collect()
    })
}

#[test]
fn gstreamer_plays_it_and_seeks() {
    let names = ["transport", "transport_mpeg2"];
    let films = library(&names);
    // GStreamer 1.22 fails ("Couldn't download fragments") if it has the whole film before decoders
    // have selected what they play. So these short films are sent at a film's pace, like long ones.
    let options = Options::new(films.path())
        .set("http.segment", 1)
        .set("http.ahead", 1);
    let server = options.start();
    server.wait_indexed();
    std::thread::scope(|scope| {
        for name in names {
            let url = server.http_url(&format!("{name}/ts/main.m3u8"));
            scope.spawn(move || {
                let [first, second] = shown(&url);
                assert!(first[0] < 0.1 && first.len() > 15, "{name}: {first:?}");
                // Pictures about to be shown at the time of the seek are from the old position.
                let begins = second.iter().position(|at| *at > 2.5).expect("a seek");
                let second = &second[begins..];
                assert!((second[0] - 3.2).abs() < 0.1, "{name}: {second:?}");
                assert!(second.len() >= 40, "{name}: {second:?}");
                // Pictures coded as fields are shown as two.
                let is_even = |pair: &[f64]| (0.015..0.05).contains(&(pair[1] - pair[0]));
                assert!(second.windows(2).all(is_even), "{name}: {second:?}");
            });
        }
    });
}

fn token(address: &str) -> &str {
    address.rsplit("s=").next().expect("a token")
}

#[test]
fn each_viewer_is_a_session_that_is_booked_by_the_whole_streams_rate() {
    let films = library(&["transport"]);
    let options = Options::new(films.path())
        .set("http.segment", 1)
        .flag("--capacity", "net=100Mbit");
    let server = options.start();
    server.wait_indexed();
    // The sum of the network's bookings in the next minute.
    let booked = || -> u64 {
        let told = server.get("/api/admission?ahead=60").json();
        let resources = told["resources"].as_array().expect("resources");
        let network = resources.iter().find(|one| one["name"] == "network");
        let steps = network.expect("the network")["booked"].as_array();
        steps
            .expect("steps")
            .iter()
            .filter_map(|bits| bits.as_u64())
            .sum()
    };
    let sessions = || {
        let all = server.get("/api/sessions").json();
        all["total"].as_u64().expect("a count")
    };
    let mut each = Vec::new();
    for form in ["hls", "ts", "ts"] {
        let before = booked();
        let main = fetch(&server, &format!("/transport/{form}/main.m3u8")).text();
        assert!(main.contains("s="), "{main}");
        each.push(wait::until(SECONDS, || {
            let now = booked().saturating_sub(before);
            (now > 0).then_some(now)
        }));
    }
    assert_eq!(sessions(), 3);
    let each: Vec<u64> = each.into_iter().map(|one| one.expect("booked")).collect();
    // Tables, packet headers and stuffing come on top of the streams.
    assert!(each[1] > each[0] + each[0] / 100, "{each:?}");

    // A token for one form is not valid for the other, for which other amounts are booked.
    let main = fetch(&server, "/transport/hls/main.m3u8").text();
    let own = token(main.lines().last().expect("an address")).to_owned();
    let offer = offer(&server, "transport");
    let (address, ..) = &offer.segments[0];
    let other = server.get(&address.replace(token(address), &own));
    assert_eq!(other.status, 403, "{}", other.text());
    assert!(
        other.text().contains("another form of the film"),
        "{}",
        other.text()
    );
    assert_eq!(fetch(&server, address).status, 200);
    let shown = server.get("/api/sessions").json();
    let all = shown["sessions"].as_array().expect("a list");
    let plays = all.iter().find(|session| session["state"] == "playing");
    let plays = plays.unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(
        (plays["protocol"].as_str(), plays["title"].as_str()),
        (Some("hls"), Some("transport"))
    );
}

#[test]
fn a_newcomer_is_refused_when_there_is_no_room() {
    let films = library(&["transport_mpeg2"]);
    // A film of 1.3 Mbit/s; fetching its first three seconds within one takes 4.1 Mbit/s.
    let options = Options::new(films.path())
        .set("http.ahead", 1)
        .set("http.pace", 1)
        .flag("--capacity", "net=6Mbit");
    let server = options.start();
    server.wait_indexed();
    let offer = offer(&server, "transport_mpeg2");
    fetch(&server, &offer.segments[0].0);
    let refused = wait::until(SECONDS, || {
        let answer = server.get("/transport_mpeg2/ts/main.m3u8");
        (answer.status == 503).then_some(answer)
    });
    let refused = refused.expect("there is no room");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
}

#[test]
fn players_follow_a_recording_that_grows_and_lose_one_that_is_replaced() {
    let mut recording = Recording::begin("ts");
    let options = Options::new(recording.dir())
        .set("http.segment", 2)
        .set("http.ahead", 3600);
    let server = options.start();
    server.wait_indexed();
    let first = duration(&server);
    let third = recording.there;
    recording.grow(third);
    let longer = wait::until(SECONDS, || {
        Some(duration(&server)).filter(|now| *now > first + 5.0)
    });
    let longer = longer.expect("it was indexed again");
    let early = offer(&server, "recording");
    assert!(
        early.text.contains("#EXT-X-PLAYLIST-TYPE:EVENT"),
        "{}",
        early.text
    );
    assert!(!early.text.contains("#EXT-X-ENDLIST"), "{}", early.text);
    let bytes = joined(&server, &early);
    assert!(
        recording.whole[..recording.there]
            .windows(bytes.len())
            .any(|part| part == bytes)
    );

    recording.grow(usize::MAX);
    let all = wait::until(SECONDS, || (duration(&server) > longer + 5.0).then_some(()));
    assert!(all.is_some(), "{}", duration(&server));
    let late = read(&server, &early.playlist);
    assert!(
        late.text.starts_with(&early.text),
        "{}{}",
        early.text,
        late.text
    );
    assert!(late.segments.len() > early.segments.len());
    let again = joined(&server, &late);
    assert!(again.starts_with(&bytes));
    let ended = wait::until(SECONDS, || {
        let now = read(&server, &early.playlist);
        now.text.contains("#EXT-X-ENDLIST").then_some(now)
    });
    let ended = ended.expect("the recording ends");
    assert!(recording.whole.ends_with(&joined(&server, &ended)));
    let url = server.http_url("recording/ts/main.m3u8");
    let path = recording.path.display().to_string();
    assert!(decoded(&url, "0:v:0") == decoded(&path, "0:v:0"));

    // A different film in its place.
    let other = fs::read(film("transport").path).expect("another");
    fs::write(&recording.path, other).expect("it");
    let gone = wait::until(SECONDS, || {
        (server.get(&early.segments[0].0).status == 410).then_some(())
    });
    assert!(gone.is_some());
    assert_eq!(server.get(&early.tables[0]).status, 410);
}

#[test]
fn films_that_are_not_offered_so_are_refused_with_the_reason() {
    let films = library(&["progressive", "program", "transport_programmes"]);
    let sound = [
        "-v", "error", "-f", "lavfi", "-i", "sine=d=3", "-c:a", "mp2",
    ];
    let folder = temp_dir("refused");
    let sound_only = folder.path().join("sound.ts");
    let to = ["-f", "mpegts", sound_only.to_str().expect("UTF-8")];
    let command = ffmpeg([&sound[..], &to].concat());
    run(command, SECONDS).expect("ffmpeg");
    // Marks the audio as scrambled.
    let mut bytes = fs::read(film("transport").path).expect("the film");
    let is_sound = |packet: &&mut [u8]| pid(packet) == 0x101;
    let packets = bytes.chunks_mut(PACKET).filter(is_sound);
    packets.for_each(|packet| packet[3] |= 0xc0);
    fs::write(folder.path().join("encrypted.ts"), bytes).expect("a film");
    let options = Options::new(films.path()).films(folder.path());
    let server = options.start();
    server.wait_indexed();
    for (name, why) in [
        ("progressive", "it is no transport stream"),
        ("program", "it is no transport stream"),
        (
            "transport_programmes",
            "it has 2 programmes, and HLS allows one",
        ),
        ("sound", "it has no picture"),
        ("encrypted", "its packets are encrypted"),
    ] {
        for of in ["main.m3u8", "segments.m3u8", "tables-1.ts", "1.ts"] {
            let answer = server.get(&format!("/{name}/ts/{of}"));
            assert_eq!(answer.status, 415, "{name}/{of}: {}", answer.text());
            let words = format!(
                "film '{name}' is not offered over HLS as a transport stream: {why}; use hls/main.m3u8"
            );
            assert!(answer.text().contains(&words), "{}", answer.text());
        }
        let film = server.get(&format!("/api/films/{name}")).json();
        assert!(film["urls"]["hls_ts"].is_null(), "{film}");
        assert_eq!(server.get(&format!("/{name}/hls/main.m3u8")).status, 200);
    }
    assert!(
        server.get("/api/sessions").json()["sessions"]
            .as_array()
            .is_some_and(|all| all.len() == 5)
    );
    assert_eq!(server.get("/nothing/ts/main.m3u8").status, 404);
}

#[test]
fn what_the_film_does_not_have_is_not_found() {
    let films = library(&["transport"]);
    let server = serve(films.path());
    let offer = offer(&server, "transport");
    let count = offer.segments.len();
    for name in [
        &format!("{}.ts", count + 1),
        "0.ts",
        "tables-2.ts",
        "1.m3u8",
    ] {
        let answer = server.get(&format!("/transport/ts/{name}"));
        assert_eq!(answer.status, 404, "{name}: {}", answer.text());
    }
}

#[test]
fn an_edge_gives_the_same_and_a_server_that_was_started_again() {
    let names = ["transport_timed", "transport_mpeg2"];
    let films = library(&names);
    let (folder, origin) = (temp_dir("hls-ts-state"), serve(films.path()));
    let all = |server: &Server| {
        let offers = names.map(|name| offer(server, name));
        offers.map(|offer| {
            let lengths: Vec<f64> = offer
                .segments
                .iter()
                .map(|(_, length, ..)| *length)
                .collect();
            let tables = fetch(server, &offer.tables[0]).body;
            (joined(server, &offer), tables, lengths)
        })
    };
    let direct = all(&origin);
    let edge = Options::edge(&format!("http://{}/", origin.http));
    let edge = edge.set("http.segment", 1).set("http.ahead", 3600).start();
    edge.wait_indexed();
    assert!(all(&edge) == direct);
    let start = || {
        let options = Options::new(films.path()).state(folder.path());
        let server = options
            .set("http.segment", 1)
            .set("http.ahead", 3600)
            .start();
        server.wait_indexed();
        server
    };
    drop(start());
    assert!(all(&start()) == direct);
}
