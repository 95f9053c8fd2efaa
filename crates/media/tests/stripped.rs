//! Matroska films with header stripping: their view has whole frames.

mod ebml;
mod sent;

use std::ops::Range;

use ebml::*;
use proptest::prelude::*;
use reelway_media::{
    Filled, Filling, Index, IndexErrorKind, IndexOptions, Indexer, Place, STEP, Step, WITH_HEADS,
};
use sent::sent;

/// The elements of a track whose frames are stored without these first bytes.
fn stripping(head: &[u8]) -> Vec<u8> {
    let settings = [unsigned(0x4254, 3), element(0x4255, head)].concat();
    element(0x6d80, &element(0x6240, &element(0x5034, &settings)))
}

/// The frames of a block.
#[derive(Clone, Debug)]
struct Frames {
    /// 1: video, 2: audio.
    track: u8,
    /// The stored bytes of each frame.
    sizes: Vec<usize>,
    /// Whether decoders can start here.
    sync: bool,
}

/// The bytes of frame number `nth`.
fn frame(nth: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (nth * 31 + at * 7) as u8).collect()
}

/// Block number `nth`: 20 ms after the previous one, in a cluster of its own.
fn written(nth: usize, frames: &Frames, stored: &[Vec<u8>]) -> Vec<u8> {
    let mut rest = Vec::new();
    let mut flags = if frames.sync { 0x80 } else { 0 };
    if let [laced @ .., _] = &frames.sizes[..]
        && !laced.is_empty()
    {
        flags |= 2;
        rest.push(laced.len() as u8);
        for size in laced {
            rest.extend(vec![255; size / 255]);
            rest.push((size % 255) as u8);
        }
    }
    rest.extend(stored.concat());
    let body = block(frames.track, 0, flags, &rest);
    let block = element(SIMPLE_BLOCK, &body);
    element(CLUSTER, &cluster(20 * nth as u32, &[block]))
}

/// A film of these blocks, stored without these bytes, and the whole frames of both tracks.
fn film_of(blocks: &[Frames], heads: [&[u8]; 2]) -> (Vec<u8>, [Vec<Vec<u8>>; 2]) {
    let encoded = heads.map(|head| match head.is_empty() {
        true => Vec::new(),
        false => stripping(head),
    });
    let tracks = [picture(1, &encoded[0]), sound(2, &encoded[1])].concat();
    let mut parts = vec![element(TRACKS, &tracks)];
    let mut whole = [Vec::new(), Vec::new()];
    for (nth, frames) in blocks.iter().enumerate() {
        let track = usize::from(frames.track - 1);
        let sizes = frames.sizes.iter().enumerate();
        let stored: Vec<Vec<u8>> = sizes.map(|(n, size)| frame(nth * 8 + n, *size)).collect();
        parts.push(written(nth, frames, &stored));
        let with_heads = stored.iter().map(|stored| [heads[track], stored].concat());
        whole[track].extend(with_heads);
    }
    (film(&parts), whole)
}

fn filling(film: &[u8], index: &Index, range: Range<u64>) -> Filling {
    let filling = Filling::new(&index.title, &index.tables, film.len() as u64, range);
    filling.expect("samples").expect("a view")
}

/// A part of the view.
fn view(film: &[u8], index: &Index, range: Range<u64>) -> Vec<u8> {
    let mut filling = filling(film, index, range.clone());
    let wanted = filling.wanted();
    assert!(!wanted.is_empty() && wanted.end <= film.len() as u64);
    assert!(wanted.end - wanted.start <= (range.end - range.start).max(1));
    let mut into = vec![0xaa; (range.end - range.start) as usize];
    let bytes = &film[wanted.start as usize..wanted.end as usize];
    assert_eq!(
        filling.fill(bytes, &mut into, &mut Vec::new()),
        Filled::Whole
    );
    into
}

