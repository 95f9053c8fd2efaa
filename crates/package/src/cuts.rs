//! Where a track is cut: into segments, which players ask for, and these into fragments, each with
//! one header.
//!
//! The picture is cut at sync samples near the target length. Sound is cut at the same
//! presentation times: a segment begins with the first access unit presented at or after the cut.
//! Without a picture, sound is cut at multiples of the target. A segment without any sample (sound
//! that begins late) joins the next.
//!
//! A segment is usually one fragment. One of very many samples (a film with a single key frame is a
//! single segment) is several, so that a header is never longer than some kilobytes and only the
//! samples of one fragment are looked at at once.

use reelway_media::{Nanos, SECOND, Sample, Samples, SamplesError, Track};

use crate::fragment::{Layout, LayoutScan};
use crate::timeline::Timeline;

/// Most samples of a fragment: 40 s of picture, 20 s of sound, a header of at most 16 KiB.
pub(crate) const MAX_SAMPLES: u32 = 1024;
/// Media bytes at which a fragment is full; with one more sample (< 2^31) its box sizes still fit
/// into 32 bits.
const FULL_BYTES: u64 = 1 << 30;
/// Samples read at once while a film is scanned: 72 KiB of records.
const SCAN: u32 = 4096;

/// A fragment: `moof` and `mdat` of consecutive samples. 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// First sample.
    pub first: u32,
    /// Number of samples.
    pub count: u32,
    /// Decode time of the first sample on the media timeline, in ticks.
    pub dts: i64,
    /// Media bytes.
    pub bytes: u64,
    /// What its header says sample by sample.
    pub layout: Layout,
}

/// A segment: what one request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Its first fragment.
    pub fragment: u32,
    /// Where it begins on the presentation timeline, in ticks; 0 for the first one always.
    pub start: i64,
}

/// A track's segments and fragments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub fragments: Vec<Fragment>,
    pub cuts: Vec<Cut>,
    /// Where the last sample ends on the presentation timeline, in ticks.
    pub end: i64,
    /// Where the last sample ends on the media decode timeline, in ticks.
    pub end_dts: i64,
}

/// A presentation time at which tracks are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutTime {
    ticks: i64,
    timescale: u32,
}

impl CutTime {
    /// Whether `ticks` of `timescale` is at or after this time, compared without rounding.
    fn reached(self, ticks: i64, timescale: u32) -> bool {
        i128::from(ticks) * i128::from(self.timescale)
            >= i128::from(self.ticks) * i128::from(timescale)
    }

    /// `number` times `target` nanoseconds.
    fn multiple(target: Nanos, number: i64) -> CutTime {
        CutTime {
            ticks: target.saturating_mul(number),
            timescale: SECOND as u32,
        }
    }
}

/// Calls `each` with every sample from the timeline's first on, its number and its decode time.
fn scan(
    track: &Track,
    index: usize,
    timeline: &Timeline,
    samples: &dyn Samples,
    mut each: impl FnMut(u32, i64, Sample),
) -> Result<(), SamplesError> {
    let mut read = Vec::with_capacity(SCAN.min(track.samples) as usize);
    let (mut number, mut dts) = (timeline.first, timeline.first_dts);
    while number < track.samples {
        read.clear();
        samples.read(
            index,
            number..track.samples.min(number.saturating_add(SCAN)),
            &mut read,
        )?;
        for sample in &read {
            each(number, dts, *sample);
            number += 1;
            dts += i64::from(sample.duration);
        }
    }
    Ok(())
}

