//! Movie fragments: `moof` (ISO/IEC 14496-12 8.8).

use super::boxes::Place;
use super::kept::{KeptBox, Table};
use super::limits::Limits;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::{Sample, SampleTable};

/// The defaults for fragments of a track (`trex`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The track_ID.
    pub track: u32,
    description: u32,
    duration: u32,
    size: u32,
    flags: u32,
}

impl Defaults {
    /// Parses a `trex` box.
    pub fn parse(trex: &KeptBox) -> Result<Defaults, IndexError> {
        let mut head = Vec::new();
        let head = trex.head(&mut head)?;
        let (_, _, mut fields) = head.full()?;
        Ok(Defaults {
            track: fields.u32()?,
            description: fields.u32()?,
            duration: fields.u32()?,
            size: fields.u32()?,
            flags: fields.u32()?,
        })
    }
}

/// The samples of a track collected from fragments.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The samples so far, those of `moov` first.
    pub samples: SampleTable,
    /// The decode time of the first sample, in ticks.
    pub first_dts: i64,
    /// The decode time after the last sample, in ticks.
    pub end_dts: i64,
    /// sample_description_index of the first sample, from 1; 0 if there are no samples.
    pub description: u32,
    /// The first sample_description_index that differs from it, if any.
    pub other_description: Option<u32>,
    /// How often a fragment's own time (`tfdt`) was before the end of the previous samples.
    pub overlaps: u32,
}

/// A track that fragments may add samples to.
#[derive(Debug)]
pub struct FragmentTrack<'t> {
    /// The defaults of `trex`.
    pub defaults: Defaults,
    /// Whether it is audio: every sample is a sync sample, whatever its flags.
    pub sound: bool,
    /// The destination of its samples.
    pub gathered: &'t mut Gathered,
}

/// The tracks that fragments may refer to.
pub trait Tracks {
    /// Returns the track with this track_ID, or `None` if it is to be skipped.
    fn track(&mut self, id: u32) -> Option<FragmentTrack<'_>>;
}

// Flags of `tfhd`.
const BASE_DATA_OFFSET: u32 = 0x1;
const DESCRIPTION: u32 = 0x2;
const DEFAULT_DURATION: u32 = 0x8;
const DEFAULT_SIZE: u32 = 0x10;
const DEFAULT_FLAGS: u32 = 0x20;
const BASE_IS_MOOF: u32 = 0x2_0000;
// Flags of `trun`.
const DATA_OFFSET: u32 = 0x1;
const FIRST_FLAGS: u32 = 0x4;
const DURATIONS: u32 = 0x100;
const SIZES: u32 = 0x200;
const FLAGS: u32 = 0x400;
const OFFSETS: u32 = 0x800;

/// Parses a `moof` and appends its samples to their tracks.
pub fn read(
    moof: &KeptBox,
    limits: &mut Limits,
    tracks: &mut dyn Tracks,
) -> Result<(), IndexError> {
    // Without an explicit base, offsets of the first `traf` count from `moof`, and those of each
    // later one from the end of the previous one's data (8.8.7.1).
    let mut data_end = moof.offset;
    let mut bytes = Vec::new();
    for traf in moof.each(*b"traf") {
        let traf = traf?;
        let tfhd = traf.need(b"tfhd")?;
        let head = tfhd.head(&mut bytes)?;
        let (_, flags, mut fields) = head.full()?;
        let id = fields.u32()?;
        let base = match flags {
            flags if flags & BASE_DATA_OFFSET != 0 => fields.u64()?,
            flags if flags & BASE_IS_MOOF != 0 => moof.offset,
            _ => data_end,
        };
        let mut found = tracks.track(id);
        let defaults = found
            .as_ref()
            .map_or(Defaults::default(), |track| track.defaults);
        let mut or_default = |flag, default| {
            if flags & flag != 0 {
                fields.u32()
            } else {
                Ok(default)
            }
        };
        let defaults = Defaults {
            track: id,
            description: or_default(DESCRIPTION, defaults.description)?,
            duration: or_default(DEFAULT_DURATION, defaults.duration)?,
            size: or_default(DEFAULT_SIZE, defaults.size)?,
            flags: or_default(DEFAULT_FLAGS, defaults.flags)?,
        };
        if let Some(track) = &mut found {
            let time = traf
                .find(b"tfdt")?
                .map(|tfdt| decode_time(&tfdt))
                .transpose()?;
            track.gathered.begin(&traf, time)?;
        }
        data_end = base;
        for trun in traf.each(*b"trun") {
            let run = Run {
                trun: trun?,
                defaults,
                base,
            };
            data_end = run.read(data_end, limits, found.as_mut())?;
        }
    }
    Ok(())
}

fn decode_time(tfdt: &KeptBox) -> Result<u64, IndexError> {
    let mut head = Vec::new();
    let head = tfdt.head(&mut head)?;
    let (version, _, mut fields) = head.full()?;
    fields.wide(version > 0)
}

