//! Matroska films element by element: how each way of writing them, and damage, is indexed.

mod ebml;

use std::ops::Range;

use ebml::*;
use proptest::prelude::*;
use reelway_media::{Container, Index, IndexErrorKind, Kind};

/// The bytes of a track's frames.
fn frames<'a>(film: &'a [u8], index: &Index, track: usize) -> Vec<&'a [u8]> {
    let bytes = |range: Range<u64>| &film[range.start as usize..range.end as usize];
    index.tables[track]
        .iter()
        .map(|sample| bytes(sample.bytes()))
        .collect()
}

fn durations(index: &Index, track: usize) -> Vec<u32> {
    index.tables[track]
        .iter()
        .map(|sample| sample.duration)
        .collect()
}

#[test]
fn blocks_of_all_clusters_become_samples() {
    let film = film(&[
        element(INFO, &element(0x7ba9, b"A film")),
        element(TRACKS, &[picture(1, &[]), sound(2, &[])].concat()),
        element(
            CLUSTER,
            &cluster(
                1000,
                &[
                    key(1, 0, b"IIII"),
                    key(2, 0, b"s1"),
                    other(1, 80, b"PP"),
                    other(1, 40, b"B"),
                ],
            ),
        ),
        element(0xec, &[0; 50]),
        element(
            CLUSTER,
            &cluster(1120, &[key(1, 0, b"II"), key(2, -99, b"s2")]),
        ),
        element(0x1c53_bb6b, &[0; 30]),
    ]);
    let index = index(&film).unwrap();
    assert_eq!(index.title.container, Container::Matroska);
    assert_eq!(index.title.name.as_deref(), Some("A film"));
    assert_eq!(frames(&film, &index, 0), [&b"IIII"[..], b"PP", b"B", b"II"]);
    assert_eq!(frames(&film, &index, 1), [b"s1", b"s2"]);
    let syncs: Vec<bool> = index.tables[0].iter().map(|sample| sample.sync).collect();
    assert_eq!(syncs, [true, false, false, true]);
    assert_eq!(durations(&index, 0), [40; 4]);
    let waits: Vec<i32> = index.tables[0].iter().map(|sample| sample.cts).collect();
    assert_eq!(waits, [40, 80, 0, 40]);
    // The second audio block begins 21 ms after the first: 1,024 samples.
    assert_eq!(durations(&index, 1), [1024, 1024]);
    assert_eq!(index.title.tracks[1].kind, Kind::Audio);
}

#[test]
fn frames_that_share_a_block_are_samples_of_their_own() {
    let xiph = block(1, 0, 0x82, &[&[2, 3, 2][..], b"aaabbcccc"].concat());
    let fixed = block(1, 64, 0x84, &[&[1][..], b"ddee"].concat());
    let ebml = block(1, 107, 0x86, &[&[2, 0x83, 0xbe][..], b"fffggh"].concat());
    let blocks = [xiph, fixed, ebml].map(|body| element(SIMPLE_BLOCK, &body));
    let film = film(&[
        element(TRACKS, &sound(1, &[])),
        element(CLUSTER, &cluster(0, &blocks)),
    ]);
    let index = index(&film).unwrap();
    let expected: [&[u8]; 8] = [b"aaa", b"bb", b"cccc", b"dd", b"ee", b"fff", b"gg", b"h"];
    assert_eq!(frames(&film, &index, 0), expected);
    assert_eq!(durations(&index, 0), [1024; 8]);
}

#[test]
fn groups_say_what_a_block_refers_to_and_how_long_it_lasts() {
    let group = |time: i16, more: &[u8], rest: &[u8]| {
        let block = element(0xa1, &block(1, time, 0, rest));
        element(BLOCK_GROUP, &[block, more.to_vec()].concat())
    };
    let reference = element(0xfb, &[0xd8]);
    let blocks = [
        group(0, &[], b"I"),
        group(40, &reference, b"P"),
        group(80, &[reference.clone(), unsigned(0x9b, 25)].concat(), b"P"),
    ];
    let film = film(&[
        element(TRACKS, &picture(1, &[])),
        element(CLUSTER, &cluster(0, &blocks)),
    ]);
    let index = index(&film).unwrap();
    let syncs: Vec<bool> = index.tables[0].iter().map(|sample| sample.sync).collect();
    assert_eq!(syncs, [true, false, false]);
    assert_eq!(durations(&index, 0), [40, 40, 25]);
}

#[test]
fn sizes_need_not_be_known_and_tracks_may_come_last() {
    let clusters = [
        endless(CLUSTER, &cluster(0, &[key(1, 0, b"I"), other(1, 40, b"P")])),
        endless(CLUSTER, &cluster(80, &[other(1, 0, b"P")])),
        element(TRACKS, &picture(1, &[])),
    ];
    let film = [header(), endless(SEGMENT, &clusters.concat())].concat();
    let index = index(&film).unwrap();
    assert_eq!(frames(&film, &index, 0), [b"I", b"P", b"P"]);
}

