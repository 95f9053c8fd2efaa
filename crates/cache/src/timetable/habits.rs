//! Statistics of viewers: how often a film is begun, where seeks land in it, and where viewers leave.
//!
//! Everything is counted with weights that decay, so that last week's hit is not this week's. Until a film has been watched often enough, the statistics of all films stand in for its own.

/// Parts a film is divided into for counting.
pub(super) const PARTS: usize = 32;

/// Counts are divided by e after this many seconds: two days, over which interest in films changes.
pub(super) const MEMORY: f64 = 2.0 * 86_400.0;

/// Viewers of all films whose weight a film's own viewers must match, part by part, to be believed as much.
const LEAN: f32 = 20.0;

/// A film as often begun as this is believed half to be as popular as it looks, half as the average film.
const LEAN_STARTS: f64 = 0.7;

/// Counts of one film, or of all.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    /// Viewers who began at the film's start.
    pub begun: f64,
    /// Viewers who came in the middle, by seeking or otherwise.
    pub landed: f64,
    /// Of those, how many in each part.
    landed_in: [f32; PARTS],
    /// Viewers who entered each part.
    been: [f32; PARTS],
    /// Viewers who left in each part, seeking or for good.
    left: [f32; PARTS],
    since: f64,
    decayed: f64,
}

impl Habits {
    pub fn new(now: f64) -> Habits {
        Habits {
            begun: 0.0,
            landed: 0.0,
            landed_in: [0.0; PARTS],
            been: [0.0; PARTS],
            left: [0.0; PARTS],
            since: now,
            decayed: now,
        }
    }

    /// Someone begins at the film's start (`part` `None`) or lands in a part.
    pub fn came(&mut self, part: Option<usize>, now: f64) {
        self.decay(now);
        match part {
            None => self.begun += 1.0,
            Some(part) => {
                self.landed += 1.0;
                self.landed_in[part] += 1.0;
            }
        }
        self.been[part.unwrap_or(0)] += 1.0;
    }

    pub fn entered(&mut self, part: usize) {
        self.been[part] += 1.0;
    }

    pub fn left(&mut self, part: usize) {
        self.left[part] += 1.0;
    }

    fn decay(&mut self, now: f64) {
        // Not for every viewer: a thousandth makes no difference.
        if now - self.decayed < MEMORY / 1000.0 {
            return;
        }
        let factor = (-(now - self.decayed) / MEMORY).exp();
        self.decayed = now;
        self.begun *= factor;
        self.landed *= factor;
        for counts in [&mut self.landed_in, &mut self.been, &mut self.left] {
            counts.iter_mut().for_each(|count| *count *= factor as f32);
        }
    }

    /// Seconds of watching that the counts of `now` stand for.
    fn window(&self, now: f64) -> f64 {
        MEMORY * (1.0 - (-(now - self.since) / MEMORY).exp())
    }

    /// Factor that brings counts to `now`.
    fn fade(&self, now: f64) -> f64 {
        (-(now - self.decayed) / MEMORY).exp()
    }

    /// Starts a second of this film, where `all` are the habits of viewers of `films` films.
    pub fn starts(&self, all: &Habits, films: usize, now: f64) -> f64 {
        rate(
            self.begun * self.fade(now),
            self.window(now),
            all.begun * all.fade(now),
            all.window(now),
            films,
        )
    }

    /// Landings a second in this film's middle.
    pub fn landings(&self, all: &Habits, films: usize, now: f64) -> f64 {
        if all.landed == 0.0 {
            return 0.0;
        }
        rate(
            self.landed * self.fade(now),
            self.window(now),
            all.landed * all.fade(now),
            all.window(now),
            films,
        )
    }

    /// The share of all landings that a part gets.
    pub fn landing_share(&self, part: usize) -> f64 {
        f64::from(self.landed_in[part] + 1.0) / (self.landed + PARTS as f64)
    }

    /// How viewers of this film last, where `all` are the habits of all.
    pub fn staying(&self, all: &Habits) -> Staying {
        let mut sum = 0.0;
        let mut hazard = [0.0; PARTS + 1];
        for part in 0..PARTS {
            let common = (all.left[part] + 0.02) / (all.been[part] + 1.0);
            let own = (self.left[part] + LEAN * common) / (self.been[part] + LEAN);
            sum -= (1.0 - own.clamp(0.0, 0.95)).ln();
            hazard[part + 1] = sum;
        }
        Staying { hazard }
    }
}

/// Events a second, from the weight of those seen in a window; leaning on the average of all films.
fn rate(seen: f64, window: f64, all_seen: f64, all_window: f64, films: usize) -> f64 {
    // The average film, one start being assumed where none was seen.
    let average = (all_seen + 1.0) / (all_window.max(60.0) * films.max(1) as f64);
    (seen + LEAN_STARTS) / (window + LEAN_STARTS / average)
}

/// Who comes through from one place to a later one: minus the logarithm of the share that has stayed, at
/// the parts' borders.
#[derive(Clone, Debug)]
pub(super) struct Staying {
    hazard: [f32; PARTS + 1],
}

impl Staying {
    fn at(&self, place: f64) -> f64 {
        let place = (place * PARTS as f64).clamp(0.0, PARTS as f64);
        let part = (place as usize).min(PARTS - 1);
        let (from, to) = (
            f64::from(self.hazard[part]),
            f64::from(self.hazard[part + 1]),
        );
        from + (to - from) * (place - part as f64)
    }

    /// The share of those at `from` who come to `to` (places: 0 to 1).
    pub fn share(&self, from: f64, to: f64) -> f64 {
        (self.at(from) - self.at(to)).min(0.0).exp()
    }
}
