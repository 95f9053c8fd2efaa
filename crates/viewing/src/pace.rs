//! How fast media is sent: unpaced until the viewer is some seconds of film ahead, then at a
//! multiple of the film's rate.
//!
//! On a limited network, media is sent as booked: a few seconds at four times the film's rate, then
//! at twice the rate until the viewer could be fully ahead, and then at the film's rate. A viewer
//! who has fetched less by then, or pauses fetching later, gets no more than that: the capacity is
//! booked by others by now. Unbooked capacity lets them catch up ([`crate::Spares`]).
//!
//! The rule counts seconds of film, not bytes, so that viewers are as far ahead in a dense scene as
//! in a quiet one. Its token buckets are full when a viewer starts or seeks; each byte sent removes
//! its playing time, and they refill at, say, twice real time. The rule belongs to a viewer's flow,
//! not to a socket: a viewer fetches over several connections, a connection fetches audio and video
//! in turn, and only the segments know their playing time. A socket's own limit
//! (`SO_MAX_PACING_RATE`) only spreads each window over its time: [`Pace::connection_speed`].

use std::time::Duration;

use reelway_demand::Eager;
use reelway_media::{Nanos, SECOND};
use reelway_time::Monotonic;

/// With booked media: the number of seeks that refill the buckets at once, and the seconds after
/// which one more is allowed. Viewers seek only now and then. Two viewers who share an identity
/// seem to seek all the time, and together get no more than one.
const SEEKS: f64 = 6.0;
const BETWEEN_SEEKS: f64 = 30.0;

/// Viewers who are far enough ahead get a piece now and then. The kernel spreads it over the time
/// until the next, but at no more than this multiple of the average rate: this avoids bursts, and
/// the next piece does not wait for the end of this one.
const HEADROOM: f64 = 2.0;

/// The same for booked media: covers headers, and losses between two pieces.
const AS_BOOKED: f64 = 17.0 / 16.0;

/// Lower limit of a connection's speed, in bytes per second.
const LEAST_SPEED: u64 = 256 << 10;

/// Within this many seconds of the maximum lead, media is sent at the film's own rate.
const NEARLY: f64 = 1.0;

/// A pacing rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Seconds of film sent immediately; with booked media, sent at twice `factor`.
    pub first: f64,
    /// Seconds of film per second after that, until `ahead` is reached; 0: no limit.
    pub factor: f64,
    /// Maximum lead in seconds of film if `then` is 1.
    pub ahead: f64,
    /// Seconds of film per second once `ahead` is reached.
    pub then: f64,
}

impl Pace {
    /// Sends `ahead` seconds immediately, then `factor` seconds per second.
    pub fn free(ahead: f64, factor: f64) -> Pace {
        Pace {
            first: ahead,
            factor,
            ahead,
            then: factor,
        }
    }

    /// The pace that is booked for a viewer.
    pub fn booked(eager: &Eager) -> Pace {
        let seconds = |nanos: Nanos| nanos as f64 / SECOND as f64;
        Pace {
            first: seconds(eager.first),
            factor: f64::from(eager.percent) / 100.0,
            ahead: seconds(eager.ahead),
            then: 1.0,
        }
    }

    /// Whether the first seconds are sent as fast as the network allows.
    pub fn is_free(&self) -> bool {
        self.first >= self.ahead
    }

    /// The time after which booked media has reached its maximum lead.
    fn beginning(&self) -> Duration {
        let seconds = (self.ahead - self.first) / (self.factor - self.then);
        match self.is_free() || !seconds.is_finite() || seconds < 0.0 {
            true => Duration::MAX,
            false => Duration::from_secs_f64(seconds.min(3600.0)),
        }
    }

