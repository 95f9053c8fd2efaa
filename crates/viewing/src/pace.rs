//! How fast media leave: freely until some seconds of film are ahead of the viewer, then at a
//! multiple of the film's rate.
//!
//! Where a network is limited, what is sent is what was booked: a few seconds at four times the film's rate, the rest at twice
//! the rate until it could be as far ahead, and then at the film's rate. A viewer who has fetched less by then, or rests
//! later, gets no more than that: the room is others' by now. What nobody has booked lets them catch up ([`crate::Spares`]).
//!
//! The rule counts seconds of film, not bytes, so that a dense scene is as far ahead as a quiet one. Its token buckets are
//! full when a viewer starts or seeks, each byte sent takes out the time it plays, and they fill at twice real time, say.
//! The rule belongs to a viewer's flow and not to a socket: a viewer fetches over several connections, a connection fetches
//! sound and picture in turn, and only the segments know how long they play. A socket's own limit (`SO_MAX_PACING_RATE`)
//! only spreads each window over its time: [`Pace::connection_speed`].

use std::time::Duration;

use reelway_demand::Eager;
use reelway_media::{Nanos, SECOND};
use reelway_time::Monotonic;

/// Seeks that find their buckets full at once, where what is sent was booked, and seconds after which there may be one more.
/// Viewers seek now and then. Two viewers who share one name seem to seek all the time, and together get no more than one.
const SEEKS: f64 = 6.0;
const BETWEEN_SEEKS: f64 = 30.0;

/// Viewers who have enough ahead get a piece now and then. The kernel spreads it over the time to the next, up to this many
/// times as fast as they get them on average: bulk makes no bursts, and the next piece does not wait for this one's end.
const HEADROOM: f64 = 2.0;

/// The same where what is sent was booked: headers, and what is lost between two pieces.
const AS_BOOKED: f64 = 17.0 / 16.0;

/// Bytes a second that a connection is never held below.
const LEAST_SPEED: u64 = 256 << 10;

/// So close to the most that may be ahead, seconds, the film goes at its own rate.
const NEARLY: f64 = 1.0;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Seconds of film that go out freely at once; where what is sent was booked, at twice `factor`.
    pub first: f64,
    /// Seconds of film a second after that, until `ahead`; 0: no limit.
    pub factor: f64,
    /// Seconds of film that are ahead at most where `then` is 1.
    pub ahead: f64,
    /// Seconds of film a second after that.
    pub then: f64,
}

impl Pace {
    /// As many seconds freely, and then so many a second.
    pub fn free(ahead: f64, factor: f64) -> Pace {
        Pace {
            first: ahead,
            factor,
            ahead,
            then: factor,
        }
    }

    /// As is booked for a viewer.
    pub fn booked(eager: &Eager) -> Pace {
        let seconds = |nanos: Nanos| nanos as f64 / SECOND as f64;
        Pace {
            first: seconds(eager.first),
            factor: f64::from(eager.percent) / 100.0,
            ahead: seconds(eager.ahead),
            then: 1.0,
        }
    }

    /// Whether there are seconds that go as fast as the network does.
    pub fn is_free(&self) -> bool {
        self.first >= self.ahead
    }

    /// Seconds after which what was booked is as far ahead as it may be.
    fn beginning(&self) -> Duration {
        let seconds = (self.ahead - self.first) / (self.factor - self.then);
        match self.is_free() || !seconds.is_finite() || seconds < 0.0 {
            true => Duration::MAX,
            false => Duration::from_secs_f64(seconds.min(3600.0)),
        }
    }

    /// Bytes a second that a connection may send at most; `None`: as fast as the network goes. `standing` is its flow's, and a
    /// byte plays for so many seconds. `beyond` is what may go beyond the pace, see [`Beyond`].
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

    /// Film seconds a second at which a connection sends a piece at most, when so many seconds are ahead. Where what is sent was
    /// booked, it is little more than that, so that all connections together send little more than the network carries.
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

/// How a flow stands against its pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// How long to wait before more is sent.
    pub wait: Duration,
    /// Seconds of film that the viewer has got ahead, as far as the pace knows.
    pub ahead: f64,
    /// Whether more than the film's rate is booked for now, as the viewer has begun or sought a moment ago.
    pub begins: bool,
    /// Whether the viewer could have got more than they did, and what is booked now does not let them catch up.
    pub is_behind: bool,
}

/// What a viewer may be sent beyond the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Nothing.
    Nothing,
    /// So many bytes a second.
    Share(u64),
    /// All they take.
    Everything,
}

/// Film seconds that may go.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    brim: f64,
    /// Seconds a second.
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

    /// So many seconds pass; how long to wait for it not to be in debt.
    fn wait(&mut self, passed: f64) -> f64 {
        // What a refill gave beyond the brim stays until it is used.
        self.level = self
            .level
            .max((self.level + passed * self.fill).min(self.brim));
        (-self.level / self.fill).max(0.0)
    }
}

/// One flow of media that is held to a [`Pace`]: a track of a viewer, or a range of a file.
#[derive(Debug)]
pub struct Pacer {
    pace: Pace,
    /// Of the beginning, of all, and of what goes at a time.
    buckets: [Bucket; 3],
    at: Monotonic,
    /// When they were filled at once last.
    began: Monotonic,
    /// How often they may be filled at once, and when that was looked at last.
    seeks: Bucket,
    sought: Monotonic,
}

impl Pacer {
    /// Full buckets.
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

    /// The viewer begins somewhere else, or the way there is not film (`extra` seconds' worth of
    /// bytes, such as a file's tables): full again, unless that happens too often.
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

    /// How long to wait before more is sent.
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

    /// How long there would be to wait if so many seconds of film were sent now.
    pub fn wait_after(&self, seconds: f64) -> Duration {
        if self.pace.factor <= 0.0 {
            return Duration::ZERO;
        }
        let waits = self.buckets.iter();
        let waits = waits.map(|bucket| (seconds - bucket.level) / bucket.fill);
        Duration::from_secs_f64(waits.fold(0.0, f64::max).min(3600.0))
    }

    /// Seconds of film that the viewer has got ahead, as far as the bucket knows.
    pub fn ahead(&self) -> f64 {
        (self.pace.ahead - self.buckets[1].level).max(0.0)
    }

    fn begins(&self, now: Monotonic) -> bool {
        now.since(self.began) < self.pace.beginning()
    }

    /// How the flow stands.
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

    /// Film of `seconds` has been sent out of what nobody has booked.
    pub fn caught_up(&mut self, seconds: f64) {
        self.buckets[1].level -= seconds;
    }

    /// Film of `seconds` has been sent. May overdraw: the debt is waited for before the next piece.
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
        // What is in the first bucket, and ten seconds.
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
            // A piece begins when nothing is owed, and is booked to its end by then or soon after.
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
