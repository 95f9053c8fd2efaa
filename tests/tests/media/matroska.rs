//! Films in Matroska have the frames that ffmpeg finds in them, at the times that the same streams
//! have in MP4.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use reelway_media::{Index, Kind, Track};
use reelway_tests::films::{self, Film, temp_dir};
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::probe::Edits;

use super::transport::view;
use super::{for_each, good, index, playable, samples};

fn matroska() -> Vec<Film> {
    let mut films = films::playable();
    films.retain(|film| !film.is_mp4());
    assert!(films.len() >= 4);
    films
}

/// Returns the size of each frame of a track and the bytes of all of them, according to the index.
fn frames(film: &Film, index: &Index, track: usize) -> (Vec<u32>, Vec<u8>) {
    let file = File::open(&film.path).expect("the film");
    let (mut sizes, mut all) = (Vec::new(), Vec::new());
    for sample in samples(index, track) {
        let from = all.len();
        all.resize(from + sample.1 as usize, 0);
        file.read_exact_at(&mut all[from..], sample.0)
            .expect("its bytes");
        sizes.push(sample.1);
    }
    (sizes, all)
}

#[test]
fn frames_are_those_that_ffmpeg_finds() {
    for_each(&matroska(), |film| {
        let index = index(&film.path).map_err(|error| error.to_string())?;
        let dir = temp_dir("frames");
        let path = dir.path().join("frames");
        for (number, stream) in playable(film, Edits::Apply).iter().enumerate() {
            remux(film, &["-map", &format!("0:{number}"), "-f", "data"], &path);
            let theirs = std::fs::read(&path).expect("frames");
            let sizes: Vec<u32> = stream.packets.iter().map(|packet| packet.size).collect();
            if frames(film, &index, number) != (sizes, theirs) {
                return Err(format!("track {} differs", stream.id));
            }
            let keys = stream.packets.iter().map(|packet| packet.key);
            if !samples(&index, number)
                .into_iter()
                .map(|sample| sample.4)
                .eq(keys)
            {
                return Err(format!("track {}: other sync samples", stream.id));
            }
        }
        Ok(())
    });
}

/// Writes the film's streams to a file with these ffmpeg options.
fn remux(film: &Film, how: &[&str], to: &Path) {
    let arguments = ["-i".into(), film.path.as_os_str().to_owned()];
    let how = ["-c", "copy"].iter().chain(how).map(OsString::from);
    let to = [to.as_os_str().to_owned()];
    let command = ffmpeg(arguments.into_iter().chain(how).chain(to));
    run(command, Duration::from_secs(60)).expect(film.name);
}

/// Presentation and decode times of a track in milliseconds, from its first presentation time.
fn times(index: &Index, number: usize) -> Vec<(f64, f64)> {
    let track: &Track = &index.title.tracks[number];
    let all = samples(index, number);
    let first = all.iter().map(|sample| sample.3).min().unwrap_or(0);
    let ms = |ticks: i64| (ticks - first) as f64 * 1e3 / f64::from(track.timescale);
    all.iter()
        .map(|sample| (ms(sample.3), ms(sample.2)))
        .collect()
}

#[test]
fn times_are_those_of_the_same_streams_in_mp4_within_a_millisecond() {
    let mut films = matroska();
    // ffmpeg does not write VP8 into MP4.
    films.retain(|film| !film.name.starts_with("matroska_vp8"));
    for_each(&films, |film| {
        let dir = temp_dir("remuxed");
        let path = dir.path().join("same.mp4");
        remux(film, &["-strict", "-2"], &path);
        let mine = index(&film.path).map_err(|error| error.to_string())?;
        let same = index(&path).map_err(|error| error.to_string())?;
        for (number, track) in mine.title.tracks.iter().enumerate() {
            let (mine, same) = (times(&mine, number), times(&same, number));
            if mine.len() != same.len() {
                return Err(format!(
                    "track {}: {} frames, in MP4 {}",
                    track.id,
                    mine.len(),
                    same.len()
                ));
            }
            // The same film in MP4 has the same rounded times, except for audio, whose rounding is
            // undone here.
            let far = mine
                .iter()
                .zip(&same)
                .find(|(mine, same)| (mine.0 - same.0).abs() > 1.0);
            if let Some((mine, same)) = far {
                return Err(format!(
                    "track {}: shown at {} ms, in MP4 at {}",
                    track.id, mine.0, same.0
                ));
            }
            if mine.iter().any(|(shown, decoded)| decoded > shown) {
                return Err(format!(
                    "track {}: a frame is decoded after it is shown",
                    track.id
                ));
            }
        }
        Ok(())
    });
}

#[test]
fn sound_has_frames_of_its_codecs_length() {
    let index = good(&films::film("matroska_microseconds"));
    let sound = index
        .title
        .tracks
        .iter()
        .position(|track| track.kind == Kind::Audio);
    let sound = sound.expect("sound");
    assert_eq!(index.title.tracks[sound].timescale, 44_100);
    let durations: Vec<u32> = index.tables[sound]
        .iter()
        .map(|sample| sample.duration)
        .collect();
    assert!(
        durations.iter().all(|duration| *duration == 1024),
        "{durations:?}"
    );
}

#[test]
fn films_without_what_frames_begin_with_are_those_that_they_were_made_of() {
    for (stripped, whole) in [
        ("matroska_stripped", "matroska_dolby"),
        ("matroska_stripped_picture", "matroska_mpeg4"),
    ] {
        let (stripped, whole) = (films::film(stripped), films::film(whole));
        let (mine, theirs) = (good(&stripped), good(&whole));
        let view = view(&stripped.path, &mine);
        let file = std::fs::read(&whole.path).expect("the film");
        let put = mine.title.tracks.iter().map(|track| track.stripped.len());
        assert!(put.sum::<usize>() > 0);
        assert_eq!(theirs.title.view, None);
        assert_eq!(mine.title.tracks.len(), theirs.title.tracks.len());
        let bytes = |of: &[u8], at: u64, size: u32| of[at as usize..][..size as usize].to_vec();
        for number in 0..theirs.title.tracks.len() {
            let codec = |index: &Index| index.title.tracks[number].codec.clone();
            assert_eq!(codec(&mine), codec(&theirs));
            let (mine, theirs) = (samples(&mine, number), samples(&theirs, number));
            assert_eq!(mine.len(), theirs.len(), "{}", stripped.name);
            for (mine, theirs) in mine.iter().zip(&theirs) {
                let (size, times) = (mine.1, (mine.2, mine.3, mine.4));
                assert_eq!((size, times), (theirs.1, (theirs.2, theirs.3, theirs.4)));
                assert!(bytes(&view, mine.0, size) == bytes(&file, theirs.0, size));
            }
        }
    }
}
