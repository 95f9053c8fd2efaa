//! Statistics of viewers: how often a film is begun, where seeks land in it, and where viewers leave.
//!
//! Everything is counted with weights that decay, so that last week's hit does not count as this
//! week's. Until a film has been watched often enough, the statistics of all films stand in for its
//! own.

/// Parts into which a film is divided for counting.
pub(super) const PARTS: usize = 32;

/// Counts are divided by e in this many seconds: two days, over which interest in films changes.
pub(super) const MEMORY: f64 = 2.0 * 86_400.0;

/// A film's own viewers count as much as those of all films, part by part, at this weight.
const LEAN: f32 = 20.0;

/// Expected starts at which a film counts half by its own starts, half as the average film.
const LEAN_STARTS: f64 = 0.7;

/// Counts of one film, or of all.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    /// Viewers who began at the film's start.
    pub begun: f64,
    /// Viewers who began in the middle, by seeking or otherwise.
    pub landed: f64,
    /// How many of those landed in each part.
    landed_in: [f32; PARTS],
    /// Viewers who entered each part.
    been: [f32; PARTS],
    /// Viewers who left in each part, by seeking or for good.
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

    /// A viewer begins at the film's start (`part` is `None`) or lands in a part.
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

    /// Seconds of watching that the counts represent at `now`.
    fn window(&self, now: f64) -> f64 {
        MEMORY * (1.0 - (-(now - self.since) / MEMORY).exp())
    }

    /// The factor by which counts decay until `now`.
    fn fade(&self, now: f64) -> f64 {
        (-(now - self.decayed) / MEMORY).exp()
    }

    /// Starts of this film per second; `all` are the habits of viewers of `films` films.
    pub fn starts(&self, all: &Habits, films: usize, now: f64) -> f64 {
        rate(
            self.begun * self.fade(now),
            self.window(now),
            all.begun * all.fade(now),
            all.window(now),
            films,
        )
    }

    /// Landings per second in this film's middle.
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

    /// A part's share of all landings.
    pub fn landing_share(&self, part: usize) -> f64 {
        f64::from(self.landed_in[part] + 1.0) / (self.landed + PARTS as f64)
    }

    /// How long viewers of this film stay; `all` are the habits of all viewers.
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

/// Events per second, from the weight of those seen in a window, combined with the average of all
/// films.
fn rate(seen: f64, window: f64, all_seen: f64, all_window: f64, films: usize) -> f64 {
    // The average film, with one event more than was seen.
    let average = (all_seen + 1.0) / (all_window.max(60.0) * films.max(1) as f64);
    (seen + LEAN_STARTS) / (window + LEAN_STARTS / average)
}

