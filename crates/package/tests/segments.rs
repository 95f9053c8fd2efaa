//! The contents and times of segments are the film's.

mod common;

use std::sync::Arc;

use common::{Made, ReadBack, even, film, find, gops, picture, read_back, sound, u32_at};
use proptest::prelude::*;
use reelway_media::{Kind, SECOND, Sample, SampleTable, Title};
use reelway_package::{Options, Package, PackageError, PackagedTrack, Part, Segment};

fn package(tracks: Vec<Made>) -> (Package, Vec<SampleTable>) {
    let (title, tables) = film(tracks);
    (
        Package::new(title, &tables, Options::default()).unwrap(),
        tables,
    )
}

fn segments(track: &PackagedTrack, tables: &Vec<SampleTable>) -> Vec<Segment> {
    track
        .numbers()
        .map(|number| track.segment(number, tables).unwrap().unwrap())
        .collect()
}

/// Returns the seconds at which a track's segments begin.
fn starts(track: &PackagedTrack) -> Vec<f64> {
    track
        .numbers()
        .map(|number| track.start(number).unwrap() as f64 / SECOND as f64)
        .collect()
}

#[test]
fn pictures_are_cut_at_sync_samples_near_the_target() {
    // GOPs of 2 s: cut at every third.
    let (package, _) = package(vec![picture(1, 25, -1, gops(25 * 20, 50, 0, 1))]);
    assert_eq!(starts(&package.tracks()[0]), [0.0, 6.0, 12.0, 18.0]);
}

#[test]
fn of_two_sync_samples_the_nearer_one_is_taken() {
    // GOPs of 5 s: 5 is nearer to 6 than 10 is. GOPs of 4 s: 4 is as near as 8, and earlier.
    let (five, _) = package(vec![picture(1, 10, -1, gops(200, 50, 0, 1))]);
    assert_eq!(starts(&five.tracks()[0]), [0.0, 5.0, 10.0, 15.0]);
    let (four, _) = package(vec![picture(1, 10, -1, gops(200, 40, 0, 1))]);
    assert_eq!(starts(&four.tracks()[0]), [0.0, 4.0, 8.0, 12.0, 16.0]);
    let (ten, _) = package(vec![picture(1, 10, -1, gops(200, 100, 0, 1))]);
    assert_eq!(starts(&ten.tracks()[0]), [0.0, 10.0]);
}

#[test]
fn a_segment_ends_at_the_sync_sample_that_is_nearest_to_the_target() {
    // Sync samples, the film's end and the cuts, in tenths of seconds; the target is 60.
    for (syncs, end, cuts) in [
        // The earlier one if it is as near; then the later one may follow.
        (&[0, 20, 90][..], 140, &[0, 90][..]),
        (&[0, 30, 90], 120, &[0, 30, 90]),
        (&[0, 10, 100], 120, &[0, 100]),
        (&[0, 10, 110], 120, &[0, 10, 110]),
        (&[0, 60, 70, 160], 180, &[0, 60, 160]),
        (&[0, 60, 100, 160], 180, &[0, 60, 100, 160]),
        (&[0, 20, 40, 59, 61], 65, &[0, 59]),
        // The rest is cut once more if that is nearer to the target.
        (&[0, 50], 100, &[0, 50]),
        (&[0, 30], 90, &[0, 30]),
        (&[0, 30], 89, &[0]),
        (&[0, 20], 70, &[0]),
        (&[0, 50], 60, &[0]),
        (&[0, 59], 61, &[0, 59]),
        (&[0, 60, 90], 150, &[0, 60, 90]),
        (&[0, 60, 90], 149, &[0, 60]),
    ] {
        let mut samples = even(end, 0, 100, 1);
        for (nth, sample) in (0..).zip(&mut samples) {
            sample.sync = syncs.contains(&nth);
        }
        let (package, _) = package(vec![picture(1, 10, 0, samples)]);
        let expected: Vec<f64> = cuts.iter().map(|cut| f64::from(*cut) / 10.0).collect();
        assert_eq!(starts(&package.tracks()[0]), expected, "{syncs:?}, {end}");
    }
}

#[test]
fn no_segment_is_empty_though_two_sync_samples_are_shown_at_once() {
    let mut samples = even(151, 0, 100, 1);
    samples[0].duration = 0;
    for (nth, sample) in (0..).zip(&mut samples) {
        sample.sync = [0, 1, 131].contains(&nth);
    }
    let (package, _) = package(vec![picture(1, 10, 0, samples)]);
    assert_eq!(starts(&package.tracks()[0]), [0.0, 13.0]);
}

