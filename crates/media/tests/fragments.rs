//! Fragmented films, with all ways of addressing and timing their samples.

mod common;

use std::ops::Range;

use common::*;
use reelway_media::{Container, Index, IndexErrorKind, Kind};

/// One `trun`: its flags, the numbers of its table, and its samples' sizes.
struct Run {
    version: u8,
    flags: u32,
    first_flags: Option<u32>,
    words: Vec<u32>,
    sizes: Vec<u32>,
}

/// One `traf`.
struct Part {
    track: u32,
    time: Option<u64>,
    /// Additional flags of `tfhd` and their values.
    head: (u32, Vec<u32>),
    runs: Vec<Run>,
}

/// The form of data offsets.
#[derive(Clone, Copy, PartialEq)]
enum Base {
    Moof,
    Absolute,
    /// No base; only runs of the first `traf` state offsets from `moof`, later ones follow the
    /// previous data.
    Nothing,
    /// Like `Nothing`, but only the first run states where it begins.
    Silent,
}

const DURATION: u32 = 0x100;
const SIZE: u32 = 0x200;
const FLAGS: u32 = 0x400;
const CTS: u32 = 0x800;
const NON_SYNC: u32 = 0x0101_0000;

/// Appends `moof` and `mdat` of these parts to `film`, and sample positions to `places`.
fn fragment(film: &mut Vec<u8>, parts: &[Part], base: Base, places: &mut [Vec<Range<u64>>]) {
    let start = film.len() as u64;
    let build = |data: u64, places: Option<&mut [Vec<Range<u64>>]>| {
        let mut found = vec![vec![]; 9];
        let (mut at, mut trafs) = (data, vec![]);
        for (n, part) in parts.iter().enumerate() {
            let traf_start = at;
            let (more, values) = &part.head;
            let (flags, address) = match base {
                Base::Moof => (0x2_0000, vec![]),
                Base::Absolute => (1, vec![(start >> 32) as u32, start as u32]),
                _ => (0, vec![]),
            };
            let tfhd = full(
                b"tfhd",
                0,
                flags | more,
                &[&[part.track], &address[..], values].concat(),
            );
            let tfdt = part
                .time
                .map(|time| full(b"tfdt", 1, 0, &[(time >> 32) as u32, time as u32]));
            let mut runs = vec![];
            for (r, run) in part.runs.iter().enumerate() {
                let offset = match base {
                    Base::Silent if n > 0 || r > 0 => None,
                    Base::Nothing if n > 0 => Some((at - traf_start) as u32),
                    _ => Some((at - start) as u32),
                };
                let mut words = vec![run.sizes.len() as u32];
                words.extend(offset);
                words.extend(run.first_flags);
                words.extend(&run.words);
                let flags = run.flags
                    | u32::from(offset.is_some())
                    | if run.first_flags.is_some() { 4 } else { 0 };
                runs.extend(full(b"trun", run.version, flags, &words));
                for size in &run.sizes {
                    found[part.track as usize - 1].push(at..at + u64::from(*size));
                    at += u64::from(*size);
                }
            }
            trafs.extend(boxed(b"traf", &[&tfhd, &tfdt.unwrap_or_default(), &runs]));
        }
        if let Some(places) = places {
            places
                .iter_mut()
                .zip(found)
                .for_each(|(all, more)| all.extend(more));
        }
        (
            boxed(b"moof", &[&full(b"mfhd", 0, 0, &[1]), &trafs]),
            (at - data) as usize,
        )
    };
    let (moof, _) = build(start, None);
    let (moof, bytes) = build(start + moof.len() as u64 + 8, Some(places));
    film.extend(moof);
    film.extend(boxed(b"mdat", &[&vec![0; bytes]]));
}

