//! Files that change or end, on disks and file systems of several kinds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reelway_store::{ReadBy, ReadError, Store, StoreConfig};

use crate::helper::{BLOCK, assert_bytes, file, get, store};

#[test]
fn a_file_that_changes_gives_an_error_and_never_its_new_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 8 * BLOCK);
    let store = store(16);
    let source = store.open(&path).unwrap();
    let span = get(&store, &source, 0..BLOCK).unwrap();
    std::fs::write(&path, vec![0xee; 8 * BLOCK as usize]).unwrap();
    let error = get(&store, &source, BLOCK..2 * BLOCK).unwrap_err();
    assert!(
        matches!(&error, ReadError::Changed { path: of } if *of == path),
        "{error}"
    );
    assert!(
        matches!(get(&store, &source, 0..1), Err(ReadError::Changed { .. })),
        "from then on for all of it"
    );
    assert_bytes(&span, 0..BLOCK);
    // Opened again, it is another file.
    let again = store.open(&path).unwrap();
    assert_ne!(again.identity(), source.identity());
    let span = get(&store, &again, 0..2 * BLOCK).unwrap();
    assert!(
        span.slices(0..2 * BLOCK)
            .flatten()
            .all(|byte| *byte == 0xee)
    );
}

#[test]
fn a_file_cut_short_is_told_from_a_disk_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 8 * BLOCK);
    let store = store(16);
    let source = store.open(&path).unwrap();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(2 * BLOCK)
        .unwrap();
    assert!(matches!(
        get(&store, &source, 5 * BLOCK..6 * BLOCK),
        Err(ReadError::Changed { .. })
    ));
    assert_eq!(store.stats().errors, 1);
    assert_eq!(store.stats().in_use, 0);
}

#[test]
fn a_file_replaced_by_another_of_its_name_plays_on_from_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 4 * BLOCK);
    let store = store(32);
    let source = store.open(&path).unwrap();
    std::fs::write(dir.path().join("new"), vec![1; 4 * BLOCK as usize]).unwrap();
    std::fs::rename(dir.path().join("new"), &path).unwrap();
    assert_bytes(
        &get(&store, &source, 0..4 * BLOCK - 1).unwrap(),
        0..4 * BLOCK - 1,
    );
    assert!(!Arc::ptr_eq(&source, &store.open(&path).unwrap()));
}

#[test]
fn a_file_system_without_direct_reads_is_read_through_the_page_cache() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return reelway_skip::skipped!("there is no /dev/shm");
    };
    let path = file(dir.path(), "film", 3 * BLOCK + 5);
    let store = store(32);
    let source = store.open(&path).unwrap();
    assert_bytes(
        &get(&store, &source, 0..3 * BLOCK + 5).unwrap(),
        0..3 * BLOCK + 5,
    );
}

#[test]
fn films_are_read_alike_by_threads_where_there_is_no_ring() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 30 * BLOCK + 77);
    for read_by in [ReadBy::Ring, ReadBy::Threads] {
        let store = Store::new(StoreConfig {
            pool_bytes: 256 * BLOCK,
            block_bytes: BLOCK as u32,
            depth: 2,
            read_by,
            ..StoreConfig::default()
        })
        .unwrap();
        let source = store.open(&path).unwrap();
        assert_bytes(
            &get(&store, &source, 0..30 * BLOCK + 77).unwrap(),
            0..30 * BLOCK + 77,
        );
        let lanes = store.lanes();
        assert_eq!(
            (lanes.len(), lanes[0].reads, lanes[0].bytes),
            (1, 31, 30 * BLOCK + 77)
        );
        assert!(lanes[0].under_way == 0 && lanes[0].longest > Duration::ZERO);
    }
}

#[test]
fn films_on_two_disks_have_a_queue_each() {
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Ok(there) = tempfile::tempdir_in("/dev/shm") else {
        return reelway_skip::skipped!("there is no /dev/shm");
    };
    let store = store(64);
    let open = |dir: &Path, blocks| store.open(&file(dir, "film", blocks * BLOCK)).unwrap();
    let (one, other) = (open(here.path(), 9), open(there.path(), 5));
    for (source, blocks) in [(&one, 9), (&other, 5)] {
        for block in 0..blocks {
            let range = block * BLOCK..(block + 1) * BLOCK;
            assert_bytes(&get(&store, source, range.clone()).unwrap(), range);
        }
    }
    let lanes = store.lanes();
    let told: Vec<_> = lanes.iter().map(|lane| (lane.depth, lane.reads)).collect();
    assert_eq!(told, [(3, 9), (3, 5)]);
    assert_ne!(lanes[0].name, lanes[1].name);
}