    /// Returns the speed limit of a connection in bytes per second; `None`: no limit. `standing` is
    /// its flow's; each byte plays for `seconds_per_byte` seconds; `beyond` may exceed the pace,
    /// see [`Beyond`].
    pub fn connection_speed(
        &self,
        standing: &Standing,
        seconds_per_byte: f64,
        beyond: Beyond,
    ) -> Option<u64> {
        let most = self.speed(standing) / seconds_per_byte;
        let most = (most.is_normal() && most > 0.0).then(|| (most as u64).max(LEAST_SPEED));
        match beyond {
            Beyond::Everything => None,
            Beyond::Nothing => most,
            Beyond::Share(beyond) => most.map(|most| most.saturating_add(beyond)),
        }
    }

    /// Returns the highest rate at which a connection sends a piece, in seconds of film per second.
    /// With booked media it is little more than the booked rate, so that all connections together
    /// send little more than the network carries.
    fn speed(&self, standing: &Standing) -> f64 {
        if self.is_free() {
            HEADROOM * self.factor
        } else if !standing.begins || standing.ahead >= self.ahead - NEARLY {
            AS_BOOKED * self.then
        } else if standing.ahead < self.first {
            HEADROOM * self.factor
        } else {
            AS_BOOKED * self.factor
        }
    }
}

/// The state of a flow relative to its pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Time to wait before more is sent.
    pub wait: Duration,
    /// The viewer's lead in seconds of film, as far as the pacer knows.
    pub ahead: f64,
    /// Whether more than the film's rate is booked now, because the viewer has just started or
    /// sought.
    pub begins: bool,
    /// Whether the viewer has fetched less than they could have and the current booking does not
    /// let them catch up.
    pub is_behind: bool,
}

/// How much a viewer may be sent beyond the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Nothing.
    Nothing,
    /// Up to this many bytes per second.
    Share(u64),
    /// As much as they take.
    Everything,
}

/// A token bucket of film seconds.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    brim: f64,
    /// Refill rate in seconds of film per second.
    fill: f64,
    level: f64,
}

impl Bucket {
    fn new(brim: f64, fill: f64) -> Bucket {
        Bucket {
            brim,
            fill,
            level: brim,
        }
    }

    /// Advances by `passed` seconds. Returns the seconds until the level is not negative.
    fn wait(&mut self, passed: f64) -> f64 {
        // A refill beyond the brim is kept until it is used.
        self.level = self
            .level
            .max((self.level + passed * self.fill).min(self.brim));
        (-self.level / self.fill).max(0.0)
    }
}

/// Holds a flow of media to a [`Pace`]: a track of a viewer, or a range of a file.
#[derive(Debug)]
pub struct Pacer {
    pace: Pace,
    /// For the beginning, for the total lead, and for the momentary rate.
    buckets: [Bucket; 3],
    at: Monotonic,
    /// When they were last filled at once.
    began: Monotonic,
    /// How often they may be filled at once, and when that was last updated.
    seeks: Bucket,
    sought: Monotonic,
}

impl Pacer {
    /// Creates a pacer with full buckets.
    pub fn new(pace: Pace, now: Monotonic) -> Pacer {
        Pacer {
            pace,
            buckets: [
                Bucket::new(pace.first, pace.factor),
                Bucket::new(pace.ahead, pace.then),
                match pace.is_free() {
                    true => Bucket::new(f64::INFINITY, 1.0),
                    false => Bucket::new(0.0, HEADROOM * pace.factor),
                },
            ],
            at: now,
            began: now,
            seeks: Bucket::new(SEEKS, 1.0 / BETWEEN_SEEKS),
            sought: now,
        }
    }

    /// Refills the buckets because the viewer starts elsewhere or must first fetch bytes that are
    /// not film, such as a file's tables (`extra` seconds' worth). Does nothing if that happens too
    /// often.
    pub fn refill(&mut self, extra: f64, now: Monotonic) {
        self.seeks.wait(now.since(self.sought).as_secs_f64());
        self.sought = now;
        if !self.pace.is_free() {
            if self.seeks.level < 1.0 {
                return;
            }
            self.seeks.level -= 1.0;
        }
        for bucket in &mut self.buckets {
            bucket.level = bucket.brim + extra;
        }
        self.at = now;
        self.began = now;
    }