/// Checks that all samples are whole if the view is made in parts of `part` bytes; `skipped` frames
/// of each track are not part of the film.
fn is_whole(
    film: &[u8],
    index: &Index,
    frames: &[Vec<Vec<u8>>; 2],
    skipped: [usize; 2],
    part: u64,
) {
    let bytes = index.title.view.expect("a view").bytes;
    let mut all = Vec::new();
    while (all.len() as u64) < bytes {
        let at = all.len() as u64;
        all.extend(view(film, index, at..(at + part).min(bytes)));
    }
    for (track, table) in index.title.tracks.iter().zip(&index.tables) {
        let number = track.id as usize - 1;
        let samples = table.iter().map(|sample| {
            let bytes = sample.bytes();
            all[bytes.start as usize..bytes.end as usize].to_vec()
        });
        let samples: Vec<Vec<u8>> = samples.collect();
        assert!(
            samples == frames[number][skipped[number]..],
            "track {}",
            track.id
        );
    }
}

fn block_of(track: u8, sizes: &[usize]) -> Frames {
    Frames {
        track,
        sizes: sizes.to_vec(),
        sync: true,
    }
}

/// Alternating video and audio.
fn interleaved(count: usize) -> Vec<Frames> {
    let turn = |nth: usize| match nth % 2 {
        0 => block_of(1, &[3000 + nth]),
        _ => block_of(2, &[200, 0, 255, 256]),
    };
    (0..count).map(turn).collect()
}

#[test]
fn frames_are_whole_also_those_that_share_a_block() {
    for heads in [[&[0][..], &[0xff, 0xf1]], [&[0, 0], &[]], [&[], &[7; 255]]] {
        let (film, frames) = film_of(&interleaved(20), heads);
        let index = index(&film).unwrap();
        assert_eq!(index.title.notes, Vec::<String>::new());
        let put = heads[0].len() * frames[0].len() + heads[1].len() * frames[1].len();
        let view = index.title.view.unwrap();
        assert_eq!(view.packet, WITH_HEADS);
        assert_eq!(view.bytes, (film.len() + put) as u64);
        for part in [1, 100, 1 << 20] {
            is_whole(&film, &index, &frames, [0, 0], part);
        }
        for (track, table) in index.title.tracks.iter().zip(&index.tables) {
            let sizes = table.iter().map(|sample| u64::from(sample.size));
            assert_eq!(track.bytes, sizes.sum::<u64>());
        }
    }
}

#[test]
fn films_stored_as_they_are_need_no_view() {
    let (film, _) = film_of(&interleaved(4), [&[], &[]]);
    assert_eq!(index(&film).unwrap().title.view, None);
}

#[test]
fn pictures_that_cannot_be_decoded_are_left_out_without_their_heads() {
    let mut blocks = interleaved(20);
    blocks[..7]
        .iter_mut()
        .for_each(|frames| frames.sync = false);
    let (film, frames) = film_of(&blocks, [&[0, 0], &[0xff]]);
    let index = index(&film).unwrap();
    let notes = index.title.notes.join("; ");
    assert!(notes.contains("4 pictures before"), "{notes}");
    is_whole(&film, &index, &frames, [4, 0], 300);
}

#[test]
fn a_part_is_made_of_its_own_bytes_of_the_file() {
    let (film, frames) = film_of(&interleaved(600), [&[0], &[0x0b, 0x77]]);
    let index = index(&film).unwrap();
    let bytes = index.title.view.unwrap().bytes;
    assert!(bytes > 3 * STEP);
    is_whole(&film, &index, &frames, [0, 0], STEP);
    // Also if a long frame spans the whole part, and after the last frame.
    let long = [
        block_of(1, &[700_000]),
        block_of(2, &[10]),
        block_of(1, &[10]),
    ];
    let (film, frames) = film_of(&long, [&[0, 1, 2], &[]]);
    is_whole(&film, &index_of(&film), &frames, [0, 0], STEP);
    is_whole(&film, &index_of(&film), &frames, [0, 0], 1000);
}

fn index_of(film: &[u8]) -> Index {
    index(film).unwrap()
}

#[test]
fn more_than_255_bytes_are_not_put_before_each_frame() {
    let (film, frames) = film_of(&interleaved(4), [&[0], &[1; 256]]);
    let index = index(&film).unwrap();
    assert_eq!(index.title.tracks.len(), 1);
    let notes = index.title.notes.join("; ");
    assert!(
        notes.contains("track 2 (its frames are stored without more than 255"),
        "{notes}"
    );
    is_whole(&film, &index, &frames, [0, 0], 1000);
}

