//! Hit ratios that other policies would have had for the requests to the store's cache: LRU, the
//! EXT3NS paper's ONS, and Belady's optimum.
//!
//! The most recent requests are kept in a window of several times the cache's size, which costs a
//! requester one push. Now and then each policy processes the window: the first half fills its
//! cache, the second half is counted; the real cache is counted over the same half. The interval
//! depends on how long this takes, so that it never uses more than a hundredth of one core,
//! whatever the load.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_cache::sim::{Requests, belady, run};
use reelway_cache::{BlockId, FilmId, Spec};
use reelway_metrics::Exposition;
use reelway_store::{Observer, Store};
use reelway_supervise::lock;

/// Requests kept per block of the cache.
const TIMES: usize = 8;
/// Minimum and maximum number of requests kept (12 bytes each).
const KEPT: (usize, usize) = (1 << 12, 1 << 19);
/// Interval between attempts until there have been enough requests.
const FIRST: Duration = Duration::from_secs(1);
/// Minimum interval between comparisons.
const PERIOD: Duration = Duration::from_secs(10);
/// Minimum interval between comparisons, as a multiple of a comparison's duration.
const REST: u32 = 100;

/// Hits and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub hits: u64,
    pub requests: u64,
}

/// The result of a comparison: hits of the same requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    pub requests: u64,
    /// Hits of the real cache.
    pub hits: u64,
    pub lru: u64,
    pub ons: u64,
    pub belady: u64,
    /// Counts of the real cache by film, over the whole window.
    pub films: HashMap<FilmId, Count>,
}

#[derive(Debug, Default)]
struct Window {
    /// Requested block, and whether it was a hit.
    asked: VecDeque<(BlockId, bool)>,
    /// Requests since the start.
    all: u64,
}

/// The window, and the result of the last comparison.
#[derive(Debug)]
pub(crate) struct Shadow {
    window: Mutex<Window>,
    most: usize,
    /// Size of the cache in blocks.
    blocks: u64,
    found: Mutex<Option<Arc<Compared>>>,
    cpu_ns: AtomicU64,
}

impl Observer for Shadow {
    fn access(&self, block: BlockId, hit: bool, _now: Duration) {
        let mut window = lock(&self.window);
        if window.asked.len() >= self.most {
            window.asked.pop_front();
        }
        window.asked.push_back((block, hit));
        window.all += 1;
    }
}

impl Shadow {
    /// Creates it for a cache of `blocks` blocks.
    fn new(blocks: u64) -> Shadow {
        Shadow {
            window: Mutex::default(),
            most: (blocks as usize)
                .saturating_mul(TIMES)
                .clamp(KEPT.0, KEPT.1),
            blocks,
            found: Mutex::default(),
            cpu_ns: AtomicU64::new(0),
        }
    }

    /// Creates it for a store; it observes the store's requests only if `is_wanted` is set.
    pub fn of(store: &Store, is_wanted: bool) -> Arc<Shadow> {
        let shadow = Arc::new(Shadow::new(store.stats().blocks));
        if is_wanted {
            store.observe(shadow.clone());
        }
        shadow
    }

    /// Returns the CPU time of all comparisons so far.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_ns.load(Ordering::Relaxed))
    }

    /// Returns the last result; `None` until there have been enough requests.
    pub fn compared(&self) -> Option<Arc<Compared>> {
        lock(&self.found).clone()
    }

    /// Writes hit ratios by policy, and the cost of computing them.
    pub fn write_metrics(&self, out: &mut Exposition) {
        if let Some(compared) = self.compared() {
            let name = "reelway_cache_hit_ratio";
            let help = "Hit ratio for the same recent requests, with this policy and with others.";
            out.family(name, "gauge", help);
            for (policy, hits) in [
                ("this", compared.hits),
                ("lru", compared.lru),
                ("ons", compared.ons),
                ("belady", compared.belady),
            ] {
                let ratio = hits as f64 / compared.requests.max(1) as f64;
                out.value(name, &[("policy", policy)], ratio);
            }
        }
        out.counter(
            "reelway_cache_compare_cpu_seconds_total",
            "CPU time of the comparison with other policies.",
            self.cpu().as_secs_f64(),
        );
    }

    /// Compares the policies over the window, and counts the CPU time.
    fn compare(&self) {
        let began = reelway_sys::time::thread_cpu_ns();
        self.go_through();
        let took = reelway_sys::time::thread_cpu_ns().saturating_sub(began);
        self.cpu_ns.fetch_add(took, Ordering::Relaxed);
    }

    fn go_through(&self) {
        let asked: Vec<(BlockId, bool)> = lock(&self.window).asked.iter().copied().collect();
        // Until the first half of the window fills a cache, every request looks like a miss.
        if asked.len() < self.most / 4 {
            return;
        }
        let compared = compare(&asked, self.blocks);
        *lock(&self.found) = Some(Arc::new(compared));
    }
}