#[test]
fn a_moment_is_in_the_segment_that_begins_at_or_before_it() {
    let (package, _) = package(vec![picture(1, 25, -1, gops(25 * 20, 50, 0, 1))]);
    let track = &package.tracks()[0];
    for (at, number) in [
        (-1, 1),
        (0, 1),
        (6 * SECOND - 1, 1),
        (6 * SECOND, 2),
        (18 * SECOND, 4),
        (100 * SECOND, 4),
    ] {
        assert_eq!(track.number_at(at), number, "{at} ns");
    }
}

#[test]
fn segments_are_near_to_a_tenth_of_a_second_at_least_and_a_minute_at_most() {
    for (target, second) in [(0, 0.1), (SECOND / 2, 0.5), (100 * SECOND, 60.0)] {
        let (title, tables) = film(vec![sound(1, 48_000, 0, even(3500, 0, 300, 1024))]);
        let package = Package::new(title, &tables, Options { target }).unwrap();
        let starts = starts(&package.tracks()[0]);
        assert!(
            (0.0..0.022).contains(&(starts[1] - second)),
            "{target}: {starts:?}"
        );
    }
}

#[test]
fn a_film_of_too_many_segments_is_refused() {
    // Segments of a tenth of a second each.
    let of = |segments| {
        let (title, tables) = film(vec![sound(1, 10, 0, even(segments, 0, 1, 1))]);
        Package::new(title, &tables, Options { target: 0 })
    };
    assert!(of(1 << 18).is_ok());
    let error = of((1 << 18) + 1).unwrap_err();
    assert!(matches!(error, PackageError::Segments(1)), "{error}");
}

#[test]
fn a_film_without_samples_is_refused_and_a_track_without_any_is_left_out() {
    let (title, tables) = film(vec![sound(1, 48_000, 0, vec![])]);
    let error = Package::new(title, &tables, Options::default()).unwrap_err();
    assert!(matches!(error, PackageError::Empty));
    let (package, _) = package(vec![
        sound(3, 48_000, 0, vec![]),
        sound(5, 48_000, 0, even(100, 0, 300, 1024)),
    ]);
    assert_eq!(package.tracks().len(), 1);
    assert_eq!(package.track(5).map(|track| track.index), Some(1));
    assert!(package.track(3).is_none());
}

#[test]
fn sound_is_cut_where_the_picture_is() {
    let pictures = picture(1, 25, -1, gops(25 * 20, 50, 0, 1));
    let (package, _) = package(vec![
        pictures,
        sound(2, 48_000, -1024, even(940, 1 << 20, 300, 1024)),
    ]);
    let starts = starts(&package.tracks()[1]);
    assert_eq!(starts.len(), 4);
    for (start, cut) in starts.iter().zip([0.0, 6.0, 12.0, 18.0]) {
        assert!(
            (0.0..1024.0 / 48_000.0).contains(&(start - cut)),
            "the first access unit at or after {cut}: {start}"
        );
    }
}

#[test]
fn sound_alone_is_cut_at_multiples_of_the_target() {
    let (package, _) = package(vec![sound(1, 48_000, 0, even(1000, 0, 300, 1024))]);
    let starts = starts(&package.tracks()[0]);
    assert_eq!(starts.len(), 4);
    assert!(
        starts
            .iter()
            .zip([0.0, 6.0, 12.0, 18.0])
            .all(|(start, cut)| (0.0..0.022).contains(&(start - cut)))
    );
}

#[test]
fn sound_that_begins_late_has_no_empty_segments() {
    let pictures = picture(1, 25, -1, gops(25 * 20, 50, 0, 1));
    let late = sound(2, 48_000, 48_000 * 13, even(200, 1 << 20, 300, 1024));
    let (package, tables) = package(vec![pictures, late]);
    let track = &package.tracks()[1];
    assert_eq!(
        starts(track),
        [0.0],
        "13 s to 17.3 s: one segment, which begins with the film"
    );
    let read = read_back(&segments(track, &tables)[0]);
    assert_eq!(read.tfdt, [48_000 * 13], "tfdt begins with the delay");
    assert_eq!(track.duration(1), Some(package.tracks()[1].end()));
}

