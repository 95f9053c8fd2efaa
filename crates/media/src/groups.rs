//! Cuts samples into groups; see [`Group`] for why and where.

use crate::paged::Packing;
use crate::scratch::Scratch;
use crate::{Group, Groups, Kind, Sample};

/// Cuts samples into groups, which may lie in scratch space. The first sample is decoded at `dts`.
pub(crate) fn group(
    samples: impl Iterator<Item = Sample> + Clone,
    kind: Kind,
    dts: i64,
    timescale: u32,
    scratch: &Scratch,
) -> Groups {
    let (mut total, mut sync) = (0u32, 0u32);
    for sample in samples.clone() {
        total += 1;
        sync += u32::from(sample.sync);
    }
    let dense = sync > total / 2;
    group_by(samples, (kind, dense), dts, timescale, scratch)
}

/// Like `group`, for callers that know whether most samples are sync samples (`dense`).
pub(crate) fn group_by(
    samples: impl Iterator<Item = Sample>,
    (kind, dense): (Kind, bool),
    mut dts: i64,
    timescale: u32,
    scratch: &Scratch,
) -> Groups {
    // If most samples are sync samples, one group for each would take more memory than the samples.
    let least = match kind {
        Kind::Audio => i64::from(timescale),
        Kind::Video if dense => i64::from(timescale) / 2,
        Kind::Video => 0,
    };
    let mut groups = Packing::new(scratch);
    let mut open: Option<Open> = None;
    for (number, sample) in (0..).zip(samples) {
        if let Some(group) = open.take_if(|open| open.ends_before(&sample, dts, least)) {
            groups.push(group.group);
        }
        match &mut open {
            Some(group) => group.add(&sample),
            None => open = Some(Open::begin(number, &sample, dts)),
        }
        dts += i64::from(sample.duration);
    }
    if let Some(open) = open {
        groups.push(open.group);
    }
    groups.finish()
}

/// A group that may still grow.
struct Open {
    group: Group,
    low: u64,
    high: u64,
}

impl Open {
    fn begin(number: u32, sample: &Sample, dts: i64) -> Open {
        let group = Group {
            first: number,
            count: 1,
            dts,
            cts: sample.cts,
            bytes: sample.size,
            sync: sample.sync,
        };
        let bytes = sample.bytes();
        Open {
            group,
            low: bytes.start,
            high: bytes.end,
        }
    }

    fn ends_before(&self, sample: &Sample, dts: i64, least: i64) -> bool {
        let bytes = sample.bytes();
        let span = self.high.max(bytes.end) - self.low.min(bytes.start);
        (sample.sync && dts - self.group.dts >= least)
            || self.group.count >= Group::MAX_SAMPLES
            || span > Group::MAX_SPAN
    }

    fn add(&mut self, sample: &Sample) {
        self.group.count += 1;
        self.group.bytes += sample.size; // the span and the count bound the sum
        self.low = self.low.min(sample.offset);
        self.high = self.high.max(sample.bytes().end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of `sizes` bytes back to back, 100 ticks each, sync samples according to `sync`.
    fn samples(sizes: &[u32], sync: impl Fn(usize) -> bool) -> Vec<Sample> {
        let mut offset = 1000;
        let each = sizes.iter().enumerate().map(|(number, &size)| {
            offset += u64::from(size);
            Sample {
                offset: offset - u64::from(size),
                size,
                duration: 100,
                cts: 0,
                sync: sync(number),
            }
        });
        each.collect()
    }

    fn firsts(samples: &[Sample], kind: Kind, timescale: u32) -> Vec<(u32, bool)> {
        let groups = group(
            samples.iter().copied(),
            kind,
            0,
            timescale,
            &Scratch::default(),
        );
        let mut next = 0;
        for group in &groups {
            assert_eq!(group.first, next);
            assert!(group.count >= 1 && group.count <= Group::MAX_SAMPLES);
            let inside = &samples[group.first as usize..(group.first + group.count) as usize];
            assert_eq!(
                group.bytes,
                inside.iter().map(|sample| sample.size).sum::<u32>()
            );
            assert_eq!(
                (group.dts, group.sync),
                (i64::from(group.first) * 100, inside[0].sync)
            );
            next += group.count;
        }
        assert_eq!(next as usize, samples.len());
        groups
            .iter()
            .map(|group| (group.first, group.sync))
            .collect()
    }

    #[test]
    fn a_group_is_a_gop() {
        let samples = samples(&[10; 30], |number| number % 12 == 0);
        assert_eq!(
            firsts(&samples, Kind::Video, 1000),
            [(0, true), (12, true), (24, true)]
        );
    }

    #[test]
    fn a_long_gop_is_cut_by_count_and_by_span() {
        let many = samples(&[10; 600], |number| number == 0);
        assert_eq!(
            firsts(&many, Kind::Video, 1000),
            [(0, true), (256, false), (512, false)]
        );
        let large = samples(&[100 * 1024; 5], |number| number == 0);
        assert_eq!(
            firsts(&large, Kind::Video, 1000),
            [(0, true), (2, false), (4, false)]
        );
    }

    #[test]
    fn a_sample_beyond_the_span_has_a_group_of_its_own() {
        let samples = samples(&[10, 300 * 1024, 10, 10], |number| number == 0);
        assert_eq!(
            firsts(&samples, Kind::Video, 1000),
            [(0, true), (1, false), (2, false)]
        );
    }

    #[test]
    fn pictures_that_all_are_sync_samples_share_groups_of_half_a_second() {
        let samples = samples(&[10; 20], |_| true);
        assert_eq!(
            firsts(&samples, Kind::Video, 1000),
            [(0, true), (5, true), (10, true), (15, true)]
        );
    }

    #[test]
    fn sound_is_cut_each_second_and_where_it_lies_far_apart_in_the_file() {
        let mut sound = samples(&[10; 25], |_| true);
        assert_eq!(
            firsts(&sound, Kind::Audio, 1000),
            [(0, true), (10, true), (20, true)]
        );
        for sample in &mut sound[5..] {
            sample.offset += 1 << 20; // a mebibyte of video in between
        }
        assert_eq!(
            firsts(&sound, Kind::Audio, 1000),
            [(0, true), (5, true), (15, true)]
        );
    }
}
