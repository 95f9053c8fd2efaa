//! The memory of blocks: preparation, sharing, release.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_store::{BlockSource, Fill, Lane, Opener, Store, StoreConfig};
use reelway_sys::FileIdentity;

use crate::helper::{BLOCK, ask, assert_bytes, byte_at, file, get, store};

#[test]
fn memory_is_ready_before_it_is_used_as_much_as_is_used_and_never_without_need() {
    const MIB: u64 = 1 << 20;
    let config = StoreConfig {
        pool_bytes: 160 * MIB,
        block_bytes: MIB as u32,
        ..StoreConfig::default()
    };
    let store = Store::new(config).unwrap();
    let deadline = reelway_clock::now() + Duration::from_secs(30);
    let until_ready = |blocks: u64| {
        while store.stats().ready < blocks {
            assert!(
                reelway_clock::now() < deadline,
                "only {} blocks of {blocks} are ready",
                store.stats().ready
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // Nothing has been requested.
    until_ready(64);
    assert_eq!(
        store.stats().ready,
        64,
        "a pool takes what it may need soon"
    );
    let take = |count| {
        let (sender, receiver) = mpsc::channel();
        store.allocate(count, Monotonic::ZERO, move |blocks| {
            sender.send(blocks.unwrap()).unwrap();
        });
        receiver.recv_timeout(Duration::from_secs(10)).unwrap()
    };
    // More than half of the ready blocks are in use, so 64 more are to be made ready.
    let first = take(40);
    until_ready(104);
    // 100 are in use: all others are made ready and can be allocated.
    let second = [take(30), take(30)];
    until_ready(160);
    let third = [take(30), take(30)];
    let taken = second.iter().chain(&third).map(Vec::len).sum::<usize>();
    assert_eq!(first.len() + taken, 160);
}

#[test]
fn the_blocks_of_a_film_that_is_no_more_are_dropped_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(16);
    let old = store.open(&file(dir.path(), "old", 4 * BLOCK)).unwrap();
    let other = store.open(&file(dir.path(), "other", 3 * BLOCK)).unwrap();
    drop(get(&store, &old, 0..3 * BLOCK).unwrap());
    let used = get(&store, &old, 3 * BLOCK..4 * BLOCK).unwrap();
    drop(get(&store, &other, 0..3 * BLOCK).unwrap());
    assert_eq!(store.forget(old.identity()), 3);
    let stats = store.stats();
    assert_eq!((stats.cached, stats.misses), (4, 7));
    assert_eq!(
        used.slices(3 * BLOCK..4 * BLOCK).next().unwrap()[5],
        byte_at(3 * BLOCK + 5),
        "what is used stays"
    );
    drop(get(&store, &other, 0..3 * BLOCK).unwrap());
    assert_eq!(store.stats().misses, 7, "the other film is still there");
    drop(get(&store, &old, 0..BLOCK).unwrap());
    assert_eq!(
        store.stats().misses,
        8,
        "a viewer of the old film reads it again"
    );
}

#[test]
fn empty_blocks_are_of_the_pool_and_come_back_when_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 64 * BLOCK);
    let store = store(8);
    let source = store.open(&path).unwrap();
    (0..8).for_each(|block| drop(get(&store, &source, block * BLOCK..(block + 1) * BLOCK)));
    let allocate = |count| {
        let (sender, receiver) = mpsc::channel();
        store.allocate(count, Monotonic::ZERO, move |buffers| {
            drop(sender.send(buffers));
        });
        receiver
    };
    let error = allocate(3).recv().unwrap().unwrap_err();
    assert!(error.to_string().contains("the pool allows 2"), "{error}");
    let mut lent: Vec<_> = (0..4)
        .flat_map(|_| allocate(2).recv().unwrap().unwrap())
        .collect();
    assert_eq!((store.stats().in_use, store.stats().cached), (8, 0));
    for (value, buffer) in lent.iter_mut().enumerate() {
        assert_eq!(
            (buffer.len() as u64, buffer.as_ptr() as u64 % 4096),
            (BLOCK, 0)
        );
        buffer.fill(value as u8);
    }
    let waiting = ask(&store, &source, 0..BLOCK, 5);
    assert!(waiting.try_recv().is_err() && store.stats().waiting == 1);
    assert!(
        lent.iter()
            .enumerate()
            .all(|(value, buffer)| buffer.iter().all(|byte| *byte == value as u8))
    );
    lent.pop();
    let span = waiting.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_bytes(&span.unwrap(), 0..BLOCK);
    drop(lent);
    assert_eq!((store.stats().in_use, store.stats().cached), (0, 1));
}

