//! The tier below memory: blocks fetched often enough from a remote place are read from the local
//! disk, also after a restart. Wrong bytes are never delivered.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_store::{
    BlockSource, Fill, Lane, Opener, Source, Store, StoreConfig, TierConfig, TierStats,
};
use reelway_sys::FileIdentity;

const BLOCK: u64 = 4096;
/// Blocks in memory, all of which four requests together can take.
const POOL: usize = 32;
/// Not a multiple of the block size.
const LEN: u64 = 40 * BLOCK - 1000;

/// A remote film, which counts how often each of its blocks is fetched.
#[derive(Debug)]
struct Afar {
    version: u64,
    lasting: bool,
    fetched: Mutex<HashMap<u64, u32>>,
}

fn byte_of(version: u64, at: u64) -> u8 {
    (at ^ (at >> 8) ^ version.wrapping_mul(77)).wrapping_mul(31) as u8
}

impl Afar {
    fn new(version: u64) -> Arc<Afar> {
        Arc::new(Afar {
            version,
            lasting: true,
            fetched: Mutex::default(),
        })
    }

    /// Returns the number of fetches since the last call.
    fn fetched(&self) -> u32 {
        self.fetched
            .lock()
            .unwrap()
            .drain()
            .map(|(_, count)| count)
            .sum()
    }
}

impl BlockSource for Afar {
    fn path(&self) -> &Path {
        Path::new("http://afar/film")
    }

    fn identity(&self) -> FileIdentity {
        FileIdentity {
            device: 1 << 63,
            inode: self.version,
            size: LEN,
            mtime_ns: 0,
        }
    }

    fn is_lasting(&self) -> bool {
        self.lasting
    }

    fn read(self: Arc<Self>, mut fill: Fill) {
        let range = fill.range();
        *self.fetched.lock().unwrap().entry(range.start).or_default() += 1;
        for (byte, at) in fill.buffer().iter_mut().zip(range) {
            *byte = byte_of(self.version, at);
        }
        fill.finish(Ok(()));
    }
}

struct Door(Arc<Afar>, Lane);

impl Opener for Door {
    fn open(
        &self,
        _: &Path,
        _: Option<FileIdentity>,
    ) -> std::io::Result<(Arc<dyn BlockSource>, Lane)> {
        Ok((self.0.clone(), self.1.clone()))
    }
}

struct Edge {
    store: Store,
    film: Arc<Source>,
}

fn tier(dir: &Path) -> TierConfig {
    TierConfig {
        dir: dir.to_owned(),
        bytes: 64 * BLOCK,
        policy: "lru".parse().unwrap(),
        admit: 2,
        daily: 1 << 40,
    }
}

impl Edge {
    fn start(tier: TierConfig, afar: &Arc<Afar>) -> Edge {
        let store = Store::new(StoreConfig {
            pool_bytes: POOL as u64 * BLOCK,
            block_bytes: BLOCK as u32,
            tier: Some(tier),
            ..StoreConfig::default()
        })
        .unwrap();
        let lane = store.lane("http://afar", 2);
        store.mount("http://afar", Arc::new(Door(afar.clone(), lane)));
        let film = store.open(Path::new("http://afar/film")).unwrap();
        Edge { store, film }
    }

    /// Plays the film's first blocks, none of which is in memory, and checks every byte.
    fn play(&self, blocks: u64) {
        let version = self.film.identity().inode;
        for block in 0..blocks {
            let range = block * BLOCK..((block + 1) * BLOCK).min(LEN);
            let (sender, receiver) = std::sync::mpsc::channel();
            self.store
                .fetch(&self.film, range.clone(), Monotonic::ZERO, move |span| {
                    drop(sender.send(span));
                });
            let span = receiver
                .recv_timeout(Duration::from_secs(20))
                .unwrap()
                .unwrap();
            let bytes = span.slices(range.clone()).flatten();
            assert!(
                bytes
                    .zip(range)
                    .all(|(byte, at)| *byte == byte_of(version, at))
            );
            drop(span);
            self.settled();
        }
        self.store.forget(self.film.identity());
    }

