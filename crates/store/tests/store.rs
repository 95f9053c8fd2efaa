//! The store against real files: every byte, each block read once, limits kept, faults told.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_store::{
    BlockSource, Fill, Lane, Opener, ReadBy, ReadError, Source, Span, Store, StoreConfig,
    StoreError,
};
use reelway_sys::FileIdentity;

const BLOCK: u64 = 4096;

fn store(blocks: u64) -> Store {
    let config = StoreConfig {
        pool_bytes: blocks * BLOCK,
        block_bytes: BLOCK as u32,
        depth: 3,
        ..StoreConfig::default()
    };
    Store::new(config).unwrap()
}

fn byte_at(at: u64) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)).wrapping_mul(31) as u8
}

/// A file of known bytes on a real disk, where direct reads are possible.
fn file(dir: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = dir.join(name);
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    (0..bytes).for_each(|at| out.write_all(&[byte_at(at)]).unwrap());
    out.flush().unwrap();
    path
}

fn get(
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

/// Asks without waiting; the answer comes over the channel.
fn ask(
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

fn assert_bytes(span: &Span, range: std::ops::Range<u64>) {
    let bytes: Vec<u8> = span.slices(range.clone()).flatten().copied().collect();
    assert_eq!(bytes.len() as u64, range.end - range.start);
    assert!(
        bytes
            .iter()
            .zip(range)
            .all(|(byte, at)| *byte == byte_at(at))
    );
}

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
        // Parts of it, and what reaches out of it.
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
    let pieces = span.into_bytes_chunks();
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
    // Nobody has asked for anything.
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
    // More than half of what is ready is used, so that 64 more are to be ready.
    let first = take(40);
    until_ready(104);
    // 100 are used: all of the rest is made ready, and can be had.
    let second = [take(30), take(30)];
    until_ready(160);
    let third = [take(30), take(30)];
    let taken = second.iter().chain(&third).map(Vec::len).sum::<usize>();
    assert_eq!(first.len() + taken, 160);
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
    // Each range touches two blocks but for the eight of round 0, that begin where a block does.
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
    // Opened anew it is another file.
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
    fn open(&self, _: &Path) -> std::io::Result<(Arc<dyn BlockSource>, Lane)> {
        Ok((self.0.clone(), self.1.clone()))
    }
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
    // More than the pool is, and more urgent than the others.
    let waiting: Vec<_> = (0..40)
        .map(|n| ask(&store, &afar, n * BLOCK..(n + 1) * BLOCK, n))
        .collect();
    let stats = store.stats();
    assert_eq!((stats.in_use, stats.waiting), (8, 32), "half of the pool");
    // Twice round the rest of it.
    for n in 0..21 {
        let range = n * 3 * BLOCK..(n * 3 + 3) * BLOCK;
        assert_bytes(&get(&store, &here, range.clone()).unwrap(), range);
    }
    // When it goes on, all get what they asked for, in their order.
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
