//! Sample tables: the position, duration and presentation time of each sample.
//!
//! A record takes [`RECORD_BYTES`] bytes, in memory as in the index file, so a table can be read
//! from the file a few records at a time: two hours of video and audio are half a million records,
//! of which a viewer needs a few dozen at a time.

use std::ops::Range;

use crate::scratch::Scratch;
use crate::spool::Spool;
use crate::stored::Lost;

/// Bytes of one packed sample record: 6 offset, 4 size and sync flag, 4 duration, 4 composition offset.
pub const RECORD_BYTES: usize = 18;

/// One sample (access unit) of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The offset in the film file; below 2^48.
    pub offset: u64,
    /// The length in bytes; below 2^31, and 0 for a picture that its writer dropped.
    pub size: u32,
    /// Decode duration in ticks: the next sample's decode time minus this one's.
    pub duration: u32,
    /// Composition offset in ticks: presentation minus decode time, before `Track::shift`.
    pub cts: i32,
    /// Whether decoders can start here.
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
    /// Returns the byte range of the sample in the film.
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

/// Reasons why samples could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// The range lies outside the table.
    #[error("samples {}..{} asked of track {track}, which has {count}", range.start, range.end)]
    OutOfRange {
        /// Index of the track in `Title::tracks`.
        track: usize,
        /// The requested range.
        range: Range<u32>,
        /// The number of samples of the track.
        count: u32,
    },
    /// The index file could not be read.
    #[error("index file: {0}")]
    Io(#[from] std::io::Error),
    /// Scratch space could not be read.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// A source of a title's sample records: memory or an index file.
pub trait Samples: Send + Sync + std::fmt::Debug {
    /// Appends the samples `range` of the `track`th track (in the order of `Title::recorded`) to `out`.
    fn read(
        &self,
        track: usize,
        range: Range<u32>,
        out: &mut Vec<Sample>,
    ) -> Result<(), SamplesError>;

    /// Returns the memory use of the records in bytes; 0 if they are in a file.
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
    /// Creates an empty table in memory with room for this number of samples.
    pub fn with_capacity(samples: usize) -> Self {
        let mut table = SampleTable::default();
        table.records.reserve(samples);
        table
    }

    /// Creates an empty table that stores its records in scratch space.
    pub(crate) fn new(scratch: &Scratch) -> Self {
        SampleTable {
            records: Spool::new(scratch),
        }
    }

    /// Returns the scratch space that the table uses.
    pub(crate) fn scratch(&self) -> &Scratch {
        self.records.scratch()
    }

    /// Appends a sample.
    pub fn push(&mut self, sample: Sample) {
        self.records.push(sample.to_record());
    }

    /// Returns the number of samples.
    pub fn len(&self) -> u32 {
        self.records.len() as u32
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.records.bytes() == 0
    }

    /// Returns the packed records piece by piece, as they are written to an index file.
    pub fn pieces(&self) -> impl Iterator<Item = Result<Vec<u8>, Lost>> + '_ {
        self.records.pieces()
    }

    /// Iterates over all samples in decode order. Stops early if scratch space cannot be read;
    /// [`SampleTable::pieces`] reports that.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + Clone + '_ {
        let records = self.records.records();
        records.map(|record| Sample::from_record(&record))
    }

    /// Returns the last sample.
    pub(crate) fn last(&self) -> Option<Sample> {
        self.records.last().map(Sample::from_record)
    }

    /// Returns the memory use in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.records.memory()
    }

    /// Returns the use of scratch space in bytes.
    pub(crate) fn aside(&self) -> u64 {
        self.records.aside()
    }

    /// Returns the same table in memory.
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

    /// Replaces the composition offsets of the samples, starting with the first.
    pub(crate) fn set_cts(&mut self, mut offsets: impl Iterator<Item = i32>) {
        self.rebuild(|sample| Sample {
            cts: offsets.next().unwrap_or(sample.cts),
            ..sample
        });
    }

    /// Marks the first sample as a sync sample.
    pub(crate) fn mark_first_sync(&mut self) {
        let mut is_first = true;
        self.rebuild(|sample| Sample {
            sync: sample.sync || std::mem::take(&mut is_first),
            ..sample
        });
    }

    /// Keeps only the samples of this range, which must lie in the table, and frees spare capacity.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        if range != (0..self.records.len()) {
            let samples = self.iter().take(range.end).skip(range.start);
            *self = SampleTable::of(self.scratch(), samples);
        }
        self.records.shrink();
    }

    fn rebuild(&mut self, change: impl FnMut(Sample) -> Sample) {
        *self = SampleTable::of(self.scratch(), self.iter().map(change));
    }

    fn of(scratch: &Scratch, samples: impl Iterator<Item = Sample>) -> SampleTable {
        let mut table = SampleTable::new(scratch);
        samples.for_each(|sample| table.push(sample));
        table
    }
}

/// Compares the samples, wherever they are stored.
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

/// One table for each track of a title, in the same order.
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
        // One group at a time, in a buffer on the stack.
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
