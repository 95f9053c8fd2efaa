//! Conversion of a track's times into RTP clocks.

use reelway_media::{Nanos, TimedSample, rescale, ticks_to_nanos};

use crate::plan::FrameInfo;

/// Converts a track's ticks to the film's timeline and to RTP ticks, always from absolute values so
/// that rounding errors do not add up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub timescale: u32,
    pub shift: i64,
    pub clock_rate: u32,
}

impl Timing {
    /// Returns the sample's decode time on the film's timeline.
    pub fn due(&self, sample: &TimedSample) -> Nanos {
        ticks_to_nanos(sample.dts.saturating_add(self.shift), self.timescale)
    }

    /// Returns the decode time of the following sample on the film's timeline.
    pub fn end(&self, sample: &TimedSample) -> Nanos {
        let end = sample.dts.saturating_add(i64::from(sample.sample.duration));
        ticks_to_nanos(end.saturating_add(self.shift), self.timescale)
    }

    fn presented(&self, sample: &TimedSample) -> i64 {
        sample
            .dts
            .saturating_add(i64::from(sample.sample.cts))
            .saturating_add(self.shift)
    }

    /// Returns the presentation time on the film's timeline.
    pub fn shown(&self, sample: &TimedSample) -> Nanos {
        ticks_to_nanos(self.presented(sample), self.timescale)
    }

    /// Returns the fields of a frame that is one whole sample. Other frames may be decoded from it.
    pub fn frame(&self, sample: &TimedSample) -> FrameInfo {
        let due = self.due(sample);
        FrameInfo {
            due,
            duration: self.end(sample).saturating_sub(due).max(0),
            shown: self.shown(sample),
            rtp_time: self.rtp(sample) as u32,
            sync: sample.sample.sync,
            droppable: false,
        }
    }

    /// Returns the decode time of the following sample in ticks of the clock rate, without
    /// wrapping.
    pub fn rtp_end(&self, sample: &TimedSample) -> i64 {
        let end = sample.dts.saturating_add(i64::from(sample.sample.duration));
        rescale(
            end.saturating_add(self.shift),
            self.timescale,
            self.clock_rate,
        )
    }

    /// Returns the presentation time in ticks of the clock rate, without wrapping.
    pub fn rtp(&self, sample: &TimedSample) -> i64 {
        rescale(self.presented(sample), self.timescale, self.clock_rate)
    }
}
