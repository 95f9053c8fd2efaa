//! Finding groups and samples by time and by number.

mod common;

use common::*;
use reelway_media::{
    Codec, Group, Kind, Nanos, PcmConfig, SECOND, SampleTable, SamplesError, Title, Track as Found,
};

const MS: Nanos = SECOND / 1000;

/// Video of long GOPs with B-pictures, so that groups begin with pictures of any kind.
fn long_gops() -> (Title, Vec<SampleTable>) {
    // Sync pictures at 0, 400, 800; groups are also cut at 256. Decoded 0, presented two later, one
    // earlier …
    let picture = Track::picture(1, 1000, 400).with_cts(|n| [40, 120, 0, 0][n % 4]);
    let found = index(&write(&[picture, Track::sound(2, 200)]).0).unwrap();
    (found.title, found.tables)
}

fn by_hand(track: &Found, at: Nanos) -> usize {
    let groups: Vec<_> = track.groups.iter().collect();
    let starts_by = |n: &usize| track.presentation(groups[*n].dts, groups[*n].cts) <= at;
    (0..groups.len())
        .filter(|n| groups[*n].sync)
        .rfind(starts_by)
        .unwrap_or(0)
}

#[test]
fn a_decoder_starts_at_the_last_sync_group_shown_by_then() {
    let (title, _) = long_gops();
    let track = &title.tracks[0];
    assert_eq!(
        track
            .groups
            .iter()
            .map(|group| (group.first, group.sync))
            .collect::<Vec<_>>(),
        [
            (0, true),
            (256, false),
            (400, true),
            (656, false),
            (800, true)
        ]
    );
    for at in (-1000..50_000).step_by(7) {
        assert_eq!(
            track.sync_group_at(at * MS),
            by_hand(track, at * MS),
            "{at} ms"
        );
    }
}

#[test]
fn the_sample_to_start_at_is_a_sync_sample_even_inside_a_group() {
    let mut all_sync = Track::picture(1, 100, 1);
    all_sync.without = vec![*b"stss"];
    let found = index(&write(&[all_sync, Track::sound(2, 200)]).0).unwrap();
    let [picture, sound] = &found.title.tracks[..] else {
        panic!("two tracks")
    };
    for (track, number, at, expected) in [
        (picture, 0, 0, 0),
        (picture, 0, 39 * MS, 0),
        (picture, 0, 40 * MS, 1),
        (picture, 0, 1999 * MS, 49),
        (picture, 0, 99 * SECOND, 99),
        (picture, 0, -SECOND, 0),
        (sound, 1, 0, 0),
        (sound, 1, SECOND, 46),
    ] {
        let start = track.sync_sample_at(number, at, &found.tables).unwrap();
        assert_eq!(
            (start.number, start.timed.sample),
            (
                expected,
                found.tables[number].iter().nth(expected as usize).unwrap()
            )
        );
        assert_eq!(track.group_of_sample(expected), Some(start.group));
    }
}

#[test]
fn groups_are_found_by_the_number_of_a_sample_and_by_decode_time() {
    let (title, tables) = long_gops();
    let track = &title.tracks[0];
    assert_eq!(
        [0, 255, 256, 399, 400, 999].map(|n| track.group_of_sample(n)),
        [0, 0, 1, 1, 2, 4].map(Some)
    );
    assert_eq!(track.group_of_sample(1000), None);
    let second = track.decode(track.groups.get(1).unwrap().dts);
    assert_eq!(
        [
            track.group_at(second - 1),
            track.group_at(second),
            track.group_at(-SECOND)
        ],
        [0, 1, 0]
    );
    let group = track.read_group(0, 1, &tables).unwrap();
    assert_eq!((group.len(), group[0].dts), (144, 256 * 40));
    assert!(track.read_group(0, 5, &tables).is_err());
    assert!(track.read_group(7, 0, &tables).is_err());
}

#[test]
fn a_group_of_samples_that_are_not_there_is_an_error_and_times_beyond_all_bounds_are_the_last() {
    let codec = Codec::Pcm(PcmConfig::new(16, false, 2).expect("a known size"));
    let mut track = Found::new(1, Kind::Audio, codec, 48_000);
    track.samples = 10;
    let group = |first, count| Group {
        first,
        count,
        dts: i64::MAX,
        cts: 1,
        bytes: 0,
        sync: true,
    };
    track.groups = [group(0, u32::MAX), group(9, 2), group(u32::MAX, 2)]
        .into_iter()
        .collect();
    let table = SampleTable::default();
    for number in 0..4 {
        let read = track.read_group(0, number, &vec![table.clone()]);
        assert!(
            matches!(read, Err(SamplesError::OutOfRange { .. })),
            "{number}"
        );
    }
    assert_eq!(track.presentation(i64::MAX, 1), track.decode(i64::MAX));
    assert_eq!((track.group_at(0), track.sync_group_at(0)), (0, 0));
}
