//! How fast media leave: freely until some seconds of film are ahead of the viewer, then at a
//! multiple of the film's rate.
//!
//! A bucket of film seconds: it is full when a viewer starts or seeks, each byte sent takes out the
//! time it plays, and it fills at twice real time. It counts seconds and not bytes, so a dense scene
//! is as far ahead as a quiet one. The rule is kept here, in the body, not by the socket: a viewer
//! fetches over several connections, a connection fetches sound and picture in turn, and only the
//! segments know how long they play. The socket's own limit (`SO_MAX_PACING_RATE`, see `body.rs`) only
//! spreads each window over its time.

use std::time::Duration;

use reelway_clock::Monotonic;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Seconds of film that go out freely.
    pub ahead: f64,
    /// Seconds of film a second after that; 0: no limit.
    pub factor: f64,
}

/// One flow of media that is held to a [`Pace`]: a track of a viewer, or a range of a file.
#[derive(Debug)]
pub(crate) struct Pacer {
    pace: Pace,
    level: f64,
    at: Monotonic,
}

impl Pacer {
    /// A full bucket.
    pub(crate) fn new(pace: Pace, now: Monotonic) -> Pacer {
        Pacer {
            pace,
            level: pace.ahead,
            at: now,
        }
    }

    /// The viewer begins somewhere else, or the way there is not film (`extra` seconds' worth of
    /// bytes, such as a file's tables): full again.
    pub(crate) fn refill(&mut self, extra: f64, now: Monotonic) {
        self.level = self.pace.ahead + extra;
        self.at = now;
    }

    /// How long to wait before more is sent.
    pub(crate) fn wait(&mut self, now: Monotonic) -> Duration {
        if self.pace.factor <= 0.0 {
            return Duration::ZERO;
        }
        let gained = now.since(self.at).as_secs_f64() * self.pace.factor;
        self.at = now;
        // What a refill gave beyond the brim stays until it is used.
        self.level = self.level.max((self.level + gained).min(self.pace.ahead));
        if self.level >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64((-self.level / self.pace.factor).min(3600.0))
    }

    /// Seconds of film that the viewer has got ahead, as far as the bucket knows.
    pub(crate) fn ahead(&self) -> f64 {
        (self.pace.ahead - self.level).max(0.0)
    }

    /// Film of `seconds` has been sent. May overdraw: the debt is waited for before the next piece.
    pub(crate) fn sent(&mut self, seconds: f64) {
        self.level -= seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        ahead: 10.0,
        factor: 2.0,
    };

    fn at(seconds: f64) -> Monotonic {
        Monotonic::from_nanos((seconds * 1e9) as u64)
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
    fn a_rest_fills_the_bucket_to_its_brim_only() {
        let mut pacer = Pacer::new(PACE, at(0.0));
        pacer.sent(10.0);
        assert_eq!(pacer.wait(at(1000.0)), Duration::ZERO);
        pacer.sent(10.0 + 4.0);
        assert_eq!(pacer.wait(at(1000.0)), Duration::from_secs(2));
    }

    #[test]
    fn no_factor_is_no_limit() {
        let mut pacer = Pacer::new(
            Pace {
                ahead: 1.0,
                factor: 0.0,
            },
            at(0.0),
        );
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
