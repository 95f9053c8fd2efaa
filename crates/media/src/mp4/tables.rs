//! The sample tables of a progressive film (ISO/IEC 14496-12 8.6, 8.7).
//!
//! The tables are walked side by side, a piece of each in memory, from the bytes of `moov` directly
//! into the packed records, without intermediate lists. Disagreements between tables that players
//! tolerate (a time table that ends early, chunks for fewer samples than there are sizes) are
//! corrected with a note. Those that would make us read wrong bytes are errors.

use super::boxes::fourcc;
use super::kept::{KeptBox, Table};
use super::limits::Limits;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::scratch::Scratch;
use crate::{Sample, SampleTable};

/// A track's samples according to its tables.
#[derive(Debug, Default)]
pub struct Tables {
    /// The samples in decode order.
    pub samples: SampleTable,
    /// The sum of their durations, in ticks.
    pub duration: i64,
    /// sample_description_index of the first sample, from 1; 0 if there are no samples.
    pub description: u32,
    /// The first sample_description_index that differs from it, if any.
    pub other_description: Option<u32>,
    /// Notes on what was corrected.
    pub notes: Vec<String>,
}

impl Tables {
    /// Creates tables without samples.
    pub(super) fn new(scratch: &Scratch) -> Tables {
        Tables {
            samples: SampleTable::new(scratch),
            ..Tables::default()
        }
    }

    /// Appends a sample.
    #[inline]
    pub(super) fn push(&mut self, sample: Sample) {
        self.duration += i64::from(sample.duration);
        self.samples.push(sample);
    }

    /// Records the description of the next samples.
    pub(super) fn describe(&mut self, description: u32) {
        match self.description {
            0 => self.description = description,
            first if first != description => {
                self.other_description.get_or_insert(description);
            }
            _ => {}
        }
    }

    /// Notes gaps: of `count` samples, `number` have a position and `timed` a duration.
    pub(super) fn note_missing(&mut self, number: u32, count: u32, timed: u64) {
        if number < count {
            self.notes.push(format!(
                "{} of {count} samples have no place in the file (stco, stsc) and are skipped",
                count - number
            ));
        }
        if timed < u64::from(number) {
            self.notes.push(format!(
                "stts times {timed} of {number} samples; the last duration goes on"
            ));
        }
    }
}

/// Reads the tables in `stbl`.
pub fn read(stbl: &KeptBox, limits: &mut Limits) -> Result<Tables, IndexError> {
    let mut tables = Tables::new(&limits.scratch);
    let Some(mut sizes) = Sizes::parse(stbl, limits)? else {
        return Ok(tables); // a fragmented film's `moov` may omit it
    };
    let count = sizes.count;
    if count == 0 {
        return Ok(tables);
    }
    let stsc_box = stbl.need(b"stsc")?;
    let chunks_box = match stbl.find(b"stco")? {
        Some(stco) => stco,
        None => stbl.need(b"co64")?,
    };
    let stts = stbl.need(b"stts")?;
    let ctts = stbl.find(b"ctts")?;
    let mut durations = Runs::parse(&stts)?;
    let mut offsets = ctts.as_ref().map(Runs::parse).transpose()?;
    let mut sync = Sync::parse(stbl)?;
    let mut runs = Chunking::parse(&stsc_box)?;
    let mut chunks = Chunks::parse(&chunks_box)?;

    limits.book(&sizes.of, count)?;
    let (mut number, mut duration) = (0, 0);
    for chunk in 0..chunks.len() {
        let (samples, description) = runs.of_chunk(chunk)?;
        let mut offset = chunks.next();
        let samples = samples.min(count - number);
        if samples > 0 {
            tables.describe(description);
        }
        for _ in 0..samples {
            let size = sizes.next();
            limits.check(&chunks_box, number, offset, size)?;
            duration = durations.next().unwrap_or(duration);
            let cts = offsets.as_mut().and_then(Runs::next).unwrap_or(0) as i32;
            // Values from 2^31 are negative durations of careless writers; players treat them as 0.
            let duration = if duration >> 31 == 0 { duration } else { 0 };
            tables.push(Sample {
                offset,
                size,
                duration,
                cts,
                sync: sync.next(number),
            });
            offset += u64::from(size);
            number += 1;
        }
    }
    if number < count {
        limits.samples += count - number;
    }
    tables.note_missing(number, count, durations.given);
    if let Some(offsets) = offsets.filter(|offsets| offsets.given < u64::from(number)) {
        tables.notes.push(format!(
            "ctts ends after {} of {number} samples",
            offsets.given
        ));
    }
    Ok(tables)
}

/// The sizes from `stsz` or `stz2`.
pub(super) struct Sizes<'p, 'a> {
    pub of: KeptBox<'p, 'a>,
    pub count: u32,
    /// The size of all samples; 0: individual sizes.
    pub fixed: u32,
    entries: Entries<'a>,
}