/// How many viewers get from one place to a later one: minus the logarithm of the share that has
/// stayed, at the borders of the parts.
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

    /// The share of viewers at `from` who reach `to` (places from 0 to 1).
    pub fn share(&self, from: f64, to: f64) -> f64 {
        (self.at(from) - self.at(to)).min(0.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-3 * right.abs()
    }

    /// `count` starts at the same moment.
    fn begun(count: usize, since: f64, now: f64) -> Habits {
        let mut habits = Habits::new(since);
        (0..count).for_each(|_| habits.came(None, now));
        habits
    }

    #[test]
    fn a_film_that_nobody_knows_is_begun_as_often_as_the_average_one() {
        // At first, one start per minute of all films together is assumed.
        let all = Habits::new(0.0);
        assert!(near(Habits::new(0.0).starts(&all, 1, 0.0), 1.0 / 60.0));
        assert!(near(Habits::new(0.0).starts(&all, 50, 0.0), 1.0 / 3000.0));
        // 99 starts in 100 s, and the assumed one: one per second.
        let all = begun(99, 0.0, 100.0);
        assert!(near(Habits::new(100.0).starts(&all, 20, 100.0), 0.05));
    }

    #[test]
    fn a_film_that_should_have_been_begun_seven_tenths_of_a_time_is_believed_half() {
        // Ten films with 7 starts in 100 s, including the assumed one; this film has 3.
        let all = begun(6, 0.0, 100.0);
        let own = begun(3, 0.0, 100.0);
        let (seen, average) = (3.0 / 100.0, 7.0 / 1000.0);
        assert!(near(own.starts(&all, 10, 100.0), (seen + average) / 2.0));
    }

    #[test]
    fn counts_fade_to_a_third_and_more_within_two_days() {
        let mut habits = begun(1000, 0.0, 0.0);
        habits.came(Some(5), 0.0);
        habits.came(None, 2.0 * 86_400.0);
        // 1000/e, and the one of now.
        assert!(near(habits.begun, 368.88), "{}", habits.begun);
        assert!(near(habits.landed, 0.36788), "{}", habits.landed);
        // Counts that are only read decay, too.
        let all = begun(1_000_000, 0.0, 0.0);
        let own = begun(1_000_000, 0.0, 0.0);
        let (soon, later) = (
            own.starts(&all, 1, 86_400.0),
            own.starts(&all, 1, 3.0 * 86_400.0),
        );
        // e^-0.5 in 1 - e^-0.5 of two days, then e^-1.5 in 1 - e^-1.5.
        assert!(near(soon, 1e6 * 0.60653 / (172_800.0 * 0.39347)), "{soon}");
        assert!(
            near(later, 1e6 * 0.22313 / (172_800.0 * 0.77687)),
            "{later}"
        );
    }

    #[test]
    fn steady_starts_are_believed_in_the_long_run() {
        let mut habits = Habits::new(0.0);
        for nth in 1..10_000 {
            habits.came(None, f64::from(nth) * 200.0);
        }
        let rate = habits.starts(&habits, 1, 2_000_000.0);
        assert!((rate - 0.005).abs() < 5e-5, "{rate}");
    }

    #[test]
    fn landings_are_expected_as_often_as_they_come_and_where() {
        let mut all = Habits::new(0.0);
        assert_eq!(all.landings(&all, 1, 0.0), 0.0, "nobody seeks");
        (0..PARTS).for_each(|part| assert!(near(all.landing_share(part), 1.0 / 32.0)));
        (0..6).for_each(|_| all.came(Some(3), 100.0));
        let own = {
            let mut own = Habits::new(0.0);
            (0..3).for_each(|_| own.came(Some(3), 100.0));
            own
        };
        assert!(near(own.landings(&all, 10, 100.0), (0.03 + 0.007) / 2.0));
        // Each part counts as having had one more.
        assert!(near(all.landing_share(3), 7.0 / 38.0));
        assert!(near(all.landing_share(4), 1.0 / 38.0));
        assert_eq!((all.begun, all.landed), (0.0, 6.0));
    }

    #[test]
    fn where_nothing_is_known_a_fiftieth_leaves_in_each_part() {
        let staying = Habits::new(0.0).staying(&Habits::new(0.0));
        assert!(near(staying.share(0.0, 1.0), 0.98_f64.powi(32)));
        assert!(near(staying.share(0.0, 1.0 / 32.0), 0.98));
        assert!(near(staying.share(0.5, 0.5 + 1.0 / 32.0), 0.98));
        // Within a part they leave evenly, and places behind count as reached.
        assert!(near(staying.share(0.0, 1.0 / 64.0), 0.98_f64.sqrt()));
        assert_eq!(staying.share(0.7, 0.7), 1.0);
        assert_eq!(staying.share(0.9, 0.2), 1.0);
        assert!(near(staying.share(-1.0, 2.0), 0.98_f64.powi(32)));
    }

    #[test]
    fn a_film_s_own_viewers_are_believed_as_they_become_many() {
        // Half of the viewers of all films leave in part 2.
        let mut all = Habits::new(0.0);
        (0..1000).for_each(|_| all.entered(2));
        (0..500).for_each(|_| all.left(2));
        let part = |staying: Staying| staying.share(2.0 / 32.0, 3.0 / 32.0);
        assert!(near(part(Habits::new(0.0).staying(&all)), 0.5005));
        // None of twenty viewers of this film: they count as much as all the others.
        let mut own = Habits::new(0.0);
        (0..20).for_each(|_| own.entered(2));
        assert!(near(part(own.staying(&all)), 0.75025));
        // If all leave, a twentieth is assumed to stay.
        let mut own = Habits::new(0.0);
        (0..1000).for_each(|_| own.entered(2));
        (0..1000).for_each(|_| own.left(2));
        assert!(near(part(own.staying(&all)), 0.05));
    }

    #[test]
    fn a_viewer_is_counted_in_the_part_where_they_begin() {
        let mut habits = Habits::new(0.0);
        habits.came(None, 0.0);
        habits.came(Some(7), 0.0);
        habits.left(0);
        habits.left(7);
        // One of one left in either part: one of two, as one more is assumed to have been there.
        let staying = Habits::new(0.0).staying(&habits);
        for part in [0.0, 7.0] {
            assert!(near(staying.share(part / 32.0, (part + 1.0) / 32.0), 0.49));
        }
        assert!(near(staying.share(8.0 / 32.0, 9.0 / 32.0), 0.98));
    }
}
