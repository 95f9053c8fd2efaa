//! Joins samples of uncompressed audio. They are usually single frames, and 48,000 per second would
//! make a huge index. Units last a few hundredths of a second, and each is contiguous in the file.

use super::entry::Entry;
use super::kept::KeptBox;
use super::limits::Limits;
use super::tables::{self, Chunking, Chunks, Runs, Sizes, Tables};
use crate::index_error::IndexError;
use crate::{Codec, Sample, SampleTable, Sound};

/// The minimum number of units per second.
const A_SECOND: u32 = 25;

/// The size of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The size of a frame in bytes.
    frame: u32,
    /// The maximum number of frames in a unit.
    most: u32,
}

impl Unit {
    /// Returns the unit for a track with this entry; `None`: its samples are not joined.
    pub fn of(entry: &Entry) -> Option<Unit> {
        let (Codec::Pcm(config), Some(Sound { rate, .. })) = (&entry.codec, &entry.sound) else {
            return None;
        };
        Some(Unit {
            frame: config.frame_bytes(),
            most: (rate / A_SECOND).max(1),
        })
    }
}

/// Reads the tables in `stbl`.
pub fn read(stbl: &KeptBox, limits: &mut Limits, unit: Unit) -> Result<Tables, IndexError> {
    let fixed = Sizes::parse(stbl, limits)?.filter(|sizes| sizes.fixed > 0 && sizes.count > 0);
    let Some(sizes) = fixed else {
        let mut tables = tables::read(stbl, limits)?;
        tables.samples = joined(&tables.samples, unit);
        return Ok(tables);
    };
    let stsc_box = stbl.need(b"stsc")?;
    let chunks_box = match stbl.find(b"stco")? {
        Some(stco) => stco,
        None => stbl.need(b"co64")?,
    };
    let mut durations = Runs::parse(&stbl.need(b"stts")?)?;
    let mut runs = Chunking::parse(&stsc_box)?;
    let mut chunks = Chunks::parse(&chunks_box)?;
    // Old QuickTime writers state 1, whatever the size of a frame.
    let size = match sizes.fixed {
        1 => unit.frame,
        fixed => fixed,
    };
    // A sample is usually one frame.
    let at_once = (unit.most / (size / unit.frame).max(1)).max(1);
    let mut tables = Tables::new(&limits.scratch);
    let mut number = 0;
    for chunk in 0..chunks.len() {
        let (samples, description) = runs.of_chunk(chunk)?;
        let samples = samples.min(sizes.count - number);
        let mut offset = chunks.next();
        if samples == 0 {
            continue;
        }
        tables.describe(description);
        let units = samples.div_ceil(at_once);
        limits.book(&sizes.of, units)?;
        // All units of a chunk have about the same length.
        let bound = |nth: u32| (u64::from(samples) * u64::from(nth) / u64::from(units)) as u32;
        for nth in 0..units {
            let count = bound(nth + 1) - bound(nth);
            let bytes = u64::from(count) * u64::from(size);
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            limits.check(&chunks_box, number, offset, bytes)?;
            tables.push(Sample {
                offset,
                size: bytes,
                duration: duration(durations.sum(count)),
                cts: 0,
                sync: true,
            });
            offset += u64::from(bytes);
            number += count;
        }
    }
    tables.note_missing(number, sizes.count, durations.given);
    Ok(tables)
}

/// Returns the duration of a unit, or 0 if it is out of range.
fn duration(ticks: u64) -> u32 {
    u32::try_from(ticks)
        .ok()
        .filter(|ticks| ticks >> 31 == 0)
        .unwrap_or(0)
}

/// Joins samples that are contiguous in the file into units of at most the maximum length.
pub fn joined(samples: &SampleTable, unit: Unit) -> SampleTable {
    let most = u64::from(unit.most) * u64::from(unit.frame);
    let mut table = SampleTable::new(samples.scratch());
    let mut open: Option<Sample> = None;
    for sample in samples.iter() {
        if let Some(open) = &mut open
            && open.bytes().end == sample.offset
            && u64::from(open.size) + u64::from(sample.size) <= most
            && let duration @ 1.. = duration(u64::from(open.duration) + u64::from(sample.duration))
        {
            (open.size, open.duration) = (open.size + sample.size, duration);
            continue;
        }
        if let Some(whole) = open.replace(Sample {
            cts: 0,
            sync: true,
            ..sample
        }) {
            table.push(whole);
        }
    }
    if let Some(last) = open {
        table.push(last);
    }
    table
}
