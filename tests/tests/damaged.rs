//! Films that are cut off, damaged, or not films at all: an error that names box and byte and says
//! what to do, no panic, memory bounded.

use std::fs;
use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reelway_media::{Index, IndexError, IndexErrorKind, IndexOptions, ReadIndexError, index_with};
use reelway_tests::films;

fn index(bytes: &[u8]) -> Result<Index, IndexError> {
    let read = |range: Range<u64>, out: &mut Vec<u8>| {
        let part = bytes.get(range.start as usize..range.end as usize);
        out.extend_from_slice(part.expect("the indexer asks only for what the file has"));
        Ok(())
    };
    index_with(read, bytes.len() as u64, IndexOptions::default()).map_err(|error| match error {
        ReadIndexError::Film(error) => error,
        ReadIndexError::Io { .. } => unreachable!("nothing here fails to be read"),
    })
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(films::film(name).path).expect("the film")
}

/// Whether all samples lie within the file.
fn sound(index: &Index, len: usize) -> bool {
    index
        .tables
        .iter()
        .flat_map(|table| table.iter())
        .all(|sample| sample.bytes().end <= len as u64)
}

/// Returns the offset of the first box of this type.
fn find(film: &[u8], kind: &[u8; 4]) -> usize {
    film.windows(4)
        .position(|window| window == kind)
        .expect("such a box")
        - 4
}

#[test]
fn a_half_copied_film_is_said_to_be_incomplete_wherever_it_was_cut() {
    for name in [
        "progressive",
        "faststart",
        "moov_to_eof",
        "mdat_to_eof",
        "wide_boxes",
        "several_mdats",
    ] {
        let film = bytes(name);
        for cut in (1..film.len())
            .step_by(1009)
            .chain(film.len() - 3..film.len())
        {
            let error = index(&film[..cut]).expect_err("a film that is cut off");
            // Less than a box header cannot be recognised; a `moov` that extends to the end of the
            // file has no length.
            if cut < 8 || (name == "moov_to_eof" && cut > find(&film, b"moov")) {
                continue;
            }
            assert_eq!(
                error.kind,
                IndexErrorKind::Incomplete,
                "{name} cut at {cut}: {error}"
            );
            assert!(
                error.to_string().contains("copied whole"),
                "{name} cut at {cut}: {error}"
            );
        }
    }
}

#[test]
fn a_cut_fragmented_film_is_shorter_or_incomplete() {
    let film = bytes("fragmented");
    let whole = index(&film).expect("the whole film");
    for cut in (1000..film.len()).step_by(499) {
        match index(&film[..cut]) {
            Ok(index) => {
                assert!(sound(&index, cut), "cut at {cut}");
                assert!(index.title.tracks[0].samples <= whole.title.tracks[0].samples);
            }
            Err(error) => assert!(
                matches!(
                    error.kind,
                    IndexErrorKind::Incomplete | IndexErrorKind::Unplayable
                ),
                "cut at {cut}: {error}"
            ),
        }
    }
}

#[test]
fn what_is_wrong_is_named_by_box_and_byte() {
    let film = bytes("faststart");
    let moov = find(&film, b"moov");

    let stsz = find(&film, b"stsz");
    let mut damaged = film.clone();
    damaged[stsz + 16..stsz + 20].copy_from_slice(&u32::MAX.to_be_bytes());
    let error = index(&damaged).expect_err("four billion samples");
    assert!(
        error.path.starts_with("moov/trak") && error.path.ends_with("stsz"),
        "{error}"
    );
    assert_eq!(error.offset, stsz as u64, "{error}");
    assert!(
        error.to_string().contains(&format!("at byte {stsz}")),
        "{error}"
    );

    let mut damaged = film.clone();
    damaged[moov..moov + 4].copy_from_slice(&4u32.to_be_bytes());
    let error = index(&damaged).expect_err("a box shorter than its header");
    assert!(
        error.to_string().contains(&format!("at byte {moov}")),
        "{error}"
    );

    let stco = find(&film, b"stco");
    let mut damaged = film.clone();
    damaged[stco + 16..stco + 20].copy_from_slice(&0xf000_0000u32.to_be_bytes());
    let error = index(&damaged).expect_err("a chunk behind the file's end");
    assert!(error.to_string().contains("moov/trak"), "{error}");
    assert!(
        error.to_string().contains("4026531840"),
        "names the byte: {error}"
    );
}

