//! Chapters, compared with ffprobe's.

use std::fs;
use std::path::Path;
use std::process::Command;

use reelway_media::Chapter;
use reelway_tests::films;

use crate::index;

/// The input for ffmpeg: chapters with a name, with a non-ASCII one, and without.
const CHAPTERS: &str = ";FFMETADATA1\n\
    [CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=1000\ntitle=Opening\n\
    [CHAPTER]\nTIMEBASE=1/1000\nSTART=1000\nEND=2520\ntitle=Über Größen: 日本\n\
    [CHAPTER]\nTIMEBASE=1/1000\nSTART=2520\nEND=4000\n";

fn ffmpeg(arguments: &[&str], output: &Path) {
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-y"])
        .args(arguments)
        .arg(output)
        .status()
        .expect("ffmpeg");
    assert!(status.success(), "{arguments:?}");
}

/// Returns ffprobe's chapters: starts in milliseconds since the first picture, and names.
fn probed(film: &Path) -> Vec<(i64, Option<String>)> {
    let output = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-show_chapters",
            "-show_streams",
            "-of",
            "json",
        ])
        .arg(film)
        .output()
        .expect("ffprobe");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let seconds = |of: &serde_json::Value| {
        let time = of["start_time"].as_str().expect("a time");
        time.parse::<f64>().expect("a number")
    };
    let streams = told["streams"].as_array().expect("streams");
    let picture = streams
        .iter()
        .find(|stream| stream["codec_type"] == "video");
    let zero = seconds(picture.expect("a picture"));
    let chapters = told["chapters"].as_array().expect("chapters").iter();
    chapters
        .map(|chapter| {
            let start = (seconds(chapter) - zero).max(0.0);
            let name = chapter["tags"]["title"]
                .as_str()
                .filter(|name| !name.is_empty());
            ((start * 1000.0).round() as i64, name.map(str::to_owned))
        })
        .collect()
}

#[test]
fn chapters_are_those_that_ffprobe_finds() {
    let dir = films::temp_dir("chapters");
    let list = dir.path().join("chapters.txt");
    fs::write(&list, CHAPTERS).expect("a list");
    let list = list.to_str().expect("UTF-8");
    let film = films::film("faststart").path;
    let film = film.to_str().expect("UTF-8");
    let copy = [
        "-i",
        film,
        "-i",
        list,
        "-map_chapters",
        "1",
        "-c",
        "copy",
        "-t",
        "4",
    ];
    // Nero's list and a text track, the track alone, the list alone, QuickTime's chapters,
    // Matroska.
    let containers: [(&str, &[&str]); 5] = [
        ("both.mp4", &[]),
        ("track.mp4", &["-movflags", "+disable_chpl"]),
        ("front.mp4", &["-movflags", "+faststart"]),
        ("quicktime.mov", &[]),
        ("film.mkv", &[]),
    ];
    for (name, more) in containers {
        let path = dir.path().join(name);
        ffmpeg(&[&copy[..], more].concat(), &path);
        let index = index(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = index.title.chapters.iter().map(|Chapter { start, name }| {
            // MP4 counts in units of 100 ns, Matroska in ns, tracks in their own timescale.
            ((*start + 500_000) / 1_000_000, name.clone())
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found, probed(&path), "{name}");
        // ffmpeg leaves unnamed chapters out of tracks.
        assert!(found.len() >= 2, "{name}: {found:?}");
        assert!(
            index
                .title
                .notes
                .iter()
                .all(|note| !note.contains("chapters")),
            "{name}: {:?}",
            index.title.notes
        );
    }
}
