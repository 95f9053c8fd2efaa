//! Threads that read records: what IOZONE did in the paper.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use anyhow::Context;
use reelway_store::{Source, Store, StoreConfig};
use reelway_sys::region::Region;
use serde::Serialize;

use super::file::{DEPTH, RECORD, direct, forget};

/// Bytes of a large page.
const LARGE: u64 = 2 << 20;

/// In which order a thread reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// From the first record on, none of them in memory.
    Read,
    /// The same again.
    ReRead,
    /// Any record, evenly.
    Random,
}

impl Pattern {
    /// In the order in which they are run.
    pub const ALL: [Pattern; 3] = [Pattern::Read, Pattern::ReRead, Pattern::Random];

    /// As a heading.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Read => "Read",
            Pattern::ReRead => "Re-read",
            Pattern::Random => "Random read",
        }
    }
}

/// Who reads what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// All threads go through the same file, as the paper's text has it.
    One,
    /// Each has a file to itself: an equal part of the one file.
    Each,
}

impl Files {
    /// Both.
    pub const ALL: [Files; 2] = [Files::One, Files::Each];

    /// As in a heading.
    pub fn name(self) -> &'static str {
        match self {
            Files::One => "one file",
            Files::Each => "a part each",
        }
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What they read with.
    pub way: String,
    pub files: Files,
    pub pattern: Pattern,
    pub threads: usize,
    pub mb_s: f64,
    pub cpu_s_gb: f64,
    /// Of the blocks asked for, where there is a cache.
    pub hits: Option<f64>,
}

/// What threads read with.
pub enum Way {
    /// Directly into each thread's own memory: without a cache.
    Direct(File),
    /// Through the page cache.
    Buffered(File),
    /// Out of the store.
    Store(Store, Arc<Source>),
}

impl Way {
    /// Directly, without a cache.
    pub fn none(path: &Path) -> anyhow::Result<Way> {
        Ok(Way::Direct(direct(path)?))
    }

    /// Through the page cache.
    pub fn page_cache(path: &Path) -> anyhow::Result<Way> {
        Ok(Way::Buffered(File::open(path)?))
    }

    /// A store whose pool is in use already: its memory is there and registered, and holds nothing.
    pub fn store(path: &Path, pool: u64, block: u32, policy: &str) -> anyhow::Result<Way> {
        let config = StoreConfig {
            pool_bytes: pool,
            block_bytes: block,
            depth: DEPTH,
            policy: policy.parse()?,
            ..StoreConfig::default()
        };
        let store = Store::new(config)?;
        let source = store.open(path)?;
        let len = source.len();
        let step = RECORD.max(u64::from(block));
        for at in (0..pool.min(len)).step_by(step as usize) {
            fetch(&store, &source, at..(at + step).min(len))?;
        }
        store.forget(source.identity());
        Ok(Way::Store(store, source))
    }

    /// Nothing of the file is in memory.
    fn empty(&self) -> anyhow::Result<()> {
        match self {
            Way::Direct(file) | Way::Buffered(file) => forget(file),
            Way::Store(store, source) => {
                store.forget(source.identity());
                Ok(())
            }
        }
    }

    /// Hits, and blocks asked for.
    fn stats(&self) -> Option<(u64, u64)> {
        match self {
            Way::Store(store, _) => {
                let stats = store.stats();
                Some((stats.hits, stats.hits + stats.misses))
            }
            _ => None,
        }
    }

    fn read(&self, at: u64, own: &mut [u8]) -> anyhow::Result<()> {
        match self {
            Way::Direct(file) | Way::Buffered(file) => Ok(file.read_exact_at(own, at)?),
            Way::Store(store, source) => fetch(store, source, at..at + own.len() as u64),
        }
    }
}

