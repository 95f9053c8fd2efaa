//! A track's times in the clocks of RTP.

use reelway_media::{Nanos, TimedSample, rescale, ticks_to_nanos};

use crate::plan::FrameInfo;

/// From a track's ticks to the film's timeline and to RTP ticks, always from absolute values so
/// that no rounding adds up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub timescale: u32,
    pub shift: i64,
    pub clock_rate: u32,
}

impl Timing {
    /// Decode time on the film's timeline.
    pub fn due(&self, sample: &TimedSample) -> Nanos {
        ticks_to_nanos(sample.dts.saturating_add(self.shift), self.timescale)
    }

    /// Decode time of what follows the sample.
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

    /// Presentation time on the film's timeline.
    pub fn shown(&self, sample: &TimedSample) -> Nanos {
        ticks_to_nanos(self.presented(sample), self.timescale)
    }

    /// What a frame that is a whole sample says of itself; other frames may be decoded from it.
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

    /// Decode time of what follows the sample, in ticks of the clock rate, before it wraps.
    pub fn rtp_end(&self, sample: &TimedSample) -> i64 {
        let end = sample.dts.saturating_add(i64::from(sample.sample.duration));
        rescale(
            end.saturating_add(self.shift),
            self.timescale,
            self.clock_rate,
        )
    }

    /// Presentation time in ticks of the clock rate, before it wraps.
    pub fn rtp(&self, sample: &TimedSample) -> i64 {
        rescale(self.presented(sample), self.timescale, self.clock_rate)
    }
}
