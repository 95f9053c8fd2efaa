//! What the EXT3NS paper measured (Table 1, Figs 4–8), as far as it gives numbers.

/// Re-read with the cache (LFU) over none at so many threads, MB/s.
pub const RE_READ: [(usize, f64); 5] = [(10, 88.0), (20, 28.7), (30, 24.6), (40, 11.3), (50, 15.4)];

/// The mean of these.
pub const RE_READ_MEAN: f64 = 33.6;

/// Random reads with the cache (LFU) over none, MB/s: least, greatest, mean.
pub const RANDOM: (f64, f64, f64) = (-9.2, 12.3, 2.46);

/// ONS over LFU, MB/s on average: read, re-read.
pub const ONS: (f64, f64) = (1.5, 0.6);

/// ONS over no cache at random reads, percent: throughput, CPU (Fig. 7).
pub const ONS_RANDOM: (f64, f64) = (2.5, 5.0);

/// The page cache's share of the large-block path's rate.
pub const PAGE_CACHE: f64 = 0.5;

/// Entries of PMEMCACHE.
pub const BLOCKS: u64 = 512;

/// The threshold that was taken.
pub const THRESHOLD: u32 = 5;
