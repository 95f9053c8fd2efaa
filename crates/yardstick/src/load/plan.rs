//! The plan of each viewer, derived from the seed alone.

use std::str::FromStr;
use std::time::Duration;

use reelway_determinism::Random;

use super::arrivals::{Arrivals, PlannedVisit, length};

/// How viewers choose films.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// All films with equal probability (`even`).
    Even,
    /// The n-th film with a weight of 1/n^a (`zipf:0.8`).
    Zipf(f64),
    /// By these weights, one for each film (`weights:5,3,1`).
    Weights(Vec<f64>),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let usage = || format!("{text:?}: even, zipf:EXPONENT (zipf:0.8) or weights:5,3,1");
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "even" if rest.is_empty() => Ok(Choice::Even),
            "zipf" => match rest.parse::<f64>() {
                Ok(a) if (0.0..=10.0).contains(&a) => Ok(Choice::Zipf(a)),
                _ => Err(usage()),
            },
            "weights" => {
                let weights = rest.split(',').map(|weight| weight.trim().parse::<f64>());
                let weights: Vec<f64> = weights.collect::<Result<_, _>>().map_err(|_| usage())?;
                let right = weights.iter().all(|weight| (0.0..=1e9).contains(weight));
                if !right || weights.iter().sum::<f64>() <= 0.0 {
                    return Err(usage());
                }
                Ok(Choice::Weights(weights))
            }
            _ => Err(usage()),
        }
    }
}

impl Choice {
    /// Returns the weights of this many films.
    fn weights(&self, films: usize) -> Vec<f64> {
        match self {
            Choice::Even => vec![1.0; films],
            Choice::Zipf(a) => (1..=films).map(|rank| (rank as f64).powf(-a)).collect(),
            Choice::Weights(weights) => weights.clone(),
        }
    }
}

/// How long a viewer watches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Watch {
    /// To the film's end (`film`).
    Film,
    /// For this time (`10min`), or to the film's end.
    For(Duration),
    /// Exponentially distributed with this mean (`exp:10min`).
    Exponential(Duration),
    /// Uniformly distributed between these times (`1min-20min`).
    Between(Duration, Duration),
}

impl FromStr for Watch {
    type Err = String;

    fn from_str(text: &str) -> Result<Watch, String> {
        let usage = || format!("{text:?}: film, 90s, 1min-20min or exp:10min");
        let time = |text| {
            length(text)
                .filter(|time| !time.is_zero())
                .ok_or_else(usage)
        };
        if text == "film" {
            return Ok(Watch::Film);
        }
        if let Some(mean) = text.strip_prefix("exp:") {
            return Ok(Watch::Exponential(time(mean)?));
        }
        match text.split_once('-') {
            None => Ok(Watch::For(time(text)?)),
            Some((low, high)) => {
                let (low, high) = (time(low)?, time(high)?);
                if low > high {
                    return Err(usage());
                }
                Ok(Watch::Between(low, high))
            }
        }
    }
}

impl Watch {
    fn draw(self, random: &mut Random) -> Option<Duration> {
        match self {
            Watch::Film => None,
            Watch::For(time) => Some(time),
            Watch::Exponential(mean) => {
                let seconds = random.exponential(mean.as_secs_f64());
                Some(Duration::from_secs_f64(seconds.max(0.1)))
            }
            Watch::Between(low, high) => Some(Duration::from_secs_f64(
                random.between(low.as_secs_f64(), high.as_secs_f64()),
            )),
        }
    }
}

/// Shares of viewers with certain habits, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Habits {
    /// Viewers who pause once.
    pub pause: f64,
    /// Viewers who seek once.
    pub seek: f64,
    /// Viewers who play fast for a while.
    pub fast: f64,
}

/// An action of a viewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    /// Pauses for this time.
    Pause(Duration),
    /// Seeks to this fraction of the film's length.
    Seek(f64),
    /// Plays fast for this time.
    Fast(Duration),
}

impl Deed {
    /// Returns the action with its duration scaled.
    pub(super) fn scaled(self, scale: f64) -> Deed {
        match self {
            Deed::Pause(long) => Deed::Pause(long.mul_f64(scale)),
            Deed::Seek(share) => Deed::Seek(share),
            Deed::Fast(long) => Deed::Fast(long.mul_f64(scale)),
        }
    }
}

/// A visit: one film that a viewer watches, from its beginning until they leave.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Number of the visit, counted from 0.
    pub number: usize,
    /// Number of the viewer, counted from 0.
    pub viewer: usize,
    /// Time of arrival.
    pub at: Duration,
    /// Number of the film, counted from 0.
    pub film: usize,
    /// How long the viewer watches; `None`: to the end.
    pub watch: Option<Duration>,
    /// Actions and their times, from the film's first packet.
    pub deeds: Vec<(Duration, Deed)>,
}

/// A population of viewers and their behaviour.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The arrival process.
    pub arrivals: Arrivals,
    /// Maximum number of viewers.
    pub viewers: Option<usize>,
    /// How they choose films.
    pub choice: Choice,
    /// How long they watch.
    pub watch: Watch,
    /// What they do while watching.
    pub habits: Habits,
    /// Seed of all random choices.
    pub seed: u64,
}

/// If no watching time is given, a viewer's actions take place within this time.
pub(super) const USUAL: Duration = Duration::from_secs(60);
/// Maximum number of viewers in a run.
const MOST: usize = 1_000_000;