#[test]
fn priming_is_said_by_an_edit_list_and_stays() {
    let (package, tables) = package(vec![sound(1, 44_100, -2112, even(500, 0, 300, 1024))]);
    let track = &package.tracks()[0];
    assert_eq!(track.priming(), 2112);
    let moov = &track.init()[u32_at(track.init(), 0) as usize..];
    let elst = find(find(find(find(moov, b"moov"), b"trak"), b"edts"), b"elst");
    assert_eq!(
        elst,
        [
            &[1, 0, 0, 0, 0, 0, 0, 1][..],
            &[0; 8],
            &2112u64.to_be_bytes(),
            &[0, 1, 0, 0]
        ]
        .concat()
    );
    assert_eq!(read_back(&segments(track, &tables)[0]).tfdt, [0]);
}

#[test]
fn sound_from_long_before_the_film_is_left_out() {
    // The film was cut: the edit list begins at 10 s.
    let (package, tables) = package(vec![sound(1, 48_000, -480_000, even(1000, 0, 300, 1024))]);
    let track = &package.tracks()[0];
    assert!(
        (1..=12_000).contains(&track.priming()),
        "a quarter of a second at most: {}",
        track.priming()
    );
    let read = read_back(&segments(track, &tables)[0]);
    assert_eq!(
        read.film[0].start,
        (480_000 - 12_000u64).div_ceil(1024) * 300
    );
}

#[test]
fn pictures_before_the_sync_sample_at_the_beginning_are_left_out() {
    // Open GOP: after the sync sample (shown third) come two pictures that are shown before it.
    let cts = [2, -1, -1].map(|offset| (offset + 1) * 10);
    let mut samples = gops(50, 25, 0, 10);
    for (sample, cts) in samples.iter_mut().zip(cts) {
        sample.cts = cts;
    }
    let shift = -30; // the film begins with the sync sample
    let (package, tables) = package(vec![picture(1, 250, shift, samples)]);
    let read = read_back(&segments(&package.tracks()[0], &tables)[0]);
    assert_eq!(read.samples.len(), 48);
    assert_eq!((read.samples[0].sync, read.samples[0].shown), (true, 0));
    assert!(read.samples.iter().all(|sample| sample.shown >= 0));
}

#[test]
fn a_film_with_one_key_frame_is_one_segment_of_many_fragments() {
    let (package, tables) = package(vec![picture(1, 25, -1, gops(5000, 5000, 0, 1))]);
    let track = &package.tracks()[0];
    assert_eq!(track.numbers(), 1..=1);
    let read = read_back(&track.segment(1, &tables).unwrap().unwrap());
    assert_eq!(read.tfdt.len(), 5);
    assert_eq!(read.samples.len(), 5000);
}

#[test]
fn neighbouring_samples_are_one_range() {
    let (package, tables) = package(vec![picture(1, 25, -1, gops(150, 50, 77, 1))]);
    let read = read_back(&segments(&package.tracks()[0], &tables)[0]);
    assert_eq!(read.film.len(), 1);
    assert_eq!(read.film[0].start, 77);
}

#[test]
fn the_tables_are_small() {
    let two_hours = picture(1, 24, -1, gops(172_800, 48, 0, 1));
    let sound = sound(2, 48_000, -1024, even(337_500, 1 << 40, 300, 1024));
    let (package, _) = package(vec![two_hours, sound]);
    assert_eq!(package.tracks()[0].numbers(), 1..=1200);
    assert!(package.memory() < 60_000, "{} bytes", package.memory());
}

#[test]
fn a_number_that_is_not_there_is_none() {
    let (package, tables) = package(vec![picture(1, 25, -1, gops(500, 50, 0, 1))]);
    let track = &package.tracks()[0];
    for number in [0, 5, u32::MAX] {
        assert_eq!(track.segment_len(number), None);
        assert_eq!(track.start(number), None);
        assert!(track.segment(number, &tables).unwrap().is_none());
    }
}

