//! A viewer's playback second by second, for the charts of a report.

use std::collections::BTreeMap;

use crate::load::sample::Sample;

/// Maximum number of seconds: a day.
const MOST: usize = 86_400;
/// Maximum number of lateness values per second.
const MOST_LATE: usize = 10_000;

#[derive(Clone, Debug, Default)]
struct Second {
    packets: u64,
    bytes: u64,
    lost: i64,
    /// Lateness of media due in this second, in nanoseconds.
    late: Vec<u64>,
}

/// Counts of each second.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The seconds by their number since 1970.
    seconds: BTreeMap<u64, Second>,
}

impl Course {
    fn second(&mut self, at: u64) -> Option<&mut Second> {
        let second = at / 1_000_000_000;
        let room = self.seconds.len() < MOST || self.seconds.contains_key(&second);
        room.then(|| self.seconds.entry(second).or_default())
    }

    /// Enters a packet (or segment) of `bytes` bytes that arrived at `at`. All times are in ns
    /// since 1970.
    pub(crate) fn came(&mut self, at: u64, bytes: u64) {
        if let Some(second) = self.second(at) {
            second.packets += 1;
            second.bytes += bytes;
        }
    }

    /// Enters packets found missing at `at`; a negative number is for packets that arrived after
    /// all.
    pub(crate) fn lost(&mut self, at: u64, packets: i64) {
        if let Some(second) = self.second(at) {
            second.lost += packets;
        }
    }

    /// Enters media that arrived at `at`, `nanos` ns late.
    pub(crate) fn late(&mut self, at: u64, nanos: u64) {
        if let Some(second) = self
            .second(at)
            .filter(|second| second.late.len() < MOST_LATE)
        {
            second.late.push(nanos);
        }
    }

    /// Adds the counts of another track.
    pub(crate) fn add(&mut self, other: Course) {
        for (at, there) in other.seconds {
            if let Some(here) = self.second(at * 1_000_000_000) {
                here.packets += there.packets;
                here.bytes += there.bytes;
                here.lost += there.lost;
                here.late.extend(there.late);
            }
        }
    }

    /// Returns a sample for every second from `began` (ns since 1970) to the last with an arrival,
    /// like those of a run with one viewer.
    pub fn samples(&self, began: u64) -> Vec<Sample> {
        let began = began / 1_000_000_000;
        let Some(last) = self.seconds.keys().next_back() else {
            return Vec::new();
        };
        let nothing = Second::default();
        let sample = |at: u64| {
            let second = self.seconds.get(&at).unwrap_or(&nothing);
            let mut late = second.late.clone();
            late.sort_unstable();
            let percentile = |share: f64| {
                let place = (late.len() as f64 * share).ceil() as usize;
                late.get(place.saturating_sub(1))
                    .map_or(0.0, |nanos| *nanos as f64 / 1e6)
            };
            Sample {
                at_s: (at - began + 1) as f64,
                came: 1,
                playing: 1,
                packets: second.packets,
                bytes: second.bytes,
                lost: second.lost,
                late_p50_ms: percentile(0.5),
                late_p99_ms: percentile(0.99),
                late_p999_ms: percentile(0.999),
                late_max_ms: percentile(1.0),
                ..Sample::default()
            }
        };
        (began..=(*last).min(began + MOST as u64))
            .map(sample)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_second_is_there_too() {
        const S: u64 = 1_000_000_000;
        let (mut course, mut sound) = (Course::default(), Course::default());
        course.came(10 * S, 100);
        course.came(10 * S + 5, 100);
        course.late(10 * S, 3_000_000);
        course.lost(12 * S, 2);
        sound.came(12 * S, 7);
        course.add(sound);
        let samples = course.samples(10 * S + 3);
        let told: Vec<_> = samples
            .iter()
            .map(|sample| (sample.at_s, sample.packets, sample.bytes, sample.lost))
            .collect();
        assert_eq!(told, [(1.0, 2, 200, 0), (2.0, 0, 0, 0), (3.0, 1, 7, 2)]);
        assert_eq!((samples[0].late_max_ms, samples[1].late_max_ms), (3.0, 0.0));
    }
}
