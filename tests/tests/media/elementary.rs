//! Elementary video streams have the same pictures at the same times as the films from which they
//! were extracted.

use std::path::Path;
use std::time::Duration;

use reelway_media::{Codec, Container, Index};
use reelway_tests::films::{self, temp_dir};
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::probe::without_declared_sei;

use super::transport::{bodies, units, view};
use super::{for_each, index, samples};

/// Runs ffmpeg with `-i FILM -map 0:v:0`, followed by `how`.
fn write(from: &Path, how: &[&str], to: &Path) {
    let input = from.to_str().expect("UTF-8");
    let mut arguments = vec!["-i", input, "-map", "0:v:0"];
    arguments.extend(how);
    arguments.push(to.to_str().expect("UTF-8"));
    run(ffmpeg(arguments), Duration::from_secs(60)).expect("a stream");
}

/// For each picture, its presentation time after the first in milliseconds, and whether decoders
/// may start at it.
fn shown(index: &Index) -> Vec<(f64, bool)> {
    let all = samples(index, 0);
    let first = all.iter().map(|sample| sample.3).min().unwrap_or(0);
    let scale = f64::from(index.title.tracks[0].timescale);
    all.iter()
        .map(|sample| ((sample.3 - first) as f64 * 1e3 / scale, sample.4))
        .collect()
}

/// Extracts a film's video, and compares the elementary stream with the film.
fn compare(film: &Path, how: &[&str], extension: &str) -> Result<(), String> {
    let dir = temp_dir("elementary");
    let path = dir.path().join("stream").with_extension(extension);
    write(film, how, &path);
    let (mine, theirs) = (index(&path), index(film));
    let mine = mine.map_err(|error| error.to_string())?;
    let theirs = theirs.map_err(|error| error.to_string())?;
    if mine.title.container != Container::ElementaryStream || !mine.title.notes.is_empty() {
        return Err(format!(
            "{:?}: {:?}",
            mine.title.container, mine.title.notes
        ));
    }
    let (own, other) = (shown(&mine), shown(&theirs));
    if own.len() != other.len() {
        return Err(format!("{} pictures of {}", own.len(), other.len()));
    }
    for (nth, (own, other)) in own.iter().zip(&other).enumerate() {
        if (own.0 - other.0).abs() > 1.0 || own.1 != other.1 {
            return Err(format!("picture {nth} is {own:?}, in the film {other:?}"));
        }
    }
    let own_view = view(&path, &mine);
    let own = bodies(&own_view, &mine, 0);
    let bytes = match theirs.title.view {
        Some(_) => view(film, &theirs),
        None => std::fs::read(film).expect("the film"),
    };
    let other = bodies(&bytes, &theirs, 0);
    let is_same = match &mine.title.tracks[0].codec {
        // Parameter sets are ignored: a film in MP4 has them elsewhere.
        Codec::H264(_) => units(&own, false) == units(&other, false),
        // So is SEI that ffmpeg copies from the film's configuration.
        Codec::H265(_) => {
            let plain = |samples: &[&[u8]]| without_declared_sei(units(samples, true), film);
            plain(&own) == plain(&other)
        }
        _ => own == other,
    };
    match is_same {
        true => Ok(()),
        false => Err("its pictures are others".into()),
    }
}

#[test]
fn pictures_are_shown_as_in_the_film_they_come_from() {
    let films = [
        ("transport", "h264"),
        ("transport_dolby", "h264"),
        ("transport_hevc", "hevc"),
        ("transport_mpeg2", "mpeg2video"),
        ("program_dvd", "mpeg2video"),
        ("system", "mpeg1video"),
        ("progressive", "h264"),
        ("hvc1", "hevc"),
    ];
    let all: Vec<_> = films.iter().map(|(name, _)| films::film(name)).collect();
    for_each(&all, |film| {
        let (_, format) = films
            .iter()
            .find(|(name, _)| *name == film.name)
            .expect("it");
        compare(&film.path, &["-c", "copy", "-f", format], "bin")
    });
}

#[test]
fn orders_and_rates_of_all_kinds_are_told() {
    let x264 = |rate: &str, parameters: &str| {
        format!(
            "-fps_mode cfr -r {rate} -c:v libx264 -preset veryfast -pix_fmt yuv420p -x264-params {parameters}"
        )
    };
    let x265 = |rate: &str, parameters: &str| {
        format!(
            "-fps_mode cfr -r {rate} -c:v libx265 -preset ultrafast -pix_fmt yuv420p -x265-params log-level=error:{parameters}"
        )
    };
    let ways = [
        (
            "h264",
            x264("24000/1001", "keyint=30:bframes=5:b-pyramid=normal"),
        ),
        // Open GOPs, where pictures refer across random access points; one sequence, whose counts
        // start over many times.
        ("h264", x264("60", "keyint=20:open-gop=1:bframes=3")),
        ("h264", x264("12.5", "keyint=250:bframes=0")),
        ("h264", x264("25", "keyint=25:bframes=2:tff=1")),
        (
            "hevc",
            x265(
                "30000/1001",
                "keyint=25:rc-lookahead=12:bframes=8:b-pyramid=1",
            ),
        ),
        ("hevc", x265("50", "keyint=25:no-open-gop=1:bframes=0")),
        (
            "mpeg2video",
            "-fps_mode cfr -r 30000/1001 -c:v mpeg2video -g 15 -bf 2".to_owned(),
        ),
        (
            "mpeg1video",
            "-fps_mode cfr -r 24 -c:v mpeg1video -g 12 -bf 0".to_owned(),
        ),
    ];
    let dir = temp_dir("orders");
    for (nth, (format, how)) in ways.iter().enumerate() {
        let film = dir.path().join(format!("{nth}.mkv"));
        write(
            &films::film("progressive").path,
            &how.split(' ').collect::<Vec<_>>(),
            &film,
        );
        compare(&film, &["-c", "copy", "-f", format], "bin").expect(how);
    }
}
