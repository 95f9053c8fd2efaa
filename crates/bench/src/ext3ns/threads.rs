//! Threads that read records, as IOZONE did in the paper.

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

/// Size of a large page in bytes.
const LARGE: u64 = 2 << 20;

/// The order in which a thread reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Sequentially from the first record, with none of them in memory.
    Read,
    /// The same reads once more.
    ReRead,
    /// Random records, uniformly distributed.
    Random,
}

impl Pattern {
    /// All patterns, in the order of the runs.
    pub const ALL: [Pattern; 3] = [Pattern::Read, Pattern::ReRead, Pattern::Random];

    /// Returns its name as a heading.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Read => "Read",
            Pattern::ReRead => "Re-read",
            Pattern::Random => "Random read",
        }
    }
}

/// The part of the file that each thread reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// All threads read the same file, as the paper's text says.
    One,
    /// Each thread has its own file: an equal part of the one file.
    Each,
}

impl Files {
    /// Both kinds.
    pub const ALL: [Files; 2] = [Files::One, Files::Each];

    /// Returns its name for headings.
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
    /// Name of the way of reading.
    pub way: String,
    pub files: Files,
    pub pattern: Pattern,
    pub threads: usize,
    pub mb_s: f64,
    pub cpu_s_gb: f64,
    /// Hit ratio of the requested blocks, if there is a cache.
    pub hits: Option<f64>,
}

/// A way of reading.
pub enum Way {
    /// Directly into each thread's own memory, without a cache.
    Direct(File),
    /// Through the page cache.
    Buffered(File),
    /// Through the store.
    Store(Store, Arc<Source>),
}

impl Way {
    /// Reads directly, without a cache.
    pub fn none(path: &Path) -> anyhow::Result<Way> {
        Ok(Way::Direct(direct(path)?))
    }

    /// Reads through the page cache.
    pub fn page_cache(path: &Path) -> anyhow::Result<Way> {
        Ok(Way::Buffered(File::open(path)?))
    }

    /// Reads through a store whose pool was used before: its memory is allocated and registered,
    /// but holds no blocks.
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

    /// Removes the file from memory.
    fn empty(&self) -> anyhow::Result<()> {
        match self {
            Way::Direct(file) | Way::Buffered(file) => forget(file),
            Way::Store(store, source) => {
                store.forget(source.identity());
                Ok(())
            }
        }
    }

    /// Returns the hits, and the blocks requested.
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
        // If nobody waits any more, the span is released on the reader's thread.
        let _ = sender.send(span);
    });
    receiver.recv()??;
    Ok(())
}

/// Size and duration of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Size of the file.
    pub bytes: u64,
    /// Size of a record in bytes.
    pub record: u64,
    /// Time limit if all threads read one file; eight times that if each reads a part.
    pub time: Duration,
}

/// Runs all patterns one after the other, beginning with nothing in memory.
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

/// Has threads read their part, or until the time limit; returns the bytes read, the duration, and
/// the CPU seconds. Threads and their memory are created before the measurement begins.
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
        // Enough pages for one large page, as in the store, so that the disk fills it in one piece.
        let pages = (LARGE / size.record).max(1) as usize;
        let page = Region::map(pages, size.record as usize)
            .map_err(anyhow::Error::from)
            .and_then(|mut region| region.pages.pop().context("no memory"))
            .map(|mut page| {
                page.fill(1);
                page
            });
        // All barriers are passed even after an error, since the other threads wait at them.
        ready.wait();
        start.wait();
        let read = page.and_then(|mut page| {
            // A thread stops at the end of its part. Without a cache, threads that share one file
            // would continue for minutes.
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
        // The readers wait for this thread, even if it wakes late.
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