    /// Returns the time to wait before more is sent.
    pub fn wait(&mut self, now: Monotonic) -> Duration {
        if self.pace.factor <= 0.0 {
            return Duration::ZERO;
        }
        let passed = now.since(self.at).as_secs_f64();
        self.at = now;
        if !self.pace.is_free() {
            let begins = self.begins(now);
            self.buckets[0].fill = if begins {
                self.pace.factor
            } else {
                self.pace.then
            };
        }
        let waits = self.buckets.iter_mut().map(|bucket| bucket.wait(passed));
        Duration::from_secs_f64(waits.fold(0.0, f64::max).min(3600.0))
    }

    /// Returns the time to wait after sending `seconds` of film now.
    pub fn wait_after(&self, seconds: f64) -> Duration {
        if self.pace.factor <= 0.0 {
            return Duration::ZERO;
        }
        let waits = self.buckets.iter();
        let waits = waits.map(|bucket| (seconds - bucket.level) / bucket.fill);
        Duration::from_secs_f64(waits.fold(0.0, f64::max).min(3600.0))
    }

    /// Returns the viewer's lead in seconds of film, as far as the bucket knows.
    pub fn ahead(&self) -> f64 {
        (self.pace.ahead - self.buckets[1].level).max(0.0)
    }

    fn begins(&self, now: Monotonic) -> bool {
        now.since(self.began) < self.pace.beginning()
    }

    /// Returns the flow's state relative to its pace.
    pub fn standing(&mut self, now: Monotonic) -> Standing {
        let wait = self.wait(now);
        let ahead = self.ahead();
        let begins = self.begins(now);
        Standing {
            wait,
            ahead,
            begins,
            is_behind: !begins && ahead < self.pace.ahead - NEARLY,
        }
    }

    /// Records `seconds` of film sent from unbooked capacity.
    pub fn caught_up(&mut self, seconds: f64) {
        self.buckets[1].level -= seconds;
    }

