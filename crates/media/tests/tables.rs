//! Long sample tables, which are read piece by piece: the samples as written, and errors that name
//! box and entry.

mod long;

use long::common::{self, *};
use long::{Film, Space, films};
use proptest::prelude::*;
use reelway_media::{Index, IndexError, IndexErrorKind, IndexOptions, Indexer, Scratch, Step};

/// The maximum bytes requested at once.
const PIECE: u64 = 2 << 20;

/// Indexes a film whose media is not among the bytes, with and without scratch space.
fn indexed(head: &[u8], len: u64) -> Result<Index, IndexError> {
    let by = |scratch: Scratch| {
        let mut indexer = Indexer::with_scratch(len, IndexOptions::default(), scratch);
        loop {
            match indexer.step()? {
                Step::Need(range) => {
                    let range = range.start as usize..range.end as usize;
                    let mut bytes = head.get(range.clone()).map(<[u8]>::to_vec);
                    if bytes.is_none() {
                        let there = head.get(range.start..).unwrap_or_default();
                        let media = vec![0; range.len() - there.len()];
                        bytes = Some([there, &media].concat());
                    }
                    indexer.feed(&bytes.expect("bytes"))?;
                }
                Step::Done(index) => return Ok(index),
            }
        }
    };
    let here = by(Scratch::default());
    let there = by(Scratch::new(Space::new(u64::MAX, u64::MAX)));
    assert!(here == there, "another index with scratch space");
    here
}

/// A film of these tracks with chunks of these lengths, one track after the other. Returns its
/// boxes, its length and the positions of its samples.
fn film(mut tracks: Vec<Track>, chunks: &[Vec<usize>]) -> (Vec<u8>, u64, Places) {
    for (track, lengths) in tracks.iter_mut().zip(chunks) {
        let mut words = Vec::new();
        for (nth, length) in lengths.iter().enumerate() {
            if nth == 0 || lengths[nth - 1] != *length {
                words.extend([nth as u32 + 1, *length as u32, 1]);
            }
        }
        if track.tables.iter().all(|table| &table[4..8] != b"stsc") {
            let stsc = table(b"stsc", 0, words.len() / 3, &words);
            track.tables.push(stsc);
        }
    }
    let from = |mut at: u64| {
        let mut offsets = Vec::new();
        let mut places = Vec::new();
        for (track, lengths) in tracks.iter().zip(chunks) {
            let (mut starts, mut lie) = (Vec::new(), Vec::new());
            let mut samples = track.samples.iter();
            for length in lengths {
                starts.push(at);
                for spec in samples.by_ref().take(*length) {
                    lie.push(at..at + u64::from(spec.size));
                    at += u64::from(spec.size);
                }
                at += 3; // unused bytes
            }
            offsets.push(starts);
            places.push(lie);
        }
        (offsets, places, at)
    };
    let before = ftyp().len() + moov(&tracks, &from(0).0, &[]).len() + 16;
    let (offsets, places, end) = from(before as u64);
    let media = (end - before as u64 + 16).to_be_bytes();
    let mdat = [&wide(b"mdat", &[])[..8], &media].concat();
    let head = [ftyp(), moov(&tracks, &offsets, &[]), mdat].concat();
    (head, end, places)
}

/// Runs of (count, value).
fn runs(kind: &[u8; 4], values: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some([count, same]) if *same == value => *count += 1,
            _ => runs.push([1, value]),
        }
    }
    table(kind, 0, runs.len(), runs.as_flattened())
}

/// Sizes of this many bits.
fn sizes_of(bits: u32, sizes: impl Iterator<Item = u32>) -> Vec<u8> {
    let sizes: Vec<u32> = sizes.collect();
    let bytes: Vec<u8> = match bits {
        4 => {
            let pairs = sizes.chunks(2);
            let pair = |pair: &[u32]| (pair[0] << 4 | pair.get(1).unwrap_or(&0)) as u8;
            pairs.map(pair).collect()
        }
        8 => sizes.iter().map(|size| *size as u8).collect(),
        _ => {
            let all = sizes.iter();
            all.flat_map(|size| (*size as u16).to_be_bytes()).collect()
        }
    };
    boxed(b"stz2", &[&be(&[0, bits, sizes.len() as u32]), &bytes])
}