#[test]
fn blocks_that_are_too_long_are_refused() {
    let tracks = element(TRACKS, &picture(1, &stripping(&[0; 255])));
    for (long, is_refused) in [
        ((1 << 31) - 1024, false),
        ((1 << 31) - 1023, true),
        (u64::from(u32::MAX), true),
        (1 << 40, true),
    ] {
        let head = [
            &[0xa3][..],
            &(1 << 56 | long).to_be_bytes(),
            &block(1, 0, 0x80, &[]),
        ]
        .concat();
        let inside = [
            tracks.clone(),
            endless(CLUSTER, &[unsigned(TIMESTAMP, 0), head].concat()),
        ];
        let film = [header(), endless(SEGMENT, &inside.concat())].concat();
        let mut indexer = Indexer::new(1 << 41, IndexOptions::default());
        let outcome = loop {
            match indexer.step() {
                Ok(Step::Need(range)) => {
                    // The block is followed by zeros, which are not elements.
                    let from = (range.start as usize).min(film.len());
                    let mut bytes = film[from..film.len().min(range.end as usize)].to_vec();
                    bytes.resize((range.end - range.start) as usize, 0);
                    if let Err(error) = indexer.feed(&bytes) {
                        break Err(error);
                    }
                }
                Ok(Step::Done(index)) => break Ok(index),
                Err(error) => break Err(error),
            }
        };
        match outcome {
            Ok(index) => {
                assert!(!is_refused, "{long}");
                let size = index.tables[0].iter().next().map(|sample| sample.size);
                assert_eq!(size, Some(long as u32 - 4 + 255));
            }
            Err(error) => assert_eq!(
                (is_refused, error.kind),
                (true, IndexErrorKind::TooLarge),
                "{long}: {error}"
            ),
        }
    }
}

#[test]
fn another_server_gets_an_index_with_which_it_makes_the_same_view() {
    let (film, frames) = film_of(&interleaved(400), [&[0], &[0x0b, 0x77]]);
    let (index, len) = (index(&film).unwrap(), film.len() as u64);
    let theirs = sent(&index, len, |_| ()).unwrap();
    assert_eq!(theirs, index);
    is_whole(&film, &theirs, &frames, [0, 0], 100_000);

    let longer = |index: &mut Index| index.title.tracks[0].stripped.push(0);
    let error = sent(&index, len, longer).unwrap_err();
    assert!(error.contains("a view of"), "{error}");
    let none = |index: &mut Index| index.title.view = None;
    assert!(sent(&index, len, none).is_err());
    let long = |index: &mut Index| index.title.tracks[1].stripped = vec![0; 256];
    assert!(sent(&index, len, long).is_err());
    // Wrong places are detected when a part is made.
    let moved = |index: &mut Index| {
        let places = index.title.tracks[1].places.iter();
        let moved = places.map(|place| Place {
            file: place.file.saturating_sub(1),
            ..place
        });
        index.title.tracks[1].places = moved.collect();
    };
    let theirs = sent(&index, len, moved).unwrap();
    let mut filling = filling(&film, &theirs, 0..STEP);
    let wanted = filling.wanted();
    let bytes = &film[wanted.start as usize..wanted.end as usize];
    let filled = filling.fill(bytes, &mut vec![0; STEP as usize], &mut Vec::new());
    assert_eq!(filled, Filled::Different);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_the_frames_are_the_view_has_them(
        blocks in proptest::collection::vec(
            (1u8..3, proptest::collection::vec(prop_oneof![0usize..600, 0usize..4, 0usize..40_000], 1..8)),
            1..60,
        ),
        heads in [proptest::collection::vec(any::<u8>(), 0..256), proptest::collection::vec(any::<u8>(), 0..4)],
        part in 1000u64..600_000,
    ) {
        let mut blocks: Vec<Frames> = blocks
            .into_iter()
            .map(|(track, sizes)| block_of(track, &sizes))
            .collect();
        // At least two pictures: a single one would be cover art.
        blocks.splice(0..0, [block_of(1, &[5]), block_of(1, &[5]), block_of(2, &[9])]);
        prop_assume!(heads.iter().any(|head| !head.is_empty()));
        let (film, frames) = film_of(&blocks, [&heads[0], &heads[1]]);
        let index = index_of(&film);
        is_whole(&film, &index, &frames, [0, 0], part);
    }
}
