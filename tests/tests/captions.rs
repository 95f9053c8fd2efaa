//! Closed captions (CEA-608) are part of the video: every player gets them as they are in the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use reelway_tests::films::temp_dir;
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::server::Options;

const LIMIT: Duration = Duration::from_secs(60);
/// Access unit delimiter of H.264, with its start code.
const DELIMITER: [u8; 5] = [0, 0, 0, 1, 9];

/// Captions as CEA-608 transmits them: two bytes per picture, by picture number.
#[derive(Default)]
struct Captions(BTreeMap<usize, [u8; 2]>);

impl Captions {
    /// Transmits a text from picture `at` on; it is shown when it is complete. Control codes are
    /// sent twice.
    fn say(&mut self, at: usize, text: &str) {
        const BEGIN: [u8; 2] = [0x14, 0x20];
        const ERASE_HIDDEN: [u8; 2] = [0x14, 0x2e];
        const LAST_ROW: [u8; 2] = [0x14, 0x70];
        const SHOW: [u8; 2] = [0x14, 0x2f];
        let before = [BEGIN, ERASE_HIDDEN, LAST_ROW].into_iter();
        let letters = text.as_bytes().chunks(2);
        let letters = letters.map(|two| [two[0], two.get(1).copied().unwrap_or(0)]);
        let all = before
            .flat_map(|code| [code; 2])
            .chain(letters)
            .chain([SHOW; 2]);
        self.0.extend((at..).zip(all));
    }

    /// Erases the displayed text.
    fn erase(&mut self, at: usize) {
        self.0.extend((at..).zip([[0x14, 0x2c]; 2]));
    }

    /// Returns a picture's SEI message as a NAL unit (ATSC A/53, part 4, 6.2.3).
    fn unit(&self, picture: usize) -> Vec<u8> {
        let two = self.0.get(&picture).copied().unwrap_or([0, 0]);
        let [one, other] = two.map(|byte| byte | (u8::from(byte.count_ones() % 2 == 0) << 7));
        let head = [0xb5, 0, 0x31, b'G', b'A', b'9', b'4', 3, 0x41, 0xff];
        let body = [&head[..], &[0xfc, one, other, 0xff]].concat();
        [&[0, 0, 0, 1, 6, 4, body.len() as u8], &body[..], &[0x80]].concat()
    }
}

/// Returns the offset of the first slice of an access unit, with its start code.
fn first_slice(unit: &[u8]) -> usize {
    let starts = unit.windows(4);
    let is_slice = |four: &[u8]| four.starts_with(&[0, 0, 1]) && matches!(four[3] & 0x1f, 1 | 5);
    let at = starts.enumerate().find(|(_, four)| is_slice(four));
    let (at, _) = at.expect("a slice");
    at - usize::from(unit[at - 1] == 0)
}

/// Makes a film of four seconds with these captions, as an H.264 elementary stream.
fn make(path: &Path, captions: &Captions) {
    let shown = "testsrc2=s=320x180:r=25:d=4";
    let coded = ["-c:v", "libx264", "-g", "25", "-bf", "0"];
    let delimited = ["-bsf:v", "h264_metadata=aud=insert", "-f", "h264", "-"];
    let source = ["-v", "error", "-f", "lavfi", "-i", shown];
    let ran = run(ffmpeg([&source[..], &coded, &delimited].concat()), LIMIT);
    let stream = ran.expect("a picture").out;
    let mut begins: Vec<usize> = stream
        .windows(DELIMITER.len())
        .enumerate()
        .filter_map(|(at, bytes)| (bytes == DELIMITER).then_some(at))
        .collect();
    assert_eq!(begins.len(), 100, "a delimiter for each picture");
    begins.push(stream.len());
    let mut with = Vec::new();
    for (picture, ends) in begins.windows(2).enumerate() {
        let unit = &stream[ends[0]..ends[1]];
        let (head, slices) = unit.split_at(first_slice(unit));
        with.extend([head, &captions.unit(picture), slices].concat());
    }
    fs::write(path, with).expect("a film");
}

fn copy(input: &str, before: &[&str], output: &Path) {
    let output = output.display().to_string();
    let after = ["-map", "0:v", "-c", "copy", "-y", &output];
    let arguments = [&["-v", "error"], before, &["-i", input], &after].concat();
    run(ffmpeg(arguments), LIMIT).expect(input);
}

/// Returns the captions that ffmpeg decodes from a film's video, as SubRip.
fn shown(path: &Path) -> String {
    let source = format!("movie={}[out0+subcc]", path.display());
    let decoded = [
        "-f", "lavfi", "-i", &source, "-map", "0:s", "-f", "srt", "-",
    ];
    let ran = run(ffmpeg([&["-v", "error"], &decoded[..]].concat()), LIMIT);
    String::from_utf8(ran.expect("captions").out).expect("text")
}

#[test]
fn closed_captions_in_the_picture_come_over_every_protocol_as_they_are_in_the_file() {
    let dir = temp_dir("captions");
    let bare = dir.path().join("bare.h264");
    let mut captions = Captions::default();
    captions.say(5, "HELLO");
    captions.say(40, "GOODBYE");
    captions.erase(75);
    make(&bare, &captions);
    let films = temp_dir("captioned");
    let bare = bare.display().to_string();
    let progressive = films.path().join("progressive.mp4");
    copy(&bare, &["-r", "25"], &progressive);
    for name in ["stream.ts", "matroska.mkv"] {
        copy(
            &progressive.display().to_string(),
            &[],
            &films.path().join(name),
        );
    }
    let server = Options::new(films.path()).patient().start();
    server.wait_indexed();
    for (film, file) in [
        ("progressive", "progressive.mp4"),
        ("stream", "stream.ts"),
        ("matroska", "matroska.mkv"),
    ] {
        let of_file = shown(&films.path().join(file));
        assert!(
            of_file.contains("HELLO") && of_file.contains("GOODBYE"),
            "{film}: {of_file}"
        );
        let mut ways = vec![
            server.http_url(&format!("{film}/hls/main.m3u8")),
            server.http_url(&format!("{film}/dash/main.mpd")),
            server.rtsp_url(film),
        ];
        if film == "stream" {
            ways.push(server.http_url("stream/ts/main.m3u8"));
        }
        for way in ways {
            let received = dir.path().join("received.ts");
            copy(&way, &[], &received);
            let texts = |all: &str| {
                let lines = all.lines().filter(|line| line.contains("font"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(texts(&shown(&received)), texts(&of_file), "{way}");
        }
    }
}
