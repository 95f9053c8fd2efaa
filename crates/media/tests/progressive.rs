//! Films with all samples in `moov`, in every layout that the standard and its writers use.

mod common;

use common::*;
use reelway_media::{Container, IndexErrorKind, IndexOptions, Kind};

#[test]
fn samples_are_found_where_they_lie() {
    let tracks = [Track::picture(1, 30, 12), Track::sound(2, 50)];
    let (film, where_they_lie) = write(&tracks);
    let index = index(&film).unwrap();
    assert_eq!(index.title.container, Container::Mp4);
    assert_eq!(
        index
            .title
            .tracks
            .iter()
            .map(|track| track.kind)
            .collect::<Vec<_>>(),
        [Kind::Video, Kind::Audio]
    );
    for (track, expected) in where_they_lie.iter().enumerate() {
        assert_eq!(&places(&index, track), expected);
    }
    let sync: Vec<usize> = (0..30).filter(|n| samples(&index, 0)[*n].3).collect();
    assert_eq!(sync, [0, 12, 24]);
    assert_eq!(index.title.notes, Vec::<String>::new());
    assert_eq!(index.title.duration, 1_200_000_000);
}

#[test]
fn moov_may_lie_behind_the_media_and_among_several_mdats() {
    let tracks = [Track::picture(1, 30, 12), Track::sound(2, 50)];
    let head = [
        ftyp(),
        boxed(b"free", &[&[0; 100]]),
        boxed(b"mdat", &[&[1; 70_000]]),
    ]
    .concat();
    let (media, offsets, expected) = media(&tracks, head.len() as u64 + 16);
    let film = [
        head,
        wide(b"mdat", &[&media]),
        boxed(b"mdat", &[]),
        moov(&tracks, &offsets, &[]),
    ]
    .concat();
    let index = index(&film).unwrap();
    assert_eq!([places(&index, 0), places(&index, 1)], expected[..]);
}

#[test]
fn the_last_box_may_reach_to_the_end_of_the_file() {
    let tracks = [Track::picture(1, 30, 12)];
    let (mut film, expected) = write(&tracks);
    let mdat = film.windows(4).position(|kind| kind == b"mdat").unwrap() - 4;
    film[mdat..mdat + 4].fill(0);
    assert_eq!(places(&index(&film).unwrap(), 0), expected[0]);

    let (media, offsets, expected) = media(&tracks, ftyp().len() as u64 + 8);
    let mut film = [
        ftyp(),
        boxed(b"mdat", &[&media]),
        moov(&tracks, &offsets, &[]),
    ]
    .concat();
    let moov = film.windows(4).position(|kind| kind == b"moov").unwrap() - 4;
    film[moov..moov + 4].fill(0);
    assert_eq!(places(&index(&film).unwrap(), 0), expected[0]);
}

#[test]
fn moov_and_the_boxes_in_it_may_have_64_bit_sizes() {
    let tracks = [Track::picture(1, 30, 12)];
    let head = ftyp().len() + moov(&tracks, &[vec![0; 6]], &[]).len() + 8;
    let (media, offsets, expected) = media(&tracks, head as u64 + 8);
    let narrow = moov(&tracks, &offsets, &[]);
    let film = [
        ftyp(),
        wide(b"moov", &[&narrow[8..]]),
        boxed(b"mdat", &[&media]),
    ]
    .concat();
    assert_eq!(places(&index(&film).unwrap(), 0), expected[0]);
}

#[test]
fn chunk_offsets_may_have_64_bits() {
    let mut track = Track::picture(1, 30, 12);
    track.wide_chunks = true;
    let (film, expected) = write(&[track]);
    assert_eq!(places(&index(&film).unwrap(), 0), expected[0]);
}

