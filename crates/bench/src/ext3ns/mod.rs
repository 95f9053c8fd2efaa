//! `reelway bench ext3ns`: the EXT3NS paper's IOZONE runs on the real store. Threads read in
//! records of a megabyte: sequentially, once more, and at random; all of them the whole file, or
//! each a part of it; without a cache, with each policy over the paper's 512 blocks, with a pool of
//! our size, and through the page cache. For comparison, fio reads the same file.
//!
//! In the paper, each of 10–50 threads reads a whole gigabyte. Here a run over one file ends after
//! a fixed time, so that all runs take minutes; runs are compared by MB/s and CPU time per
//! gigabyte. A thread's own file is a part of the one file here, which it reads once, so that the
//! disk need not hold fifty files. Pools and threads' memory are touched before anything is
//! measured: a page's first touch costs more than reading it.
//!
//! If many threads of the process want the same record at once, the store reads it once for all:
//! MB/s are what the threads received, not what the disk delivered.
//!
//! | file | content |
//! |---|---|
//! | `threads.rs` | threads that read records, and their ways of reading |
//! | `sweep.rs` | sequential reads of the file, compared with fio and the page cache |
//! | `file.rs` | the file |
//! | `results.rs` | the arguments, the names of the ways compared, all results |
//! | `page.rs`, `page.md` | tables and charts; the text |
//! | `thresholds.rs` | tables and charts of the threshold of ONS |
//! | `paper.rs` | the paper's measurements |

mod file;
mod page;
mod paper;
mod results;
mod sweep;
mod threads;
mod thresholds;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use clap::Parser;
use reelway_cache::Spec;
use serde_json::json;

use self::file::{RECORD, make};
use self::paper::BLOCKS;
use self::results::{
    ALL_AT, Args, OURS, OfBlock, POLICIES, Results, THRESHOLDS_AT, Threshold, block_ways, ways,
};
use self::threads::{Files, Size, Way, patterns};
use crate::bed::Folder;
use crate::report::{Figure, Report};
use crate::stats::Spread;

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
    ensure!(
        args.block
            .iter()
            .all(|kib| (64..=16_384).contains(kib) && kib.is_power_of_two()),
        "--block: powers of two from 64 to 16384"
    );
    if args.install {
        sweep::install()?;
    }
    let folder = Folder::make_in(&args.dir, "bench")?;
    report(measure(folder.path(), args)?)
}

/// Describes the disk on which a file lies, and its driver.
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
    // First, before other runs change the state of the machine's memory.
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