/// Returns pictures in GOPs of any structure that a film may have, scattered over the file.
fn any_pictures() -> impl Strategy<Value = Made> {
    let gop = (1usize..40, 0usize..4, any::<u64>());
    let place = (
        prop::collection::vec(gop, 1..40),
        1u32..2000,
        0i64..2000,
        prop::bool::ANY,
    );
    place.prop_map(|(gops, duration, delay, odd)| {
        let mut samples: Vec<Sample> = Vec::new();
        let mut offset = 1000;
        for (length, reorder, seed) in gops {
            // Within a GOP, the presentation order is any permutation that keeps the sync sample
            // first and moves no picture by more than `reorder` places.
            let mut order: Vec<usize> = (0..length).collect();
            for n in (1..length).rev() {
                let other = n
                    .saturating_sub((seed as usize >> (n % 16)) % (reorder + 1))
                    .max(1);
                order.swap(n, other);
            }
            for (place, shown) in order.iter().enumerate() {
                let cts = (*shown as i64 - place as i64 + 40) * i64::from(duration);
                let size = 2 + (seed.rotate_left(place as u32) % 5000) as u32;
                offset += if odd && seed.rotate_left(place as u32) & 64 == 0 {
                    500
                } else {
                    0
                };
                samples.push(Sample {
                    offset,
                    size,
                    duration,
                    cts: cts as i32,
                    sync: place == 0,
                });
                offset += u64::from(size);
            }
        }
        let shift = delay - i64::from(duration) * 40;
        picture(1, 12_800, shift, samples)
    })
}

fn any_sound() -> impl Strategy<Value = Made> {
    let times = (
        1u32..3000,
        -3000i64..100_000,
        prop::collection::vec(2u32..2000, 1..50),
    );
    times.prop_map(|(count, shift, sizes)| {
        let mut offset = 1 << 30;
        let samples = (0..count).map(|n| {
            let size = sizes[n as usize % sizes.len()];
            offset += u64::from(size) + u64::from(n % 9 / 8 * 100);
            let duration = if n + 1 == count { 700 } else { 1024 };
            Sample {
                offset: offset - u64::from(size),
                size,
                duration,
                cts: 0,
                sync: true,
            }
        });
        sound(2, 48_000, shift, samples.collect())
    })
}

