//! Cuts a track into segments, which players request, and segments into fragments, each with one
//! header.
//!
//! Pictures are cut at sync samples near the target length. Sound is cut at the same presentation
//! times: a segment begins with the first access unit presented at or after the cut. Without
//! pictures, sound is cut at multiples of the target. A segment without samples (if sound begins
//! late) is merged with the next.
//!
//! A segment is usually one fragment. A segment of very many samples (a film with a single key
//! frame is a single segment) has several, so that a header never exceeds some kilobytes and only
//! the samples of one fragment are read at once.

use reelway_media::{
    Nanos, Paged, Record, SECOND, Sample, Samples, SamplesError, Track, WORDS, nanos_to_ticks,
};

use crate::fragment::{Fragment, Layout, LayoutScan};
use crate::timeline::Timeline;

/// Maximum number of samples in a fragment: 40 s of pictures, 20 s of sound, a header of at most 16
/// KiB.
const MAX_SAMPLES: u32 = 1024;
/// Media bytes at which a fragment is full. With one more sample (< 2^31), its box sizes still fit
/// in 32 bits.
const FULL_BYTES: u64 = 1 << 30;
/// Number of samples read at once while scanning a film: 72 KiB of records.
const SCAN: u32 = 4096;

/// A segment, the unit of a request. It takes about 4 bytes in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Its first fragment.
    pub fragment: u32,
    /// Its beginning on the presentation timeline, in ticks. Always 0 for the first segment.
    pub start: i64,
}

impl Record for Cut {
    const USED: usize = 2;

    fn words(&self) -> [i64; WORDS] {
        [self.fragment.into(), self.start, 0, 0, 0, 0, 0, 0]
    }

    fn of(words: &[i64; WORDS]) -> Cut {
        Cut {
            fragment: words[0] as u32,
            start: words[1],
        }
    }
}

/// A track's segments and fragments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub fragments: Paged<Fragment>,
    pub cuts: Paged<Cut>,
    /// Whether no segment has samples that are shown before its first one.
    pub independent: bool,
    /// End of the last sample on the presentation timeline, in ticks.
    pub end: i64,
    /// End of the last sample on the fragments' decode timeline, in ticks.
    pub end_decoded: i64,
}

impl Table {
    /// Returns the end of a fragment on the fragments' decode timeline.
    pub(crate) fn fragment_end(&self, index: u32) -> i64 {
        self.fragments
            .get(index as usize + 1)
            .map_or(self.end_decoded, |next| next.tfdt)
    }
}

/// Calls `each` for every sample of a track from `first` on, with its number and decode time; `dts`
/// is that of `first`.
pub(crate) fn scan(
    track: &Track,
    index: usize,
    (first, dts): (u32, i64),
    samples: &dyn Samples,
    mut each: impl FnMut(u32, i64, Sample),
) -> Result<(), SamplesError> {
    let mut read = Vec::with_capacity(SCAN.min(track.samples) as usize);
    let (mut number, mut dts) = (first, dts);
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

/// Scans a picture track. Finds the sync samples at which it is cut, each nearest to `target` after
/// the previous cut (without the film's beginning), and corrects the timeline's smallest
/// composition offset.
pub(crate) fn survey_picture(
    track: &Track,
    index: usize,
    timeline: &mut Timeline,
    samples: &dyn Samples,
    target: Nanos,
) -> Result<Vec<u32>, SamplesError> {
    let target = nanos_to_ticks(target, track.timescale).max(1);
    let mut least_cts = timeline.least_cts;
    let mut cuts = Vec::new();
    let mut last = None;
    let mut before: Option<(u32, i64)> = None;
    let mut end = 0;
    let from = (timeline.first, timeline.first_dts);
    scan(track, index, from, samples, |number, dts, sample| {
        least_cts = least_cts.min(sample.cts);
        let at = timeline.shown(dts, sample.cts);
        end = end.max(at + i64::from(sample.duration));
        if !sample.sync {
            return;
        }
        let Some(mut cut) = last else {
            last = Some(at);
            return;
        };
        // The previous sync sample is the better cut if it is nearer to the target.
        if at - cut >= target
            && let Some((number, earlier)) = before.take()
            && target - (earlier - cut) <= at - cut - target
        {
            cuts.push(number);
            cut = earlier;
        }
        if at - cut >= target {
            cuts.push(number);
            cut = at;
            before = None;
        } else if at > cut {
            before = Some((number, at));
        }
        last = Some(cut);
    })?;
    // The rest after the last cut is cut again if a sync sample in it is at least as near to the
    // target as its end.
    if let (Some(cut), Some((number, at))) = (last, before)
        && target - (at - cut) <= end - cut - target
    {
        cuts.push(number);
    }
    timeline.least_cts = least_cts;
    Ok(cuts)
}

/// A presentation time at which another track is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutTime {
    pub ticks: i64,
    pub timescale: u32,
}

