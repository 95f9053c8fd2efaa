//! Prints each sample of a film as a JSON line: `cargo run -p reelway-media --example samples FILM`.
//!
//! `track` is the track_ID, `time` and `decode` are presentation and decode time in ticks of the
//! track (after its shift), `pts` and `dts` the same on the media timeline. For comparing with
//! what others make of a film, such as `ffprobe -show_packets`.

use std::fs::File;
use std::io::{Error, Write};
use std::os::unix::fs::FileExt;

use reelway_media::{IndexOptions, index_with};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let film = std::env::args_os().nth(1).ok_or("which film?")?;
    let file = File::open(&film)?;
    let read = |range: std::ops::Range<u64>, bytes: &mut Vec<u8>| -> Result<(), Error> {
        bytes.resize((range.end - range.start) as usize, 0);
        file.read_exact_at(bytes, range.start)
    };
    let index = index_with(read, file.metadata()?.len(), IndexOptions::default())?;
    for note in &index.title.notes {
        eprintln!("{note}");
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (track, table) in index.title.tracks.iter().zip(&index.tables) {
        eprintln!(
            "track {}: {} ({}), {} samples in {} groups, shift {}/{}, language {:?}, name {:?}",
            track.id,
            track.codec.name(),
            track.codec.rfc6381(),
            track.samples,
            track.groups.len(),
            track.shift,
            track.timescale,
            track.language,
            track.name,
        );
        let mut dts = track.groups.first().map_or(0, |group| group.dts);
        for sample in table.iter() {
            let pts = dts + i64::from(sample.cts);
            writeln!(
                out,
                r#"{{"track":{},"offset":{},"size":{},"pts":{pts},"dts":{dts},"time":{},"decode":{},"duration":{},"sync":{}}}"#,
                track.id,
                sample.offset,
                sample.size,
                pts + track.shift,
                dts + track.shift,
                sample.duration,
                sample.sync,
            )?;
            dts += i64::from(sample.duration);
        }
    }
    Ok(())
}
