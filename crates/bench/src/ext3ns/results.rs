//! The experiment's arguments, the names of the ways that it compares, and all results.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Parser;
use serde::Serialize;

use super::paper::THRESHOLD;
use super::sweep::Sweep;
use super::threads::{Files, Pattern, Run};
use crate::arguments::one_or_more;

/// The paper's policies.
pub const POLICIES: [&str; 4] = ["fifo", "lru", "lfu", "ons:threshold=5"];

/// Number of threads at which all policies and all block sizes are compared.
pub const ALL_AT: usize = 20;

/// Numbers of threads at which thresholds are compared, as in the paper.
pub const THRESHOLDS_AT: [usize; 3] = [10, 20, 30];

/// Its arguments.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench ext3ns",
    about = "The EXT3NS paper's IOZONE runs on the real store, compared with fio"
)]
pub struct Args {
    /// Directory on the disk to measure, with room for the file
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Size of the file, in MiB (64 to 65536)
    #[arg(long, default_value_t = 1024, value_parser = one_or_more::<u64>)]
    pub megabytes: u64,
    /// Duration of a run over one file, in milliseconds
    #[arg(long, default_value_t = 250, value_parser = one_or_more::<u64>)]
    pub millis: u64,
    /// Numbers of threads, separated by commas (1 to 200)
    #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 30, 40, 50])]
    pub threads: Vec<usize>,
    /// Sizes of blocks and records that are compared, in KiB, separated by commas (powers of two
    /// from 64 to 16384)
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512, 1024, 2048])]
    pub block: Vec<u32>,
    /// Size of the pool that is compared with the paper's 512 blocks; it has blocks of 256 KiB and
    /// Reelway's policy
    #[arg(long, default_value = "256MiB")]
    pub cache: ByteSize,
    /// Sequential reads of the whole file for each block size, alternating with fio
    #[arg(long, default_value_t = 7, value_parser = one_or_more::<usize>)]
    pub turns: usize,
    /// Run few and short measurements: a quick check, not for publication
    #[arg(long)]
    pub quick: bool,
    /// Install fio with apt-get if it is missing (needs root)
    #[arg(long)]
    pub install: bool,
}

/// All results.
pub struct Results {
    pub args: Args,
    pub disk: String,
    pub runs: Vec<Run>,
    /// Every policy, at [`ALL_AT`] threads, each with its part of the file.
    pub all: Vec<Run>,
    pub thresholds: Vec<Threshold>,
    /// At [`ALL_AT`] threads: no cache, the page cache, ONS.
    pub blocks: Vec<OfBlock>,
    pub sweep: Sweep,
}

/// A run whose records and cache blocks have this size.
#[derive(Clone, Debug, Serialize)]
pub struct OfBlock {
    pub kib: u32,
    pub run: Run,
}

/// A run of ONS with a threshold: Figs 6 and 8.
#[derive(Clone, Debug, Serialize)]
pub struct Threshold {
    pub threshold: u32,
    pub run: Run,
}

/// Name of the way with a pool of our size.
pub const OURS: &str = "our pool";

/// Returns the names of the ways of reading.
pub fn ways() -> impl Iterator<Item = &'static str> {
    ["none", "page cache"]
        .into_iter()
        .chain(POLICIES)
        .chain([OURS])
}

/// Returns the names of the ways of reading for which block sizes are compared.
pub fn block_ways() -> [String; 3] {
    ["none".to_owned(), "page cache".to_owned(), ons()]
}

/// Finds the run of this kind.
pub fn find<'a>(
    runs: &'a [Run],
    way: &str,
    files: Files,
    pattern: Pattern,
    threads: usize,
) -> Option<&'a Run> {
    runs.iter().find(|run| {
        run.way == way && run.files == files && run.pattern == pattern && run.threads == threads
    })
}

/// Returns ONS with the paper's threshold.
pub fn ons() -> String {
    format!("ons:threshold={THRESHOLD}")
}
