//! The EXT3NS paper's comparison on simulated time: IOZONE's pattern through a cache of 512 blocks.
//!
//! Readers read one file of 1024 blocks of a megabyte concurrently: from beginning to end, once
//! more, then at random. Each block takes each of them a random time, so that they drift apart; the
//! paper does not describe the timing of its threads.

use std::fmt::Write;

use reelway_cache::Spec;
use reelway_cache::sim::{read_csv, run};
use reelway_determinism::Random;
use serde::Serialize;

/// Blocks in the paper's cache.
const CACHE: u64 = 512;
/// Blocks of the file.
const FILE: u64 = 1024;
/// Readers, as in the paper's Figs 4, 5 and 7.
pub const READERS: [u64; 5] = [10, 20, 30, 40, 50];
/// Thresholds of its Fig. 8.
pub const THRESHOLDS: std::ops::RangeInclusive<u32> = 1..=13;

/// Hit ratio of a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Hits {
    pub policy: String,
    pub readers: u64,
    /// "read", "reread" or "random".
    pub phase: &'static str,
    /// Share of requests that were hits.
    pub hits: f64,
}

/// Returns the requests up to the end of a phase; those before the phase only warm the cache.
fn trace(readers: u64, phase: usize, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut text = String::from("# film 1024 1024\n");
    let mut began = 0;
    for number in 0..=phase {
        if number == phase {
            text.push_str("# warm\n");
        }
        let mut requests = Vec::new();
        let mut last = began;
        for _ in 0..readers {
            let mut at = began;
            for block in 0..FILE {
                at += random.within(1, 2001);
                let block = if number == 2 {
                    random.within(0, FILE)
                } else {
                    block
                };
                requests.push((at, block));
            }
            last = last.max(at);
        }
        began = last;
        requests.sort_unstable();
        for (at, block) in requests {
            let _ = writeln!(text, "{},{block},1048576", at as f64 / 1000.0);
        }
    }
    text
}

/// Runs the whole comparison.
pub fn study(seed: u64) -> anyhow::Result<Vec<Hits>> {
    let mut all = Vec::new();
    let mut policies: Vec<String> = ["fifo", "lru", "lfu", "ons"].map(str::to_owned).into();
    for threshold in THRESHOLDS {
        policies.push(format!("ons:threshold={threshold}"));
        policies.push(format!("ons:threshold={threshold},exceed=1"));
    }
    for readers in READERS {
        for (number, phase) in ["read", "reread", "random"].into_iter().enumerate() {
            let requests = read_csv(trace(readers, number, seed).as_bytes())?;
            for name in &policies {
                let mut policy = name.parse::<Spec>()?.build(CACHE, CACHE as usize);
                let outcome = run(&requests, &mut *policy, CACHE, true);
                all.push(Hits {
                    policy: name.clone(),
                    readers,
                    phase,
                    hits: 1.0 - outcome.misses as f64 / outcome.requests.max(1) as f64,
                });
            }
        }
    }
    Ok(all)
}
