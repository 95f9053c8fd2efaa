//! Sample tables: where each sample lies, how long it lasts, and when it is shown.
//!
//! A record takes [`RECORD_BYTES`] bytes in memory and in the index file alike, so a table can be
//! read a few records at a time straight from the file: two hours of picture and sound are half a
//! million records, of which a viewer needs some dozens at once.

use std::ops::Range;

use crate::scratch::Scratch;
use crate::spool::Spool;
use crate::stored::Lost;

/// Bytes of one packed sample record: 6 offset, 4 size and sync flag, 4 duration, 4 composition offset.
pub const RECORD_BYTES: usize = 18;

/// One sample (access unit) of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// First byte in the film file; below 2^48.
    pub offset: u64,
    /// Length in bytes; below 2^31, and 0 for a picture that its writer dropped.
    pub size: u32,
    /// Decode duration in ticks: the next sample's decode time less this one's.
    pub duration: u32,
    /// Composition offset in ticks: presentation less decode time, before `Track::shift`.
    pub cts: i32,
    /// A decoder may start here.
    pub sync: bool,
}

/// A sample with its decode time, in ticks of its track's media timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedSample {
    /// The sample itself.
    pub sample: Sample,
    /// Decode time in ticks on the media timeline (before `Track::shift`).
    pub dts: i64,
}

impl Sample {
    /// The bytes of the film the sample takes.
    pub fn bytes(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.size)
    }

    /// Packs the sample into its record.
    pub fn to_record(&self) -> [u8; RECORD_BYTES] {
        debug_assert!(self.offset < 1 << 48 && self.size < 1 << 31);
        let mut out = [0; RECORD_BYTES];
        out[0..6].copy_from_slice(&self.offset.to_le_bytes()[..6]);
        let size = self.size | (u32::from(self.sync) << 31);
        out[6..10].copy_from_slice(&size.to_le_bytes());
        out[10..14].copy_from_slice(&self.duration.to_le_bytes());
        out[14..18].copy_from_slice(&self.cts.to_le_bytes());
        out
    }

    /// Unpacks a record.
    pub fn from_record(record: &[u8; RECORD_BYTES]) -> Sample {
        let word = |at: usize| {
            u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
        };
        let mut offset = [0; 8];
        offset[..6].copy_from_slice(&record[..6]);
        Sample {
            offset: u64::from_le_bytes(offset),
            size: word(6) & 0x7fff_ffff,
            duration: word(10),
            cts: word(14) as i32,
            sync: word(6) >> 31 == 1,
        }
    }
}