impl CutTime {
    /// Returns whether `ticks` of `timescale` is at or after this time, compared without rounding.
    fn reached(self, ticks: i64, timescale: u32) -> bool {
        i128::from(ticks) * i128::from(self.timescale)
            >= i128::from(self.ticks) * i128::from(timescale)
    }
}

/// The places at which a track is cut.
pub(crate) enum Cuts<'a> {
    /// At these samples.
    At(&'a [u32]),
    /// At the first sample presented at or after each of these times.
    Beside(&'a [CutTime]),
    /// At the first sample presented at or after each multiple of this length.
    Every(Nanos),
}

impl Cuts<'_> {
    /// Returns the number of cuts at or before a sample with presentation time `at`, given that
    /// `passed` cuts lie before it.
    fn passed(&self, mut passed: usize, number: u32, at: i64, timescale: u32) -> usize {
        match self {
            Cuts::At(cuts) => {
                while cuts.get(passed).is_some_and(|cut| number >= *cut) {
                    passed += 1;
                }
                passed
            }
            Cuts::Beside(cuts) => {
                while cuts
                    .get(passed)
                    .is_some_and(|cut| cut.reached(at, timescale))
                {
                    passed += 1;
                }
                passed
            }
            Cuts::Every(target) => {
                let multiples = i128::from(at) * i128::from(SECOND)
                    / (i128::from(timescale) * i128::from(*target));
                passed.max(multiples.clamp(0, i128::from(u32::MAX)) as usize)
            }
        }
    }
}

/// Maximum number of segments in a track: three days of one second each. A film that would have
/// more gets one more, which shows that it is too long.
pub(crate) const MOST_SEGMENTS: usize = 1 << 18;

/// Builds a track's table in one pass over its samples.
pub(crate) fn build(
    track: &Track,
    index: usize,
    timeline: &Timeline,
    samples: &dyn Samples,
    cuts: &Cuts<'_>,
) -> Result<Table, SamplesError> {
    let mut builder = Builder {
        table: Table {
            independent: true,
            ..Table::default()
        },
        fragments: Vec::new(),
        cuts: Vec::new(),
        layouts: Vec::new(),
        timeline,
        open: None,
        first_shown: None,
        earliest: i64::MAX,
        end_decoded: 0,
    };
    let mut passed = 0;
    let from = (timeline.first, timeline.first_dts);
    scan(track, index, from, samples, |number, dts, sample| {
        let shown = timeline.shown(dts, sample.cts);
        let at = shown - timeline.priming;
        // Passes all cuts that this sample reaches: segments that would be empty are merged with
        // the next.
        let cuts = cuts.passed(passed, number, at, track.timescale);
        let first = builder.cuts.is_empty();
        if first || cuts > passed && builder.cuts.len() <= MOST_SEGMENTS {
            builder.cut();
        } else if builder
            .open
            .as_ref()
            .is_some_and(|(f, _)| f.count >= MAX_SAMPLES || f.bytes >= FULL_BYTES)
        {
            builder.close_fragment();
        }
        passed = cuts;
        let first_fragment = builder.fragments.is_empty();
        let left_out = first_fragment && timeline.leads(track.kind, dts, sample.cts);
        builder.add(number, dts, sample, left_out);
    })?;
    Ok(builder.done())
}