fn compare(asked: &[(BlockId, bool)], blocks: u64) -> Compared {
    let warm = asked.len() / 2;
    let requests = Requests::of_blocks(asked.iter().map(|(block, _)| *block), warm);
    let hits = |policy: &str| {
        let mut policy = policy
            .parse::<Spec>()
            .unwrap_or_default()
            .build(blocks, blocks as usize);
        let outcome = run(&requests, &mut *policy, blocks, true);
        outcome.requests - outcome.misses
    };
    let best = belady(&requests, blocks, true);
    let mut films: HashMap<FilmId, Count> = HashMap::new();
    for (block, hit) in asked {
        let count = films.entry(block.film).or_default();
        count.requests += 1;
        count.hits += u64::from(*hit);
    }
    let counted = &asked[warm..];
    Compared {
        requests: counted.len() as u64,
        hits: counted.iter().filter(|(_, hit)| *hit).count() as u64,
        lru: hits("lru"),
        ons: hits("ons"),
        belady: best.requests - best.misses,
        films,
    }
}

/// Compares now and then, for as long as the server runs.
pub(crate) async fn watch(shadow: Arc<Shadow>) {
    let mut seen = 0;
    let mut wait = FIRST;
    loop {
        tokio::time::sleep(wait).await;
        let all = lock(&shadow.window).all;
        if std::mem::replace(&mut seen, all) == all {
            continue;
        }
        let began = reelway_clock::now();
        let at_work = shadow.clone();
        if tokio::task::spawn_blocking(move || at_work.compare())
            .await
            .is_err()
        {
            tracing::warn!("the comparison of cache policies failed and is disabled");
            return;
        }
        let took = reelway_clock::now().since(began);
        wait = match shadow.compared() {
            Some(_) => PERIOD.max(took * REST),
            None => FIRST,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(film: FilmId, block: u32) -> BlockId {
        BlockId { film, block }
    }

    #[test]
    fn a_loop_longer_than_the_cache_is_all_misses_for_lru_and_not_for_the_optimum() {
        let shadow = Shadow::new(10);
        for nth in 0..20_000u32 {
            shadow.access(block(nth % 2, nth % 20), nth % 2 == 0, Duration::ZERO);
        }
        assert_eq!(lock(&shadow.window).asked.len(), KEPT.0, "bounded");
        assert_eq!(shadow.compared(), None);
        shadow.compare();
        let compared = shadow.compared().expect("enough was asked for");
        assert_eq!(compared.requests, KEPT.0 as u64 / 2);
        assert_eq!((compared.hits, compared.lru), (compared.requests / 2, 0));
        assert!(compared.belady > compared.requests * 4 / 10);
        assert!(compared.ons <= compared.belady);
        let of_film = compared.films[&0];
        assert_eq!(
            (of_film.hits, of_film.requests),
            (KEPT.0 as u64 / 2, KEPT.0 as u64 / 2)
        );
        assert_eq!(compared.films[&1].hits, 0);
        assert!(shadow.cpu() > Duration::ZERO, "its time is told");
    }

    #[test]
    fn nothing_is_said_of_too_few_requests() {
        let shadow = Shadow::new(10);
        shadow.access(block(0, 0), false, Duration::ZERO);
        shadow.compare();
        assert_eq!(shadow.compared(), None);
    }
}