fn fetch(store: &Store, source: &Arc<Source>, range: std::ops::Range<u64>) -> anyhow::Result<()> {
    let (sender, receiver) = sync_channel(1);
    store.fetch(source, range, reelway_clock::now(), move |span| {
        // The span goes back on the reader's thread if nobody waits.
        let _ = sender.send(span);
    });
    receiver.recv()??;
    Ok(())
}

/// How long and over how much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of a record.
    pub record: u64,
    /// At most, where all read one file; eight times that where each reads a part.
    pub time: Duration,
}

/// All patterns one after the other, from an empty memory on.
pub fn patterns(
    way: &Way,
    name: &str,
    files: Files,
    threads: usize,
    size: Size,
) -> anyhow::Result<Vec<Run>> {
    way.empty()?;
    let run = |pattern| {
        let before = way.stats();
        let (bytes, spent, cpu) = go(way, files, pattern, threads, size)?;
        let hits = way
            .stats()
            .zip(before)
            .map(|((hits, all), (hits_before, all_before))| {
                (hits - hits_before) as f64 / (all - all_before).max(1) as f64
            });
        Ok(Run {
            way: name.to_owned(),
            files,
            pattern,
            threads,
            mb_s: bytes as f64 / 1e6 / spent.as_secs_f64(),
            cpu_s_gb: cpu / (bytes.max(1) as f64 / 1e9),
            hits,
        })
    };
    Pattern::ALL.into_iter().map(run).collect()
}

/// Has threads read through what is theirs, or for a while; bytes that they got, how long it took, and CPU seconds. Threads and their
/// memory are there before it begins.
fn go(
    way: &Way,
    files: Files,
    pattern: Pattern,
    threads: usize,
    size: Size,
) -> anyhow::Result<(u64, Duration, f64)> {
    let total = AtomicU64::new(0);
    let barrier = || Barrier::new(threads + 1);
    let (ready, start, done) = (barrier(), barrier(), barrier());
    let (parts, records) = (threads as u64, size.bytes / size.record);
    let reader = |number: u64| -> anyhow::Result<()> {
        // So many that the memory is a large page as the store's are: the disk takes it in one piece.
        let pages = (LARGE / size.record).max(1) as usize;
        let page = Region::map(pages, size.record as usize)
            .map_err(anyhow::Error::from)
            .and_then(|mut region| region.pages.pop().context("no memory"))
            .map(|mut page| {
                page.fill(1);
                page
            });
        // All barriers are passed whatever fails: the others wait at them.
        ready.wait();
        start.wait();
        let read = page.and_then(|mut page| {
            // A thread at the end of its part stops; threads that share one file would continue for minutes without a cache.
            let time = match files {
                Files::One => size.time,
                Files::Each => size.time * 8,
            };
            let until = reelway_clock::now() + time;
            let (first, count) = match files {
                Files::One => (0, records),
                Files::Each => (number * records / parts, (records / parts).max(1)),
            };
            let mut word = number * 2 + 1;
            for nth in 0..count {
                if reelway_clock::now() >= until {
                    break;
                }
                let record = match pattern {
                    Pattern::Random => {
                        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (word >> 33) % count
                    }
                    _ => nth,
                };
                way.read((first + record) * size.record, &mut page)?;
                total.fetch_add(size.record, Ordering::Relaxed);
            }
            Ok(())
        });
        done.wait();
        read
    };
    std::thread::scope(|scope| {
        let reader = &reader;
        let readers: Vec<_> = (0..parts)
            .map(|number| scope.spawn(move || reader(number)))
            .collect();
        ready.wait();
        // They wait for this thread, however late it wakes.
        let (began, cpu) = (reelway_clock::now(), reelway_sys::time::process_cpu_ns());
        start.wait();
        done.wait();
        let spent = reelway_clock::now().since(began);
        let cpu = (reelway_sys::time::process_cpu_ns() - cpu) as f64 / 1e9;
        for reader in readers {
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok((total.load(Ordering::Relaxed), spent, cpu))
    })
}