    fn stats(&self) -> TierStats {
        self.store.tier().unwrap()
    }

    /// Waits until all pending writes are done: until then the writer holds blocks of the pool, so
    /// not all blocks can be allocated.
    fn settled(&self) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let most = self.store.most_blocks() as usize;
        let parts = POOL / most;
        for _ in 0..parts {
            let sender = sender.clone();
            self.store.allocate(most, Monotonic::ZERO, move |blocks| {
                drop(sender.send(blocks.unwrap()));
            });
        }
        let limit = Duration::from_secs(20);
        let all: Vec<_> = (0..parts)
            .map_while(|_| receiver.recv_timeout(limit).ok())
            .collect();
        let blocks: usize = all.iter().map(Vec::len).sum();
        assert_eq!(blocks, POOL, "one is held for ever: {:?}", self.stats());
    }
}

#[test]
fn what_was_fetched_twice_is_read_from_the_tier_and_so_it_is_after_a_restart() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let afar = Afar::new(1);
    let edge = Edge::start(tier(dir.path()), &afar);
    edge.play(40);
    assert_eq!((afar.fetched(), edge.stats().cached), (40, 0), "seen once");
    edge.play(40);
    assert_eq!((afar.fetched(), edge.stats().cached), (40, 40), "let in");
    edge.play(40);
    assert_eq!((afar.fetched(), edge.stats().hits), (0, 40));
    assert_eq!(edge.stats().bytes_written, LEN);
    drop(edge);
    let edge = Edge::start(tier(dir.path()), &afar);
    edge.play(40);
    assert_eq!((afar.fetched(), edge.stats().hits), (0, 40), "a restart");
    drop(edge);
    // Another version of the film is another film.
    let newer = Afar::new(2);
    let edge = Edge::start(tier(dir.path()), &newer);
    edge.play(40);
    assert_eq!((newer.fetched(), edge.stats().hits), (40, 0));
}

#[test]
fn a_film_whose_version_cannot_be_told_is_not_kept() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let afar = Arc::new(Afar {
        version: 1,
        lasting: false,
        fetched: Mutex::default(),
    });
    let edge = Edge::start(tier(dir.path()), &afar);
    for _ in 0..3 {
        edge.play(4);
    }
    assert_eq!((afar.fetched(), edge.stats().cached), (12, 0));
}

#[test]
fn a_block_that_is_not_what_was_written_is_fetched_again_and_written_anew() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let afar = Afar::new(1);
    let edge = Edge::start(tier(dir.path()), &afar);
    edge.play(40);
    edge.play(40);
    drop(edge);
    afar.fetched();
    // One byte of every third block, as on a worn disk; and the last blocks are truncated.
    let blocks = std::fs::File::options()
        .write(true)
        .open(dir.path().join("blocks"))
        .unwrap();
    for block in (0..30).step_by(3) {
        let place = block * BLOCK + 55;
        let was = byte_of(1, place);
        blocks.write_all_at(&[!was], place).unwrap();
    }
    blocks.set_len(35 * BLOCK).unwrap();
    drop(blocks);
    let edge = Edge::start(tier(dir.path()), &afar);
    edge.play(40);
    let stats = edge.stats();
    assert_eq!((afar.fetched(), stats.broken), (15, 15));
    edge.play(40);
    assert_eq!((afar.fetched(), edge.stats().cached), (0, 40));
}

