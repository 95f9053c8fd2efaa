//! What the experiment is asked for, the names of what it compares, and everything that it measures.

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

/// Threads where all policies, and all sizes of a block, are compared.
pub const ALL_AT: usize = 20;

/// Threads where thresholds are compared, as in the paper.
pub const THRESHOLDS_AT: [usize; 3] = [10, 20, 30];

/// Its arguments.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench ext3ns",
    about = "The EXT3NS paper's IOZONE runs on the real store, beside fio"
)]
pub struct Args {
    /// A directory on the disk to measure, with room for the file
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Megabytes of the file
    #[arg(long, default_value_t = 1024, value_parser = one_or_more::<u64>)]
    pub megabytes: u64,
    /// Milliseconds a run over one file
    #[arg(long, default_value_t = 250, value_parser = one_or_more::<u64>)]
    pub millis: u64,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 30, 40, 50])]
    pub threads: Vec<usize>,
    /// KiB of a block, and of a record, where sizes are compared
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512, 1024, 2048])]
    pub block: Vec<u32>,
    /// Pool of our size, beside the paper's 512 blocks: of blocks of 256 KiB, with our policy
    #[arg(long, default_value = "256MiB")]
    pub cache: ByteSize,
    /// Times that the file is read from end to end beside fio, for each block size
    #[arg(long, default_value_t = 7, value_parser = one_or_more::<usize>)]
    pub turns: usize,
    /// Short runs and few of them: for a look, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Install fio with apt-get where it is missing
    #[arg(long)]
    pub install: bool,
}

/// Everything that was measured.
pub struct Results {
    pub args: Args,
    pub disk: String,
    pub runs: Vec<Run>,
    /// Every policy there is, at [`ALL_AT`] threads with a part each.
    pub all: Vec<Run>,
    pub thresholds: Vec<Threshold>,
    /// At [`ALL_AT`] threads: no cache, the page cache, ONS.
    pub blocks: Vec<OfBlock>,
    pub sweep: Sweep,
}

/// A run whose records, and whose cache's blocks, have a size.
#[derive(Clone, Debug, Serialize)]
pub struct OfBlock {
    pub kib: u32,
    pub run: Run,
}

/// ONS with a threshold: Figs 6 and 8.
#[derive(Clone, Debug, Serialize)]
pub struct Threshold {
    pub threshold: u32,
    pub run: Run,
}

/// Name of the pool that is as large as ours.
pub const OURS: &str = "our pool";

/// What threads read with, by name.
pub fn ways() -> impl Iterator<Item = &'static str> {
    ["none", "page cache"]
        .into_iter()
        .chain(POLICIES)
        .chain([OURS])
}

/// What threads read with where sizes of a block are compared.
pub fn block_ways() -> [String; 3] {
    ["none".to_owned(), "page cache".to_owned(), ons()]
}

/// The run of this kind.
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

/// ONS as the paper takes it.
pub fn ons() -> String {
    format!("ons:threshold={THRESHOLD}")
}
