//! `reelway bench ext3ns`: the EXT3NS paper's IOZONE runs on the real store. Threads go through files in
//! records of a megabyte: read, read again, read at random, all over one file and in a part of it each; without a
//! cache, with each policy over 512 blocks as the paper had them, and through the page cache. Beside them
//! fio reads the same file.
//!
//! The paper lets each of its 10–50 threads go through a whole gigabyte. Here each run has a fixed time,
//! so that all of them take minutes; what a run compares is MB/s and CPU a gigabyte.
//! A file for each thread is a part of the one file here.
//!
//! Where many threads of one process want the same record at once the store reads it once for all: MB/s are
//! what they got, not what the disk gave.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use reelway_store::{Source, Store, StoreConfig};
use reelway_sys::region::Region;
use serde::Serialize;
use serde_json::json;

use crate::{Figure, Report};

const RECORD: u64 = 1 << 20;
/// Entries of the paper's PMEMCACHE.
const BLOCKS: u64 = 512;
/// Reads under way at once where ours is compared with fio's.
const DEPTH: usize = 8;
const POLICIES: [&str; 4] = ["fifo", "lru", "lfu", "ons:threshold=5"];
/// Re-read with cache (LFU) over none at 10 to 50 threads, MB/s, as the paper has it.
const PAPER: [(usize, f64); 5] = [(10, 88.0), (20, 28.7), (30, 24.6), (40, 11.3), (50, 15.4)];

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
    /// Milliseconds a run
    #[arg(long, default_value_t = 700)]
    millis: u64,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 30, 40, 50])]
    threads: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    Read,
    ReRead,
    Random,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
struct Run {
    way: String,
    files: &'static str,
    pattern: Pattern,
    threads: usize,
    mb_s: f64,
    cpu_s_gb: f64,
    /// Of the blocks asked for, where there is a cache.
    hits: Option<f64>,
}

/// What a thread reads with.
#[derive(Clone)]
enum Way {
    /// Directly into its own memory, as without a cache.
    Direct(Arc<File>),
    Buffered(Arc<File>),
    Store(Store, Arc<Source>),
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let words = std::iter::once("reelway bench ext3ns".to_owned()).chain(args.iter().cloned());
    let args = Args::parse_from(words);
    ensure!(args.megabytes >= 64, "--megabytes: at least 64");
    ensure!(
        args.threads.iter().all(|count| (1..=200).contains(count)),
        "--threads: 1 to 200"
    );
    let dir = args
        .dir
        .join(format!("reelway-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let outcome = measure(&dir, &args);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
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
    nix::fcntl::posix_fadvise(
        file,
        0,
        0,
        nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED,
    )?;
    Ok(())
}

fn direct(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_DIRECT)
        .open(path)
        .with_context(|| format!("{}: direct reads; choose a disk with --dir", path.display()))
}

fn measure(dir: &Path, args: &Args) -> anyhow::Result<Report> {
    let path = dir.join("one");
    make(&path, args.megabytes)?;
    let mut report = Report::new("ext3ns");
    let mut runs = Vec::new();
    for &threads in &args.threads {
        for files in ["one file", "a part each"] {
            // The paper has a file each; here a part of the one each, so that the disk need not hold 50.
            let ways = ["none", "page cache"].into_iter().chain(POLICIES);
            for name in ways {
                runs.extend(all_patterns(&path, name, files, threads, args)?);
            }
        }
    }
    for pattern in [Pattern::Read, Pattern::ReRead, Pattern::Random] {
        report.page += &table(&runs, pattern, args);
    }
    report.page += "\n## Re-read: cache (LFU) over none, MB/s\n\n| threads | the paper | here, one file | here, a part each |\n|---:|---:|---:|---:|\n";
    for (threads, paper) in PAPER {
        let gain = |files| {
            let of = |way: &str| find(&runs, way, files, Pattern::ReRead, threads);
            Some(of("lfu")?.mb_s - of("none")?.mb_s)
        };
        if let (Some(one), Some(each)) = (gain("one file"), gain("a part each")) {
            report.page += &format!("| {threads} | +{paper} | {one:+.0} | {each:+.0} |\n");
        }
    }
    against_fio(&path, args, &mut report)?;
    report.details.insert("runs".into(), json!(runs));
    Ok(report)
}

fn all_patterns(
    path: &Path,
    name: &str,
    files: &'static str,
    threads: usize,
    args: &Args,
) -> anyhow::Result<Vec<Run>> {
    let file = File::open(path)?;
    forget(&file)?;
    let way = match name {
        "none" => Way::Direct(Arc::new(direct(path)?)),
        "page cache" => Way::Buffered(Arc::new(file)),
        policy => {
            let store = store(BLOCKS * RECORD, RECORD as u32, policy)?;
            let source = store.open(path)?;
            Way::Store(store, source)
        }
    };
    let mut runs = Vec::new();
    for pattern in [Pattern::Read, Pattern::ReRead, Pattern::Random] {
        let before = way.stats();
        let cpu = reelway_sys::time::process_cpu_ns();
        let (bytes, spent) = go(&way, files == "one file", pattern, threads, args)?;
        let cpu = (reelway_sys::time::process_cpu_ns() - cpu) as f64 / 1e9;
        let hits = way
            .stats()
            .zip(before)
            .map(|((hits, all), (hits_before, all_before))| {
                (hits - hits_before) as f64 / (all - all_before).max(1) as f64
            });
        runs.push(Run {
            way: name.to_owned(),
            files,
            pattern,
            threads,
            mb_s: bytes as f64 / 1e6 / spent.as_secs_f64(),
            cpu_s_gb: cpu / (bytes as f64 / 1e9),
            hits,
        });
    }
    Ok(runs)
}

fn store(pool_bytes: u64, block_bytes: u32, policy: &str) -> anyhow::Result<Store> {
    let config = StoreConfig {
        pool_bytes,
        block_bytes,
        depth: DEPTH,
        policy: policy.parse()?,
        ..StoreConfig::default()
    };
    Ok(Store::new(config)?)
}

impl Way {
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
            Way::Store(store, source) => {
                let (sender, receiver) = sync_channel(1);
                store.fetch(source, at..at + RECORD, reelway_clock::now(), move |span| {
                    let _ = sender.send(span);
                });
                receiver.recv()??;
                Ok(())
            }
        }
    }
}

