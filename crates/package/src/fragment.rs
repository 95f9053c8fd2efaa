//! One fragment: the generated header (`moof`, and the first 8 bytes of `mdat`) and the ranges of
//! the film that follow it.

use std::ops::Range;

use reelway_media::{Kind, Record, Sample, WORDS};

use crate::boxes::Boxes;
use crate::segment::Part;
use crate::timeline::Timeline;

/// Flags of a sync sample (ISO/IEC 14496-12 8.8.3.1): it depends on no other.
const SYNC: u32 = 0x0200_0000;
/// Flags of any other sample: it depends on others and is not a sync sample.
const NOT_SYNC: u32 = 0x0101_0000;

/// `trun` flags.
const DATA_OFFSET: u32 = 0x1;
const FIRST_FLAGS: u32 = 0x4;
const DURATIONS: u32 = 0x100;
const SIZES: u32 = 0x200;
const FLAGS: u32 = 0x400;
const OFFSETS: u32 = 0x800;
/// `tfhd` flags: default duration, default flags, offsets relative to the `moof`.
const TFHD: u32 = 0x8 | 0x20 | 0x2_0000;

/// A sample with its times on the fragments' timeline, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    /// The sample in the film.
    pub sample: Sample,
    /// Decode time.
    pub decoded: i64,
    /// Presentation time.
    pub shown: i64,
    /// Time until the next sample's decode time.
    pub duration: u32,
}

/// Which fields a fragment's `trun` contains per sample, and which once for all samples. It
/// determines the header's size without reading the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Flags of `trun`.
    trun: u32,
}

/// Finds the shortest [`Layout`] for the samples added to it.
#[derive(Default)]
pub(crate) struct LayoutScan {
    first: Option<(Sample, i64)>,
    /// End of the last sample if no times were adjusted.
    end: i64,
    count: u32,
    syncs: u32,
    flags: u32,
}

impl LayoutScan {
    /// Adds a sample with its decode and presentation times on the fragments' timeline.
    pub(crate) fn add(&mut self, sample: &Sample, decoded: i64, shown: i64) {
        let (first, _) = self.first.get_or_insert((*sample, decoded));
        if sample.duration != first.duration || (self.count > 0 && decoded != self.end) {
            self.flags |= DURATIONS;
        }
        if shown != decoded {
            self.flags |= OFFSETS;
        }
        self.count += 1;
        self.syncs += u32::from(sample.sync);
        self.end = decoded + i64::from(sample.duration);
    }

    /// Returns the layout of a fragment that lasts from `tfdt` to `end`.
    pub(crate) fn done(&self, tfdt: i64, end: i64) -> Layout {
        let mut flags = self.flags;
        if self.first.is_some_and(|(_, decoded)| decoded != tfdt) {
            flags |= DURATIONS | OFFSETS; // decode times are adjusted
        }
        if self.end != end {
            flags |= DURATIONS; // the last sample's duration is adjusted
        }
        // Equal flags are written once for all. If only the first is a sync sample, one more word
        // holds its flags.
        let sync_first = self.first.is_some_and(|(first, _)| first.sync);
        flags |= match self.syncs {
            syncs if syncs == 0 || syncs == self.count => 0,
            1 if sync_first => FIRST_FLAGS,
            _ => FLAGS,
        };
        Layout {
            trun: flags | DATA_OFFSET | SIZES,
        }
    }
}

impl Layout {
    /// Packs the layout into a word, for tables.
    pub(crate) fn word(self) -> i64 {
        self.trun.into()
    }

    /// Unpacks the result of [`Layout::word`].
    pub(crate) fn of_word(word: i64) -> Layout {
        let trun = word as u32;
        Layout { trun }
    }

    fn sample_bytes(self) -> u64 {
        4 * u64::from((self.trun & (DURATIONS | SIZES | FLAGS | OFFSETS)).count_ones())
    }

    /// Returns the size of the `moof` for `count` samples, in bytes.
    fn moof_bytes(self, count: u32) -> u64 {
        let mfhd = 16;
        let tfhd = 12 + 4 + 4 + 4;
        let tfdt = 20;
        let first_flags = if self.trun & FIRST_FLAGS != 0 { 4 } else { 0 };
        let trun = 12 + 4 + 4 + first_flags + self.sample_bytes() * u64::from(count);
        8 + mfhd + 8 + tfhd + tfdt + trun
    }
}

/// A fragment: `moof` and `mdat` of consecutive samples. It takes about 14 bytes in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// First sample.
    pub first: u32,
    /// Number of samples from there, including those that are left out.
    pub span: u32,
    /// Number of samples that are served.
    pub count: u32,
    /// Which fields its header contains per sample.
    pub layout: Layout,
    /// Decode time of the first sample on the media timeline, in ticks.
    pub dts: i64,
    /// Decode time of the first sample on the fragments' timeline, in ticks: `tfdt`.
    pub tfdt: i64,
    /// Media bytes.
    pub bytes: u64,
}

impl Record for Fragment {
    const USED: usize = 7;

    fn words(&self) -> [i64; WORDS] {
        [
            self.first.into(),
            self.span.into(),
            i64::from(self.span) - i64::from(self.count),
            self.layout.word(),
            self.dts,
            self.tfdt.wrapping_sub(self.dts),
            self.bytes as i64,
            0,
        ]
    }

