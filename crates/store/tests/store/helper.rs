//! Stores, files of known bytes, and reads of them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_store::{ReadError, Source, Span, Store, StoreConfig};

pub(crate) const BLOCK: u64 = 4096;

pub(crate) fn store(blocks: u64) -> Store {
    let config = StoreConfig {
        pool_bytes: blocks * BLOCK,
        block_bytes: BLOCK as u32,
        depth: 3,
        ..StoreConfig::default()
    };
    Store::new(config).unwrap()
}

pub(crate) fn byte_at(at: u64) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)).wrapping_mul(31) as u8
}

/// Creates a file of known bytes on a real disk that allows direct reads.
pub(crate) fn file(dir: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = dir.join(name);
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    (0..bytes).for_each(|at| out.write_all(&[byte_at(at)]).unwrap());
    out.flush().unwrap();
    path
}

pub(crate) fn get(
    store: &Store,
    source: &Arc<Source>,
    range: std::ops::Range<u64>,
) -> Result<Span, ReadError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async {
            let read = store.read(source, range, Monotonic::ZERO);
            tokio::time::timeout(Duration::from_secs(10), read)
                .await
                .expect("an answer within ten seconds")
        })
}

/// Requests bytes without waiting; the answer arrives on the channel.
pub(crate) fn ask(
    store: &Store,
    source: &Arc<Source>,
    range: std::ops::Range<u64>,
    deadline: u64,
) -> mpsc::Receiver<Result<Span, ReadError>> {
    let (sender, receiver) = mpsc::channel();
    store.fetch(
        source,
        range,
        Monotonic::from_nanos(deadline),
        move |result| drop(sender.send(result)),
    );
    receiver
}

pub(crate) fn assert_bytes(span: &Span, range: std::ops::Range<u64>) {
    let bytes: Vec<u8> = span.slices(range.clone()).flatten().copied().collect();
    assert_eq!(bytes.len() as u64, range.end - range.start);
    assert!(
        bytes
            .iter()
            .zip(range)
            .all(|(byte, at)| *byte == byte_at(at))
    );
}
