//! What siblings report about themselves. Pure: time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use reelway_catalogue::Watched;
use reelway_clock::Monotonic;

use super::load::Load;

/// A sibling's report is valid for this time; it is asked every second.
const HOLDS: Duration = Duration::from_secs(3);
/// Time after which a viewer who was sent to a sibling has a session there and is part of its
/// report. If it is too long, such viewers are counted twice meanwhile.
const ARRIVES: Duration = Duration::from_millis(100);
/// Maximum number of viewers on their way that are counted.
const MOST_SENT: usize = 4096;

/// A sibling's report about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its load.
    pub load: Load,
    /// Films with the most viewers there.
    pub watched: Vec<Watched>,
    /// Whether it admits viewers.
    pub is_serving: bool,
    /// The address at which viewers reach it: `rtsp://host:port`.
    pub rtsp: String,
    /// `http://host:port`.
    pub http: String,
}

/// The reports of all siblings.
#[derive(Debug)]
pub(super) struct Standings(Vec<Heard>);

#[derive(Clone, Debug, Default)]
struct Heard {
    /// When it was asked, and what it reported.
    last: Option<(Monotonic, Standing)>,
    /// When viewers were sent there who may not be part of the report, and their films' rates in
    /// bytes per second.
    sent: VecDeque<(Monotonic, u64)>,
}

impl Standings {
    /// Creates the books for this many siblings, of which nothing is known.
    pub fn new(siblings: usize) -> Standings {
        Standings(vec![Heard::default(); siblings])
    }

    /// Notes a sibling's report, which was requested at the time `asked`.
    pub fn heard(&mut self, number: usize, standing: Standing, asked: Monotonic) {
        if let Some(sibling) = self.0.get_mut(number) {
            sibling.sent.retain(|(at, _)| *at + ARRIVES > asked);
            sibling.last = Some((asked, standing));
        }
    }

    /// Notes that a sibling did not answer.
    pub fn lost(&mut self, number: usize) {
        if let Some(sibling) = self.0.get_mut(number) {
            sibling.last = None;
        }
    }

    /// Notes that a viewer who needs `rate` bytes per second is sent to a sibling.
    pub fn sent(&mut self, number: usize, rate: u64, now: Monotonic) {
        let Some(sibling) = self.0.get_mut(number) else {
            return;
        };
        if sibling.sent.len() >= MOST_SENT {
            sibling.sent.pop_front();
        }
        sibling.sent.push_back((now, rate));
    }

    /// The recent report of a sibling that admits viewers, and its load including the viewers on
    /// their way to it.
    pub fn of(&self, number: usize, now: Monotonic) -> Option<(&Standing, Load)> {
        let sibling = self.0.get(number)?;
        let (at, standing) = sibling.last.as_ref()?;
        if !standing.is_serving || now.since(*at) > HOLDS {
            return None;
        }
        let under_way = sibling.sent.iter();
        let load = under_way.fold(standing.load, |load, (_, rate)| load.with(*rate));
        Some((standing, load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    fn serving(viewers: u64) -> Standing {
        let network = Some((1000, 900));
        Standing {
            load: Load { viewers, network },
            is_serving: true,
            ..Standing::default()
        }
    }

    #[test]
    fn what_a_sibling_says_holds_for_three_seconds() {
        let mut standings = Standings::new(1);
        assert!(standings.of(0, at(0)).is_none() && standings.of(1, at(0)).is_none());
        standings.heard(0, serving(7), at(0));
        standings.heard(1, serving(7), at(0));
        assert_eq!(standings.of(0, at(3000)).map(|of| of.1.viewers), Some(7));
        assert!(standings.of(0, at(3001)).is_none());
    }

    #[test]
    fn a_sibling_that_does_not_answer_gets_no_viewers_from_then_on() {
        let mut standings = Standings::new(1);
        standings.heard(0, serving(7), at(0));
        standings.lost(0);
        standings.lost(1);
        assert!(standings.of(0, at(1)).is_none());
    }

    #[test]
    fn a_sibling_that_stops_or_starts_gets_no_viewers() {
        let mut standings = Standings::new(1);
        standings.heard(0, serving(1), at(0));
        let stops = Standing {
            is_serving: false,
            ..serving(1)
        };
        standings.heard(0, stops, at(1));
        assert!(standings.of(0, at(1)).is_none());
    }

    #[test]
    fn viewers_under_way_are_counted_until_the_sibling_counts_them() {
        let mut standings = Standings::new(1);
        standings.heard(0, serving(1), at(0));
        standings.sent(0, 40, at(0));
        standings.sent(0, 60, at(500));
        standings.sent(7, 60, at(500));
        let load = |standings: &Standings, millis| {
            let (_, load) = standings.of(0, at(millis)).expect("a sibling");
            (load.viewers, load.network.expect("a limit").1)
        };
        assert_eq!(load(&standings, 500), (3, 800));
        // It was asked before the second viewer can have arrived.
        standings.heard(0, serving(2), at(599));
        assert_eq!(load(&standings, 900), (3, 840));
        standings.heard(0, serving(3), at(600));
        assert_eq!(load(&standings, 900), (3, 900));
    }

    #[test]
    fn however_many_are_sent_memory_is_bounded() {
        let mut standings = Standings::new(1);
        for n in 0..10_000 {
            standings.sent(0, 1, at(n / 100));
        }
        assert_eq!(standings.0[0].sent.len(), MOST_SENT);
        standings.heard(0, serving(0), at(5000));
        assert_eq!(standings.0[0].sent.len(), 0);
    }
}
