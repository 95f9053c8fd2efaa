//! Rotation and pixel aspect ratio: players see the same over HLS and DASH as in the file.

use std::fs;
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::players::{ffmpeg, ffprobe, run};
use reelway_tests::server::{Options, Server};
use serde_json::Value;

/// Rotated by 90 degrees, 320 by 180 pixels of 4:3.
const TURNED: &str = "rotated";
/// The same film without either.
const PLAIN: &str = "progressive";
const ADDRESSES: [&str; 3] = ["hls/main.m3u8", "dash/main.mpd", "file"];

/// A picture's properties as ffprobe reports them.
#[derive(Debug, PartialEq)]
struct Shape {
    width: u64,
    height: u64,
    pixels: String,
    /// The display matrix' rotation in degrees.
    turned: f64,
}

fn shape(input: &str) -> Shape {
    let arguments = ["-of", "json", "-show_streams", "-select_streams", "v:0"];
    let arguments = arguments.into_iter().chain([input]);
    let ran = run(ffprobe(arguments), Duration::from_secs(60)).expect(input);
    let probed: Value = serde_json::from_slice(&ran.out).expect("JSON");
    let stream = &probed["streams"][0];
    let all = stream["side_data_list"].as_array();
    let matrix = all.and_then(|all| all.iter().find(|data| !data["rotation"].is_null()));
    Shape {
        width: stream["width"].as_u64().expect("a width"),
        height: stream["height"].as_u64().expect("a height"),
        pixels: stream["sample_aspect_ratio"]
            .as_str()
            .unwrap_or("")
            .to_owned(),
        turned: matrix.map_or(0.0, |matrix| matrix["rotation"].as_f64().expect("degrees")),
    }
}

/// Size and pixel aspect ratio of the picture after ffmpeg has applied the rotation: `180x320` and
/// `3/4`.
fn shown(input: &str) -> (String, String) {
    let arguments = [
        "-i",
        input,
        "-frames:v",
        "1",
        "-vf",
        "showinfo",
        "-f",
        "null",
        "-",
    ];
    let mut command = ffmpeg(["-loglevel", "info"]);
    command.args(arguments);
    let ran = run(command, Duration::from_secs(60)).expect(input);
    // "… sar:3/4 s:180x320 …"
    let word = |name: &str| {
        let mut words = ran.err.lines().filter(|line| line.contains(" sar:"));
        let words = words.next().unwrap_or_default().split_whitespace();
        let found = words.into_iter().find_map(|word| word.strip_prefix(name));
        found
            .unwrap_or_else(|| panic!("{input}: no {name} in {}", ran.tail()))
            .to_owned()
    };
    (word("s:"), word("sar:"))
}

/// The initialization segment and the first media segment of a film's picture, as the playlist and the MPD name them:
/// the bytes that players with Media Source Extensions append.
fn first_pieces(server: &Server, film: &str) -> [Vec<u8>; 2] {
    let get = |path: String| {
        let answer = server.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer
    };
    let quoted = |text: &str, before: &str| {
        let value = text
            .split(before)
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        value
            .unwrap_or_else(|| panic!("no {before} in {text}"))
            .replace("&amp;", "&")
    };
    let piece = |address: &str| get(format!("/{film}/{}", address.trim_start_matches("../"))).body;
    let main = get(format!("/{film}/hls/main.m3u8")).text();
    let playlist = main.lines().last().expect("an address");
    let playlist = get(format!("/{film}/hls/{playlist}")).text();
    let first = playlist.lines().find(|line| line.starts_with("../"));
    let hls = [
        piece(&quoted(&playlist, "#EXT-X-MAP:URI=\"")),
        piece(first.expect("a segment")),
    ];
    let mpd = get(format!("/{film}/dash/main.mpd")).text();
    let picture = &mpd[mpd.find("contentType=\"video\"").expect("a picture")..];
    let media = quoted(picture, "media=\"").replace("$Number$", "1");
    let representation = quoted(picture, "<Representation id=\"");
    let named = |address: String| address.replace("$RepresentationID$", &representation);
    let dash = [
        piece(&named(quoted(picture, "initialization=\""))),
        piece(&named(media)),
    ];
    [hls.concat(), dash.concat()]
}

#[test]
fn ffmpeg_sees_rotation_and_pixel_shape_over_hls_and_dash_as_in_the_file() {
    let library = films::library(&[TURNED, PLAIN]);
    let server = Options::new(library.path()).patient().start();
    let file = |name: &str| films::film(name).path.to_str().expect("UTF-8").to_owned();
    let (turned, plain) = (shape(&file(TURNED)), shape(&file(PLAIN)));
    // The film is as its recipe says.
    assert_eq!((turned.width, turned.height), (320, 180));
    assert_eq!((turned.pixels.as_str(), turned.turned.abs()), ("4:3", 90.0));
    assert_eq!((plain.pixels.as_str(), plain.turned), ("1:1", 0.0));
    assert_eq!(shown(&file(TURNED)), ("180x320".into(), "3/4".into()));
    let dir = films::temp_dir("pieces");
    for (name, shape_of_file) in [(TURNED, &turned), (PLAIN, &plain)] {
        for (number, pieces) in first_pieces(&server, name).into_iter().enumerate() {
            let path = dir.path().join(format!("{name}{number}.mp4"));
            fs::write(&path, pieces).expect("a file");
            let path = path.to_str().expect("UTF-8");
            assert_eq!(&shape(path), shape_of_file, "{name}, {number}");
            assert_eq!(shown(path), shown(&file(name)), "{name}, {number}");
        }
        // ffmpeg's demuxers for HLS and DASH pass on the rotation, but not `pasp`: they take the pixel aspect ratio from
        // the parameter sets, which do not have it here.
        for address in ADDRESSES {
            let url = server.http_url(&format!("{name}/{address}"));
            let got = shape(&url);
            assert_eq!(got.turned, shape_of_file.turned, "{url}");
            assert_eq!(shown(&url).0, shown(&file(name)).0, "{url}");
            if address == "file" {
                assert_eq!(&got, shape_of_file, "{url}");
            }
        }
    }
}
