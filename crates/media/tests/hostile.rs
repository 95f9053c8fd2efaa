//! Films that are truncated, damaged or malicious result in an error that names box and byte, or in
//! a film whose samples lie within the file. They never cause a panic or excessive memory use.

mod common;

use common::*;
use proptest::prelude::*;
use reelway_media::{Index, IndexError, IndexErrorKind, RECORD_BYTES};

/// A film with a bit of everything: several tables, edits, names, two audio tracks.
fn progressive() -> Vec<u8> {
    let mut picture = Track::picture(1, 60, 12).with_cts(|n| [40, 120, 0, 0][n % 4]);
    picture.edits = vec![(100, -1), (2400, 40)];
    picture.in_trak = vec![boxed(b"tref", &[&boxed(b"chap", &[&be(&[9])])])];
    let picture = picture.with_table(boxed(b"sbgp", &[&[0; 4], b"rap ", &be(&[2, 20, 0, 1, 1])]));
    let mut sound = Track::sound(2, 80);
    sound.wide_chunks = true;
    sound.edits = vec![(1800, 1024)];
    let mut other = Track::sound(3, 40);
    other.without = vec![*b"stsz"];
    other.samples.iter_mut().for_each(|spec| spec.size = 9);
    let other = other.with_table(boxed(b"stz2", &[&be(&[0, 4, 40]), &[0x99; 20]]));
    let udta = boxed(
        b"udta",
        &[&boxed(b"meta", &[&[0; 4], &boxed(b"ilst", &[&[0; 30]])])],
    );
    write_with(&[picture, sound, other], &udta).0
}

/// A fragmented film whose `moov` also has samples.
fn fragmented() -> Vec<u8> {
    let mvex = boxed(
        b"mvex",
        &[
            &full(b"trex", 0, 0, &[1, 1, 40, 0, 0x1_0000]),
            &full(b"trex", 0, 0, &[2, 1, 1024, 30, 0]),
        ],
    );
    let (mut film, _) = write_with(&[Track::picture(1, 10, 5), Track::sound(2, 10)], &mvex);
    for n in 0..4u32 {
        let words: Vec<u32> = (0..10)
            .flat_map(|n| [40, 50, if n == 0 { 0 } else { 0x1_0000 }, 40])
            .collect();
        let trun = full(b"trun", 1, 0xf01, &[&[10, 300], &words[..]].concat());
        let picture = [
            full(b"tfhd", 0, 0x2_0000, &[1]),
            full(b"tfdt", 0, 0, &[400 + 400 * n]),
            trun,
        ]
        .concat();
        let sound = [full(b"tfhd", 0, 0, &[2]), full(b"trun", 0, 0, &[15])].concat();
        film.extend(boxed(
            b"moof",
            &[&boxed(b"traf", &[&picture]), &boxed(b"traf", &[&sound])],
        ));
        film.extend(boxed(b"mdat", &[&[0; 1200]]));
    }
    film
}

/// Checks what must hold for every accepted film.
fn sound_and_bounded(index: &Index, len: usize) {
    // Samples lie in the file or its view, in which a unit's length may take one byte more than a
    // start code.
    let bytes = index.title.view.map_or(len as u64, |view| view.bytes);
    assert!(bytes <= 2 * len as u64, "a view of {bytes} bytes");
    for (track, table) in index.title.tracks.iter().zip(&index.tables) {
        assert_eq!(track.samples, table.len());
        assert!(!table.is_empty(), "a track without samples");
        let mut next = 0;
        for group in &track.groups {
            assert_eq!(group.first, next);
            next += group.count;
        }
        assert_eq!(next, track.samples);
        for sample in table.iter() {
            assert!(sample.bytes().end <= bytes, "{sample:?} in {bytes} bytes");
        }
        let first = track.groups.first().expect("a group");
        assert!(track.presentation(first.dts, first.cts) <= index.title.duration);
    }
    // Each sample in memory is backed by at least half a byte of a table or one byte of media.
    let tables: usize = index
        .tables
        .iter()
        .map(|table| table.len() as usize * RECORD_BYTES)
        .sum();
    assert!(
        tables <= 18 * (2 * len + len),
        "{tables} bytes of records for a file of {len}"
    );
    let groups: usize = index
        .title
        .tracks
        .iter()
        .map(|track| track.groups.len())
        .sum();
    assert!(groups <= 3 * len);
    let entries: usize = index
        .title
        .tracks
        .iter()
        .map(|track| track.sample_entry.len())
        .sum();
    let notes: usize = index.title.notes.iter().map(String::len).sum();
    assert!(entries <= len + 64 * index.title.tracks.len() && notes < 20_000);
}

