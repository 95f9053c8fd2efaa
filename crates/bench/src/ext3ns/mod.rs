//! `reelway bench ext3ns`: the EXT3NS paper's IOZONE runs on the real store. Threads go through files in
//! records of a megabyte: read, read again, read at random, all over one file and in a part of it each; without a
//! cache, with each policy over 512 blocks as the paper had them, with a pool of our size, and through the page
//! cache. Beside them fio reads the same file.
//!
//! The paper lets each of its 10–50 threads go through a whole gigabyte. Here a run over one file ends after a fixed
//! time, so that all of them take minutes; what a run compares is MB/s and CPU a gigabyte. A file for each thread is a
//! part of the one file here, which it reads once, so that the disk need not hold fifty. Pools and threads' memory are in use before
//! anything is measured: a page's first touch costs more than reading it.
//!
//! Where many threads of one process want the same record at once the store reads it once for all: MB/s are
//! what they got, not what the disk gave.
//!
//! | file | what lives there |
//! |---|---|
//! | `threads.rs` | threads that read records, and what they read with |
//! | `sweep.rs` | the file from end to end beside fio and the page cache |
//! | `page.rs` | tables and charts |
//! | `thresholds.rs` | tables and charts of the threshold of ONS |
//! | `paper.rs` | what the paper measured |

mod page;
mod paper;
mod sweep;
mod threads;
mod thresholds;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytesize::ByteSize;
use clap::Parser;
use reelway_cache::Spec;
use serde::Serialize;
use serde_json::json;

use crate::stats::Spread;
use crate::{Figure, Report};
use paper::{BLOCKS, THRESHOLD};
use sweep::Sweep;
use threads::{Files, Run, Size, Way, patterns};

/// Bytes of a record, and of a block of the paper's cache.
const RECORD: u64 = 1 << 20;
/// Reads under way at once, ours and fio's.
const DEPTH: usize = 8;
/// The paper's policies.
const POLICIES: [&str; 4] = ["fifo", "lru", "lfu", "ons:threshold=5"];
/// Threads where all policies, and all sizes of a block, are compared.
const ALL_AT: usize = 20;
/// Threads where thresholds are compared, as in the paper.
const THRESHOLDS_AT: [usize; 3] = [10, 20, 30];

/// Its arguments.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench ext3ns",
    about = "The EXT3NS paper's IOZONE runs on the real store, beside fio"
)]
struct Args {
    /// A directory on the disk to measure, with room for the file
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// Megabytes of the file
    #[arg(long, default_value_t = 1024)]
    megabytes: u64,
    /// Milliseconds a run over one file
    #[arg(long, default_value_t = 250)]
    millis: u64,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 30, 40, 50])]
    threads: Vec<usize>,
    /// KiB of a block, and of a record, where sizes are compared
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512, 1024, 2048])]
    block: Vec<u32>,
    /// Pool of our size, beside the paper's 512 blocks: of blocks of 256 KiB, with our policy
    #[arg(long, default_value = "256MiB")]
    cache: ByteSize,
    /// Times that the file is read from end to end beside fio, for each block size
    #[arg(long, default_value_t = 7)]
    turns: usize,
    /// Short runs and few of them: for a look, not for figures
    #[arg(long)]
    quick: bool,
    /// Install fio with apt-get where it is missing
    #[arg(long)]
    install: bool,
}

/// Everything that was measured.
struct Results {
    args: Args,
    disk: String,
    runs: Vec<Run>,
    /// Every policy there is, at [`ALL_AT`] threads with a part each.
    all: Vec<Run>,
    thresholds: Vec<Threshold>,
    /// At [`ALL_AT`] threads: no cache, the page cache, ONS.
    blocks: Vec<OfBlock>,
    sweep: Sweep,
}

/// A run whose records, and whose cache's blocks, have a size.
#[derive(Clone, Debug, Serialize)]
struct OfBlock {
    kib: u32,
    run: Run,
}

