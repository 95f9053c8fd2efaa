//! The pool and its cache under many interleavings of threads. Shuttle tries thousands of them and
//! reports deadlocks, for example when nobody notices a released block.
//!
//! This is the real store except for the kernel: films are read by a thread that writes each
//! block's number into it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use reelway_cache::Spec;
use reelway_clock::Monotonic;
use reelway_pool::Ahead;
use reelway_sys::FileIdentity;
use reelway_sys::region::{ALIGNMENT, Region};
use shuttle::sync::mpsc;
use shuttle::thread;

use crate::inner::Inner;
use crate::live::Pool;
use crate::{BlockSource, Fill, ReadError, Source, Span, Store, StoreConfig};

const BLOCK: u64 = ALIGNMENT as u64;
/// Number of interleavings that are tried at random, and with priorities that change three times
/// (PCT).
const ORDERS: usize = 1500;

/// A film whose blocks contain their numbers.
#[derive(Debug)]
struct Numbers {
    inode: u64,
    blocks: u64,
}

impl BlockSource for Numbers {
    fn path(&self) -> &Path {
        Path::new("numbers")
    }

    fn identity(&self) -> FileIdentity {
        FileIdentity {
            device: 1,
            inode: self.inode,
            size: self.blocks * BLOCK,
            mtime_ns: 0,
        }
    }

    fn read(self: Arc<Self>, mut fill: Fill) {
        thread::spawn(move || {
            let number = self.number(fill.block());
            fill.buffer().fill(number);
            thread::yield_now();
            fill.finish(Ok(()));
        });
    }
}

impl Numbers {
    fn number(&self, block: u32) -> u8 {
        (self.inode * 16) as u8 + block as u8
    }
}

/// Creates a store of this many blocks, and a film in it.
fn store(blocks: usize, ahead: Option<Ahead>) -> (Store, Arc<Source>, Arc<Numbers>) {
    let config = StoreConfig {
        pool_bytes: blocks as u64 * BLOCK,
        block_bytes: BLOCK as u32,
        policy: "lru".parse::<Spec>().unwrap(),
        ..StoreConfig::default()
    };
    let region = Region::map(blocks, BLOCK as usize).unwrap();
    let policy = config.policy.build(blocks as u64, blocks);
    let pool = Pool::new(region.pages, policy, ahead, Monotonic::ZERO);
    let inner = Inner::new(config, pool, Vec::new(), None, region.paging);
    let store = Store::of(inner);
    let film = Arc::new(Numbers {
        inode: 1,
        blocks: 8,
    });
    let lane = store.lane_here("numbers", 2);
    let source = Source::new(
        Arc::clone(&film) as Arc<dyn BlockSource>,
        lane,
        store.inner().opened(film.identity(), None),
        None,
    );
    (store, Arc::new(source), film)
}

/// Returns the range of one block, or of parts of two: such a small pool does not provide more at
/// once.
fn within(blocks: &Range<u32>) -> Range<u64> {
    let more = u64::from(blocks.len() > 1);
    let start = u64::from(blocks.start) * BLOCK + more;
    start..start + BLOCK
}

/// Fetches blocks, and checks their contents while other threads run.
fn play(store: &Store, source: &Arc<Source>, film: &Numbers, blocks: Range<u32>) {
    let (sender, receiver) = mpsc::channel();
    let bytes = within(&blocks);
    let answer = move |answer: Result<Span, ReadError>| sender.send(answer).unwrap();
    store.fetch(source, bytes.clone(), Monotonic::ZERO, answer);
    let span = receiver.recv().unwrap().unwrap();
    for _ in 0..2 {
        for (block, slice) in blocks.clone().zip(span.slices(bytes.clone())) {
            assert!(slice.iter().all(|byte| *byte == film.number(block)));
        }
        thread::yield_now();
    }
}

fn in_many_orders(what: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(what.clone(), ORDERS);
    shuttle::check_pct(what, ORDERS, 3);
}

#[test]
fn who_waits_for_room_gets_it_in_whatever_order_blocks_are_let_go() {
    in_many_orders(|| {
        let (store, source, film) = store(2, None);
        let threads: Vec<_> = (0..3)
            .map(|nth| {
                let (store, source, film) = (store.clone(), source.clone(), film.clone());
                thread::spawn(move || {
                    play(&store, &source, &film, nth..nth + 1);
                    play(&store, &source, &film, 3..5);
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let stats = store.stats();
        assert_eq!((stats.waiting, stats.in_use), (0, 0));
    });
}

#[test]
fn memory_that_is_being_made_ready_is_waited_for_and_blocks_are_lent_and_forgotten_meanwhile() {
    in_many_orders(|| {
        let ahead = Ahead {
            least: 2,
            at_once: 2,
        };
        let (store, source, film) = store(3, Some(ahead));
        let readying = {
            let store = store.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let mut blocks = store.inner().take_unready();
                    blocks.iter_mut().for_each(|(_, page)| page.touch());
                    thread::yield_now();
                    store.inner().are_ready(blocks);
                }
            })
        };
        let writing = {
            let store = store.clone();
            thread::spawn(move || {
                let (sender, receiver) = mpsc::channel();
                let answer = move |blocks: Result<_, _>| sender.send(blocks).unwrap();
                store.allocate(2, Monotonic::ZERO, answer);
                let mut blocks: Vec<crate::Buffer> = receiver.recv().unwrap().unwrap();
                blocks.iter_mut().for_each(|block| block.fill(0xff));
                thread::yield_now();
                assert!(
                    blocks
                        .iter()
                        .all(|block| block.iter().all(|byte| *byte == 0xff))
                );
            })
        };
        let playing = {
            let (store, source, film) = (store.clone(), source.clone(), film.clone());
            thread::spawn(move || play(&store, &source, &film, 0..2))
        };
        play(&store, &source, &film, 1..3);
        store.forget(source.identity());
        for thread in [readying, writing, playing] {
            thread.join().unwrap();
        }
        let stats = store.stats();
        assert_eq!((stats.waiting, stats.in_use), (0, 0));
        assert_eq!(stats.ready, 3, "nothing is lost");
    });
}

#[test]
fn a_store_that_is_closed_answers_all_who_wait_whatever_comes_first() {
    in_many_orders(|| {
        let (store, source, _) = store(2, None);
        let (sender, receiver) = mpsc::channel();
        for nth in 0..3 {
            let sender = sender.clone();
            let bytes = within(&(nth..nth + 2));
            store.fetch(&source, bytes, Monotonic::ZERO, move |answer| {
                let held = match answer {
                    Ok(held) => Some(held),
                    Err(ReadError::Closed) => None,
                    Err(error) => panic!("{error}"),
                };
                thread::yield_now();
                drop(held);
                sender.send(()).unwrap();
            });
        }
        let closing = thread::spawn(move || drop(store));
        for _ in 0..3 {
            receiver.recv().unwrap();
        }
        closing.join().unwrap();
    });
}
