//! A recording of a day: indexing it, opening it from its index file, and seeking.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use reelway_catalogue::{Growth, IndexFile, index_path_with_scratch};
use reelway_media::{IndexOptions, Indexer, index_growing};
use serde_json::json;

use crate::bed::machine::memory_of;
use crate::made;
use crate::report::{Figure, Report};
use crate::stats::Spread;

/// Number of times that it is opened, and of seeks.
const TIMES: u32 = 51;
/// Minutes per hour.
const MINUTES: u32 = 60;

/// Makes the recording, measures it and removes it.
pub fn measure(report: &mut Report, folder: &Path, hours: u32) -> anyhow::Result<()> {
    let (minute, path) = (folder.join("minute.ts"), folder.join("day.ts"));
    made::film(&minute, "320x180", 60, "150k")?;
    let again = (hours * MINUTES - 1).to_string();
    made::remux(&minute, &["-stream_loop", &again], &[], &path).context("a long recording")?;

    let before = peak_from_now()?;
    let start = reelway_clock::now();
    let (identity, index) = index_path_with_scratch(&path, IndexOptions::default(), folder)?;
    let took = reelway_clock::now().since(start);
    let taken = memory_of(std::process::id())?.1.saturating_sub(before);
    let samples: u32 = index.title.tracks.iter().map(|track| track.samples).sum();
    let file = IndexFile::path_for(folder, &identity);
    let growth = Growth::default();
    IndexFile::write(&file, &identity, &index.title, &index.tables, growth)?;
    drop(index);

    let (mut opening, mut seeking) = (Vec::new(), Vec::new());
    for nth in 0..TIMES {
        let start = reelway_clock::now();
        let (title, samples) = IndexFile::open(&file, &identity)?;
        let opened = reelway_clock::now();
        let at = title.duration / i64::from(TIMES) * i64::from(nth * 37 % TIMES);
        for (number, track) in title.tracks.iter().enumerate() {
            track.sync_sample_at(number, at, &samples)?;
            track.read_group(number, track.group_at(at), &samples)?;
        }
        opening.push(opened.since(start).as_secs_f64() * 1e3);
        seeking.push(reelway_clock::now().since(opened).as_secs_f64() * 1e3);
    }
    let (opening, seeking) = (Spread::of(opening), Spread::of(seeking));
    report.figures.extend([
        Figure::at_most("day_open", opening.median, "ms", 200.0).spread(opening.low, opening.high),
        Figure::at_most("day_seek", seeking.median, "ms", 20.0).spread(seeking.low, seeking.high),
        Figure::at_most(
            "day_index_memory",
            taken as f64 / f64::from(1 << 20),
            "MiB",
            16.0,
        ),
    ]);
    let (again, read) = index_again(&path, &minute)?;
    report.figures.push(Figure::without_goal(
        "day_index_again",
        again.as_secs_f64() * 1e3,
        "ms",
    ));
    let bytes = std::fs::metadata(&path)?.len();
    report.text.push(format!(
        "  A transport stream of {hours} hours: {:.2} GB, {samples} samples, indexed in {:.1} s; its index file has {:.0} MiB. \
         Opened {TIMES} times, and sought in at as many places. After one more minute, {:.1} MB of it were read to index it again.",
        bytes as f64 / 1e9,
        took.as_secs_f64(),
        std::fs::metadata(&file)?.len() as f64 / f64::from(1 << 20),
        read as f64 / 1e6,
    ));
    report.details.insert("day_bytes".into(), json!(bytes));
    report.details.insert("day_samples".into(), json!(samples));
    for path in [minute, path, file] {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Indexes a recording, and again after another file was appended; returns the duration of the
/// second time, and the bytes read.
fn index_again(path: &Path, more: &Path) -> anyhow::Result<(Duration, u64)> {
    let file = OpenOptions::new().read(true).append(true).open(path)?;
    let bytes_read = Cell::new(0);
    let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
        bytes_read.set(bytes_read.get() + range.end - range.start);
        bytes.resize((range.end - range.start) as usize, 0);
        file.read_exact_at(bytes, range.start)
    };
    let indexer = Indexer::new(file.metadata()?.len(), IndexOptions::default());
    let (_, so_far) = index_growing(indexer, true, read)?;
    let so_far = so_far.context("nothing to go on from")?;
    (&file).write_all(&std::fs::read(more)?)?;
    let start = reelway_clock::now();
    bytes_read.set(0);
    index_growing(so_far.go_on(file.metadata()?.len()), true, read)?;
    Ok((reelway_clock::now().since(start), bytes_read.get()))
}

/// Returns the memory in use, and resets the peak to it.
fn peak_from_now() -> anyhow::Result<u64> {
    std::fs::write("/proc/self/clear_refs", "5").context("/proc/self/clear_refs")?;
    Ok(memory_of(std::process::id())?.0)
}
