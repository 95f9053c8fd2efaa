//! One fragment: the header that we make (`moof`, and `mdat`'s first 8 bytes) and the ranges of the
//! film that follow it.

use std::ops::Range;

use reelway_media::Sample;

use crate::boxes::Boxes;
use crate::cuts::Fragment;
use crate::segment::Part;
use crate::timeline::Timeline;

/// Sample flags (ISO/IEC 14496-12 8.8.3.1) of a sync sample: depends on no other.
const SYNC: u32 = 0x0200_0000;
/// Of any other: depends on others, is no sync sample.
const NOT_SYNC: u32 = 0x0101_0000;

/// `trun` flags.
const DATA_OFFSET: u32 = 0x1;
const FIRST_FLAGS: u32 = 0x4;
const DURATIONS: u32 = 0x100;
const SIZES: u32 = 0x200;
const FLAGS: u32 = 0x400;
const OFFSETS: u32 = 0x800;
/// `tfhd` flags: default duration, default flags, offsets are relative to the `moof`.
const TFHD: u32 = 0x8 | 0x20 | 0x2_0000;

/// What a fragment's `trun` says sample by sample, and what once for all. The header's size follows
/// from it without the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Flags of `trun`.
    trun: u32,
}

/// Finds the shortest [`Layout`] for the samples it is shown.
pub(crate) struct LayoutScan {
    composition_shift: i64,
    first: Option<Sample>,
    count: u32,
    syncs: u32,
    flags: u32,
}

impl LayoutScan {
    pub(crate) fn new(timeline: &Timeline) -> Self {
        let composition_shift = timeline.composition_shift;
        LayoutScan {
            composition_shift,
            first: None,
            count: 0,
            syncs: 0,
            flags: 0,
        }
    }

    pub(crate) fn add(&mut self, sample: &Sample) {
        let first = self.first.get_or_insert(*sample);
        self.count += 1;
        self.syncs += u32::from(sample.sync);
        if sample.duration != first.duration {
            self.flags |= DURATIONS;
        }
        if i64::from(sample.cts) + self.composition_shift != 0 {
            self.flags |= OFFSETS;
        }
    }

    pub(crate) fn done(&self) -> Layout {
        // All alike is said once, a sync sample before others that are none in one word.
        let sync_first = self.first.is_some_and(|first| first.sync);
        let flags = match self.syncs {
            syncs if syncs == 0 || syncs == self.count => 0,
            1 if sync_first => FIRST_FLAGS,
            _ => FLAGS,
        };
        Layout {
            trun: self.flags | flags | DATA_OFFSET | SIZES,
        }
    }
}

impl Layout {
    fn sample_bytes(self) -> u64 {
        4 * u64::from((self.trun & (DURATIONS | SIZES | FLAGS | OFFSETS)).count_ones())
    }

    /// Bytes of the `moof` of `count` samples.
    fn moof_bytes(self, count: u32) -> u64 {
        let mfhd = 16;
        let tfhd = 12 + 4 + 4 + 4;
        let tfdt = 20;
        let first_flags = if self.trun & FIRST_FLAGS != 0 { 4 } else { 0 };
        let trun = 12 + 4 + 4 + first_flags + self.sample_bytes() * u64::from(count);
        8 + mfhd + 8 + tfhd + tfdt + trun
    }
}

impl Fragment {
    /// Bytes of our own before the media bytes: `moof` and `mdat`'s header.
    pub(crate) fn header_bytes(&self) -> u64 {
        self.layout.moof_bytes(self.count) + 8
    }

    /// Bytes of the whole fragment.
    pub(crate) fn len(&self) -> u64 {
        self.header_bytes() + self.bytes
    }

    /// The header. `samples` are the fragment's own.
    pub(crate) fn header(
        &self,
        track_id: u32,
        sequence: u32,
        timeline: &Timeline,
        samples: &[Sample],
    ) -> Vec<u8> {
        let Layout { trun } = self.layout;
        let moof = self.layout.moof_bytes(self.count);
        let duration = samples.first().map_or(0, |s| s.duration);
        let sync_by_default = samples.first().is_some_and(|s| s.sync) && trun & FIRST_FLAGS == 0;
        let mut b = Boxes::with_capacity(self.header_bytes() as usize);
        b.put(b"moof", |b| {
            b.full(b"mfhd", 0, 0, |b| b.u32(sequence));
            b.put(b"traf", |b| {
                b.full(b"tfhd", 0, TFHD, |b| {
                    b.u32(track_id);
                    b.u32(duration);
                    b.u32(if sync_by_default { SYNC } else { NOT_SYNC });
                });
                b.full(b"tfdt", 1, 0, |b| b.u64(timeline.tfdt(self.dts)));
                b.full(b"trun", 1, trun, |b| {
                    b.u32(self.count);
                    b.u32(moof as u32 + 8); // the media bytes follow mdat's header
                    if trun & FIRST_FLAGS != 0 {
                        b.u32(SYNC);
                    }
                    for sample in samples {
                        if trun & DURATIONS != 0 {
                            b.u32(sample.duration);
                        }
                        b.u32(sample.size);
                        if trun & FLAGS != 0 {
                            b.u32(if sample.sync { SYNC } else { NOT_SYNC });
                        }
                        if trun & OFFSETS != 0 {
                            b.i32(timeline.offset(sample.cts));
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

    /// The ranges of the film that make up the media bytes, neighbours joined.
    pub(crate) fn film(samples: &[Sample]) -> impl Iterator<Item = Part> {
        let mut rest = samples
            .iter()
            .map(Sample::bytes)
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