#[test]
fn an_index_of_rubbish_is_an_empty_tier_and_two_servers_do_not_share_one() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(dir.path().join("index"), vec![0xa5; 9000]).unwrap();
    let afar = Afar::new(1);
    let edge = Edge::start(tier(dir.path()), &afar);
    assert_eq!((edge.stats().cached, edge.stats().blocks), (0, 64));
    let error = Store::new(StoreConfig {
        tier: Some(tier(dir.path())),
        ..StoreConfig::default()
    });
    let words = error.err().unwrap().to_string();
    assert!(words.contains("another server uses it"), "{words}");
    edge.play(10);
}

#[test]
fn no_more_is_written_than_a_day_s_bytes_and_a_restart_gives_no_more() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let afar = Afar::new(1);
    let bounded = TierConfig {
        admit: 1,
        daily: 7 * BLOCK + 5,
        ..tier(dir.path())
    };
    let edge = Edge::start(bounded.clone(), &afar);
    edge.play(20);
    assert_eq!(
        (edge.stats().bytes_written, edge.stats().left_out),
        (7 * BLOCK, 13)
    );
    drop(edge);
    let edge = Edge::start(bounded, &afar);
    edge.play(20);
    let stats = edge.stats();
    assert_eq!(
        (stats.hits, stats.bytes_written, stats.left_out),
        (7, 0, 13)
    );
}

#[test]
fn a_tier_smaller_than_the_film_makes_room_by_its_policy() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let afar = Afar::new(1);
    let small = TierConfig {
        bytes: 10 * BLOCK,
        admit: 1,
        ..tier(dir.path())
    };
    let edge = Edge::start(small.clone(), &afar);
    edge.play(40);
    assert_eq!((edge.stats().blocks, edge.stats().cached), (10, 10));
    drop(edge);
    afar.fetched();
    // The order of use is not known any more, but every block is right.
    let edge = Edge::start(small, &afar);
    for _ in 0..3 {
        edge.play(40);
    }
    assert_eq!((edge.stats().cached, edge.stats().broken), (10, 0));
}

/// A file system of a few kilobytes in memory.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> SmallDisk {
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={bytes}"),
                "reelway-tier",
            ])
            .arg(dir.path())
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "mount (needs root)"
        );
        SmallDisk(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_is_full_makes_the_tier_smaller_or_none_and_harms_no_viewer() {
    let disk = SmallDisk::mount(24 * BLOCK);
    let afar = Afar::new(1);
    let at_once = TierConfig {
        admit: 1,
        ..tier(disk.0.path())
    };
    let edge = Edge::start(at_once.clone(), &afar);
    let blocks = edge.stats().blocks;
    assert!((8..24).contains(&blocks), "{blocks}");
    edge.play(40);
    edge.play(40);
    assert_eq!(edge.stats().cached, blocks);
    drop(edge);
    // Others have taken the reserved space: the file has holes now, and the disk is full.
    let path = disk.0.path().join("blocks");
    std::fs::write(&path, []).unwrap();
    let edge = Edge::start(at_once.clone(), &afar);
    let taken = std::fs::write(disk.0.path().join("other"), vec![1; 30 * BLOCK as usize]);
    assert!(taken.is_err(), "the disk is full");
    punch(&path, blocks * BLOCK);
    let taken = std::fs::write(disk.0.path().join("more"), vec![1; 30 * BLOCK as usize]);
    assert!(taken.is_err(), "again");
    edge.play(40);
    edge.play(40);
    let stats = edge.stats();
    assert!(stats.errors > 0 && stats.errors < 5, "it rests: {stats:?}");
    drop(edge);
    let none = Store::new(StoreConfig {
        tier: Some(TierConfig {
            dir: disk.0.path().join("none"),
            ..at_once
        }),
        ..StoreConfig::default()
    });
    assert!(
        none.unwrap().tier().is_none(),
        "the server continues without it"
    );
}

/// Returns a file's space to the disk.
fn punch(path: &Path, bytes: u64) {
    let status = Command::new("fallocate")
        .args([
            "--punch-hole",
            "--offset",
            "0",
            "--length",
            &bytes.to_string(),
        ])
        .arg(path)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "fallocate");
}
