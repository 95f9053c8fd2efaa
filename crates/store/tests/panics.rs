//! Panics in the store's threads and in callbacks of reads.
#![cfg(debug_assertions)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_store::{ReadBy, ReadError, Source, Span, Store, StoreConfig};
use reelway_supervise as supervise;

const BLOCK: u64 = 4096;
const POOL: u64 = 8;

fn store(read_by: ReadBy) -> Store {
    let config = StoreConfig {
        pool_bytes: POOL * BLOCK,
        block_bytes: BLOCK as u32,
        depth: 2,
        read_by,
        ..StoreConfig::default()
    };
    Store::new(config).unwrap()
}

fn file(dir: &Path, blocks: u64) -> PathBuf {
    let path = dir.join("film");
    let bytes: Vec<u8> = (0..blocks * BLOCK).map(|at| (at / BLOCK) as u8).collect();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Requests a block; the answer arrives on the channel.
fn ask(store: &Store, source: &Arc<Source>, block: u64) -> mpsc::Receiver<Result<Span, ReadError>> {
    let (sender, receiver) = mpsc::channel();
    let range = block * BLOCK..(block + 1) * BLOCK;
    store.fetch(source, range, Monotonic::ZERO, move |read| {
        let _ = sender.send(read);
    });
    receiver
}

fn answer(asked: &mpsc::Receiver<Result<Span, ReadError>>) -> Result<Span, ReadError> {
    asked
        .recv_timeout(Duration::from_secs(10))
        .expect("an answer")
}

/// A single test, since injected faults are global to the process.
#[test]
fn a_read_that_panics_fails_alone_and_costs_the_pool_no_block() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = file(dir.path(), 2 * POOL);
    for read_by in [ReadBy::Ring, ReadBy::Threads] {
        let store = store(read_by);
        let source = store.open(&path).unwrap();
        // More blocks than the pool has.
        for block in 0..=POOL {
            supervise::arm("disk", 1);
            let failed = answer(&ask(&store, &source, block));
            assert!(matches!(failed, Err(ReadError::Fault { .. })), "{failed:?}");
        }
        for block in 0..2 * POOL {
            let span = answer(&ask(&store, &source, block)).unwrap();
            let range = block * BLOCK..(block + 1) * BLOCK;
            assert!(
                span.slices(range)
                    .flatten()
                    .all(|byte| *byte == block as u8)
            );
        }
        // Callbacks: one panics, and the others are still called.
        let (sender, called) = mpsc::channel();
        for number in 0..4 {
            let sender = sender.clone();
            store.fetch(&source, 0..BLOCK, Monotonic::ZERO, move |_| {
                assert!(number != 1, "the fault of one of them");
                sender.send(number).unwrap();
            });
        }
        drop(sender);
        let mut called: Vec<i32> = called.iter().collect();
        called.sort_unstable();
        assert_eq!(called, [0, 2, 3]);
        assert!(answer(&ask(&store, &source, 1)).is_ok());
    }
}