#[test]
fn sizes_may_take_4_8_or_16_bits_or_be_all_the_same() {
    for bits in [4, 8, 16, 32] {
        let mut track = Track::picture(1, 31, 12);
        for (n, spec) in track.samples.iter_mut().enumerate() {
            spec.size = if bits == 32 { 77 } else { 1 + n as u32 % 15 };
        }
        let sizes: Vec<u8> = track.samples.iter().map(|spec| spec.size as u8).collect();
        let table = match bits {
            4 => sizes
                .chunks(2)
                .map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0))
                .collect(),
            8 => sizes,
            _ => sizes.iter().flat_map(|size| [0, *size]).collect(),
        };
        track.without = vec![*b"stsz"];
        let track = track.with_table(match bits {
            32 => full(b"stsz", 0, 0, &[77, 31]),
            _ => boxed(b"stz2", &[&be(&[0, bits, 31]), &table]),
        });
        let (film, expected) = write(&[track]);
        assert_eq!(
            places(&index(&film).unwrap(), 0),
            expected[0],
            "{bits} bits"
        );
    }
}

#[test]
fn chunks_may_hold_different_numbers_of_samples() {
    let mut track = Track::picture(1, 12, 12);
    track.chunk = 1;
    // Chunks of 3, 3, 1, 5: each begins where its first sample's single-sample chunk would.
    let (film, expected) = write(&[track.clone()]);
    let offsets: Vec<u32> = [0, 3, 6, 7]
        .map(|n: usize| expected[0][n].start as u32)
        .to_vec();
    let stsc = table(b"stsc", 0, 3, &[1, 3, 1, 3, 1, 1, 4, 5, 1]);
    let stco = table(b"stco", 0, 4, &offsets);
    let padding = boxed(b"free", &[&[0; 12 * 4 - 4 * 4 - 24 - 8]]);
    let (other, _) = write_with(&[track.with_table(stsc).with_table(stco)], &padding);
    assert_eq!(other.len(), film.len(), "the media lie where they were");
    assert_eq!(places(&index(&other).unwrap(), 0), expected[0]);
}

#[test]
fn without_a_sync_table_every_sample_is_one() {
    let mut track = Track::picture(1, 30, 30);
    track.without = vec![*b"stss"];
    let index = index(&write(&[track]).0).unwrap();
    assert!(samples(&index, 0).iter().all(|sample| sample.3));
    assert!(index.title.tracks[0].groups.len() < 5, "not a group each");
}

#[test]
fn sync_samples_come_from_partial_sync_and_sample_groups_too() {
    let track = Track::picture(1, 30, 30)
        .with_table(table(b"stss", 0, 1, &[1]))
        .with_table(table(b"stps", 0, 1, &[11]))
        .with_table(boxed(
            b"sbgp",
            &[&[0; 4], b"rap ", &be(&[3, 20, 0, 1, 1, 9, 0])],
        ))
        .with_table(boxed(b"sbgp", &[&[0; 4], b"roll", &be(&[1, 30, 1])]));
    let index = index(&write(&[track]).0).unwrap();
    let sync: Vec<usize> = (0..30).filter(|n| samples(&index, 0)[*n].3).collect();
    assert_eq!(sync, [0, 10, 20]);
}

#[test]
fn a_sync_table_that_counts_from_0_is_understood() {
    let track = Track::picture(1, 30, 30).with_table(table(b"stss", 0, 3, &[0, 10, 20]));
    let index = index(&write(&[track]).0).unwrap();
    let sync: Vec<usize> = (0..30).filter(|n| samples(&index, 0)[*n].3).collect();
    assert_eq!(sync, [0, 10, 20]);
}

#[test]
fn composition_offsets_may_be_signed_whatever_their_version_says() {
    // Decoded I P B, presented I B P.
    let cts = |n: usize| [0, 40, -40][n % 3];
    for version in [0, 1] {
        let track = Track::picture(1, 6, 6).with_cts(cts);
        let words: Vec<u32> = (0..6).flat_map(|n| [1, cts(n) as u32]).collect();
        let track = track.with_table(table(b"ctts", version, 6, &words));
        let index = index(&write(&[track]).0).unwrap();
        let times: Vec<(i64, i64)> = samples(&index, 0)
            .iter()
            .map(|sample| (sample.1, sample.2))
            .collect();
        assert_eq!(
            times,
            [
                (0, 0),
                (40, 80),
                (80, 40),
                (120, 120),
                (160, 200),
                (200, 160)
            ],
            "version {version}"
        );
    }
}