#[test]
fn a_recording_that_is_cut_off_plays_to_its_last_whole_block() {
    let clusters = [
        element(TRACKS, &picture(1, &[])),
        endless(
            CLUSTER,
            &cluster(0, &[key(1, 0, b"I"), other(1, 40, b"PPPPPPPP")]),
        ),
    ];
    let film = [header(), endless(SEGMENT, &clusters.concat())].concat();
    for cut in 1..8 {
        let film = &film[..film.len() - cut];
        let index = index(film).unwrap();
        assert_eq!(frames(film, &index, 0), [b"I"]);
        assert!(
            index.title.notes[0].contains("cut off"),
            "{:?}",
            index.title.notes
        );
    }
    // If the total length is known, the file is still being copied.
    let whole = self::film(&clusters);
    let error = self::index(&whole[..whole.len() - 1]).unwrap_err();
    assert_eq!(
        (error.kind, error.path.as_str()),
        (IndexErrorKind::Incomplete, "Segment")
    );
}

#[test]
fn what_cannot_be_played_is_passed_over_and_named() {
    let compressed = element(0x6d80, &element(0x6240, &element(0x5034, &[])));
    let subtitles = element(0xae, &[unsigned(0xd7, 3), unsigned(0x83, 17)].concat());
    let film = film(&[
        element(
            TRACKS,
            &[picture(1, &[]), sound(2, &compressed), subtitles].concat(),
        ),
        element(
            CLUSTER,
            &cluster(
                0,
                &[
                    key(1, 0, b"I"),
                    key(2, 0, b"s"),
                    key(3, 0, b"t"),
                    key(9, 0, b"?"),
                ],
            ),
        ),
    ]);
    let index = index(&film).unwrap();
    assert_eq!(index.title.tracks.len(), 1);
    let notes = index.title.notes.join("\n");
    assert!(
        notes.contains("track 2 (its frames are compressed once more, which `ffmpeg -i FILE -c copy NEW.mkv` undoes) skipped"),
        "{notes}"
    );
    assert!(
        notes.contains("track 3 (no picture and no sound) skipped"),
        "{notes}"
    );
}

#[test]
fn damage_is_named_with_its_place() {
    let tracks = element(TRACKS, &picture(1, &[]));
    let lace = element(SIMPLE_BLOCK, &block(1, 0, 0x82, &[2, 200, 2, 0]));
    let at = header().len() + 8 + tracks.len() + 8 + 9;
    let damaged = film(&[tracks.clone(), element(CLUSTER, &cluster(0, &[lace]))]);
    let error = index(&damaged).unwrap_err();
    assert_eq!(
        (error.kind, error.path.as_str(), error.offset),
        (IndexErrorKind::Damaged, "Segment/Cluster", at as u64),
        "{error}"
    );
    let late = film(&[
        tracks.clone(),
        element(CLUSTER, &element(TIMESTAMP, &[0xff; 8])),
    ]);
    assert!(
        index(&late)
            .unwrap_err()
            .problem
            .contains("which is no film")
    );
    let back = [key(1, 0, b"I"), key(1, 20_000, b"I"), other(1, 40, b"P")];
    let back = film(&[tracks, element(CLUSTER, &cluster(0, &back))]);
    assert!(index(&back).unwrap_err().problem.contains("go back"));
    let bare = film(&[element(CLUSTER, &cluster(0, &[key(1, 0, b"I")]))]);
    assert!(index(&bare).unwrap_err().problem.contains("no tracks"));
}

#[test]
fn of_large_blocks_only_the_heads_are_read() {
    let blocks: Vec<Vec<u8>> = (0..200)
        .map(|number| key(1, number * 40, &vec![7; 20_000]))
        .collect();
    let film = film(&[
        element(TRACKS, &picture(1, &[])),
        element(CLUSTER, &cluster(0, &blocks)),
    ]);
    let mut asked = 0;
    let index = index_counting(&film, &mut asked).unwrap();
    assert_eq!(index.title.tracks[0].samples, 200);
    assert!(
        asked * 100 <= film.len() as u64,
        "{asked} of {}",
        film.len()
    );
}

