//! Indexing with scratch space gives the same index, or an error if the space fails.

mod long;

use std::ops::Range;

use long::{Film, Space, films};
use proptest::prelude::*;
use reelway_media::{
    Index, IndexErrorKind, IndexOptions, Indexer, ReadIndexError, Samples, Scratch, Unfinished,
    index_growing, index_with,
};

/// Unlimited.
const ALL: u64 = u64::MAX;

/// Reads the samples of an index as its users do, and returns their number.
fn samples(index: &Index) -> usize {
    let mut all = Vec::new();
    for (number, track) in index.title.recorded().enumerate() {
        let mut first = 0;
        for group in &track.groups {
            assert_eq!(group.first, first);
            let range = first..first + group.count;
            let read = index.tables.read(number, range, &mut all);
            read.expect("samples of a group");
            first += group.count;
        }
        assert_eq!(first, track.samples);
    }
    all.len()
}

#[test]
fn an_index_is_the_same_wherever_it_lies() {
    for film in films(12) {
        let name = film.name;
        let here = film.index(Scratch::default()).expect("an index");
        let space = Space::new(ALL, ALL);
        let there = film.index(Scratch::new(space.clone())).expect("an index");
        assert!(space.kept() > 0, "{name} is too short");
        assert!(here == there, "{name}: another index");
        assert!(
            samples(&here) > 15_000 && samples(&here) == samples(&there),
            "{name}"
        );
        let mut brought = there;
        brought.bring().expect("it can be read");
        let reads = space.reads();
        assert!(here == brought && space.reads() == reads, "{name}: brought");
    }
}

/// Indexes a film with scratch space that keeps `kept` chunks and fails after `reads` reads.
fn with(film: &Film, kept: u64, reads: u64) -> Result<Index, ReadIndexError> {
    film.index(Scratch::new(Space::new(kept, reads)))
}

#[test]
fn scratch_space_that_is_full_costs_memory_only() {
    for film in &films(12) {
        let here = film.index(Scratch::default()).expect("an index");
        for kept in [0, 1, 7, 20] {
            let there = with(film, kept, ALL).expect("an index");
            assert!(here == there, "{} with {kept} chunks", film.name);
        }
    }
}

#[test]
fn a_recording_that_grew_has_the_index_that_it_would_have_had_at_once() {
    let [film, ..] = films(60);
    let space = Space::new(ALL, ALL);
    let mut unfinished: Option<Unfinished> = None;
    for part in [0.3, 0.31, 0.7, 1.0] {
        let length = (film.len() as f64 * part) as u64;
        let read = |range: Range<u64>, into: &mut Vec<u8>| {
            film.read(range, into);
            Ok(())
        };
        let options = IndexOptions::default();
        let indexer = match unfinished.take() {
            Some(so_far) => so_far.go_on(length),
            None => Indexer::with_scratch(length, options, Scratch::new(space.clone())),
        };
        let (grown, so_far) = index_growing(indexer, true, read).expect("an index");
        let at_once = index_with(read, length, options).expect("an index");
        assert!(grown == at_once, "{length} bytes");
        let so_far = so_far.expect("something to go on from");
        // Two streams, unread bytes, and the locations of the rest.
        assert!(so_far.memory() < 2 << 20, "{} bytes", so_far.memory());
        let records = at_once.tables.memory() as u64;
        let aside = so_far.aside();
        assert!(
            aside > records / 2 && aside < records,
            "{aside} of {records}"
        );
        unfinished = Some(so_far);
    }
    assert!(space.reads() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn scratch_space_that_cannot_be_read_makes_no_wrong_index(part in 0.0f64..1.0) {
        for film in &films(6) {
            let space = Space::new(ALL, ALL);
            let here = film.index(Scratch::new(space.clone())).expect("an index");
            prop_assert!(space.reads() > 0);
            let reads = (space.reads() as f64 * part) as u64;
            prop_assert!(samples(&here) > 0);
            match with(film, ALL, reads) {
                Err(ReadIndexError::Film(error)) => {
                    prop_assert_eq!(error.kind, IndexErrorKind::Scratch);
                    prop_assert!(error.to_string().contains("cannot be read back"), "{}", error);
                }
                other => prop_assert!(false, "{}: {:?}", film.name, other.is_ok()),
            }
        }
    }
}