/// Sync samples at which the picture is cut, nearest to `target` after the cut before, and their
/// presentation times. The film's beginning is not among them.
pub(crate) fn picture_cuts(
    track: &Track,
    index: usize,
    timeline: &Timeline,
    samples: &dyn Samples,
    target: Nanos,
) -> Result<Vec<(u32, CutTime)>, SamplesError> {
    let timescale = track.timescale;
    let target = reelway_media::nanos_to_ticks(target, timescale).max(1);
    let mut cuts: Vec<(u32, CutTime)> = Vec::new();
    let mut last = None;
    let mut before: Option<(u32, i64)> = None;
    scan(track, index, timeline, samples, |number, dts, sample| {
        if !sample.sync {
            return;
        }
        let at = dts + i64::from(sample.cts) + track.shift;
        let Some(mut cut) = last else {
            last = Some(at);
            return;
        };
        // The sync sample before this one is the better place where it is nearer to the target.
        if at - cut >= target
            && let Some((number, earlier)) = before.take()
            && target - (earlier - cut) <= at - cut - target
        {
            cuts.push((
                number,
                CutTime {
                    ticks: earlier,
                    timescale,
                },
            ));
            cut = earlier;
        }
        if at - cut >= target {
            cuts.push((
                number,
                CutTime {
                    ticks: at,
                    timescale,
                },
            ));
            cut = at;
            before = None;
        } else if at > cut {
            before = Some((number, at));
        }
        last = Some(cut);
    })?;
    // What is left after the last cut may still be too long by more than a sync sample before its end.
    if let (Some(cut), Some((number, at))) = (last, before) {
        let end = end_of(track);
        if end - cut > target && target - (at - cut) <= end - cut - target {
            cuts.push((
                number,
                CutTime {
                    ticks: at,
                    timescale,
                },
            ));
        }
    }
    Ok(cuts)
}

/// Presentation end of a track by its table's length, in ticks.
fn end_of(track: &Track) -> i64 {
    let start = track.groups.first().map_or(0, |g| g.dts + i64::from(g.cts));
    start + track.duration as i64 + track.shift
}

/// At which samples a track is cut.
pub(crate) enum Cuts<'a> {
    /// At these samples.
    At(&'a [(u32, CutTime)]),
    /// At the first sample presented at or after each of these times.
    Beside(&'a [(u32, CutTime)]),
    /// At the first sample presented at or after each multiple of this length.
    Every(Nanos),
}

/// Builds a track's table in one pass over its samples.
pub(crate) fn build(
    track: &Track,
    index: usize,
    timeline: &Timeline,
    samples: &dyn Samples,
    cuts: Cuts<'_>,
) -> Result<Table, SamplesError> {
    let mut table = Table::default();
    let mut open: Option<(Fragment, LayoutScan)> = None;
    let mut next = 0usize; // the next cut
    scan(track, index, timeline, samples, |number, dts, sample| {
        let at = dts + i64::from(sample.cts) + track.shift;
        // Passes over all cuts that this sample reaches: what would be empty joins the next.
        let passed = next;
        match cuts {
            Cuts::At(cuts) => {
                while cuts.get(next).is_some_and(|(sample, _)| number >= *sample) {
                    next += 1;
                }
            }
            Cuts::Beside(cuts) => {
                while cuts
                    .get(next)
                    .is_some_and(|(_, time)| time.reached(at, track.timescale))
                {
                    next += 1;
                }
            }
            Cuts::Every(target) => {
                let time = |n: usize| CutTime::multiple(target, n as i64 + 1);
                if time(next).reached(at, track.timescale) {
                    let passed = i128::from(at) * i128::from(SECOND)
                        / (i128::from(track.timescale) * i128::from(target));
                    next = (passed.max(0) as usize).max(next + 1);
                }
            }
        }
        let first = table.cuts.is_empty();
        let cut = first || next > passed;
        if let Some((fragment, layout)) = &mut open
            && (cut || fragment.count >= MAX_SAMPLES || fragment.bytes >= FULL_BYTES)
        {
            fragment.layout = layout.done();
            table.fragments.push(*fragment);
            open = None;
        }
        if cut {
            let start = if first { 0 } else { at };
            // Times that run backwards across a cut (none are known) must not make lengths negative.
            let start = table.cuts.last().map_or(start, |cut| start.max(cut.start));
            table.cuts.push(Cut {
                fragment: table.fragments.len() as u32,
                start,
            });
        }
        let (fragment, layout) = open.get_or_insert_with(|| {
            let layout = LayoutScan::new(timeline);
            (
                Fragment {
                    first: number,
                    count: 0,
                    dts,
                    bytes: 0,
                    layout: Layout::default(),
                },
                layout,
            )
        });
        fragment.count += 1;
        fragment.bytes += u64::from(sample.size);
        layout.add(&sample);
        let length = i64::from(sample.duration);
        table.end = table.end.max(at + length);
        table.end_dts = dts + length;
    })?;
    if let Some((mut fragment, layout)) = open {
        fragment.layout = layout.done();
        table.fragments.push(fragment);
    }
    table.end = table.end.max(table.cuts.last().map_or(0, |cut| cut.start));
    table.fragments.shrink_to_fit();
    table.cuts.shrink_to_fit();
    Ok(table)
}