#[test]
fn what_is_no_film_is_said_to_be_none() {
    let text = b"This is a text about films. ".repeat(100);
    let error = index(&text).expect_err("a text file");
    assert_eq!(error.kind, IndexErrorKind::UnknownContainer, "{error}");
    assert!(
        error.to_string().contains("ffmpeg -i"),
        "says what to do: {error}"
    );

    let error = index(b"").expect_err("an empty file");
    assert!(!error.problem.is_empty(), "{error}");

    let png = [&b"\x89PNG\r\n\x1a\n"[..], &[7; 500]].concat();
    assert_eq!(
        index(&png).expect_err("a PNG").kind,
        IndexErrorKind::UnknownContainer
    );
    let zeros = vec![0; 4096];
    index(&zeros).expect_err("zeros");
}

#[test]
fn an_unknown_codec_is_named() {
    let mut film = bytes("audio_only");
    let entry = find(&film, b"mp4a");
    film[entry + 4..entry + 8].copy_from_slice(b"zzzz");
    let error = index(&film).expect_err("no known codec");
    assert_eq!(error.kind, IndexErrorKind::Unplayable, "{error}");
    assert!(error.to_string().contains("zzzz"), "{error}");

    let mut film = bytes("progressive");
    let entry = find(&film, b"mp4a");
    film[entry + 4..entry + 8].copy_from_slice(b"zzzz");
    let title = index(&film).expect("the picture is still there").title;
    assert_eq!(title.tracks.len(), 1);
    assert!(
        title.notes.iter().any(|note| note.contains("zzzz")),
        "{:?}",
        title.notes
    );
}

/// Returns the positions of a film's bytes that are not media.
fn tables(film: &[u8]) -> Vec<usize> {
    let mut all = Vec::new();
    let mut at = 0;
    while at + 8 <= film.len() {
        let (kind, head, size) = reelway_tests::boxes::tree::header(&film[at..]).expect("a box");
        let end = size.map_or(film.len(), |size| at + size as usize);
        all.extend(at..if &kind == b"mdat" { at + head } else { end });
        at = end;
    }
    all
}

fn flipped(name: &'static str) -> impl Strategy<Value = (Vec<u8>, Vec<(usize, u8)>)> {
    let film = bytes(name);
    let at = prop::sample::select(tables(&film));
    (Just(film), prop::collection::vec((at, 1..=255u8), 1..8))
}

/// The peak memory of this process in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .expect("VmHWM");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        * 1024
}

#[test]
fn flipped_bits_never_make_a_sample_outside_the_film_nor_take_much_memory() {
    let films = prop_oneof![
        flipped("progressive"),
        flipped("fragmented"),
        flipped("fragmented_sidx"),
        flipped("fragmented_every_frame"),
        flipped("stz2_16"),
        flipped("languages"),
        flipped("opus"),
        flipped("hvc1"),
        flipped("several_mdats"),
    ];
    let config = ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(&(films, 0.5..1.5f64), |((mut film, flips), cut)| {
        for (at, mask) in flips {
            film[at] ^= mask;
        }
        film.truncate((film.len() as f64 * cut) as usize);
        match index(&film) {
            Ok(index) => prop_assert!(sound(&index, film.len())),
            Err(error) => prop_assert!(!error.problem.is_empty()),
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    // The films of this test have a few hundred kilobytes each, and all of them are in memory.
    assert!(peak_memory() < 200 << 20, "{} bytes at most", peak_memory());
}