#[test]
fn the_policy_that_is_asked_for_chooses_the_victim() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 32 * BLOCK);
    for (policy, kept) in [("lru", true), ("fifo", false), ("lfu", true), ("ons", true)] {
        let store = Store::new(StoreConfig {
            pool_bytes: 8 * BLOCK,
            block_bytes: BLOCK as u32,
            policy: policy.parse().unwrap(),
            ..StoreConfig::default()
        })
        .unwrap();
        let source = store.open(&path).unwrap();
        let touch =
            |block: u64| drop(get(&store, &source, block * BLOCK..block * BLOCK + 1).unwrap());
        (0..8).for_each(touch);
        touch(0);
        touch(9);
        assert_eq!(store.blocks_of(&source).contains(&0), kept, "{policy}");
    }
}

#[test]
fn who_watches_the_store_sees_every_block_that_is_asked_for() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<(u32, bool)>>);
    impl reelway_store::Observer for Seen {
        fn access(&self, block: reelway_cache::BlockId, hit: bool, _: Duration) {
            self.0.lock().unwrap().push((block.block, hit));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "film", 32 * BLOCK);
    let store = store(16);
    let seen = Arc::new(Seen::default());
    store.observe(Arc::clone(&seen) as Arc<dyn reelway_store::Observer>);
    let source = store.open(&path).unwrap();
    drop(get(&store, &source, BLOCK..2 * BLOCK).unwrap());
    drop(get(&store, &source, 2 * BLOCK - 1..3 * BLOCK).unwrap());
    assert_eq!(*seen.0.lock().unwrap(), [(1, false), (1, true), (2, false)]);
}

/// A place that never answers.
#[derive(Debug, Default)]
struct Stalled(Mutex<Vec<Fill>>);

impl BlockSource for Stalled {
    fn path(&self) -> &Path {
        Path::new("http://stalled/film")
    }

    fn identity(&self) -> FileIdentity {
        FileIdentity {
            device: 1 << 63,
            inode: 1,
            size: 1000 * BLOCK,
            mtime_ns: 0,
        }
    }

    fn read(self: Arc<Self>, fill: Fill) {
        self.0.lock().unwrap().push(fill);
    }
}

struct Door(Arc<Stalled>, Lane);

impl Opener for Door {
    fn open(
        &self,
        _: &Path,
        _: Option<FileIdentity>,
    ) -> std::io::Result<(Arc<dyn BlockSource>, Lane)> {
        Ok((self.0.clone(), self.1.clone()))
    }
}

#[test]
fn a_path_below_two_mounts_is_opened_by_the_inner_one() {
    let store = store(16);
    let (outer, inner) = (Arc::new(Stalled::default()), Arc::new(Stalled::default()));
    for (prefix, stalled) in [("http://afar", &outer), ("http://afar/inner", &inner)] {
        let lane = store.lane(prefix, 2);
        store.mount(prefix, Arc::new(Door(stalled.clone(), lane)));
    }
    let _film = store.open(Path::new("http://afar/inner/film")).unwrap();
    // The film holds what it was opened by.
    assert_eq!(Arc::strong_count(&outer), 2);
    assert_eq!(Arc::strong_count(&inner), 3);
}

#[test]
fn a_place_afar_that_stalls_leaves_half_of_the_pool_to_others() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = store(16);
    let stalled = Arc::new(Stalled::default());
    let lane = store.lane("http://stalled", 2);
    store.mount("http://stalled", Arc::new(Door(stalled.clone(), lane)));
    let afar = store.open(Path::new("http://stalled/film")).unwrap();
    let here = store.open(&file(dir.path(), "film", 64 * BLOCK)).unwrap();
    // More than the pool can hold, and more urgent than the others.
    let waiting: Vec<_> = (0..40)
        .map(|n| ask(&store, &afar, n * BLOCK..(n + 1) * BLOCK, n))
        .collect();
    let stats = store.stats();
    assert_eq!((stats.in_use, stats.waiting), (8, 32), "half of the pool");
    // Twice through the rest of the pool.
    for n in 0..21 {
        let range = n * 3 * BLOCK..(n * 3 + 3) * BLOCK;
        assert_bytes(&get(&store, &here, range.clone()).unwrap(), range);
    }
    // When the place recovers, all requests are answered in order.
    let mut done = 0;
    while let Some(mut fill) = {
        let mut fills = stalled.0.lock().unwrap();
        (!fills.is_empty()).then(|| fills.remove(0))
    } {
        assert_eq!(fill.range().start, done * BLOCK);
        let range = fill.range();
        for (byte, at) in fill.buffer().iter_mut().zip(range) {
            *byte = byte_at(at);
        }
        fill.finish(Ok(()));
        let n = done as usize;
        let span = waiting[n].try_recv().expect("an answer").unwrap();
        assert_bytes(&span, done * BLOCK..(done + 1) * BLOCK);
        done += 1;
    }
    assert_eq!((done, store.stats().waiting), (40, 0));
}
