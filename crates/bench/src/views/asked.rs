//! How much of a Matroska file is read to index it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use reelway_media::{IndexOptions, index_with};

use crate::made;
use crate::report::{Figure, Report};

/// Measures a file with cues, and one without.
pub fn measure(report: &mut Report, folder: &Path) -> anyhow::Result<()> {
    let source = folder.join("source.mp4");
    made::film(&source, "1280x720", 120, "8M")?;
    for (id, what, live) in [("cues", "with cues", "0"), ("no_cues", "without cues", "1")] {
        let path = folder.join("film.mkv");
        made::remux(&source, &[], &["-live", live], &path)?;
        let (file, bytes) = (File::open(&path)?, std::fs::metadata(&path)?.len());
        let (mut asked, mut parts) = (0, 0);
        let read = |range: std::ops::Range<u64>, into: &mut Vec<u8>| {
            asked += range.end - range.start;
            parts += 1;
            into.resize((range.end - range.start) as usize, 0);
            file.read_exact_at(into, range.start)
        };
        let index = index_with(read, bytes, IndexOptions::default())?;
        let samples: u32 = index.title.tracks.iter().map(|track| track.samples).sum();
        let share = 100.0 * asked as f64 / bytes as f64;
        let id = format!("matroska_asked_{id}");
        report
            .figures
            .push(Figure::at_most(&id, share, "% of the file", 1.0));
        report.text.push(format!(
            "  A Matroska file {what}, two minutes at 8 Mbit/s: {:.0} MB, of which {:.0} KB are asked for, in {parts} parts; \
             {samples} samples.",
            bytes as f64 / 1e6,
            asked as f64 / 1e3,
        ));
        std::fs::remove_file(path)?;
    }
    std::fs::remove_file(source)?;
    Ok(())
}