/// Individual sizes of this many bits.
enum Entries<'a> {
    None,
    Bits32(Table<'a, 4>),
    Bits16(Table<'a, 2>),
    Bits8(Table<'a, 1>),
    /// With the second half of the byte that was read last.
    Bits4(Table<'a, 1>, Option<u8>),
}

impl<'p, 'a> Sizes<'p, 'a> {
    pub fn parse(stbl: &'p KeptBox<'p, 'a>, limits: &Limits) -> Result<Option<Self>, IndexError> {
        let mut head = Vec::new();
        if let Some(of) = stbl.find(b"stsz")? {
            let head = of.head(&mut head)?;
            let (_, _, mut fields) = head.full()?;
            let (fixed, count) = (fields.u32()?, fields.u32()?);
            let entries = match fixed {
                0 => Entries::Bits32(of.table(fields.at(), count)?),
                _ => Entries::None,
            };
            let claimed = u64::from(fixed) * u64::from(count);
            if claimed > limits.file_len {
                let problem = format!(
                    "says {count} samples of {fixed} bytes, more than the file's {}",
                    limits.file_len
                );
                return Err(of.error(IndexErrorKind::Incomplete, problem));
            }
            return Ok(Some(Sizes {
                of,
                count,
                fixed,
                entries,
            }));
        }
        let Some(of) = stbl.find(b"stz2")? else {
            return Ok(None);
        };
        let head = of.head(&mut head)?;
        let (_, _, mut fields) = head.full()?;
        let (bits, count) = (fields.u32()? as u8, fields.u32()?);
        let at = fields.at();
        let entries = match bits {
            4 => Entries::Bits4(of.table(at, count / 2 + count % 2)?, None),
            8 => Entries::Bits8(of.table(at, count)?),
            16 => Entries::Bits16(of.table(at, count)?),
            _ => {
                return Err(of.damaged(format!(
                    "says that sizes take {bits} bits; 4, 8 or 16 are possible"
                )));
            }
        };
        Ok(Some(Sizes {
            of,
            count,
            fixed: 0,
            entries,
        }))
    }

    /// Returns the next size. Called at most `count` times, for which the table is long enough.
    #[inline]
    fn next(&mut self) -> u32 {
        match &mut self.entries {
            Entries::None => self.fixed,
            Entries::Bits32(table) => table.next().map_or(0, u32::from_be_bytes),
            Entries::Bits16(table) => table.next().map_or(0, u16::from_be_bytes).into(),
            Entries::Bits8(table) => table.next().map_or(0, |[size]| size).into(),
            Entries::Bits4(table, second) => match second.take() {
                Some(size) => size.into(),
                None => {
                    let [both] = table.next().unwrap_or_default();
                    *second = Some(both & 15);
                    u32::from(both >> 4)
                }
            },
        }
    }
}

/// The contents of `stts` or `ctts`: runs of (count, value).
pub(super) struct Runs<'a> {
    entries: Table<'a, 8>,
    left: u32,
    value: u32,
    /// How many values the table has provided so far.
    pub given: u64,
}

impl<'a> Runs<'a> {
    pub fn parse(table: &KeptBox<'_, 'a>) -> Result<Self, IndexError> {
        table.counted().map(Runs::of)
    }

    fn of(entries: Table<'a, 8>) -> Self {
        Runs {
            entries,
            left: 0,
            value: 0,
            given: 0,
        }
    }

    /// Advances to the next entry, if there is one.
    fn step(&mut self) -> Option<()> {
        [self.left, self.value] = words(self.entries.next()?);
        Some(())
    }

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.left == 0 {
            self.step()?;
        }
        self.left -= 1;
        self.given += 1;
        Some(self.value)
    }

    /// Returns the sum of the next `count` values; the last one repeats after the table's end.
    pub fn sum(&mut self, count: u32) -> u64 {
        let (mut sum, mut wanted) = (0, count);
        while wanted > 0 {
            if self.left == 0 && self.step().is_none() {
                return sum + u64::from(wanted) * u64::from(self.value);
            }
            let run = self.left.min(wanted);
            self.left -= run;
            self.given += u64::from(run);
            wanted -= run;
            sum += u64::from(run) * u64::from(self.value);
        }
        sum
    }
}

/// The big-endian numbers of an entry.
#[inline]
fn words<const N: usize, const W: usize>(entry: [u8; N]) -> [u32; W] {
    let (bytes, _) = entry.as_chunks::<4>();
    std::array::from_fn(|at| bytes.get(at).map_or(0, |word| u32::from_be_bytes(*word)))
}

/// The contents of `stsc`: the number of samples per chunk.
pub(super) struct Chunking<'p, 'a> {
    of: &'p KeptBox<'p, 'a>,
    entries: Table<'a, 12>,
    /// first_chunk, samples_per_chunk and sample_description_index of the next entry; `at` is its
    /// number, from 0.
    ahead: Option<[u32; 3]>,
    at: usize,
    samples: u32,
    description: u32,
}

impl<'p, 'a> Chunking<'p, 'a> {
    pub fn parse(of: &'p KeptBox<'p, 'a>) -> Result<Self, IndexError> {
        let mut entries = of.counted()?;
        let mut chunking = Chunking {
            of,
            ahead: entries.next().map(words),
            entries,
            at: 0,
            samples: 0,
            description: 0,
        };
        match chunking.ahead {
            Some([1, ..]) => {}
            Some([first, ..]) => return Err(of.damaged(format!("begins at chunk {first}, not 1"))),
            None => return Err(of.damaged("says nothing of the chunks")),
        }
        chunking.of_chunk(0)?;
        Ok(chunking)
    }

    /// Returns the sample count and description of chunk `chunk` (from 0), in ascending order only.
    pub fn of_chunk(&mut self, chunk: usize) -> Result<(u32, u32), IndexError> {
        while let Some([first, samples, description]) = self.ahead {
            if first as usize > chunk + 1 {
                break;
            }
            // An entry for an earlier chunk would leave the position of its samples undefined.
            if self.at > 0 && (first as usize) < chunk + 1 {
                return Err(self.of.damaged(format!(
                    "entry {} is out of order: chunk {first}",
                    self.at + 1
                )));
            }
            (self.samples, self.description) = (samples, description);
            self.at += 1;
            self.ahead = self.entries.next().map(words);
        }
        Ok((self.samples, self.description))
    }
}

/// The chunk offsets of `stco` or `co64`.
pub(super) enum Chunks<'a> {
    Narrow(Table<'a, 4>),
    Wide(Table<'a, 8>),
}

impl<'a> Chunks<'a> {
    pub fn parse(of: &KeptBox<'_, 'a>) -> Result<Self, IndexError> {
        Ok(if of.kind == *b"co64" {
            Chunks::Wide(of.counted()?)
        } else {
            Chunks::Narrow(of.counted()?)
        })
    }

    /// Returns the number of chunks left.
    pub fn len(&self) -> usize {
        match self {
            Chunks::Narrow(table) => table.len(),
            Chunks::Wide(table) => table.len(),
        }
    }

    /// Returns the next chunk's offset. Called at most as often as there are chunks.
    pub fn next(&mut self) -> u64 {
        match self {
            Chunks::Narrow(table) => table.next().map_or(0, u32::from_be_bytes).into(),
            Chunks::Wide(table) => table.next().map_or(0, u64::from_be_bytes),
        }
    }
}

/// The samples at which a decoder may start: `stss`, QuickTime's `stps` (partial sync) and the
/// sample group `rap ` (8.9.4, 10.4), for open-GOP pictures that some writers omit from `stss`.
struct Sync<'a> {
    /// Without `stss`, every sample is a sync sample.
    all: bool,
    lists: [Option<SyncList<'a>>; 2],
    groups: Option<Runs<'a>>,
}

struct SyncList<'a> {
    numbers: Table<'a, 4>,
    ahead: Option<u32>,
    /// The number of the first sample: 1, but 0 from some careless writers, which players accept.
    base: u32,
}

impl<'a> SyncList<'a> {
    fn parse(of: &KeptBox<'_, 'a>) -> Result<Self, IndexError> {
        let mut numbers = of.counted::<4>()?;
        let (all, mut last) = (numbers.clone().map(u32::from_be_bytes), 0);
        for (number, listed) in (1..).zip(all) {
            if listed < last {
                return Err(of.damaged(format!(
                    "{} entry {number} is out of order",
                    fourcc(of.kind)
                )));
            }
            last = listed;
        }
        let ahead = numbers.next().map(u32::from_be_bytes);
        Ok(SyncList {
            numbers,
            ahead,
            base: ahead.map_or(1, |first| first.min(1)),
        })
    }

    #[inline]
    fn holds(&mut self, number: u32) -> bool {
        let wanted = number + self.base;
        while let Some(listed) = self.ahead {
            if listed >= wanted {
                return listed == wanted;
            }
            self.ahead = self.numbers.next().map(u32::from_be_bytes);
        }
        false
    }
}

impl<'a> Sync<'a> {
    fn parse(stbl: &KeptBox<'_, 'a>) -> Result<Self, IndexError> {
        let (stss, stps) = (stbl.find(b"stss")?, stbl.find(b"stps")?);
        let list = |of: &Option<KeptBox<'_, 'a>>| of.as_ref().map(SyncList::parse).transpose();
        let lists = [list(&stss)?, list(&stps)?];
        let mut groups = None;
        let mut head = Vec::new();
        for sbgp in stbl.each(*b"sbgp") {
            let sbgp = sbgp?;
            let head = sbgp.head(&mut head)?;
            let (version, _, mut fields) = head.full()?;
            if fields.take(4)? == b"rap " {
                if version == 1 {
                    fields.u32()?;
                }
                let count = fields.u32()?;
                groups = Some(Runs::of(sbgp.table(fields.at(), count)?));
            }
        }
        Ok(Sync {
            all: stss.is_none(),
            lists,
            groups,
        })
    }

    /// Returns whether sample `number` (from 0) is a sync sample. Must be called in order.
    #[inline]
    fn next(&mut self, number: u32) -> bool {
        let grouped = self
            .groups
            .as_mut()
            .and_then(Runs::next)
            .is_some_and(|group| group > 0);
        let mut lists = self.lists.iter_mut().flatten();
        self.all || grouped || lists.any(|list| list.holds(number))
    }
}