/// The beginning of a film: `ftyp`, `moov` with empty tables, `trex` defaults for track 1 and 2.
fn head(tracks: &[Track], defaults: [[u32; 3]; 2]) -> Vec<u8> {
    let trex = |n: usize| {
        full(
            b"trex",
            0,
            0,
            &[&[n as u32 + 1, 1], &defaults[n][..]].concat(),
        )
    };
    let mvex = boxed(b"mvex", &[&trex(0), &trex(1)]);
    [ftyp(), moov(tracks, &vec![vec![]; tracks.len()], &mvex)].concat()
}

fn empty(mut track: Track) -> Track {
    track.samples = vec![];
    track.chunk = 1;
    track
}

fn tracks() -> [Track; 2] {
    [empty(Track::picture(1, 0, 1)), empty(Track::sound(2, 0))]
}

/// Two seconds of video in two runs, and audio.
fn parts(number: u64) -> Vec<Part> {
    let pictures = |flags: Option<u32>| Run {
        version: 0,
        flags: DURATION | SIZE,
        first_flags: flags,
        words: (0..5).flat_map(|n| [40, 50 + n]).collect(),
        sizes: (50..55).collect(),
    };
    let sound = Run {
        version: 0,
        flags: SIZE,
        first_flags: None,
        words: vec![9, 8, 7],
        sizes: vec![9, 8, 7],
    };
    vec![
        Part {
            track: 1,
            time: Some(400 * number),
            head: (0, vec![]),
            runs: vec![pictures(Some(0)), pictures(None)],
        },
        Part {
            track: 2,
            time: Some(3072 * number),
            head: (0, vec![]),
            runs: vec![sound],
        },
    ]
}

fn film(base: Base) -> (Vec<u8>, Vec<Vec<Range<u64>>>) {
    let mut film = head(&tracks(), [[40, 0, NON_SYNC], [1024, 0, NON_SYNC]]);
    let mut places = vec![vec![], vec![]];
    for number in 0..3 {
        fragment(&mut film, &parts(number), base, &mut places);
    }
    (film, places)
}

fn decode_times(index: &Index, track: usize) -> Vec<i64> {
    samples(index, track)
        .iter()
        .map(|sample| sample.1)
        .collect()
}

#[test]
fn data_is_found_however_it_is_addressed() {
    for base in [Base::Moof, Base::Absolute, Base::Nothing, Base::Silent] {
        let (film, expected) = film(base);
        let index = index(&film).unwrap();
        assert_eq!(index.title.container, Container::FragmentedMp4);
        assert_eq!(places(&index, 0), expected[0]);
        assert_eq!(places(&index, 1), expected[1]);
        assert_eq!(index.title.notes, Vec::<String>::new());
    }
}

#[test]
fn defaults_and_first_sample_flags_say_what_runs_leave_unsaid() {
    let index = index(&film(Base::Moof).0).unwrap();
    let sync: Vec<usize> = (0..30).filter(|n| samples(&index, 0)[*n].3).collect();
    assert_eq!(sync, [0, 10, 20], "first_sample_flags; the rest by trex");
    assert!(
        samples(&index, 1).iter().all(|sample| sample.3),
        "sound is all sync samples"
    );
    assert_eq!(
        decode_times(&index, 1),
        (0..9).map(|n| n * 1024).collect::<Vec<_>>()
    );
    assert_eq!(index.title.duration, 1_200_000_000);

    // tfhd has priority over trex; the run's table is empty.
    let run = Run {
        version: 0,
        flags: 0,
        first_flags: None,
        words: vec![],
        sizes: vec![33; 4],
    };
    let part = Part {
        track: 1,
        time: None,
        head: (0x8 | 0x10 | 0x20, vec![25, 33, 0]),
        runs: vec![run],
    };
    let mut film = head(&tracks(), [[40, 99, NON_SYNC], [0, 0, 0]]);
    let mut expected = vec![vec![], vec![]];
    fragment(&mut film, &[part], Base::Moof, &mut expected);
    let index = common::index(&film).unwrap();
    assert_eq!(places(&index, 0), expected[0]);
    assert_eq!(decode_times(&index, 0), [0, 25, 50, 75]);
    assert!(samples(&index, 0).iter().all(|sample| sample.3));
    assert_eq!(index.title.notes, ["track 2 (no samples) skipped"]);
}