    fn of(words: &[i64; WORDS]) -> Fragment {
        Fragment {
            first: words[0] as u32,
            span: words[1] as u32,
            count: (words[1] - words[2]) as u32,
            layout: Layout::of_word(words[3]),
            dts: words[4],
            tfdt: words[5].wrapping_add(words[4]),
            bytes: words[6] as u64,
        }
    }
}

impl Fragment {
    /// Returns the size of the generated bytes before the media: `moof`, and the header of `mdat`.
    pub(crate) fn header_bytes(&self) -> u64 {
        self.layout.moof_bytes(self.count) + 8
    }

    /// Returns the size of the whole fragment, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.header_bytes() + self.bytes
    }

    /// Returns those samples of `read`, the fragment's own, that are served, with their times. The
    /// fragment lasts until `end`. If it is the film's last one, nothing is shown after
    /// `last_shown`.
    pub(crate) fn time(
        &self,
        read: &[Sample],
        kind: Kind,
        timeline: &Timeline,
        (end, last_shown): (i64, Option<i64>),
    ) -> Vec<Timed> {
        let mut dts = self.dts;
        let mut timed = Vec::with_capacity(read.len());
        for sample in read {
            let leads = self.first == timeline.first && timeline.leads(kind, dts, sample.cts);
            if self.span == self.count || !leads {
                let (at, shown) = (timeline.decoded(dts), timeline.shown(dts, sample.cts));
                timed.push(Timed {
                    sample: *sample,
                    decoded: at,
                    shown,
                    duration: 0,
                });
            }
            dts += i64::from(sample.duration);
        }
        // Samples that would be decoded before the fragment begins share the time until the next
        // one.
        let early = timed.partition_point(|s| s.decoded <= self.tfdt);
        let next = timed.get(early).map_or(end, |s| s.decoded);
        let mut latest = i64::MAX;
        for place in (0..early).rev() {
            latest = latest.min(timed[place].shown);
            let share = (next - self.tfdt) * place as i64 / early as i64;
            timed[place].decoded = (self.tfdt + share).min(latest).max(self.tfdt);
        }
        let mut until = end;
        for sample in timed.iter_mut().rev() {
            sample.duration = (until - sample.decoded).clamp(0, i64::from(u32::MAX)) as u32;
            until = sample.decoded;
        }
        // Players show a picture for its decode duration. After the last one, no segment follows
        // that would shorten it.
        if let (Some(last), Some(end)) = (timed.last_mut(), last_shown) {
            let left = (end - last.shown).clamp(0, i64::from(u32::MAX)) as u32;
            last.duration = last.duration.min(left);
        }
        timed
    }

    /// Returns the header. `samples` are those from [`Fragment::time`].
    pub(crate) fn header(&self, track_id: u32, sequence: u32, samples: &[Timed]) -> Vec<u8> {
        let Layout { trun } = self.layout;
        let moof = self.layout.moof_bytes(self.count);
        let duration = samples.first().map_or(0, |s| s.duration);
        let sync_by_default =
            samples.first().is_some_and(|s| s.sample.sync) && trun & FIRST_FLAGS == 0;
        let mut b = Boxes::with_capacity(self.header_bytes() as usize);
        b.put(b"moof", |b| {
            b.full(b"mfhd", 0, 0, |b| b.u32(sequence));
            b.put(b"traf", |b| {
                b.full(b"tfhd", 0, TFHD, |b| {
                    b.u32(track_id);
                    b.u32(duration);
                    b.u32(if sync_by_default { SYNC } else { NOT_SYNC });
                });
                // Never negative: see `Timeline`.
                b.full(b"tfdt", 1, 0, |b| b.u64(self.tfdt.max(0) as u64));
                b.full(b"trun", 1, trun, |b| {
                    b.u32(self.count);
                    b.u32(moof as u32 + 8); // the media bytes follow mdat's header
                    if trun & FIRST_FLAGS != 0 {
                        b.u32(SYNC);
                    }
                    for Timed {
                        sample,
                        decoded,
                        shown,
                        duration,
                    } in samples
                    {
                        if trun & DURATIONS != 0 {
                            b.u32(*duration);
                        }
                        b.u32(sample.size);
                        if trun & FLAGS != 0 {
                            b.u32(if sample.sync { SYNC } else { NOT_SYNC });
                        }
                        if trun & OFFSETS != 0 {
                            let offset = shown - decoded;
                            b.i32(offset.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32);
                        }
                    }
                });
            });
        });
        debug_assert_eq!(b.len() as u64, moof);
        b.u32((self.bytes + 8) as u32);
        b.bytes(b"mdat");
        b.into_vec()
    }

    /// Returns the ranges of the film that make up the media bytes, with adjacent ranges merged.
    pub(crate) fn film(samples: &[Timed]) -> impl Iterator<Item = Part> {
        let mut rest = samples
            .iter()
            .map(|s| s.sample.bytes())
            .filter(|r| !r.is_empty())
            .peekable();
        std::iter::from_fn(move || {
            let mut range: Range<u64> = rest.next()?;
            while let Some(next) = rest.next_if(|next| next.start == range.end) {
                range.end = next.end;
            }
            Some(Part::Film(range))
        })
    }
}
