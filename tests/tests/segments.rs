//! ffmpeg receives every film over HLS and DASH as it is in its file: NAL units, access units of
//! the audio, decoded pictures, presentation times.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use reelway_media::{Index, IndexOptions, Kind, index_with};
use reelway_tests::films::{self, Film};
use reelway_tests::probe::{Hashes, Received, Wanted, receive, without_declared_sei};
use reelway_tests::server::{Options, Server};

/// Reads with `media` which samples there are and when each is shown; the tests of `media` compare
/// that with ffprobe.
fn index(film: &Film) -> Index {
    let file = File::open(&film.path).expect("the film");
    let read = |range: std::ops::Range<u64>, bytes: &mut Vec<u8>| {
        bytes.resize((range.end - range.start) as usize, 0);
        file.read_exact_at(bytes, range.start)
    };
    let len = file.metadata().expect("its length").len();
    index_with(read, len, IndexOptions::default()).expect("an index")
}

/// Presentation times of a track's samples in seconds.
fn times(index: &Index, kind: Kind) -> Option<Vec<f64>> {
    let track = index
        .title
        .tracks
        .iter()
        .position(|track| track.kind == kind)?;
    let of = &index.title.tracks[track];
    let mut dts = of.groups.first().map_or(0, |group| group.dts);
    let time = |sample: reelway_media::Sample| {
        let pts = dts + i64::from(sample.cts) + of.shift;
        dts += i64::from(sample.duration);
        pts as f64 / f64::from(of.timescale)
    };
    Some(index.tables[track].iter().map(time).collect())
}

/// Checks that the received times are the film's, except for a constant offset, and returns the
/// offset.
fn constant(what: &str, came: &Hashes, film: &[f64]) -> f64 {
    let came = came.seconds();
    let constant = came[0] - film[0];
    for (n, (came, film)) in came.iter().zip(film).enumerate() {
        let off = came - film - constant;
        assert!(off.abs() < 0.0001, "{what} {n} is off by {} ms", off * 1e3);
    }
    constant
}

/// Checks that `came` equals `film`, of which up to `end_may_miss` units may be missing at the end.
fn same_units<T: PartialEq>(what: &str, came: &[T], film: &[T], end_may_miss: usize) {
    let differs = came.iter().zip(film).position(|(came, film)| came != film);
    assert!(
        differs.is_none() && came.len() <= film.len() && came.len() + end_may_miss >= film.len(),
        "{what}: {} of {} came, the first that differs is {differs:?}",
        came.len(),
        film.len()
    );
}

/// ffmpeg's DASH reader stops shortly before the end of the shortest track, and loses the rest of
/// each track. Returns the most samples that it may lose.
fn lost_by_ffmpeg(times: &[f64], first_end: f64) -> usize {
    times.iter().filter(|time| **time > first_end - 0.3).count()
}

fn same(film: &Film, manifest: &str, url: &str) {
    let index = index(film);
    let picture = index.title.video().map(|(_, track)| match track.codec {
        reelway_media::Codec::H264(_) => "h264",
        reelway_media::Codec::H265(_) => "hevc",
        _ => "other",
    });
    let sound = index.title.audio().next().is_some();
    let limit = Duration::from_secs(60);
    let get = |before: &[&str], input: &str| {
        receive(&Wanted {
            before,
            input,
            picture,
            sound,
            decode: picture.is_some(),
            limit,
        })
    };
    let came: Received = get(&[], url);
    let whole: Received = get(film.read_whole(), film.path.to_str().expect("UTF-8"));
    let ends = [Kind::Video, Kind::Audio]
        .into_iter()
        .filter_map(|kind| times(&index, kind));
    let ends = ends.map(|times| times.into_iter().fold(0.0, f64::max));
    let first_end = ends.fold(f64::MAX, f64::min);
    let lost = |times: &[f64]| match manifest.starts_with("dash") {
        true => lost_by_ffmpeg(times, first_end),
        false => 0,
    };

    let mut constants = Vec::new();
    if let Some(times) = times(&index, Kind::Video) {
        let lost = lost(&times);
        let nals = |nals: Vec<Vec<u8>>| match picture {
            Some("hevc") => without_declared_sei(nals, &film.path),
            _ => nals,
        };
        assert!(
            came.pictures.frames.len() + lost >= times.len(),
            "pictures are missing"
        );
        let (nals, all) = (nals(came.nals), nals(whole.nals));
        let per_picture = all.len().div_ceil(times.len());
        same_units("NAL unit", &nals, &all, lost * per_picture);
        let (mut frames, all) = (came.frames.hashes(), whole.frames.hashes());
        if frames.len() < all.len() && lost > 0 {
            // The references of the last pictures may be lost, too.
            frames.truncate(frames.len().saturating_sub(4));
        }
        same_units("decoded picture", &frames, &all, lost + 4);
        constants.push(constant("picture", &came.pictures, &times));
    }
    if let Some(times) = times(&index, Kind::Audio) {
        let lost = lost(&times);
        let (units, all) = (came.sound.hashes(), whole.sound.hashes());
        let start = all
            .iter()
            .position(|unit| Some(unit) == units.first())
            .expect("the first sound frame");
        // Samples before the beginning may be left out; those that the edit list cuts off are left
        // out.
        let cut_off = all.len() - times.len();
        let left_out = start.saturating_sub(cut_off);
        assert!(
            times[..left_out].iter().all(|time| *time < 0.0),
            "sound is missing at the beginning"
        );
        let end = (start + times.len() - left_out).min(all.len());
        same_units("sound frame", &units, &all[start..end], lost);
        constants.push(constant("sound frame", &came.sound, &times[left_out..]));
    }
    if let [picture, sound] = constants[..] {
        let apart = sound - picture;
        assert!(apart.abs() < 0.0001, "sound is {} ms late", apart * 1e3);
    }
}

fn every_film(manifest: &str) {
    let films = films::playable();
    let names: Vec<&str> = films.iter().map(|film| film.name).collect();
    let library = films::library(&names);
    // Not paced: this is about bytes.
    let server: Server = Options::new(library.path()).set("http.ahead", 3600).start();
    server.wait_indexed();
    let left = Mutex::new(films);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(film) = { left.lock().unwrap().pop() } {
                    let url = server.http_url(&format!("{}/{manifest}", film.name));
                    let checked = catch_unwind(AssertUnwindSafe(|| same(&film, manifest, &url)));
                    if let Err(panic) = checked {
                        let reason = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        failed
                            .lock()
                            .unwrap()
                            .push(format!("{}: {reason}", film.name));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let count = failed.len();
    assert!(
        failed.is_empty(),
        "{count} films are not what they are in the file:\n{}",
        failed.join("\n")
    );
}

#[test]
fn every_film_arrives_over_hls_as_it_is() {
    every_film("hls/main.m3u8");
}

#[test]
fn every_film_arrives_over_dash_as_it_is() {
    every_film("dash/main.mpd");
}