impl Gathered {
    /// Starts a fragment at its own decode time. The last duration in a fragment is often a guess,
    /// which the next fragment's time corrects.
    fn begin(&mut self, traf: &Place, time: Option<u64>) -> Result<(), IndexError> {
        let Some(time) = time else { return Ok(()) };
        let Some(time) = i64::try_from(time).ok().filter(|time| *time < 1 << 62) else {
            return Err(traf.damaged(format!(
                "begins at decode time {time}, which is not a valid time"
            )));
        };
        let Some(last) = self.samples.last() else {
            (self.first_dts, self.end_dts) = (time, time);
            return Ok(());
        };
        match u32::try_from(i64::from(last.duration) + time - self.end_dts) {
            Ok(duration) => {
                self.samples.set_last_duration(duration);
                self.end_dts = time;
            }
            Err(_) if time > self.end_dts => {
                let problem = format!(
                    "begins at decode time {time}, long after the end of what comes before, {}",
                    self.end_dts
                );
                return Err(traf.damaged(problem));
            }
            Err(_) => self.overlaps += 1,
        }
        Ok(())
    }
}

/// A `trun` and the base of its offsets.
struct Run<'p, 'a> {
    trun: KeptBox<'p, 'a>,
    defaults: Defaults,
    base: u64,
}

impl Run<'_, '_> {
    /// Appends the run's samples and returns the end of its data. `from`: the default beginning.
    fn read(
        &self,
        from: u64,
        limits: &mut Limits,
        track: Option<&mut FragmentTrack>,
    ) -> Result<u64, IndexError> {
        let trun = &self.trun;
        let mut head = Vec::new();
        let head = trun.head(&mut head)?;
        let (_, flags, mut fields) = head.full()?;
        let count = fields.u32()?;
        let mut offset = from;
        if flags & DATA_OFFSET != 0 {
            let relative = i64::from(fields.u32()? as i32);
            offset = self.base.checked_add_signed(relative).ok_or_else(|| {
                trun.damaged(format!(
                    "data offset {relative} from byte {} lies outside the file",
                    self.base
                ))
            })?;
        }
        let first_flags = if flags & FIRST_FLAGS != 0 {
            Some(fields.u32()?)
        } else {
            None
        };
        let entry = 4 * (flags & (DURATIONS | SIZES | FLAGS | OFFSETS)).count_ones() as usize;
        let mut table = trun.entries::<4>(fields.at(), count, entry)?;
        if entry == 0 {
            // In the file, nothing but their data represents these samples.
            let claimed = u64::from(count) * u64::from(self.defaults.size);
            limits.unsized_bytes = limits.unsized_bytes.checked_sub(claimed).ok_or_else(|| {
                let problem = format!(
                    "says {count} samples of {} bytes, more than the file holds",
                    self.defaults.size
                );
                trun.error(IndexErrorKind::Incomplete, problem)
            })?;
            if self.defaults.size == 0 && count > 0 {
                return Err(trun.damaged(format!("gives its {count} samples no size")));
            }
        }
        let Some(track) = track else {
            // The data of a skipped track: only its length matters.
            let bytes: u64 = match entry {
                0 => u64::from(count) * u64::from(self.defaults.size),
                _ => (0..count)
                    .map(|_| u64::from(self.sample(flags, &mut table).size))
                    .sum(),
            };
            return Ok(offset.saturating_add(bytes));
        };
        limits.book(trun, count)?;
        let gathered = &mut *track.gathered;
        if count > 0 && gathered.description == 0 {
            gathered.description = self.defaults.description;
        } else if count > 0 && gathered.description != self.defaults.description {
            gathered
                .other_description
                .get_or_insert(self.defaults.description);
        }
        for number in 0..count {
            let Entry {
                duration,
                size,
                flags,
                cts,
            } = self.sample(flags, &mut table);
            let flags = first_flags.filter(|_| number == 0).unwrap_or(flags);
            limits.check(trun, number, offset, size)?;
            let duration = if duration >> 31 == 0 { duration } else { 0 };
            gathered.samples.push(Sample {
                offset,
                size,
                duration,
                cts,
                sync: track.sound || is_sync(flags),
            });
            gathered.end_dts += i64::from(duration);
            offset += u64::from(size);
        }
        Ok(offset)
    }

    /// Reads one sample's entry, using the defaults for missing fields.
    #[inline]
    fn sample(&self, flags: u32, table: &mut Table<'_, 4>) -> Entry {
        let mut or_default = |flag, default| {
            let given = if flags & flag != 0 {
                table.next().map(u32::from_be_bytes)
            } else {
                None
            };
            given.unwrap_or(default)
        };
        Entry {
            duration: or_default(DURATIONS, self.defaults.duration),
            size: or_default(SIZES, self.defaults.size),
            flags: or_default(FLAGS, self.defaults.flags),
            // Unsigned in version 0, but writers store negative offsets there, too.
            cts: or_default(OFFSETS, 0) as i32,
        }
    }
}

struct Entry {
    duration: u32,
    size: u32,
    flags: u32,
    cts: i32,
}

/// Returns whether sample flags (8.8.3.1) denote a sync sample: not marked as non-sync, and not
/// depending on others (some writers set only that).
fn is_sync(flags: u32) -> bool {
    let non_sync = flags & 0x1_0000 != 0;
    let depends = flags >> 24 & 3 == 1;
    !non_sync && !depends
}
