//! The sample tables of a progressive film (ISO/IEC 14496-12 8.6, 8.7).
//!
//! The tables are walked side by side, straight from the bytes of `moov` into the packed records,
//! without a list of anything between. What the tables disagree about is put right where players
//! do so too (a table of times that ends early, chunks for fewer samples than there are sizes),
//! with a note; what would make us read wrong bytes is an error.

use super::boxes::{Boxed, fourcc};
use super::limits::Limits;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::scratch::Scratch;
use crate::{Sample, SampleTable};

/// A track's samples as its tables have them.
#[derive(Debug, Default)]
pub struct Tables {
    /// The samples in decode order.
    pub samples: SampleTable,
    /// sample_description_index of the first sample, from 1; 0 without samples.
    pub description: u32,
    /// The first other sample_description_index that is used, if any.
    pub other_description: Option<u32>,
    /// What was put right.
    pub notes: Vec<String>,
}

impl Tables {
    /// Without samples yet.
    pub(super) fn new(scratch: &Scratch) -> Tables {
        Tables {
            samples: SampleTable::new(scratch),
            ..Tables::default()
        }
    }

    /// The next samples have this description.
    pub(super) fn describe(&mut self, description: u32) {
        match self.description {
            0 => self.description = description,
            first if first != description => {
                self.other_description.get_or_insert(description);
            }
            _ => {}
        }
    }