impl Plan {
    /// Returns the visits in order of time, for this many films.
    ///
    /// # Errors
    /// A description of why the plan does not fit the number of films.
    pub fn visits(
        &self,
        films: usize,
    ) -> Result<impl Iterator<Item = Visit> + Send + use<>, String> {
        let weights = self.choice.weights(films);
        if weights.len() != films {
            return Err(format!("{} weights for {films} films", weights.len()));
        }
        if let Arrivals::Trace(wishes) = &self.arrivals
            && let Some(film) = wishes.iter().filter_map(|wish| wish.film).max()
            && film >= films
        {
            return Err(format!(
                "the trace wants film {}, and there are {films}: name as many URLs",
                film + 1
            ));
        }
        let wishes = self.arrivals.wishes(self.seed);
        let wishes = wishes.take(self.viewers.unwrap_or(MOST).min(MOST));
        let draw = self.draw(&weights);
        Ok(wishes
            .enumerate()
            .map(move |(number, wish)| draw(number, number, &wish)))
    }

    /// Returns a function that draws repeated visits: by number of the visit, viewer and time.
    pub(super) fn further(
        &self,
        films: usize,
    ) -> impl Fn(usize, usize, Duration) -> Visit + Send + use<> {
        let draw = self.draw(&self.choice.weights(films));
        move |number, viewer, at| {
            let wish = PlannedVisit {
                at,
                film: None,
                watch: None,
            };
            draw(number, viewer, &wish)
        }
    }

    /// Returns a function that draws visits of films with these weights, each from its number
    /// alone.
    fn draw(
        &self,
        weights: &[f64],
    ) -> impl Fn(usize, usize, &PlannedVisit) -> Visit + Send + use<> {
        let (seed, watch, habits) = (self.seed, self.watch, self.habits);
        let weights = weights.to_vec();
        move |number, viewer, wish| {
            // Always drawn in this order, so that one habit does not change the draws of another.
            let mut random = Random::nth(seed, number as u64 + 1);
            let film = random.pick(&weights);
            let drawn = watch.draw(&mut random);
            let watch = wish.watch.or(drawn);
            let span = watch.unwrap_or(USUAL).as_secs_f64();
            let mut deeds = Vec::new();
            for (share, kind) in [(habits.pause, 0), (habits.seek, 1), (habits.fast, 2)] {
                let (does, when) = (random.unit() < share, random.between(0.05, 0.7));
                let (long, to) = (random.between(0.05, 0.25), random.between(0.0, 0.9));
                let long = Duration::from_secs_f64(span * long);
                let deed = match kind {
                    0 => Deed::Pause(long),
                    1 => Deed::Seek(to),
                    _ => Deed::Fast(long),
                };
                if does {
                    deeds.push((Duration::from_secs_f64(span * when), deed));
                }
            }
            deeds.sort_by_key(|deed| deed.0);
            Visit {
                number,
                viewer,
                at: wish.at,
                film: wish.film.unwrap_or(film),
                watch,
                deeds,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            arrivals: Arrivals::Poisson(1.0),
            viewers: Some(20_000),
            choice: Choice::Zipf(1.0),
            watch: Watch::Between(Duration::from_secs(10), Duration::from_secs(20)),
            habits: Habits {
                pause: 0.1,
                seek: 0.5,
                fast: 0.0,
            },
            seed: 3,
        }
    }

    #[test]
    fn films_and_habits_have_their_shares() {
        let visits: Vec<Visit> = plan().visits(4).unwrap().collect();
        let share = |is: &dyn Fn(&Visit) -> bool| {
            visits.iter().filter(|visit| is(visit)).count() as f64 / visits.len() as f64
        };
        // 1 : 1/2 : 1/3 : 1/4, of 25/12.
        assert!((share(&|visit| visit.film == 0) - 0.48).abs() < 0.02);
        assert!((share(&|visit| visit.film == 3) - 0.12).abs() < 0.02);
        let does =
            |visit: &Visit, is: fn(&Deed) -> bool| visit.deeds.iter().any(|deed| is(&deed.1));
        assert!(
            (share(&|visit| does(visit, |deed| matches!(deed, Deed::Pause(_)))) - 0.1).abs() < 0.02
        );
        assert!(
            (share(&|visit| does(visit, |deed| matches!(deed, Deed::Seek(_)))) - 0.5).abs() < 0.02
        );
        assert!(share(&|visit| does(visit, |deed| matches!(deed, Deed::Fast(_)))) == 0.0);
        let watched = visits
            .iter()
            .all(|visit| (10..=20).contains(&visit.watch.unwrap().as_secs()));
        assert!(watched);
    }

    #[test]
    fn a_seed_is_a_run_and_more_habits_change_nobody_elses_film() {
        let first: Vec<Visit> = plan().visits(4).unwrap().take(500).collect();
        assert_eq!(
            first,
            plan().visits(4).unwrap().take(500).collect::<Vec<_>>()
        );
        let mut other = plan();
        other.habits.fast = 1.0;
        let films = |visits: &[Visit]| visits.iter().map(|visit| visit.film).collect::<Vec<_>>();
        let others: Vec<Visit> = other.visits(4).unwrap().take(500).collect();
        assert_eq!(films(&first), films(&others));
        other.seed = 4;
        let others: Vec<Visit> = other.visits(4).unwrap().take(500).collect();
        assert_ne!(films(&first), films(&others));
    }

    #[test]
    fn nonsense_is_told() {
        for text in [
            "",
            "zipf",
            "zipf:-1",
            "weights:",
            "weights:0,0",
            "weights:1,x",
            "even:1",
        ] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
        for text in ["", "0s", "20s-10s", "exp:", "a-b"] {
            assert!(text.parse::<Watch>().is_err(), "{text}");
        }
        let mut plan = plan();
        plan.choice = Choice::Weights(vec![1.0]);
        assert!(plan.visits(2).is_err());
    }
}
