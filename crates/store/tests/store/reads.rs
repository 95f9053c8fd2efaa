//! Reads by one client and by many at once.

use std::time::Duration;

use bytes::Bytes;
use reelway_store::{ReadError, Store, StoreConfig, StoreError};

use crate::helper::{BLOCK, ask, assert_bytes, byte_at, file, get, store};

#[test]
fn any_range_is_what_the_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 10 * BLOCK + 77);
    let store = store(64);
    let source = store.open(&path).unwrap();
    assert_eq!(
        (source.len(), source.path()),
        (10 * BLOCK + 77, path.as_path())
    );
    let ranges = [
        0..1,
        0..BLOCK,
        1..2 * BLOCK,
        BLOCK - 1..BLOCK + 1,
        5 * BLOCK..10 * BLOCK + 77,
        10 * BLOCK + 76..10 * BLOCK + 77,
        9..9,
    ];
    for range in ranges {
        let span = get(&store, &source, range.clone()).unwrap();
        assert_eq!(span.range(), range);
        assert_bytes(&span, range.clone());
        // Parts of it, and ranges that exceed it.
        let inner = range.start + (range.end - range.start) / 3..range.end;
        assert_bytes(&span, inner.clone());
        assert_eq!(
            span.slices(0..u64::MAX).map(<[u8]>::len).sum::<usize>() as u64,
            range.end - range.start
        );
        let mut buffer = vec![0; (inner.end - inner.start) as usize];
        assert!(span.read_at(inner.start, &mut buffer));
        assert!(
            buffer
                .iter()
                .zip(inner)
                .all(|(byte, at)| *byte == byte_at(at))
        );
        assert!(!span.read_at(range.end, &mut [0]) && !span.read_at(u64::MAX, &mut [0; 9]));
    }
}

#[test]
fn owned_pieces_keep_their_blocks_and_are_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 4 * BLOCK);
    let store = store(16);
    let source = store.open(&path).unwrap();
    let span = get(&store, &source, 100..3 * BLOCK).unwrap();
    let addresses: Vec<_> = span.slices(100..3 * BLOCK).map(<[u8]>::as_ptr).collect();
    let parts = span.block_parts(span.range());
    let pieces: Vec<_> = parts.map(Bytes::from_owner).collect();
    drop(span);
    assert_eq!(
        pieces
            .iter()
            .map(|piece| piece.as_ptr())
            .collect::<Vec<_>>(),
        addresses
    );
    assert_eq!(store.stats().in_use, 3);
    let tail = pieces[2].slice(5..9);
    drop(pieces);
    assert_eq!(store.stats().in_use, 1);
    assert!(
        tail.iter()
            .zip(2 * BLOCK + 5..)
            .all(|(byte, at)| *byte == byte_at(at))
    );
    drop(tail);
    assert_eq!(store.stats().in_use, 0);
}

#[test]
fn a_block_wanted_by_many_at_once_is_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 8 * BLOCK);
    let store = store(64);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, path) = (&store, &path);
            scope.spawn(move || {
                let source = store.open(path).unwrap();
                for round in 0..50 {
                    let start = (thread + round) % 7 * BLOCK + round;
                    let span = get(store, &source, start..start + BLOCK).unwrap();
                    assert_bytes(&span, start..start + BLOCK);
                }
            });
        }
    });
    let stats = store.stats();
    assert_eq!(
        (stats.misses, stats.bytes_read, stats.in_use, stats.waiting),
        (8, 8 * BLOCK, 0, 0)
    );
    // Each range touches two blocks, except the eight of round 0, which begin at the start of a
    // block.
    assert_eq!(stats.hits + stats.misses, 8 * 50 * 2 - 8);
}

#[test]
fn requests_for_several_blocks_never_block_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 256 * BLOCK);
    let store = store(12);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (store, path) = (&store, &path);
            scope.spawn(move || {
                let source = store.open(path).unwrap();
                for round in 0..100u64 {
                    let start = (thread * 31 + round * 7) % 250 * BLOCK;
                    let span = get(store, &source, start..start + 2 * BLOCK).unwrap();
                    assert_bytes(&span, start..start + 2 * BLOCK);
                }
            });
        }
    });
    assert_eq!((store.stats().in_use, store.stats().waiting), (0, 0));
}

#[test]
fn impossible_requests_are_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 64 * BLOCK);
    let store = store(16);
    let source = store.open(&path).unwrap();
    let error = get(&store, &source, 0..65 * BLOCK).unwrap_err();
    assert!(error.to_string().contains("the file has 262144"), "{error}");
    let error = get(&store, &source, 0..store.most_bytes() + 1).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { .. }));
    assert!(error.to_string().contains("make it larger"), "{error}");
    assert_bytes(
        &get(&store, &source, 1..store.most_bytes() + 1).unwrap(),
        1..store.most_bytes() + 1,
    );
    assert!(store.open(dir.path()).is_err(), "a directory is not a film");
    assert!(store.open(&dir.path().join("none")).is_err());
    assert!(matches!(
        Store::new(StoreConfig {
            pool_bytes: 4096,
            ..StoreConfig::default()
        }),
        Err(StoreError::Config(_))
    ));
    assert!(matches!(
        Store::new(StoreConfig {
            block_bytes: 5000,
            ..StoreConfig::default()
        }),
        Err(StoreError::Config(_))
    ));
}

#[test]
fn a_closed_store_answers_all_who_wait_and_spans_outlive_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 64 * BLOCK);
    let store = store(8);
    let source = store.open(&path).unwrap();
    let held: Vec<_> = (0..8)
        .map(|block| get(&store, &source, block * BLOCK..(block + 1) * BLOCK).unwrap())
        .collect();
    let waiting = ask(&store, &source, 10 * BLOCK..11 * BLOCK, 0);
    drop(store);
    assert!(matches!(
        waiting.recv_timeout(Duration::from_secs(5)),
        Ok(Err(ReadError::Closed))
    ));
    for (block, span) in held.iter().enumerate() {
        assert_bytes(span, block as u64 * BLOCK..(block as u64 + 1) * BLOCK);
    }
}