#[test]
fn composition_offsets_may_be_signed_in_both_versions() {
    for version in [0, 1] {
        let cts = [40i32, 80, -40, 0];
        let words = cts
            .iter()
            .zip([0, NON_SYNC, NON_SYNC, NON_SYNC])
            .flat_map(|(cts, flags)| [10, flags, *cts as u32]);
        let run = Run {
            version,
            flags: SIZE | FLAGS | CTS,
            first_flags: None,
            words: words.collect(),
            sizes: vec![10; 4],
        };
        let part = Part {
            track: 1,
            time: Some(0),
            head: (0, vec![]),
            runs: vec![run],
        };
        let mut film = head(&tracks(), [[40, 0, 0], [0, 0, 0]]);
        fragment(&mut film, &[part], Base::Moof, &mut [vec![], vec![]]);
        let index = index(&film).unwrap();
        let times: Vec<i64> = samples(&index, 0).iter().map(|sample| sample.2).collect();
        assert_eq!(
            times,
            [0, 80, 0, 80],
            "version {version}; zero is the first picture"
        );
    }
}

#[test]
fn a_fragments_own_time_puts_the_last_duration_right() {
    let mut film = head(&tracks(), [[40, 0, NON_SYNC], [1024, 0, 0]]);
    let mut places = vec![vec![], vec![]];
    // The second one begins 60 ms late, the third 30 ms early, the fourth an hour later.
    for time in [0, 460, 830, 3_600_000] {
        let mut parts = parts(0);
        parts[0].time = Some(time);
        parts.truncate(1);
        fragment(&mut film, &parts, Base::Moof, &mut places);
    }
    let index = index(&film).unwrap();
    let times = decode_times(&index, 0);
    assert_eq!(
        (times[9], times[10], times[19], times[20], times[30]),
        (360, 460, 820, 830, 3_600_000)
    );
}

#[test]
fn a_recording_that_begins_long_after_zero_begins_at_zero() {
    let mut film = head(&tracks(), [[40, 0, NON_SYNC], [1024, 0, 0]]);
    let since_1970 = 1_700_000_000;
    let mut places = vec![vec![], vec![]];
    let mut parts = parts(0);
    parts[0].time = Some(since_1970 * 1000);
    parts[1].time = Some(since_1970 * 48000 + 480);
    fragment(&mut film, &parts, Base::Moof, &mut places);
    let index = index(&film).unwrap();
    assert_eq!((samples(&index, 0)[0].2, samples(&index, 1)[0].2), (0, 480));
    assert_eq!(index.title.duration, 400_000_000);
}

#[test]
fn samples_of_moov_come_before_those_of_fragments() {
    let mut tracks = [Track::picture(1, 5, 5)];
    tracks[0].chunk = 5;
    let mvex = boxed(b"mvex", &[&full(b"trex", 0, 0, &[1, 1, 40, 0, NON_SYNC])]);
    let (mut film, mut places) = write_with(&tracks, &mvex);
    let mut parts = parts(0);
    parts.truncate(1);
    parts[0].time = Some(200);
    fragment(&mut film, &parts, Base::Moof, &mut places);
    let index = index(&film).unwrap();
    assert_eq!(common::places(&index, 0), places[0]);
    assert_eq!(
        decode_times(&index, 0),
        (0..15).map(|n| n * 40).collect::<Vec<_>>()
    );
}

