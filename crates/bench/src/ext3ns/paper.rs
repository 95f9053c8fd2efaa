//! The EXT3NS paper's measurements (Table 1, Figs 4–8), as far as it gives numbers.

/// Re-reads: number of threads, and gain of the cache (LFU) over none, MB/s.
pub const RE_READ: [(usize, f64); 5] = [(10, 88.0), (20, 28.7), (30, 24.6), (40, 11.3), (50, 15.4)];

/// Mean gain of the re-reads.
pub const RE_READ_MEAN: f64 = 33.6;

/// Random reads: gain of the cache (LFU) over none, MB/s: least, greatest, mean.
pub const RANDOM: (f64, f64, f64) = (-9.2, 12.3, 2.46);

/// Mean gain of ONS over LFU, MB/s: read, re-read.
pub const ONS: (f64, f64) = (1.5, 0.6);

/// Random reads: increase with ONS over no cache, percent: throughput, CPU (Fig. 7).
pub const ONS_RANDOM: (f64, f64) = (2.5, 5.0);

/// Rate through the page cache as a share of the rate with large blocks.
pub const PAGE_CACHE: f64 = 0.5;

/// Blocks in PMEMCACHE.
pub const BLOCKS: u64 = 512;

/// The threshold that the paper chose.
pub const THRESHOLD: u32 = 5;