/// Has threads read for a while; bytes that they got, and how long it took.
fn go(
    way: &Way,
    one_file: bool,
    pattern: Pattern,
    threads: usize,
    args: &Args,
) -> anyhow::Result<(u64, Duration)> {
    let began = reelway_clock::now();
    let until = began + Duration::from_millis(args.millis);
    let total = AtomicU64::new(0);
    let results: Vec<anyhow::Result<()>> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads as u64)
            .map(|number| {
                let total = &total;
                scope.spawn(move || {
                    let mut page = Region::map(1, RECORD as usize)?.pages;
                    let own = page.first_mut().context("no memory")?;
                    let all = args.megabytes;
                    let (first, count) = match one_file {
                        true => (0, all),
                        false => (number * all / threads as u64, (all / threads as u64).max(1)),
                    };
                    let mut word = number * 2 + 1;
                    for nth in 0.. {
                        if reelway_clock::now() >= until {
                            break;
                        }
                        let record = match pattern {
                            Pattern::Random => {
                                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                                (word >> 33) % count
                            }
                            _ => nth % count,
                        };
                        way.read((first + record) * RECORD, own)?;
                        total.fetch_add(RECORD, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let join = |reader: std::thread::ScopedJoinHandle<'_, anyhow::Result<()>>| {
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        readers.into_iter().map(join).collect()
    });
    results.into_iter().collect::<anyhow::Result<()>>()?;
    Ok((total.into_inner(), reelway_clock::now().since(began)))
}

fn find<'a>(
    runs: &'a [Run],
    way: &str,
    files: &str,
    pattern: Pattern,
    threads: usize,
) -> Option<&'a Run> {
    runs.iter().find(|run| {
        run.way == way && run.files == files && run.pattern == pattern && run.threads == threads
    })
}

fn table(runs: &[Run], pattern: Pattern, args: &Args) -> String {
    let name = match pattern {
        Pattern::Read => "Read",
        Pattern::ReRead => "Re-read",
        Pattern::Random => "Random read",
    };
    let mut out = String::new();
    for files in ["one file", "a part each"] {
        out += &format!("\n## {name}, {files}: MB/s (CPU s a GB; hits)\n\n| |");
        for threads in &args.threads {
            out += &format!(" {threads} threads |");
        }
        out += "\n|---|";
        out += &"---:|".repeat(args.threads.len());
        out += "\n";
        for way in ["none", "page cache"].into_iter().chain(POLICIES) {
            out += &format!("| {way} |");
            for threads in &args.threads {
                if let Some(run) = find(runs, way, files, pattern, *threads) {
                    let hits = run.hits.map(|hits| format!("; {:.0}%", hits * 100.0));
                    out += &format!(
                        " {:.0} ({:.2}{}) |",
                        run.mb_s,
                        run.cpu_s_gb,
                        hits.unwrap_or_default()
                    );
                }
            }
            out += "\n";
        }
    }
    out
}

/// The store's direct reads from end to end of the file, as many under way as fio has; MB/s and CPU a GB.
fn sweep(path: &Path, block: u32) -> anyhow::Result<(f64, f64)> {
    let store = store(u64::from(block) * 64, block, "fifo")?;
    let source = store.open(path)?;
    let (sender, receiver) = sync_channel(DEPTH);
    let cpu = reelway_sys::time::process_cpu_ns();
    let began = reelway_clock::now();
    let (mut asked, mut done) = (0, 0);
    while done < source.len() {
        while asked < source.len() && asked - done < u64::from(block) * DEPTH as u64 {
            let range = asked..(asked + u64::from(block)).min(source.len());
            asked = range.end;
            let sender = sender.clone();
            store.fetch(&source, range, reelway_clock::now(), move |span| {
                let _ = sender.send(span.map(|span| span.range().end - span.range().start));
            });
        }
        done += receiver.recv()??;
    }
    let spent = reelway_clock::now().since(began).as_secs_f64();
    let cpu = (reelway_sys::time::process_cpu_ns() - cpu) as f64 / 1e9;
    Ok((done as f64 / 1e6 / spent, cpu / (done as f64 / 1e9)))
}

/// The same through the page cache.
fn buffered(path: &Path) -> anyhow::Result<f64> {
    let file = File::open(path)?;
    forget(&file)?;
    let mut own = vec![0; RECORD as usize];
    let cpu = reelway_sys::time::process_cpu_ns();
    let len = file.metadata()?.len();
    for at in (0..len).step_by(RECORD as usize) {
        file.read_exact_at(&mut own, at)?;
    }
    Ok((reelway_sys::time::process_cpu_ns() - cpu) as f64 / len as f64)
}

/// fio reading the file from end to end; MB/s.
fn fio(path: &Path, block: u32) -> anyhow::Result<f64> {
    let output = Command::new("fio")
        .args([
            "--name=read",
            "--rw=read",
            "--direct=1",
            "--ioengine=io_uring",
            "--output-format=json",
        ])
        .arg(format!("--iodepth={DEPTH}"))
        .arg(format!("--bs={block}"))
        .arg(format!("--filename={}", path.display()))
        .output()
        .context("fio (apt-get install fio)")?;
    ensure!(
        output.status.success(),
        "fio: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    // Notes may stand before the document.
    let text = &text[text.find('{').unwrap_or(0)..];
    let told: serde_json::Value = serde_json::from_str(text).context("fio's figures")?;
    let bytes = told["jobs"][0]["read"]["bw_bytes"].as_f64();
    Ok(bytes.context("fio told no rate")? / 1e6)
}

/// Direct reads beside fio's, block size by block size, and the page cache's CPU.
fn against_fio(path: &Path, args: &Args, report: &mut Report) -> anyhow::Result<()> {
    report.page += &format!(
        "\n## Direct reads of {} MB, {DEPTH} under way\n\n| block | the store, MB/s | fio, MB/s | the store's CPU s a GB |\n|---|---:|---:|---:|\n",
        args.megabytes
    );
    let mut paged = Vec::new();
    let (mut shares, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        paged.push(buffered(path)?);
    }
    for kib in [256, 512, 1024, 2048] {
        let (mut ours, mut theirs, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..3 {
            let (rate, cost) = sweep(path, kib << 10)?;
            ours.push(rate);
            cpu.push(cost);
            theirs.push(fio(path, kib << 10)?);
        }
        let middle = |values: Vec<f64>| crate::stats::Spread::of(values).median;
        if kib == 1024 {
            shares = ours
                .iter()
                .zip(&theirs)
                .map(|(ours, theirs)| ours / theirs * 100.0)
                .collect();
            costs.clone_from(&cpu);
        }
        report.page += &format!(
            "| {kib} KiB | {:.0} | {:.0} | {:.3} |\n",
            middle(ours),
            middle(theirs),
            middle(cpu)
        );
    }
    let share = crate::stats::Spread::of(shares);
    report.figures.push(
        Figure::at_least("direct_reads_of_fio", share.median, "%", 95.0)
            .spread(share.low, share.high),
    );
    let paged = crate::stats::Spread::of(paged).median;
    let cost = crate::stats::Spread::of(costs).median;
    report.figures.push(Figure::at_most(
        "direct_cpu_of_buffered",
        cost / paged,
        "",
        0.5,
    ));
    report.text.push(format!(
        "  through the page cache {paged:.3} s of CPU a GB, past it {cost:.3}; time the kernel spends in interrupts is in neither"
    ));
    Ok(())
}