#[test]
fn a_variable_frame_rate_is_kept() {
    let mut track = Track::picture(1, 5, 5);
    for (spec, duration) in track.samples.iter_mut().zip([40, 10, 500, 1, 40]) {
        spec.duration = duration;
    }
    let index = index(&write(&[track]).0).unwrap();
    assert_eq!(
        samples(&index, 0)
            .iter()
            .map(|sample| sample.1)
            .collect::<Vec<_>>(),
        [0, 40, 50, 550, 551]
    );
    assert_eq!(index.title.duration, 591_000_000);
}

#[test]
fn tables_that_end_early_are_put_right_with_a_note() {
    let track = Track::picture(1, 30, 12).with_table(table(b"stts", 0, 1, &[20, 40]));
    let found = index(&write(&[track]).0).unwrap();
    assert_eq!(found.title.duration, 1_200_000_000);
    assert!(
        found.title.notes[0].contains("stts times 20 of 30 samples"),
        "{:?}",
        found.title.notes
    );

    let track = Track::picture(1, 30, 12).with_table(table(b"stsc", 0, 1, &[1, 4, 1]));
    let found = index(&write(&[track]).0).unwrap();
    assert_eq!(found.title.tracks[0].samples, 24);
    assert!(
        found.title.notes[0].contains("6 of 30 samples have no place"),
        "{:?}",
        found.title.notes
    );
}

#[test]
fn samples_behind_the_end_of_the_file_mean_that_it_is_not_whole() {
    let (film, _) = write(&[Track::picture(1, 30, 12)]);
    let error = index(&film[..film.len() - 1]).unwrap_err();
    assert_eq!(
        (error.kind, error.path.as_str()),
        (
            IndexErrorKind::Incomplete,
            "moov/trak 1/mdia/minf/stbl/stco"
        )
    );
    assert!(
        error.to_string().contains("sample 30 takes 129 bytes"),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .ends_with("wait until it is copied whole, or copy it again"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_no_film_or_not_yet_one_is_told_so() {
    let kind = |bytes: &[u8]| index(bytes).unwrap_err().kind;
    assert_eq!(kind(b""), IndexErrorKind::Incomplete);
    assert_eq!(kind(&[0; 5000]), IndexErrorKind::Incomplete);
    assert_eq!(kind(&ftyp()), IndexErrorKind::Incomplete);
    assert_eq!(
        kind(b"RIFF\x24\x08\0\0AVI LIST"),
        IndexErrorKind::UnknownContainer
    );
    assert_eq!(kind(b"#EXTM3U\n#EXTINF"), IndexErrorKind::UnknownContainer);
}

#[test]
fn scraps_behind_the_film_are_passed_over() {
    let tracks = [Track::picture(1, 30, 12)];
    for scraps in [&b"end"[..], b"\0\0\0\0\0\0\0\0\0", b"this is no box at all"] {
        let fragmented = boxed(b"mvex", &[&full(b"trex", 0, 0, &[1, 1, 0, 0, 0])]);
        let (film, expected) = write_with(&tracks, &fragmented);
        let index = index(&[&film, scraps].concat()).unwrap();
        assert_eq!(places(&index, 0), expected[0]);
        assert_eq!(
            index.title.notes,
            [format!("{} bytes after the film skipped", scraps.len())]
        );
    }
}

#[test]
fn limits_are_kept() {
    let (film, _) = write(&[Track::picture(1, 30, 12), Track::sound(2, 50)]);
    let options = IndexOptions {
        max_samples: 79,
        ..IndexOptions::default()
    };
    let error = index_with(&film, options).unwrap_err();
    assert_eq!(
        (error.kind, error.path.as_str()),
        (IndexErrorKind::TooLarge, "moov/trak 2/mdia/minf/stbl/stsz")
    );
    assert!(
        index_with(
            &film,
            IndexOptions {
                max_samples: 80,
                ..options
            }
        )
        .is_ok()
    );
    let error = index_with(
        &film,
        IndexOptions {
            max_box: 1000,
            ..IndexOptions::default()
        },
    )
    .unwrap_err();
    assert_eq!(
        (error.kind, error.path.as_str()),
        (IndexErrorKind::TooLarge, "moov")
    );
}