fn judged(film: &[u8]) -> Result<Index, IndexError> {
    let outcome = index(film);
    match &outcome {
        Ok(index) => sound_and_bounded(index, film.len()),
        Err(error) => {
            assert!(!error.problem.is_empty() && error.problem.len() < 20_000);
            assert!(error.offset <= film.len() as u64, "{error:?}");
            let named = matches!(
                error.kind,
                IndexErrorKind::Damaged | IndexErrorKind::TooLarge
            );
            assert!(!named || !error.path.is_empty(), "which box? {error:?}");
        }
    }
    outcome
}

#[test]
fn the_films_themselves_are_whole() {
    let notes = judged(&progressive()).unwrap().title.notes;
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(judged(&fragmented()).unwrap().title.tracks[1].samples, 70);
}

#[test]
fn a_film_cut_off_anywhere_is_not_whole_yet() {
    let film = progressive();
    for cut in 0..film.len() {
        let error = judged(&film[..cut]).unwrap_err();
        assert_eq!(
            error.kind,
            IndexErrorKind::Incomplete,
            "cut at {cut}: {error}"
        );
    }
    let film = fragmented();
    for cut in 0..film.len() {
        if let Err(error) = judged(&film[..cut]) {
            assert_eq!(
                error.kind,
                IndexErrorKind::Incomplete,
                "cut at {cut}: {error}"
            );
        }
    }
}

#[test]
fn the_corpus_of_the_fuzzer_does_no_harm() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/boxes");
    let mut playable = 0;
    for entry in std::fs::read_dir(kept).unwrap() {
        playable += usize::from(judged(&std::fs::read(entry.unwrap().path()).unwrap()).is_ok());
    }
    assert!(playable >= 10, "{playable} of them are films");
}

#[test]
fn a_film_that_lasts_no_time_cannot_be_played() {
    let mut sound = Track::sound(1, 10);
    sound.samples.iter_mut().for_each(|spec| spec.duration = 0);
    assert_eq!(
        judged(&write(&[sound]).0).unwrap_err().kind,
        IndexErrorKind::Unplayable
    );
}

/// A byte of any box but `mdat`, and its new value.
fn changes(film: &[u8]) -> impl Strategy<Value = Vec<(usize, u8)>> + use<> {
    let mut places = vec![];
    let mut at = 0;
    while at < film.len() {
        let size = u32::from_be_bytes(film[at..at + 4].try_into().unwrap()) as usize;
        places.extend(
            at..at
                + if &film[at + 4..at + 8] == b"mdat" {
                    8
                } else {
                    size
                },
        );
        at += size;
    }
    let value = prop_oneof![
        any::<u8>(),
        Just(0),
        Just(1),
        Just(0x7f),
        Just(0x80),
        Just(0xff)
    ];
    prop::collection::vec((prop::sample::select(places), value), 1..6)
}

/// A well-formed box with arbitrary contents.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let kinds: Vec<[u8; 4]> = b"ftypmoovtrakmdiaminfstblstsdsttscttsstscstszstz2stcoco64stssmvhdtkhdmdhdhdlredtselstmvextrexmooftraftfhdtfdttrunavc1avcChvc1hvcCmp4aesdsmdatudtameta"
        .as_chunks::<4>().0.to_vec();
    let leaf = (
        prop::sample::select(kinds.clone()),
        prop::collection::vec(prop_oneof![3 => Just(0), 1 => any::<u8>()], 0..60),
    )
        .prop_map(|(kind, body)| boxed(&kind, &[&body]));
    let tree = leaf.prop_recursive(6, 60, 6, move |inner| {
        (
            prop::sample::select(kinds.clone()),
            prop::collection::vec(inner, 0..6),
        )
            .prop_map(|(kind, children)| boxed(&kind, &[&children.concat()]))
    });
    prop::collection::vec(tree, 1..5).prop_map(|boxes| [&ftyp()[..], &boxes.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_film_does_no_harm(changes in changes(&progressive())) {
        let mut film = progressive();
        changes.into_iter().for_each(|(at, value)| film[at] = value);
        let _ = judged(&film);
    }

    #[test]
    fn a_damaged_fragmented_film_does_no_harm(changes in changes(&fragmented()), cut in 0.5..1.0) {
        let mut film = fragmented();
        changes.into_iter().for_each(|(at, value)| film[at] = value);
        film.truncate((film.len() as f64 * cut) as usize);
        let _ = judged(&film);
    }

    #[test]
    fn boxes_thrown_together_do_no_harm(film in soup()) {
        let _ = judged(&film);
    }
}
