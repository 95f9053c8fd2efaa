//! `reelway bench index`: how long it takes to index a two-hour film.

use std::time::Duration;

use anyhow::Context;
use reelway_catalogue::{Growth, IndexFile, index_path};
use reelway_media::{IndexOptions, RECORD_BYTES};
use serde_json::json;

use crate::arguments::arguments;
use crate::film::{Recipe, make};
use crate::report::{Figure, Report};
use crate::stats::Spread;

/// Two hours at 24 pictures per second: 172,800 pictures and 337,500 sound frames.
const FILM: Recipe = Recipe {
    seconds: 7200,
    fps: 24,
    gop: 48,
    picture_rate: 4_000_000,
    sound_rate: 128_000,
    with_media: false,
    seed: 1,
};
const RUNS: usize = 21;

/// How long it takes to learn a two-hour film, and how large its index is
#[derive(clap::Parser)]
struct Args {}

/// Indexes a film whose `moov` is in the page cache, reads its index file back and counts the
/// bytes.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let Args {} = arguments("index", args);
    measure(crate::bed::Folder::make("bench-index")?.path())
}

fn measure(dir: &std::path::Path) -> anyhow::Result<Report> {
    let path = dir.join("film.mp4");
    make(&path, &FILM).context("making a two-hour film")?;
    let (identity, index) = index_path(&path, IndexOptions::default())?;
    let samples: u64 = index
        .title
        .tracks
        .iter()
        .map(|track| u64::from(track.samples))
        .sum();

    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    let mut indexing = Vec::new();
    let mut writing = Vec::new();
    let mut opening = Vec::new();
    let file = IndexFile::path_for(dir, &identity);
    for _ in 0..RUNS {
        let start = reelway_clock::now();
        let (identity, index) = index_path(&path, IndexOptions::default())?;
        let indexed = reelway_clock::now();
        IndexFile::write(
            &file,
            &identity,
            &index.title,
            &index.tables,
            Growth::default(),
        )?;
        let written = reelway_clock::now();
        IndexFile::open(&file, &identity)?;
        indexing.push(millis(indexed.since(start)));
        writing.push(millis(written.since(indexed)));
        opening.push(millis(reelway_clock::now().since(written)));
    }
    let tables: usize = index
        .tables
        .iter()
        .map(|table| table.len() as usize * RECORD_BYTES)
        .sum();
    let on_disk = std::fs::metadata(&file)?.len();
    let (indexing, writing, opening) = (
        Spread::of(indexing),
        Spread::of(writing),
        Spread::of(opening),
    );

    let mut report = Report::new("index");
    report.figures = vec![
        Figure::at_most("index_ms", indexing.median, "ms", 100.0)
            .spread(indexing.low, indexing.high),
        Figure::at_most(
            "bytes_a_sample_on_disk",
            on_disk as f64 / samples as f64,
            "bytes",
            20.0,
        ),
    ];
    report.details.insert("samples".into(), json!(samples));
    report
        .details
        .insert("record_bytes".into(), json!(RECORD_BYTES));
    report.details.insert("table_bytes".into(), json!(tables));
    report
        .details
        .insert("index_file_bytes".into(), json!(on_disk));
    report
        .details
        .insert("write_ms".into(), json!(writing.median));
    report
        .details
        .insert("open_ms".into(), json!(opening.median));
    report.text = vec![
        format!("  {samples} samples; medians of {RUNS} runs, smallest and largest in brackets"),
        format!(
            "  writing the index file {:.1} ms, opening and checking it {:.1} ms",
            writing.median, opening.median
        ),
    ];
    Ok(report)
}
