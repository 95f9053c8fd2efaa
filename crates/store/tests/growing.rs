//! Remote recordings that grow: cached blocks stay valid after growth, except those that may have
//! changed.

use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_store::{BlockSource, Fill, Lane, Opener, Source, Store, StoreConfig, TierConfig};
use reelway_sys::{FileIdentity, Mark};

const BLOCK: u64 = 4096;
const FILM: &str = "http://afar/film";

/// A recording of this many bytes, and which of its blocks were fetched.
#[derive(Debug)]
struct Afar {
    len: u64,
    fetched: Arc<Mutex<Vec<u64>>>,
}

fn byte_at(at: u64) -> u8 {
    (at ^ (at >> 8)).wrapping_mul(31) as u8
}

impl BlockSource for Afar {
    fn path(&self) -> &Path {
        Path::new(FILM)
    }

    fn identity(&self) -> FileIdentity {
        FileIdentity::remote_recording(7, self.len, self.len as i64)
    }

    fn is_lasting(&self) -> bool {
        true
    }

    fn read(self: Arc<Self>, mut fill: Fill) {
        let range = fill.range();
        self.fetched.lock().unwrap().push(range.start / BLOCK);
        for (byte, at) in fill.buffer().iter_mut().zip(range) {
            *byte = byte_at(at);
        }
        fill.finish(Ok(()));
    }
}

/// Opens the recording with the length in the known identity.
struct Door(Arc<Mutex<Vec<u64>>>, Lane);

impl Opener for Door {
    fn open(
        &self,
        _: &Path,
        known: Option<FileIdentity>,
    ) -> std::io::Result<(Arc<dyn BlockSource>, Lane)> {
        let film = Afar {
            len: known.expect("it is known").size,
            fetched: self.0.clone(),
        };
        Ok((Arc::new(film), self.1.clone()))
    }
}

struct Woken(Thread);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future and returns its result.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Arc::new(Woken(thread::current())).into();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}

struct Edge {
    store: Store,
    fetched: Arc<Mutex<Vec<u64>>>,
}

impl Edge {
    fn start(tier: Option<TierConfig>) -> Edge {
        let store = Store::new(StoreConfig {
            pool_bytes: 64 * BLOCK,
            block_bytes: BLOCK as u32,
            tier,
            ..StoreConfig::default()
        })
        .unwrap();
        let fetched = Arc::default();
        let lane = store.lane("http://afar", 2);
        store.mount("http://afar", Arc::new(Door(Arc::clone(&fetched), lane)));
        Edge { store, fetched }
    }

    /// Opens the recording with its length at some time; its media begin at the byte `from`.
    fn open(&self, len: u64, from: u64) -> Arc<Source> {
        let known = FileIdentity::remote_recording(7, len, len as i64);
        let mark = Mark { from, sum: 0 };
        self.store
            .open_grown(Path::new(FILM), (known, mark))
            .unwrap()
    }

    /// Plays a range and checks every byte. Returns the blocks that were fetched for it.
    fn play(&self, film: &Arc<Source>, range: Range<u64>) -> Vec<u64> {
        for first in range.clone().step_by(BLOCK as usize) {
            let part = first..(first + BLOCK).min(range.end);
            let (sender, receiver) = std::sync::mpsc::channel();
            let done = move |span| drop(sender.send(span));
            self.store.fetch(film, part.clone(), Monotonic::ZERO, done);
            let span = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
            let span = span.unwrap();
            let bytes: Vec<u8> = span.slices(part.clone()).flatten().copied().collect();
            assert_eq!(bytes.len() as u64, part.end - part.start);
            assert!(
                bytes
                    .iter()
                    .zip(part)
                    .all(|(byte, at)| *byte == byte_at(at))
            );
        }
        let mut fetched = std::mem::take(&mut *self.fetched.lock().unwrap());
        fetched.sort_unstable();
        fetched
    }
}

#[test]
fn what_is_in_memory_of_a_recording_stays_when_it_has_grown() {
    let edge = Edge::start(None);
    let (short, long) = (10 * BLOCK + 100, 20 * BLOCK + 5);
    let first = edge.open(short, 0);
    assert_eq!(edge.play(&first, 0..short), (0..=10).collect::<Vec<_>>());
    let grown = edge.open(long, 0);
    // The block in which the recording ended has more bytes now.
    assert_eq!(edge.play(&grown, 0..long), (10..=20).collect::<Vec<_>>());
    // A viewer who began earlier continues with the earlier version.
    assert_eq!(edge.play(&first, 0..short), []);
    let held = |film: &Arc<Source>| edge.store.blocks_of(film);
    assert_eq!(held(&grown), (0..=20).collect::<Vec<_>>());
    let in_memory = edge.store.in_memory(&[grown.identity()]);
    assert_eq!(in_memory[0].as_ref().unwrap().1, held(&grown));
    // All of it is evicted at once.
    edge.store.forget(grown.identity());
    assert_eq!(edge.play(&grown, 0..long).len(), 21);
}

#[test]
fn the_head_of_a_recording_is_fetched_again_when_it_has_grown() {
    let edge = Edge::start(None);
    let from = BLOCK + 1;
    let first = edge.open(4 * BLOCK, from);
    assert_eq!(edge.play(&first, 0..4 * BLOCK), [0, 1, 2, 3]);
    let grown = edge.open(6 * BLOCK, from);
    assert_eq!(edge.play(&grown, 0..6 * BLOCK), [0, 1, 4, 5]);
}

#[test]
fn what_is_on_the_tier_of_a_recording_stays_when_it_has_grown_and_goes_with_it() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let start = || {
        Edge::start(Some(TierConfig {
            dir: dir.path().to_owned(),
            bytes: 64 * BLOCK,
            policy: "lru".parse().unwrap(),
            admit: 1,
            daily: 1 << 40,
        }))
    };
    let (short, long) = (10 * BLOCK + 100, 12 * BLOCK);
    let edge = start();
    let first = edge.open(short, 0);
    for block in 0..=10 {
        assert!(wait_for(edge.store.bring(&first, block)).unwrap());
    }
    drop((edge, first));
    let edge = start();
    let grown = edge.open(long, 0);
    assert_eq!(edge.store.lacks(&grown), Some(vec![10, 11]));
    // Played blocks are written a moment later; blocks from `bring` are already there.
    for block in [10, 11] {
        assert!(wait_for(edge.store.bring(&grown, block)).unwrap());
    }
    let fetched = std::mem::take(&mut *edge.fetched.lock().unwrap());
    assert_eq!(fetched, [10, 11]);
    assert_eq!(edge.play(&grown, 0..long), []);
    edge.store.purge(grown.identity());
    assert_eq!(edge.store.lacks(&grown).unwrap().len(), 12);
    assert_eq!(edge.play(&grown, 0..long).len(), 12);
}