/// A table being built.
struct Builder<'a> {
    /// Its lists stay empty until everything is known.
    table: Table,
    fragments: Vec<Fragment>,
    cuts: Vec<Cut>,
    /// One per closed fragment.
    layouts: Vec<LayoutScan>,
    timeline: &'a Timeline,
    open: Option<(Fragment, LayoutScan)>,
    /// Presentation time of the open segment's first sample on the fragments' timeline.
    first_shown: Option<i64>,
    /// Earliest presentation time in the open segment on the fragments' timeline.
    earliest: i64,
    /// End of the last sample if no times were adjusted.
    end_decoded: i64,
}

impl Builder<'_> {
    fn add(&mut self, number: u32, dts: i64, sample: Sample, left_out: bool) {
        let decoded = self.timeline.decoded(dts);
        let shown = self.timeline.shown(dts, sample.cts);
        let (fragment, layout) = self.open.get_or_insert_with(|| {
            let fragment = Fragment {
                first: number,
                span: 0,
                count: 0,
                layout: Layout::default(),
                dts,
                tfdt: decoded,
                bytes: 0,
            };
            (fragment, LayoutScan::default())
        });
        fragment.span += 1;
        if left_out {
            return;
        }
        fragment.count += 1;
        fragment.bytes += u64::from(sample.size);
        layout.add(&sample, decoded, shown);
        self.table.independent &= *self.first_shown.get_or_insert(shown) <= shown;
        self.earliest = self.earliest.min(shown);
        let length = i64::from(sample.duration);
        self.table.end = self.table.end.max(shown - self.timeline.priming + length);
        self.end_decoded = decoded + length;
    }

    fn close_fragment(&mut self) {
        if let Some((fragment, layout)) = self.open.take() {
            self.fragments.push(fragment);
            self.layouts.push(layout);
        }
    }

    /// Ends the segment. It begins at its earliest presentation time.
    fn close_segment(&mut self) {
        self.close_fragment();
        let Some(cut) = self.cuts.last().copied() else {
            return;
        };
        for fragment in &mut self.fragments[cut.fragment as usize..] {
            fragment.tfdt = fragment.tfdt.max(self.earliest);
        }
        let segments = self.cuts.len();
        if let [.., before, cut] = &mut self.cuts[..segments] {
            cut.start = (self.earliest - self.timeline.priming).max(before.start);
        }
        self.earliest = i64::MAX;
        self.first_shown = None;
    }

    fn cut(&mut self) {
        self.close_segment();
        // The first segment begins with the film, whenever its first sample is presented.
        self.cuts.push(Cut {
            fragment: self.fragments.len() as u32,
            start: 0,
        });
    }

    fn done(mut self) -> Table {
        self.close_segment();
        let last_start = self.cuts.last().map_or(0, |cut| cut.start);
        self.table.end = self.table.end.max(last_start);
        // The last sample lasts until everything has been shown.
        self.table.end_decoded = self.end_decoded.max(self.table.end + self.timeline.priming);
        for (index, layout) in self.layouts.iter().enumerate() {
            let end = self
                .fragments
                .get(index + 1)
                .map_or(self.table.end_decoded, |next| next.tfdt);
            let fragment = &mut self.fragments[index];
            fragment.layout = layout.done(fragment.tfdt, end);
        }
        self.table.fragments = self.fragments.into_iter().collect();
        self.table.cuts = self.cuts.into_iter().collect();
        self.table
    }
}