    /// Notes what the tables lack: of `count` samples, `number` have a place, and so many have a duration.
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
pub fn read(stbl: &Boxed, limits: &mut Limits) -> Result<Tables, IndexError> {
    let mut tables = Tables::new(&limits.scratch);
    let Some(mut sizes) = Sizes::parse(stbl, limits)? else {
        return Ok(tables); // a fragmented film's `moov` may leave it out
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
    let chunks = Chunks::parse(&chunks_box)?;

    limits.book(&sizes.of, count)?;
    let (mut number, mut duration) = (0, 0);
    for chunk in 0..chunks.len() {
        let (samples, description) = runs.of_chunk(chunk)?;
        let mut offset = chunks.offset(chunk);
        let samples = samples.min(count - number);
        if samples > 0 {
            tables.describe(description);
        }
        for _ in 0..samples {
            let size = sizes.next();
            limits.check(&chunks_box, number, offset, size)?;
            duration = durations.next().unwrap_or(duration);
            let cts = offsets.as_mut().and_then(Runs::next).unwrap_or(0) as i32;
            // A duration above 2^31 is a negative one of careless writers: players take it for none.
            let duration = if duration >> 31 == 0 { duration } else { 0 };
            tables.samples.push(Sample {
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

/// Big-endian number of four bytes.
fn word(bytes: &[u8; 4]) -> u32 {
    u32::from_be_bytes(*bytes)
}

/// The entries of a table of `N` bytes each, after a full box's head and their count.
fn entries<'a, const N: usize>(table: &Boxed<'_, 'a>) -> Result<&'a [[u8; N]], IndexError> {
    let (_, _, mut fields) = table.full()?;
    let count = fields.u32()?;
    Ok(fields.table(count, N)?.as_chunks::<N>().0)
}

/// `stsz` or `stz2`.
pub(super) struct Sizes<'p, 'a> {
    pub of: Boxed<'p, 'a>,
    pub count: u32,
    /// Of all samples; 0: each has its own.
    pub fixed: u32,
    bits: u8,
    table: &'a [u8],
    at: usize,
}

impl<'p, 'a> Sizes<'p, 'a> {
    pub fn parse(stbl: &'p Boxed<'p, 'a>, limits: &Limits) -> Result<Option<Self>, IndexError> {
        if let Some(of) = stbl.find(b"stsz")? {
            let (_, _, mut fields) = of.full()?;
            let (fixed, count) = (fields.u32()?, fields.u32()?);
            let table = if fixed == 0 {
                fields.table(count, 4)?
            } else {
                &[]
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
                bits: 32,
                table,
                at: 0,
            }));
        }
        let Some(of) = stbl.find(b"stz2")? else {
            return Ok(None);
        };
        let (_, _, mut fields) = of.full()?;
        let (bits, count) = (fields.u32()? as u8, fields.u32()?);
        let table = match bits {
            4 => fields.table(count / 2 + count % 2, 1)?,
            8 => fields.table(count, 1)?,
            16 => fields.table(count, 2)?,
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
            bits,
            table,
            at: 0,
        }))
    }

    /// The next size; asked at most `count` times, for which the table was measured.
    #[inline]
    fn next(&mut self) -> u32 {
        let at = self.at;
        self.at += 1;
        let byte = |at: usize| self.table.get(at).copied().map_or(0, u32::from);
        match self.bits {
            32 if self.fixed > 0 => self.fixed,
            32 => self.table.as_chunks::<4>().0.get(at).map_or(0, word),
            16 => byte(2 * at) << 8 | byte(2 * at + 1),
            8 => byte(at),
            _ if at.is_multiple_of(2) => byte(at / 2) >> 4,
            _ => byte(at / 2) & 15,
        }
    }
}

/// `stts` or `ctts`: runs of (count, value).
pub(super) struct Runs<'a> {
    entries: std::slice::Iter<'a, [u8; 8]>,
    left: u32,
    value: u32,
    /// How many values were there to be had so far.
    pub given: u64,
}

impl<'a> Runs<'a> {
    pub fn parse(table: &Boxed<'_, 'a>) -> Result<Self, IndexError> {
        Ok(Runs {
            entries: entries::<8>(table)?.iter(),
            left: 0,
            value: 0,
            given: 0,
        })
    }

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.left == 0 {
            let [a, b, c, d, rest @ ..] = self.entries.next()?;
            self.left = u32::from_be_bytes([*a, *b, *c, *d]);
            self.value = word(rest);
        }
        self.left -= 1;
        self.given += 1;
        Some(self.value)
    }

    /// The sum of the next `count` values; where they have ended, the last one goes on.
    pub fn sum(&mut self, count: u32) -> u64 {
        let (mut sum, mut wanted) = (0, count);
        while wanted > 0 {
            if self.left == 0 {
                let Some([a, b, c, d, rest @ ..]) = self.entries.next() else {
                    return sum + u64::from(wanted) * u64::from(self.value);
                };
                self.left = u32::from_be_bytes([*a, *b, *c, *d]);
                self.value = word(rest);
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

/// `stsc`: how many samples each chunk holds.
pub(super) struct Chunking<'p, 'a> {
    of: &'p Boxed<'p, 'a>,
    entries: &'a [[u8; 12]],
    at: usize,
    samples: u32,
    description: u32,
}

impl<'p, 'a> Chunking<'p, 'a> {
    pub fn parse(of: &'p Boxed<'p, 'a>) -> Result<Self, IndexError> {
        let mut chunking = Chunking {
            of,
            entries: entries(of)?,
            at: 0,
            samples: 0,
            description: 0,
        };
        match chunking.peek() {
            Some([1, ..]) => {}
            Some([first, ..]) => return Err(of.damaged(format!("begins at chunk {first}, not 1"))),
            None => return Err(of.damaged("says nothing of the chunks")),
        }
        chunking.of_chunk(0)?;
        Ok(chunking)
    }

    /// first_chunk, samples_per_chunk, sample_description_index of the next entry.
    fn peek(&self) -> Option<[u32; 3]> {
        let entry = self.entries.get(self.at)?.as_chunks::<4>().0;
        Some([word(&entry[0]), word(&entry[1]), word(&entry[2])])
    }

    /// Samples and description of chunk `chunk` (from 0), asked for in order.
    pub fn of_chunk(&mut self, chunk: usize) -> Result<(u32, u32), IndexError> {
        while let Some([first, samples, description]) = self.peek() {
            if first as usize > chunk + 1 {
                break;
            }
            // An entry for a chunk that has gone by would leave open where its samples lie.
            if self.at > 0 && (first as usize) < chunk + 1 {
                return Err(self.of.damaged(format!(
                    "entry {} is out of order: chunk {first}",
                    self.at + 1
                )));
            }
            (self.samples, self.description) = (samples, description);
            self.at += 1;
        }
        Ok((self.samples, self.description))
    }
}

/// `stco` or `co64`.
pub(super) enum Chunks<'a> {
    Narrow(&'a [[u8; 4]]),
    Wide(&'a [[u8; 8]]),
}

impl<'a> Chunks<'a> {
    pub fn parse(of: &Boxed<'_, 'a>) -> Result<Self, IndexError> {
        Ok(if of.kind == *b"co64" {
            Chunks::Wide(entries(of)?)
        } else {
            Chunks::Narrow(entries(of)?)
        })
    }

    pub fn len(&self) -> usize {
        match self {
            Chunks::Narrow(table) => table.len(),
            Chunks::Wide(table) => table.len(),
        }
    }

    pub fn offset(&self, chunk: usize) -> u64 {
        match self {
            Chunks::Narrow(table) => word(&table[chunk]).into(),
            Chunks::Wide(table) => u64::from_be_bytes(table[chunk]),
        }
    }
}

/// Which samples a decoder may start at: `stss`, QuickTime's `stps` (partial sync), and the sample
/// group `rap ` (8.9.4, 10.4): pictures of open GOPs that some writers keep out of `stss`.
struct Sync<'a> {
    /// No `stss`: every sample is one.
    all: bool,
    lists: [SyncList<'a>; 2],
    groups: Option<Runs<'a>>,
}

struct SyncList<'a> {
    numbers: &'a [[u8; 4]],
    at: usize,
    /// Number of the first sample: 1, but 0 in films of some careless writers, which players know.
    base: u32,
}

impl<'a> SyncList<'a> {
    fn parse(of: Option<&Boxed<'_, 'a>>) -> Result<Self, IndexError> {
        let numbers = of.map(entries::<4>).transpose()?.unwrap_or_default();
        if let Some(of) = of
            && let Some(at) = numbers
                .windows(2)
                .position(|pair| word(&pair[0]) > word(&pair[1]))
        {
            return Err(of.damaged(format!(
                "{} entry {} is out of order",
                fourcc(of.kind),
                at + 2
            )));
        }
        let base = numbers.first().map_or(1, |first| word(first).min(1));
        Ok(SyncList {
            numbers,
            at: 0,
            base,
        })
    }

    #[inline]
    fn holds(&mut self, number: u32) -> bool {
        let wanted = number + self.base;
        while let Some(listed) = self.numbers.get(self.at).map(word) {
            if listed >= wanted {
                return listed == wanted;
            }
            self.at += 1;
        }
        false
    }
}

impl<'a> Sync<'a> {
    fn parse(stbl: &Boxed<'_, 'a>) -> Result<Self, IndexError> {
        let (stss, stps) = (stbl.find(b"stss")?, stbl.find(b"stps")?);
        let lists = [
            SyncList::parse(stss.as_ref())?,
            SyncList::parse(stps.as_ref())?,
        ];
        let mut groups = None;
        for sbgp in stbl.each(*b"sbgp") {
            let sbgp = sbgp?;
            let (version, _, mut fields) = sbgp.full()?;
            if fields.take(4)? == b"rap " {
                if version == 1 {
                    fields.u32()?;
                }
                let count = fields.u32()?;
                let entries = fields.table(count, 8)?.as_chunks::<8>().0.iter();
                groups = Some(Runs {
                    entries,
                    left: 0,
                    value: 0,
                    given: 0,
                });
            }
        }
        Ok(Sync {
            all: stss.is_none(),
            lists,
            groups,
        })
    }

    /// Whether sample `number` (from 0) is one, asked for in order.
    #[inline]
    fn next(&mut self, number: u32) -> bool {
        let grouped = self
            .groups
            .as_mut()
            .and_then(Runs::next)
            .is_some_and(|group| group > 0);
        self.all || grouped || self.lists.iter_mut().any(|list| list.holds(number))
    }
}
