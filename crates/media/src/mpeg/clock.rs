//! Puts the times of all streams on one timeline: stamps wrap after 26.5 hours, and jump where
//! recordings were spliced.

use super::pes::Stamp;

/// Ticks per second of time stamps.
pub const RATE: u32 = 90_000;
/// The number of ticks after which time stamps wrap.
pub const WRAP: i64 = 1 << 33;
/// The maximum distance between streams; beyond it, the time has jumped.
const MOST_APART: i64 = 10 * RATE as i64;
/// A stamp this close to the stream's own last sample continues it, however far other streams have
/// come: writers hold back the end of a stream that is over before the others.
const NEAR: i64 = RATE as i64;
/// A reference picture may have a decode stamp equal to its presentation time, which is late by at
/// most this. So the next stamp goes back by no more; beyond it, the time has jumped.
const MOST_REORDERED: i64 = RATE as i64;
/// After the programme's clock has gone back, a sample presented after all previous ones goes back
/// by no more than this inaccuracy; beyond it, the time has jumped.
const MOST_INEXACT: i64 = RATE as i64 / 10;
/// The assumed duration of a picture before a jump.
const STEP: i64 = RATE as i64 / 25;

/// Converts time stamps to one timeline.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// The offset added to stamps, and the one before the last jump, as other streams follow later.
    offset: i64,
    before: i64,
    latest: Option<i64>,
    /// The programme's clock as last stated, and how often it has gone back.
    stated: Option<u64>,
    pub turns: u32,
    /// The number of time jumps.
    pub jumps: u32,
}

impl Clock {
    /// Returns the current end of the timeline; `None` before the first stamp.
    pub fn now(&self) -> Option<i64> {
        self.latest
    }

    /// Takes a stated clock (program_clock_reference_base), which only goes back at splices.
    pub fn state(&mut self, ticks: u64) {
        let wrap = WRAP as u64;
        let went_back = |before: u64| ticks.wrapping_sub(before) % wrap > wrap / 2;
        self.turns += u32::from(self.stated.replace(ticks).is_some_and(went_back));
    }

    /// Returns the time of a stamp on the timeline. `own` is the time of the stream's last sample.
    /// `in_order`: the programme's clock has gone back since, and this sample is presented after
    /// all previous ones.
    pub fn place(&mut self, stamp: u64, own: Option<i64>, in_order: bool) -> i64 {
        let stamp = stamp as i64;
        let Some(latest) = self.latest else {
            self.latest = Some(stamp);
            return stamp;
        };
        let near = |offset: i64| {
            let at = stamp + offset;
            at + (latest - at + WRAP / 2).div_euclid(WRAP) * WRAP
        };
        let most_back = if in_order {
            MOST_INEXACT
        } else {
            MOST_REORDERED
        };
        let goes_on = |at: &i64| match own {
            Some(own) if *at < own => own - at <= most_back,
            Some(own) if at - own <= NEAR => true,
            _ => (at - latest).abs() <= MOST_APART,
        };
        // A stream that ended before a jump still has stamps from before it.
        let from = own.filter(|own| (own - latest).abs() <= MOST_APART);
        let from = from.unwrap_or(latest);
        let places = [self.offset, self.before].map(near).into_iter();
        let place = places.filter(goes_on).min_by_key(|at| (at - from).abs());
        if let Some(at) = place {
            self.latest = Some(latest.max(at));
            return at;
        }
        self.jumps += 1;
        self.before = self.offset;
        self.offset = latest + STEP - stamp;
        self.latest = Some(latest + STEP);
        latest + STEP
    }
}

/// Returns the ticks from decoding to presentation; 0 if the stamps are implausible.
pub fn wait(stamp: Stamp) -> i32 {
    let apart = stamp.shown as i64 - stamp.decoded as i64;
    let apart = (apart + WRAP / 2).rem_euclid(WRAP) - WRAP / 2;
    match apart.abs() <= MOST_APART {
        true => apart as i32,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_that_begin_again_go_on() {
        let mut clock = Clock::default();
        assert_eq!(clock.place((1 << 33) - 3600, None, false), WRAP - 3600);
        assert_eq!(clock.place(0, Some(WRAP - 3600), false), WRAP);
        assert_eq!(
            clock.place((1 << 33) - 1800, None, false),
            WRAP - 1800,
            "another stream"
        );
        assert_eq!(clock.place(90_000, Some(WRAP), false), WRAP + 90_000);
        assert_eq!(clock.jumps, 0);
    }

    #[test]
    fn a_jump_is_closed_for_all_streams() {
        let mut clock = Clock::default();
        clock.place(1_000_000, None, false);
        let picture = clock.place(500_000_000, Some(1_000_000), false);
        assert_eq!((picture, clock.jumps), (1_003_600, 1));
        // Audio from before the jump, then from after it.
        assert_eq!(clock.place(990_000, Some(988_000), false), 990_000);
        assert_eq!(clock.place(500_001_000, Some(990_000), false), 1_004_600);
        assert_eq!(clock.jumps, 1);
    }

    #[test]
    fn what_is_late_of_a_stream_that_is_over_is_no_jump() {
        let mut clock = Clock::default();
        let sound = clock.place(126_000, None, false);
        for second in 0..20 {
            clock.place(126_000 + second * 90_000, Some(126_000), false);
        }
        assert_eq!(clock.place(127_920, Some(sound), false), 127_920);
        assert_eq!(clock.jumps, 0);
    }

    #[test]
    fn what_ended_before_a_jump_stays_there() {
        let mut clock = Clock::default();
        let picture = clock.place(655_200, None, false);
        let sound = clock.place(660_000, Some(658_080), false);
        let mut last = clock.place(126_000, Some(sound), false);
        for nth in 1..300 {
            last = clock.place(126_000 + nth * 1920, Some(last), false);
        }
        assert_eq!(clock.place(658_800, Some(picture), false), 658_800);
        assert_eq!(clock.jumps, 1);
    }

    #[test]
    fn pieces_that_each_begin_anew_follow_each_other() {
        let mut clock = Clock::default();
        let mut last = None;
        let mut all = Vec::new();
        for _ in 0..3 {
            for nth in 0..100 {
                let at = clock.place(126_000 + nth * 3600, last, true);
                last = Some(at);
                all.push(at);
            }
        }
        assert_eq!(clock.jumps, 2);
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] == 3600));
    }

    #[test]
    fn a_clock_that_begins_again_has_not_gone_back() {
        let mut clock = Clock::default();
        for (ticks, turns) in [
            (0, 0),
            (3600, 0),
            (3600, 0),
            (2000, 1),
            ((1 << 33) - 9, 2),
            (9, 2),
        ] {
            clock.state(ticks);
            assert_eq!(clock.turns, turns, "{ticks}");
        }
    }

    #[test]
    fn pictures_wait_across_the_wrap() {
        let stamp = |decoded, shown| Stamp { decoded, shown };
        assert_eq!(wait(stamp((1 << 33) - 1, 3599)), 3600);
        assert_eq!(wait(stamp(0, 1 << 32)), 0);
    }
}