/// ONS with a threshold: Figs 6 and 8.
#[derive(Clone, Debug, Serialize)]
struct Threshold {
    threshold: u32,
    run: Run,
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let words = std::iter::once("reelway bench ext3ns".to_owned()).chain(args.iter().cloned());
    let mut args = Args::parse_from(words);
    if args.quick {
        args.megabytes = args.megabytes.min(640);
        args.millis = args.millis.min(80);
        args.turns = args.turns.min(2);
    }
    ensure!(
        (64..=65_536).contains(&args.megabytes),
        "--megabytes: 64 to 65536"
    );
    ensure!(
        args.threads.iter().all(|count| (1..=200).contains(count)),
        "--threads: 1 to 200"
    );
    ensure!(args.turns > 0, "--turns: at least 1");
    ensure!(
        args.block
            .iter()
            .all(|kib| (64..=16_384).contains(kib) && kib.is_power_of_two()),
        "--block: powers of two from 64 to 16384"
    );
    if args.install {
        sweep::install()?;
    }
    let dir = args
        .dir
        .join(format!("reelway-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let outcome = measure(&dir, args);
    let _ = std::fs::remove_dir_all(&dir);
    report(outcome?)
}

/// A file of bytes that no disk can compress away, on the disk and out of the page cache.
fn make(path: &Path, megabytes: u64) -> anyhow::Result<()> {
    let mut file = File::create(path).with_context(|| path.display().to_string())?;
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut record = vec![0; RECORD as usize];
    for _ in 0..megabytes {
        for bytes in record.chunks_exact_mut(8) {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        file.write_all(&record)
            .with_context(|| format!("{} MB at {}", megabytes, path.display()))?;
    }
    file.sync_all()?;
    forget(&file)
}

/// Drops a file's pages from the page cache.
fn forget(file: &File) -> anyhow::Result<()> {
    let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
    nix::fcntl::posix_fadvise(file, 0, 0, advice)?;
    Ok(())
}

fn direct(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_DIRECT)
        .open(path)
        .with_context(|| format!("{}: direct reads; choose a disk with --dir", path.display()))
}

/// Which disk a file lies on, and what drives it.
fn disk_of(path: &Path) -> anyhow::Result<String> {
    let device = std::fs::metadata(path)?.dev();
    let numbers = reelway_sys::device_numbers(device);
    let link = PathBuf::from(format!("/sys/dev/block/{}:{}", numbers.0, numbers.1));
    let Ok(mut path) = link.canonicalize() else {
        return Ok(format!("device {}:{}, no disk", numbers.0, numbers.1));
    };
    if path.join("partition").exists() {
        path.pop();
    }
    let last = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let name = last(&path).unwrap_or_default();
    let driver = path.join("device/driver").canonicalize().ok();
    let driver = driver.and_then(|path| last(&path)).unwrap_or_default();
    let model = std::fs::read_to_string(path.join("device/model")).unwrap_or_default();
    Ok(match driver.as_str() {
        "virtio_blk" => {
            format!("{name}, a virtual disk (virtio), whose rate the host sets or limits")
        }
        _ => format!("{name} {} ({driver})", model.trim()),
    })
}

fn measure(dir: &Path, args: Args) -> anyhow::Result<Results> {
    let path = dir.join("one");
    make(&path, args.megabytes)?;
    let size = Size {
        bytes: args.megabytes * RECORD,
        record: RECORD,
        time: Duration::from_millis(args.millis),
    };
    let pool = BLOCKS * RECORD;
    // First, while the machine's memory is as it was found.
    let sweep = sweep::run(&path, args.turns)?;
    let mut runs = Vec::new();
    for name in ways() {
        let way = match name {
            "none" => Way::none(&path)?,
            "page cache" => Way::page_cache(&path)?,
            OURS => Way::store(&path, args.cache.as_u64(), 256 << 10, "timetable")?,
            policy => Way::store(&path, pool, RECORD as u32, policy)?,
        };
        for &threads in &args.threads {
            for files in Files::ALL {
                runs.extend(patterns(&way, name, files, threads, size)?);
            }
        }
    }
    let mut all = Vec::new();
    let names: &[&str] = if args.quick { &POLICIES } else { Spec::NAMES };
    for name in names {
        let way = Way::store(&path, pool, RECORD as u32, name)?;
        all.extend(patterns(&way, name, Files::Each, ALL_AT, size)?);
    }
    let mut thresholds = Vec::new();
    let step = if args.quick { 6 } else { 1 };
    for threshold in (1..=13).step_by(step) {
        let policy = format!("ons:threshold={threshold}");
        let way = Way::store(&path, pool, RECORD as u32, &policy)?;
        for threads in THRESHOLDS_AT {
            for files in Files::ALL {
                let found = patterns(&way, &policy, files, threads, size)?;
                thresholds.extend(found.into_iter().map(|run| Threshold { threshold, run }));
            }
        }
    }
    let mut blocks = Vec::new();
    for &kib in &args.block {
        let record = u64::from(kib) << 10;
        let size = Size { record, ..size };
        for name in block_ways() {
            let way = match name.as_str() {
                "none" => Way::none(&path)?,
                "page cache" => Way::page_cache(&path)?,
                policy => Way::store(&path, pool, record as u32, policy)?,
            };
            for files in Files::ALL {
                let found = patterns(&way, &name, files, ALL_AT, size)?;
                blocks.extend(found.into_iter().map(|run| OfBlock { kib, run }));
            }
        }
    }
    Ok(Results {
        disk: disk_of(&path)?,
        args,
        runs,
        all,
        thresholds,
        blocks,
        sweep,
    })
}

/// Name of the pool that is as large as ours.
const OURS: &str = "our pool";

/// What threads read with, by name.
fn ways() -> impl Iterator<Item = &'static str> {
    ["none", "page cache"]
        .into_iter()
        .chain(POLICIES)
        .chain([OURS])
}

/// What threads read with where sizes of a block are compared.
fn block_ways() -> [String; 3] {
    ["none".to_owned(), "page cache".to_owned(), ons()]
}

fn report(results: Results) -> anyhow::Result<Report> {
    let mut report = Report::new("ext3ns");
    let sweep = &results.sweep;
    let of_fio = Spread::of(sweep.of_fio());
    let of_buffered = Spread::of(sweep.of_buffered());
    report.figures = vec![
        Figure::at_least("direct_reads_of_fio", of_fio.median, "%", 95.0)
            .spread(of_fio.low, of_fio.high),
        Figure::at_most("direct_cpu_of_buffered", of_buffered.median, "", 0.5)
            .spread(of_buffered.low, of_buffered.high),
    ];
    report.text = page::summary(&results);
    report.page = page::page(&results);
    report.charts = page::charts(&results)
        .into_iter()
        .map(|(name, chart)| (format!("ext3ns/{name}"), chart))
        .collect();
    report.details.insert("disk".into(), json!(results.disk));
    report.details.insert("runs".into(), json!(results.runs));
    report.details.insert("policies".into(), json!(results.all));
    report
        .details
        .insert("thresholds".into(), json!(results.thresholds));
    report
        .details
        .insert("blocks".into(), json!(results.blocks));
    report.details.insert("sweep".into(), json!(results.sweep));
    Ok(report)
}

/// The run of this kind.
fn find<'a>(
    runs: &'a [Run],
    way: &str,
    files: Files,
    pattern: threads::Pattern,
    threads: usize,
) -> Option<&'a Run> {
    runs.iter().find(|run| {
        run.way == way && run.files == files && run.pattern == pattern && run.threads == threads
    })
}

/// ONS as the paper takes it.
fn ons() -> String {
    format!("ons:threshold={THRESHOLD}")
}