/// Checks the invariants of a track.
fn check(title: &Title, track: &PackagedTrack, tables: &Vec<SampleTable>) {
    let media = &title.tracks[track.index];
    let priming = track.priming() as i64;
    let mut told = Vec::new();
    let mut film = Vec::new();
    let mut before: Option<i64> = None;
    for number in track.numbers() {
        let segment = track.segment(number, tables).unwrap().unwrap();
        assert_eq!(
            track.segment_len(number),
            Some(segment.len),
            "known without the samples"
        );
        let read = read_back(&segment);
        let (tfdt, length) = track.decode_times(number).unwrap();
        assert_eq!(read.tfdt[0], tfdt as i64);
        let ends = (tfdt + length) as i64;
        let is_last = number == *track.numbers().end();
        let shown_until = (read.samples.iter()).map(|s| s.shown + i64::from(s.duration));
        if is_last {
            assert!(read.end <= ends);
            assert_eq!(
                shown_until.max(),
                Some(ends),
                "the film ends when its last sample does"
            );
        } else {
            assert_eq!(read.end, ends, "the manifest's duration is the samples'");
        }
        if let Some(before) = before {
            assert_eq!(read.tfdt[0], before, "segments follow each other");
        }
        before = Some(read.end);
        if media.kind == Kind::Video {
            assert!(read.samples[0].sync, "a segment begins with a sync sample");
            assert_eq!(
                read.samples.iter().map(|s| s.shown).min(),
                Some(read.tfdt[0]),
                "and where it is shown"
            );
        }
        assert!(
            read.samples
                .iter()
                .all(|sample| sample.shown >= sample.decoded),
            "no negative offsets"
        );
        told.extend(read.samples);
        film.extend(read.film);
    }
    // Every sample from the first on, in order, at the film's presentation time.
    let skipped = tables[track.index].len() as usize - told.len();
    let mut dts = 0;
    let mut bytes = film.into_iter().flatten();
    for (number, sample) in tables[track.index].iter().enumerate() {
        if number >= skipped {
            let told = &told[number - skipped];
            assert_eq!(
                told.shown - priming,
                dts + i64::from(sample.cts) + media.shift,
                "sample {number}"
            );
            assert_eq!(
                (told.size, told.sync),
                (sample.size, sample.sync),
                "sample {number}"
            );
            assert_eq!(bytes.next(), Some(sample.offset), "sample {number}");
            assert_eq!(
                bytes.nth(sample.size as usize - 2),
                Some(sample.bytes().end - 1),
                "sample {number}"
            );
        }
        dts += i64::from(sample.duration);
    }
    // The playlist's durations add up to the end.
    let sum: i64 = track
        .numbers()
        .map(|number| track.duration(number).unwrap())
        .sum();
    assert_eq!(sum, track.end());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_is_there_at_its_time(pictures in any_pictures(), sounds in any_sound()) {
        let (title, tables) = film(vec![pictures, sounds]);
        let package = Package::new(title.clone(), &tables, Options { target: SECOND }).unwrap();
        for track in package.tracks() {
            check(&title, track, &tables);
        }
    }

    #[test]
    fn settled_segments_stay_when_the_film_grows(
        pictures in any_pictures(), sounds in any_sound(), parts in (1u32..1000, 1u32..1000)
    ) {
        let part = |made: &Made, thousandths: u32| {
            // With pictures from the beginning, as sound is cut where pictures are.
            let count = made.samples.len() * thousandths as usize / 1000;
            made.samples[..count.max(1)].to_vec()
        };
        let before = film(vec![
            picture(1, 12_800, pictures.track.shift, part(&pictures, parts.0)),
            sound(2, 48_000, sounds.track.shift, part(&sounds, parts.1)),
        ]);
        let after = film(vec![pictures, sounds]);
        let package = |(title, tables): &(Arc<Title>, Vec<SampleTable>)| {
            Package::new(title.clone(), tables, Options { target: SECOND })
        };
        let (grown, first) = (package(&after).unwrap(), package(&before));
        for track in first.iter().flat_map(Package::tracks) {
            let same = grown.track(track.id).unwrap();
            for number in 1..=track.settled() {
                prop_assert_eq!(track.start(number), same.start(number));
                prop_assert_eq!(track.duration(number), same.duration(number));
                prop_assert_eq!(track.decode_times(number), same.decode_times(number));
                let (was, is) = (track.segment(number, &before.1), same.segment(number, &after.1));
                let read = |segment: Option<Segment>| read_back(&segment.unwrap());
                let (was, is) = (read(was.unwrap()), read(is.unwrap()));
                let shown = |read: &ReadBack| -> Vec<(i64, u32)> {
                    read.samples.iter().map(|sample| (sample.shown, sample.size)).collect()
                };
                prop_assert_eq!(shown(&was), shown(&is));
                prop_assert_eq!(was.film, is.film);
            }
        }
    }

    #[test]
    fn no_bytes_of_a_segment_are_no_pieces(pictures in any_pictures(), at in any::<u32>()) {
        let (title, tables) = film(vec![pictures]);
        let package = Package::new(title, &tables, Options { target: SECOND }).unwrap();
        let track = &package.tracks()[0];
        let at = u64::from(at) % (track.segment_len(1).unwrap() + 10);
        let mut slices = track.slices(1, at..at).unwrap();
        prop_assert_eq!(slices.next(track, &tables).unwrap(), None);
    }

    #[test]
    fn a_part_of_a_segment_is_that_part(pictures in any_pictures(), from in any::<u32>(), to in any::<u32>()) {
        let (title, tables) = film(vec![pictures]);
        let package = Package::new(title, &tables, Options { target: SECOND }).unwrap();
        let track = &package.tracks()[0];
        let whole = track.segment(1, &tables).unwrap().unwrap();
        let (from, to) = (u64::from(from) % (whole.len + 10), u64::from(to) % (whole.len + 10));
        let range = from.min(to)..from.max(to);
        let mut slices = track.slices(1, range.clone()).unwrap();
        let mut parts = Vec::new();
        while let Some(piece) = slices.next(track, &tables).unwrap() {
            prop_assert!(piece.len > 0);
            parts.extend(piece.parts);
        }
        prop_assert_eq!(flat(&parts), flat(&whole.parts)[range.start.min(whole.len) as usize..range.end.min(whole.len) as usize].to_vec());
        prop_assert_eq!(flat(&whole.slice(range).parts), flat(&parts));
    }
}

/// Returns one entry per byte: the value of a generated byte, the position of a film byte.
fn flat(parts: &[Part]) -> Vec<(bool, u64)> {
    let bytes = parts.iter().flat_map(|part| match part {
        Part::Inline(bytes) => bytes
            .iter()
            .map(|byte| (true, u64::from(*byte)))
            .collect::<Vec<_>>(),
        Part::Film(range) => range.clone().map(|at| (false, at)).collect(),
    });
    bytes.collect()
}