/// A track with arbitrary samples, none of which is missing.
fn track() -> impl Strategy<Value = (Track, Vec<usize>)> {
    let chunks = prop::collection::vec((1usize..40, 1usize..400), 1..8);
    let values = prop::collection::vec((0u32..16, 1u32..5, 0i32..3, any::<bool>()), 1..50);
    let bits = prop::sample::select(vec![4, 8, 16, 32]);
    (
        chunks,
        values,
        bits,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(chunks, values, bits, wide, in_runs, has_sync)| {
            let lengths = chunks
                .iter()
                .flat_map(|(length, times)| vec![*length; *times]);
            let lengths: Vec<usize> = lengths.collect();
            let spec = |(nth, (size, duration, cts, sync)): (usize, &(u32, u32, i32, bool))| Spec {
                size: size + if bits >= 16 { nth as u32 % 3000 } else { 0 },
                duration: *duration,
                // All tracks begin at the same time.
                cts: if nth == 0 { 0 } else { *cts },
                sync: *sync || !has_sync || nth == 0,
            };
            let count = lengths.iter().sum();
            let samples = values.iter().cycle().take(count).enumerate().map(spec);
            let mut track = Track::picture(1, 0, 1);
            track.samples = samples.collect();
            track.wide_chunks = wide;
            if bits < 32 {
                track.without = vec![*b"stsz"];
                let sizes = track.samples.iter().map(|spec| spec.size);
                track.tables.push(sizes_of(bits, sizes));
            }
            if in_runs {
                let durations = track.samples.iter().map(|spec| spec.duration);
                let durations = runs(b"stts", durations);
                let offsets = runs(b"ctts", track.samples.iter().map(|spec| spec.cts as u32));
                track.tables.extend([durations, offsets]);
            }
            (track, lengths)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn samples_are_those_that_were_written_however_long_the_tables_are(
        (mut one, first) in track(), (two, second) in track(),
    ) {
        one.id = 2;
        let specs = [two.samples.clone(), one.samples.clone()];
        let (head, len, places) = film(vec![two, one], &[second, first]);
        let index = indexed(&head, len).expect("an index");
        prop_assert_eq!(index.title.notes, Vec::<String>::new());
        for ((table, specs), places) in index.tables.iter().zip(specs).zip(places) {
            prop_assert_eq!(table.len() as usize, specs.len());
            for ((sample, spec), place) in table.iter().zip(specs).zip(places) {
                let found = Spec { size: sample.size, duration: sample.duration, cts: sample.cts, sync: sample.sync };
                prop_assert_eq!((sample.bytes(), found), (place, spec));
            }
        }
    }
}

#[test]
fn a_long_box_is_asked_for_in_large_pieces_and_no_byte_of_it_twice() {
    let all = films(3 * 60);
    let with_tables =
        |film: &&Film| film.name.starts_with("MP4") || film.name == "one movie fragment";
    let mut looked_at = 0;
    for film in all.iter().filter(with_tables) {
        let mut indexer = Indexer::new(film.len(), IndexOptions::default());
        let (mut asked, mut end, mut bytes) = (0, 0, Vec::new());
        while let Step::Need(range) = indexer.step().expect("a film") {
            assert!(range.start >= end, "{}: {range:?} after {end}", film.name);
            assert!(range.end - range.start <= PIECE, "{}: {range:?}", film.name);
            (asked, end) = (asked + 1, range.end);
            bytes.clear();
            film.read(range, &mut bytes);
            indexer.feed(&bytes).expect("a film");
        }
        assert!(asked <= film.tables() / PIECE + 6, "{}: {asked}", film.name);
        looked_at += 1;
    }
    assert_eq!(looked_at, 3);
}

/// A track with so many samples that its tables do not stay in memory.
fn long_track() -> Track {
    Track::picture(1, 60_000, 3).with_cts(|nth| nth as i32 % 2)
}

/// Indexes a film of one track with this table instead of the correct one.
fn with(table: Vec<u8>) -> Result<Index, IndexError> {
    let track = long_track().with_table(table);
    let (head, len, _) = film(vec![track], &[vec![5; 12_000]]);
    assert!(head.len() > 1 << 20, "it would stay in memory");
    indexed(&head, len)
}

/// Likewise, for an error: the table, the kind and the problem.
fn error_with(table: Vec<u8>) -> (String, IndexErrorKind, String) {
    let error = with(table).expect_err("an error");
    let path = error.path.rsplit('/').next().expect("a box");
    (path.to_owned(), error.kind, error.problem)
}

#[test]
fn tables_that_say_more_than_they_have_are_errors() {
    let pairs: Vec<u32> = (0..60_000).flat_map(|_| [1, 40]).collect();
    let numbers: Vec<u32> = (1..=30_000).collect();
    let triples: Vec<u32> = (1..=12_000).flat_map(|nth| [nth, 5, 1]).collect();
    for (kind, words, entry) in [
        (b"stts", &pairs, 8),
        (b"ctts", &pairs, 8),
        (b"stss", &numbers, 4),
        (b"stps", &numbers, 4),
        (b"stco", &numbers, 4),
        (b"stsc", &triples, 12),
    ] {
        let there = words.len() * 4;
        for count in [there / entry + 1, u32::MAX as usize] {
            let (path, error, problem) = error_with(table(kind, 0, count, words));
            assert_eq!(
                (path.as_bytes(), error),
                (&kind[..], IndexErrorKind::Damaged)
            );
            let bytes = count * entry;
            let said = format!("says {count} entries, which take {bytes} bytes; {there} are there");
            assert_eq!(problem, said);
        }
    }
    let sizes = full(
        b"stsz",
        0,
        0,
        &[&[0, 60_001], &sizes(&long_track().samples)[..]].concat(),
    );
    let (path, error, problem) = error_with(sizes);
    assert_eq!((path.as_str(), error), ("stsz", IndexErrorKind::Damaged));
    assert!(
        problem.contains("240004 bytes; 240000 are there"),
        "{problem}"
    );
}

#[test]
fn what_is_out_of_order_at_the_end_of_a_long_table_is_an_error() {
    let mut numbers: Vec<u32> = (1..=50_000).collect();
    numbers[49_998] = 7;
    let (path, _, problem) = error_with(table(b"stss", 0, numbers.len(), &numbers));
    assert_eq!(path, "stss");
    assert_eq!(problem, "stss entry 49999 is out of order");

    let mut triples: Vec<u32> = (1..=12_000).flat_map(|nth| [nth, 5, 1]).collect();
    triples[11_999 * 3] = 11_000;
    let (path, _, problem) = error_with(table(b"stsc", 0, 12_000, &triples));
    assert_eq!(path, "stsc");
    assert_eq!(problem, "entry 12000 is out of order: chunk 11000");
}

#[test]
fn samples_of_a_long_table_that_lie_past_the_file_are_an_error() {
    let mut places: Vec<u32> = vec![0; 12_000];
    places[11_990] = 1 << 31;
    let (path, error, problem) = error_with(table(b"stco", 0, 12_000, &places));
    assert_eq!((path.as_str(), error), ("stco", IndexErrorKind::Incomplete));
    assert!(problem.starts_with("sample 59951 takes"), "{problem}");

    let mut sizes = sizes(&long_track().samples);
    sizes[59_999] = 1 << 31;
    let sizes = full(b"stsz", 0, 0, &[&[0, 60_000], &sizes[..]].concat());
    let (path, error, problem) = error_with(sizes);
    assert_eq!((path.as_str(), error), ("stco", IndexErrorKind::Damaged));
    assert!(problem.starts_with("sample 60000 takes"), "{problem}");
}

#[test]
fn long_tables_of_different_lengths_are_put_right_with_notes() {
    let notes = |table: Vec<u8>| with(table).expect("a film").title.notes;
    let pairs: Vec<u32> = (0..50_000).flat_map(|_| [1, 40]).collect();
    let said = notes(table(b"stts", 0, 50_000, &pairs));
    assert!(
        said[0].contains("stts times 50000 of 60000 samples"),
        "{said:?}"
    );
    let said = notes(table(b"ctts", 0, 50_000, &pairs));
    assert!(
        said[0].contains("ctts ends after 50000 of 60000"),
        "{said:?}"
    );
    let said = notes(table(b"stsc", 0, 1, &[1, 4, 1]));
    assert!(
        said[0].contains("12000 of 60000 samples have no place"),
        "{said:?}"
    );
    // Absurd counts: the durations of all samples come from the first entry.
    let many: Vec<u32> = (0..50_000).flat_map(|_| [u32::MAX, 40]).collect();
    assert_eq!(
        notes(table(b"stts", 0, 50_000, &many)),
        Vec::<String>::new()
    );
}

#[test]
fn of_two_tables_of_a_kind_the_first_counts() {
    let mut track = Track::picture(1, 9, 3);
    let own = sizes(&track.samples);
    track = track.with_table(full(b"stsz", 0, 0, &[&[0, 9], &own[..]].concat()));
    track = track.with_table(full(b"stsz", 0, 0, &[7, 9]));
    let (head, len, places) = film(vec![track], &[vec![3; 3]]);
    let index = indexed(&head, len).expect("a film");
    assert_eq!(common::places(&index, 0), places[0]);
}

#[test]
fn sample_descriptions_that_stay_in_memory_are_bounded() {
    let entry = |bytes: usize| avc1(&boxed(b"free", &[&vec![0; bytes]]));
    let mut large = Track::picture(1, 30, 12);
    large.entries = vec![entry(1 << 20)];
    let error = common::index(&write(&[large]).0).expect_err("an error");
    assert_eq!(error.kind, IndexErrorKind::TooLarge);
    assert!(error.path.ends_with("stsd/avc1"), "{error}");
    assert!(error.problem.ends_with("1048576 are allowed"), "{error}");

    let mut many = Track::picture(1, 30, 12);
    many.entries = vec![entry(1000 << 10); 4];
    let found = common::index(&write(&[many.clone()]).0).expect("a film");
    assert!(found.title.tracks[0].sample_entry.len() > 1000 << 10);
    many.entries.push(entry(1000 << 10));
    let error = common::index(&write(&[many]).0).expect_err("an error");
    assert_eq!(error.kind, IndexErrorKind::TooLarge);
    assert!(error.problem.contains("4194304 bytes"), "{error}");
}