    /// Records `seconds` of film sent. The level may become negative: the next piece then waits.
    pub fn sent(&mut self, seconds: f64) {
        for bucket in &mut self.buckets {
            bucket.level -= seconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        first: 10.0,
        factor: 2.0,
        ahead: 10.0,
        then: 2.0,
    };

    fn at(seconds: f64) -> Monotonic {
        Monotonic::from_nanos((seconds * 1e9) as u64)
    }

    fn standing(ahead: f64, begins: bool) -> Standing {
        Standing {
            wait: Duration::ZERO,
            ahead,
            begins,
            is_behind: !begins,
        }
    }

    #[test]
    fn who_rests_where_what_is_sent_was_booked_gets_the_films_rate_afterwards() {
        let mut pacer = Pacer::new(Pace::booked(&Eager::default()), at(0.0));
        let mut now = 0.0;
        let mut sent_until = |until: f64, now: &mut f64| {
            let mut sent = 0.0;
            while *now < until {
                *now += pacer.wait(at(*now)).as_secs_f64();
                pacer.sent(0.1);
                sent += 0.1;
            }
            sent
        };
        sent_until(30.0, &mut now);
        now += 60.0;
        let sent = sent_until(now + 10.0, &mut now);
        // The contents of the first bucket, and ten seconds.
        assert!((10.0..=13.5).contains(&sent), "{sent} s in 10 s");
    }

    #[test]
    fn ten_seconds_go_freely_and_then_two_a_second() {
        let mut pacer = Pacer::new(PACE, at(0.0));
        let (mut now, mut sent) = (0.0, 0.0);
        while now < 30.0 {
            now += pacer.wait(at(now)).as_secs_f64();
            pacer.sent(0.5);
            sent += 0.5;
        }
        assert!(
            (69.0..=71.0).contains(&sent),
            "{sent} s of film in 30 s: 10 + 2 × 30"
        );
    }

    #[test]
    fn a_connection_is_as_fast_as_what_is_booked_for_it() {
        let booked = Pace::booked(&Eager::default());
        let speeds = [0.0, 5.0, 20.0].map(|ahead| booked.speed(&standing(ahead, true)));
        assert_eq!(speeds, [4.0, 2.125, 1.0625]);
        let speeds = [0.0, 5.0, 20.0].map(|ahead| booked.speed(&standing(ahead, false)));
        assert_eq!(speeds, [1.0625; 3], "who is behind later");
        let speeds = [0.0, 20.0].map(|ahead| PACE.speed(&standing(ahead, false)));
        assert_eq!(speeds, [4.0, 4.0]);
    }

    #[test]
    fn a_connection_is_held_to_the_pace_and_what_goes_beyond_it_but_never_below_a_least_speed() {
        let speed = |seconds_per_byte, beyond| {
            PACE.connection_speed(&standing(0.0, true), seconds_per_byte, beyond)
        };
        assert_eq!(speed(1e-6, Beyond::Nothing), Some(4_000_000));
        assert_eq!(speed(1e-6, Beyond::Share(500)), Some(4_000_500));
        assert_eq!(speed(1e-6, Beyond::Everything), None);
        assert_eq!(speed(1.0, Beyond::Nothing), Some(LEAST_SPEED));
        assert_eq!(speed(0.0, Beyond::Nothing), None, "no bytes have no speed");
    }

    #[test]
    fn what_is_booked_is_what_goes_at_most() {
        let eager = Eager::default();
        let mut pacer = Pacer::new(Pace::booked(&eager), at(0.0));
        let (mut now, mut sent) = (0.0, 0.0);
        while now < 100.0 {
            now += pacer.wait(at(now)).as_secs_f64();
            let most = eager.sent_by((now * 1e9) as i64) as f64 / 1e9;
            // A piece starts when the level is not negative, and its end is booked by then or soon
            // after.
            assert!(
                sent <= most + 1e-3,
                "{sent} s of film in {now} s, and {most} s booked"
            );
            pacer.sent(0.5);
            sent += 0.5;
        }
        assert!((119.0..=121.0).contains(&sent), "{sent} s of film in 100 s");
    }

    #[test]
    fn one_who_jumps_about_all_the_time_gets_no_more_than_one_who_plays() {
        let pace = Pace::booked(&Eager::default());
        let mut pacer = Pacer::new(pace, at(0.0));
        let (mut now, mut sent) = (0.0, 0.0);
        while now < 600.0 {
            pacer.refill(0.0, at(now));
            now += pacer.wait(at(now)).as_secs_f64().max(0.01);
            pacer.sent(4.0);
            sent += 4.0;
        }
        let most = 600.0 + (SEEKS + 600.0 / BETWEEN_SEEKS) * 20.0;
        assert!(sent <= most + 24.0, "{sent} s of film, at most {most}");
    }

    #[test]
    fn a_rest_fills_the_bucket_to_its_brim_only() {
        let mut pacer = Pacer::new(PACE, at(0.0));
        pacer.sent(10.0);
        assert_eq!(pacer.wait(at(1000.0)), Duration::ZERO);
        assert_eq!(pacer.wait_after(10.0), Duration::ZERO);
        assert_eq!(pacer.wait_after(10.0 + 4.0), Duration::from_secs(2));
        pacer.sent(10.0 + 4.0);
        assert_eq!(pacer.wait(at(1000.0)), Duration::from_secs(2));
    }

    #[test]
    fn no_factor_is_no_limit() {
        let mut pacer = Pacer::new(Pace::free(1.0, 0.0), at(0.0));
        pacer.sent(1e9);
        assert_eq!(pacer.wait(at(0.0)), Duration::ZERO);
    }

    #[test]
    fn a_files_tables_go_freely_beside_the_film() {
        let mut pacer = Pacer::new(PACE, at(0.0));
        pacer.refill(7.0, at(0.0));
        pacer.sent(17.0);
        assert_eq!(pacer.wait(at(0.0)), Duration::ZERO);
        pacer.sent(1.0);
        assert_eq!(pacer.wait(at(0.0)), Duration::from_millis(500));
    }
}