/// Why samples could not be had from where they are kept.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// The range lies outside the table.
    #[error("samples {}..{} asked of track {track}, which has {count}", range.start, range.end)]
    OutOfRange {
        /// Index of the track in `Title::tracks`.
        track: usize,
        /// What was asked for.
        range: Range<u32>,
        /// How many samples there are.
        count: u32,
    },
    /// The index file could not be read.
    #[error("index file: {0}")]
    Io(#[from] std::io::Error),
    /// Scratch space could not be read.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Where the sample records of a title can be read: in memory, or an index file.
pub trait Samples: Send + Sync + std::fmt::Debug {
    /// Appends the samples `range` of the `track`th track (in the order of `Title::recorded`) to `out`.
    fn read(
        &self,
        track: usize,
        range: Range<u32>,
        out: &mut Vec<Sample>,
    ) -> Result<(), SamplesError>;

    /// Bytes of memory that the records take; none where they are in a file.
    fn memory(&self) -> usize {
        0
    }
}

/// The packed sample records of one track, in memory or in scratch space.
#[derive(Clone, Default)]
pub struct SampleTable {
    records: Spool<RECORD_BYTES>,
}

impl SampleTable {
    /// An empty table in memory, with room for `samples`.
    pub fn with_capacity(samples: usize) -> Self {
        let mut table = SampleTable::default();
        table.records.reserve(samples);
        table
    }

    /// An empty table that puts its records into scratch space.
    pub(crate) fn new(scratch: &Scratch) -> Self {
        SampleTable {
            records: Spool::new(scratch),
        }
    }

    /// Where it puts its records.
    pub(crate) fn scratch(&self) -> &Scratch {
        self.records.scratch()
    }

    /// Appends a sample.
    pub fn push(&mut self, sample: Sample) {
        self.records.push(sample.to_record());
    }

    /// Number of samples.
    pub fn len(&self) -> u32 {
        self.records.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.bytes() == 0
    }

    /// The packed records as they are written to an index file, some at a time.
    pub fn pieces(&self) -> impl Iterator<Item = Result<Vec<u8>, Lost>> + '_ {
        self.records.pieces()
    }

    /// All samples in decode order. They end early where scratch space cannot be read; [`SampleTable::pieces`] says so.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + Clone + '_ {
        let records = self.records.records();
        records.map(|record| Sample::from_record(&record))
    }

    /// The last sample.
    pub(crate) fn last(&self) -> Option<Sample> {
        self.records.last().map(Sample::from_record)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.records.memory()
    }

    /// Bytes of scratch space that it takes.
    pub(crate) fn aside(&self) -> u64 {
        self.records.aside()
    }

    /// The same table in memory.
    ///
    /// # Errors
    /// It cannot be read from scratch space.
    pub(crate) fn bring(&self) -> Result<SampleTable, Lost> {
        self.records.bring().map(|records| SampleTable { records })
    }

    /// Replaces the duration of the last sample, if there is one.
    pub(crate) fn set_last_duration(&mut self, duration: u32) {
        if let Some(record) = self.records.last_mut() {
            let sample = Sample::from_record(record);
            *record = Sample { duration, ..sample }.to_record();
        }
    }

    /// Replaces the composition offsets of samples, from the first on.
    pub(crate) fn set_cts(&mut self, mut offsets: impl Iterator<Item = i32>) {
        self.make_anew(|sample| Sample {
            cts: offsets.next().unwrap_or(sample.cts),
            ..sample
        });
    }

    /// Makes the first sample a sync sample.
    pub(crate) fn mark_first_sync(&mut self) {
        let mut is_first = true;
        self.make_anew(|sample| Sample {
            sync: sample.sync || std::mem::take(&mut is_first),
            ..sample
        });
    }

    /// Keeps the samples of a range, which must lie in the table, and no spare room.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        if range != (0..self.records.len()) {
            let samples = self.iter().take(range.end).skip(range.start);
            *self = SampleTable::of(self.scratch(), samples);
        }
        self.records.shrink();
    }

    fn make_anew(&mut self, change: impl FnMut(Sample) -> Sample) {
        *self = SampleTable::of(self.scratch(), self.iter().map(change));
    }

    fn of(scratch: &Scratch, samples: impl Iterator<Item = Sample>) -> SampleTable {
        let mut table = SampleTable::new(scratch);
        samples.for_each(|sample| table.push(sample));
        table
    }
}

/// As lists of samples, wherever they are.
impl PartialEq for SampleTable {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for SampleTable {}

impl std::fmt::Debug for SampleTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SampleTable({})", self.len())
    }
}

/// One table for each track of a title in the same order.
impl Samples for Vec<SampleTable> {
    fn memory(&self) -> usize {
        self.iter().map(SampleTable::memory).sum()
    }

    fn read(
        &self,
        track: usize,
        range: Range<u32>,
        out: &mut Vec<Sample>,
    ) -> Result<(), SamplesError> {
        let table = self.get(track);
        let count = table.map_or(0, SampleTable::len);
        let Some(table) = table.filter(|_| range.start <= range.end && range.end <= count) else {
            return Err(SamplesError::OutOfRange {
                track,
                range,
                count,
            });
        };
        // A group's worth at a time, on the stack.
        let mut buffer = [[0; RECORD_BYTES]; 256];
        let (mut first, end) = (range.start as usize, range.end as usize);
        while first < end {
            let records = &mut buffer[..(end - first).min(256)];
            if !(table.records).read_at(first * RECORD_BYTES, records.as_flattened_mut()) {
                return Err(Lost.into());
            }
            out.extend(records.iter().map(Sample::from_record));
            first += records.len();
        }
        Ok(())
    }
}
