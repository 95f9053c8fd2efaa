//! Sequential direct reads of the file, the store's compared with fio's, for each block size; and
//! sequential reads through the page cache.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, ensure};
use reelway_store::{ReadError, Source, Store};
use serde::Serialize;

use super::file::{DEPTH, RECORD, forget};
use super::threads::Way;
use crate::bed::packages;
use crate::stats::Spread;

/// Block sizes in KiB that are compared.
pub const SIZES: [u32; 4] = [256, 512, 1024, 2048];

/// Block size in KiB for which figures are reported: the paper's record.
pub const JUDGED: u32 = 1024;

/// MB/s and CPU seconds per GB of one pass.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pass {
    pub mb_s: f64,
    pub cpu_s_gb: f64,
}

/// Results with one block size, ours and fio's measured alternately.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub kib: u32,
    pub ours: Vec<Pass>,
    /// With fio's defaults.
    pub fio: Vec<Pass>,
    /// With registered memory in large pages, like ours.
    pub fio_fixed: Vec<Pass>,
}

impl Row {
    /// Returns the better of fio's two results.
    pub fn best_fio(&self) -> &[Pass] {
        let rate = |passes: &[Pass]| median(passes, |pass| pass.mb_s);
        if rate(&self.fio_fixed) > rate(&self.fio) {
            &self.fio_fixed
        } else {
            &self.fio
        }
    }
}

/// Results with all block sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    pub rows: Vec<Row>,
    pub buffered: Vec<Pass>,
    pub fio_version: String,
}

/// Returns the median of some passes.
pub fn median(passes: &[Pass], of: impl Fn(&Pass) -> f64) -> f64 {
    Spread::of(passes.iter().map(of).collect()).median
}

impl Sweep {
    /// Returns the row for which figures are reported.
    pub fn judged(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.kib == JUDGED)
    }

    /// Returns our rate in percent of the better of fio's, turn by turn.
    pub fn of_fio(&self) -> Vec<f64> {
        let pairs = self.judged().into_iter();
        let share = |(ours, fio): (&Pass, &Pass)| ours.mb_s / fio.mb_s * 100.0;
        pairs
            .flat_map(|row| row.ours.iter().zip(row.best_fio()).map(share))
            .collect()
    }

    /// Returns our CPU time per GB divided by that of buffered reads, turn by turn.
    pub fn of_buffered(&self) -> Vec<f64> {
        let pairs = self.judged().into_iter();
        let share = |(ours, buffered): (&Pass, &Pass)| ours.cpu_s_gb / buffered.cpu_s_gb;
        pairs
            .flat_map(|row| row.ours.iter().zip(&self.buffered).map(share))
            .collect()
    }
}

/// Runs the comparison: `turns` times with each size, ours and fio's alternately.
pub fn run(path: &Path, turns: usize) -> anyhow::Result<Sweep> {
    let version = Command::new("fio").arg("--version").output();
    let version = version.context("no fio: run again with --install, or apt-get install fio")?;
    let mut sweep = Sweep {
        rows: Vec::new(),
        buffered: Vec::new(),
        fio_version: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
    };
    for kib in SIZES {
        let block = kib << 10;
        let pool = (u64::from(block) * 64).max(64 << 20);
        let Way::Store(store, source) = Way::store(path, pool, block, "lru")? else {
            continue;
        };
        let (mut ours, mut theirs, mut fixed) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..turns {
            ours.push(direct(&store, &source, block)?);
            theirs.push(fio(path, block, &[])?);
            fixed.push(fio(path, block, &["--fixedbufs"])?);
            if kib == JUDGED {
                sweep.buffered.push(buffered(path)?);
            }
        }
        sweep.rows.push(Row {
            kib,
            ours,
            fio: theirs,
            fio_fixed: fixed,
        });
    }
    Ok(sweep)
}

/// Runs `read`, which returns the bytes that it read, and measures its rate and its CPU time.
fn timed(read: impl FnOnce() -> anyhow::Result<u64>) -> anyhow::Result<Pass> {
    let cpu = reelway_sys::time::process_cpu_ns();
    let began = reelway_clock::now();
    let bytes = read()? as f64;
    let spent = reelway_clock::now().since(began).as_secs_f64();
    let cpu = (reelway_sys::time::process_cpu_ns() - cpu) as f64 / 1e9;
    Ok(Pass {
        mb_s: bytes / 1e6 / spent,
        cpu_s_gb: cpu / (bytes / 1e9),
    })
}

/// Reads the file's blocks in order through the store, with as many reads in flight as fio.
fn direct(store: &Store, source: &Arc<Source>, block: u32) -> anyhow::Result<Pass> {
    store.forget(source.identity());
    let (sender, receiver): (SyncSender<Result<u64, ReadError>>, Receiver<_>) = sync_channel(DEPTH);
    let block = u64::from(block);
    timed(|| {
        let (mut asked, mut done) = (0, 0);
        while done < source.len() {
            while asked < source.len() && asked - done < block * DEPTH as u64 {
                let range = asked..(asked + block).min(source.len());
                asked = range.end;
                let sender = sender.clone();
                store.fetch(source, range, reelway_clock::now(), move |span| {
                    let bytes = span.map(|span| span.range().end - span.range().start);
                    let _ = sender.send(bytes);
                });
            }
            done += receiver.recv()??;
        }
        Ok(done)
    })
}

/// Reads the file through the page cache, record by record.
fn buffered(path: &Path) -> anyhow::Result<Pass> {
    let file = File::open(path)?;
    forget(&file)?;
    let mut own = vec![1; RECORD as usize];
    let len = file.metadata()?.len();
    let pass = timed(|| {
        for at in (0..len).step_by(RECORD as usize) {
            file.read_exact_at(&mut own, at)?;
        }
        Ok(len)
    });
    forget(&file)?;
    pass
}

/// Has fio read the file from end to end.
fn fio(path: &Path, block: u32, more: &[&str]) -> anyhow::Result<Pass> {
    let output = Command::new("fio")
        .args([
            "--name=read",
            "--rw=read",
            "--direct=1",
            "--ioengine=io_uring",
            "--output-format=json",
        ])
        .args(more)
        // Makes glibc, from which fio allocates its memory, ask for large pages.
        .env(
            "GLIBC_TUNABLES",
            if more.is_empty() {
                ""
            } else {
                "glibc.malloc.hugetlb=1"
            },
        )
        .arg(format!("--iodepth={DEPTH}"))
        .arg(format!("--bs={block}"))
        .arg(format!("--filename={}", path.display()))
        .output()
        .context("starting fio")?;
    ensure!(
        output.status.success(),
        "fio: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    // Notes may precede the document.
    let text = &text[text.find('{').unwrap_or(0)..];
    let told: serde_json::Value = serde_json::from_str(text).context("fio's figures")?;
    let job = &told["jobs"][0];
    let number = |value: &serde_json::Value| value.as_f64().context("a figure is missing in fio's");
    let bytes = number(&job["read"]["io_bytes"])?;
    let seconds = number(&job["read"]["runtime"])? / 1e3;
    let percent = number(&job["usr_cpu"])? + number(&job["sys_cpu"])?;
    Ok(Pass {
        mb_s: number(&job["read"]["bw_bytes"])? / 1e6,
        cpu_s_gb: percent / 100.0 * seconds / (bytes / 1e9),
    })
}

/// Installs fio if it is missing.
pub fn install() -> anyhow::Result<()> {
    if Command::new("fio").arg("--version").output().is_ok() {
        return Ok(());
    }
    packages::install(&["fio"])
}