/// A film with a bit of everything.
fn everything() -> Vec<u8> {
    let xiph = element(
        SIMPLE_BLOCK,
        &block(2, 0, 0x82, &[&[2, 3, 2][..], b"aaabbcccc"].concat()),
    );
    let group = element(
        BLOCK_GROUP,
        &[
            element(0xa1, &block(1, 80, 0, b"PP")),
            element(0xfb, &[1]),
            unsigned(0x9b, 40),
        ]
        .concat(),
    );
    let blocks = [key(1, 0, b"IIII"), xiph, other(1, 40, b"P"), group];
    let parts = [
        element(INFO, &unsigned(0x2a_d7b1, 1_000_000)),
        element(
            TRACKS,
            &[picture(1, &unsigned(0x23_e383, 40_000_000)), sound(2, &[])].concat(),
        ),
        endless(CLUSTER, &cluster(0, &blocks)),
        endless(CLUSTER, &cluster(120, &[key(1, 0, b"I"), key(2, 0, b"s")])),
    ];
    [header(), endless(SEGMENT, &parts.concat())].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_is_wrong_with_a_film_its_samples_lie_in_the_file(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let mut film = everything();
        for (at, byte) in changes {
            let at = at.index(film.len());
            film[at] = byte;
        }
        if is_cut {
            film.truncate(cut.index(film.len()));
        }
        if let Ok(index) = index(&film) {
            for table in &index.tables {
                prop_assert!(table.iter().all(|sample| sample.bytes().end <= film.len() as u64));
            }
            prop_assert!(!index.title.tracks.is_empty());
        }
    }
}

/// A `Tracks` entry for subtitles.
fn subtitles(number: u32, codec: &[u8], more: &[u8]) -> Vec<u8> {
    let body = [
        unsigned(0xd7, number),
        unsigned(0x83, 17),
        element(0x86, codec),
        more.to_vec(),
    ];
    element(0xae, &body.concat())
}

/// A BlockGroup with a block, its duration and additional elements.
fn lasting(track: u8, time: i16, text: &[u8], duration: u32, more: &[u8]) -> Vec<u8> {
    let body = [
        element(0xa1, &block(track, time, 0, text)),
        unsigned(0x9b, duration),
        more.to_vec(),
    ];
    element(BLOCK_GROUP, &body.concat())
}

#[test]
fn subtitles_become_documents_on_the_films_timeline() {
    let head = element(0x4255, b"Hel");
    let how = element(0x5034, &[element(0x4254, &[3]), head].concat());
    let stripped = element(0x6d80, &element(0x6240, &how));
    let german = [element(0x22_b59c, b"ger"), element(0x55aa, &[1])].concat();
    let settings = element(0x75a1, &element(0xa6, &element(0xa5, b"line:0\nid\n")));
    let entries = [
        picture(1, &[]),
        subtitles(2, b"S_TEXT/UTF8", &german),
        subtitles(3, b"S_TEXT/ASS", &element(0x536e, b"Signs")),
        subtitles(4, b"S_TEXT/WEBVTT", &[]),
        subtitles(5, b"S_TEXT/UTF8", &stripped),
        subtitles(6, b"S_HDMV/PGS", &[]),
        subtitles(7, b"S_TEXT/UTF8", &[]),
    ];
    let blocks = [
        key(1, 0, b"I"),
        lasting(2, 0, "f\u{fc}r".as_bytes(), 1000, &[]),
        lasting(3, 40, b"0,0,Default,,0,0,0,,{\\i1}a, b", 500, &[]),
        lasting(4, 80, b"vtt", 100, &settings),
        lasting(5, 90, b"lo", 100, &[]),
        // Overlong text is ignored.
        lasting(2, 120, &[b'x'; 40_000], 100, &[]),
        other(1, 40, b"P"),
    ];
    // The film begins with its first picture, one second after the container's zero.
    let film = film(&[
        element(TRACKS, &entries.concat()),
        element(CLUSTER, &cluster(1000, &blocks)),
    ]);
    let index = index(&film).unwrap();
    let texts: Vec<_> = index
        .title
        .texts
        .iter()
        .map(|text| {
            let document = text.document.read().expect("its document");
            let document = String::from_utf8(document).expect("text");
            (text.id, text.language.as_deref(), text.forced, document)
        })
        .collect();
    let of = |id, language, forced, text: &str| (id, Some(language), forced, text.to_owned());
    let expected = [
        of(
            2,
            "ger",
            true,
            "1\n00:00:00,000 --> 00:00:01,000\nf\u{fc}r\n\n",
        ),
        of(
            3,
            "eng",
            false,
            "[Events]\nDialogue: 0,00:00:00.040,00:00:00.540,Default,,0,0,0,,{\\i1}a, b\n",
        ),
        of(
            4,
            "eng",
            false,
            "WEBVTT\n\n00:00:00.080 --> 00:00:00.180 line:0\nvtt\n\n",
        ),
        of(
            5,
            "eng",
            false,
            "1\n00:00:00,090 --> 00:00:00,190\nHello\n\n",
        ),
    ];
    assert_eq!(texts, expected);
    assert_eq!(index.title.tracks.len(), 1);
    let notes = [
        "track 6 (subtitles as pictures, S_HDMV/PGS) skipped",
        "track 7 (subtitles without text) skipped",
    ];
    assert_eq!(index.title.notes, notes);
}
