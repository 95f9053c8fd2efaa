//! Burst sizes: how many packets arrive within a millisecond.

use std::collections::VecDeque;

/// Counts packets in a sliding window of one millisecond.
///
/// Video and audio use separate sockets, which are read in turn, so packets may be added out of
/// order. A packet is counted once nothing earlier can arrive any more.
#[derive(Debug, Default)]
pub(crate) struct BurstMeter {
    /// Arrival times and packet counts that have not been counted yet, in order of time.
    waiting: VecDeque<(u64, u32)>,
    recent: VecDeque<(u64, u32)>,
    within: u32,
    pub most: u32,
    pub over: u64,
    agreed: u32,
}

/// How much older than the newest packet an added one may be, in nanoseconds.
const UNSETTLED: u64 = 2_000_000_000;

impl BurstMeter {
    /// Counts the windows with more than `agreed` packets; 0: there is no limit.
    pub fn new(agreed: u32) -> Self {
        BurstMeter {
            agreed,
            ..BurstMeter::default()
        }
    }

    /// Adds `packets` that arrived at `at` (ns).
    pub fn add(&mut self, at: u64, packets: u32) {
        let place = self.waiting.partition_point(|(then, _)| *then <= at);
        self.waiting.insert(place, (at, packets));
        let newest = self.waiting.back().map_or(at, |(then, _)| *then);
        self.count_before(newest.saturating_sub(UNSETTLED));
    }

    /// Counts the remaining packets at the end.
    pub fn finish(&mut self) {
        self.count_before(u64::MAX);
    }

    fn count_before(&mut self, settled: u64) {
        while let Some((at, packets)) = self.waiting.pop_front_if(|(at, _)| *at < settled) {
            while let Some((_, count)) = self
                .recent
                .pop_front_if(|(then, _)| at.saturating_sub(*then) >= 1_000_000)
            {
                self.within -= count;
            }
            self.recent.push_back((at, packets));
            self.within += packets;
            self.most = self.most.max(self.within);
            if self.agreed > 0 && self.within > self.agreed {
                self.over += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_are_read_late_are_counted_when_they_came() {
        let mut bursts = BurstMeter::new(8);
        // Eight video packets a millisecond after one of audio, whose socket is read later.
        bursts.add(5_000_000, 8);
        bursts.add(4_000_000, 1);
        bursts.finish();
        assert_eq!((bursts.most, bursts.over), (8, 0));
    }

    #[test]
    fn a_burst_is_found_whatever_the_order_of_reading() {
        let mut bursts = BurstMeter::new(8);
        bursts.add(5_000_000, 8);
        bursts.add(9_000_000, 1);
        bursts.add(4_000_001, 1);
        bursts.finish();
        assert_eq!((bursts.most, bursts.over), (9, 1));
    }
}