#[test]
fn index_boxes_and_unknown_tracks_are_passed_over() {
    let (film, places) = film(Base::Silent);
    let moof = film.windows(4).position(|kind| kind == b"moof").unwrap() - 4;
    // Between moov and the first moof: data is addressed from moof, so all of it may move.
    let more = [
        boxed(b"sidx", &[&[0; 40]]),
        boxed(b"styp", &[b"msdh"]),
        boxed(b"emsg", &[&[7; 90]]),
    ]
    .concat();
    let moved = [&film[..moof], &more, &film[moof..]].concat();
    let by = more.len() as u64;
    let expected: Vec<_> = places[0]
        .iter()
        .map(|range| range.start + by..range.end + by)
        .collect();
    assert_eq!(common::places(&index(&moved).unwrap(), 0), expected);

    // Track 1 has an unknown codec: only the length of its data matters.
    let mut unknown = tracks();
    unknown[0].entries = vec![visual(b"zzzz", &[])];
    let mut film = head(&unknown, [[40, 0, NON_SYNC], [1024, 0, NON_SYNC]]);
    let mut expected = vec![vec![], vec![]];
    fragment(&mut film, &parts(0), Base::Silent, &mut expected);
    let index = index(&film).unwrap();
    assert_eq!(
        index
            .title
            .tracks
            .iter()
            .map(|track| track.kind)
            .collect::<Vec<_>>(),
        [Kind::Audio]
    );
    assert_eq!(common::places(&index, 0), expected[1]);
}

#[test]
fn runs_that_claim_more_than_the_file_holds_are_refused() {
    let claim = |words: Vec<u32>, flags: u32, size: u32| {
        let mut film = head(&tracks(), [[40, size, NON_SYNC], [0, 0, 0]]);
        let traf = [
            full(b"tfhd", 0, 0x2_0000, &[1]),
            full(b"trun", 0, flags, &words),
        ]
        .concat();
        film.extend(boxed(b"moof", &[&boxed(b"traf", &[&traf])]));
        film.extend(boxed(b"mdat", &[&[0; 1000]]));
        index(&film).unwrap_err()
    };
    let error = claim(vec![u32::MAX, 0], 1, 1);
    assert_eq!(
        (error.kind, error.path.as_str()),
        (IndexErrorKind::Incomplete, "moof 1/traf 1/trun 1")
    );
    assert!(claim(vec![u32::MAX, 0], 1, 0).problem.contains("no size"));
    assert!(
        claim(vec![u32::MAX, 0], 1 | SIZE, 0)
            .problem
            .contains("17179869180 bytes")
    );
    let error = claim(vec![1, 0, 100_000], 1 | SIZE, 0);
    assert!(
        error.problem.contains("sample 1 takes 100000 bytes"),
        "{error}"
    );
    let error = claim(vec![1, 0x8000_0000, 10], 1 | SIZE, 0);
    assert!(error.problem.contains("data offset -2147483648"), "{error}");
}

#[test]
fn a_film_ends_before_a_fragment_that_is_cut_off_unless_it_has_no_other() {
    let (film, _) = film(Base::Moof);
    let moofs: Vec<usize> = (film.windows(4).enumerate())
        .filter(|(_, kind)| *kind == b"moof")
        .map(|(at, _)| at - 4)
        .collect();
    let [first, second, third] = moofs[..] else {
        panic!("{moofs:?}");
    };
    let whole = index(&film[..third]).unwrap();
    for end in [third + 20, third + 60, film.len() - 1] {
        let cut = index(&film[..end]).unwrap();
        assert_eq!(cut.tables, whole.tables, "{end}");
        let note = format!("the fragment at byte {third} is cut off; the film ends there");
        assert_eq!(cut.title.notes, [note], "{end}");
    }
    let error = index(&film[..second - 1]).unwrap_err();
    assert_eq!(error.kind, IndexErrorKind::Incomplete, "{error}");
    let error = index(&film[..first + 20]).unwrap_err();
    assert_eq!(
        (error.kind, error.path.as_str(), error.offset),
        (IndexErrorKind::Incomplete, "moof", first as u64)
    );
}
