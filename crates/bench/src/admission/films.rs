//! Generated films and arrivals, from a seed, on which admission is measured.

use std::sync::Arc;

use reelway_demand::{BIN, BINS, Curve, smooth};
use reelway_determinism::Random;

/// Kinds of films, by their bit rate over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilmKind {
    /// Every second is within a twentieth of the mean.
    Constant,
    /// Scenes of 3 to 20 s, each with its own rate: the fullest second has three to six times the
    /// mean.
    Scenes,
    /// The VODCA paper's films, GOP by GOP, with their largest, mean and smallest GOP.
    Vodca,
}

impl FilmKind {
    /// Returns its name in words.
    pub fn name(self) -> &'static str {
        match self {
            FilmKind::Constant => "near constant rate",
            FilmKind::Scenes => "scenes, peak 3–6 × mean",
            FilmKind::Vodca => "the VODCA paper's films",
        }
    }

    /// Returns its name in one word, for file names.
    pub fn slug(self) -> &'static str {
        match self {
            FilmKind::Constant => "constant",
            FilmKind::Scenes => "scenes",
            FilmKind::Vodca => "vodca",
        }
    }
}

/// A film: its network demand, unchanged and sent ahead.
#[derive(Clone, Debug)]
pub struct Film {
    /// Bytes on the wire over time.
    pub curve: Arc<Curve>,
    /// The same sent up to [`AHEAD`] seconds ahead.
    pub smoothed: Arc<Curve>,
}

/// Seconds of film that a player buffers.
pub const AHEAD: usize = 10;

/// Mean rate of all films, bytes per second on the wire: 1.5 Mbit/s.
const MEAN: f64 = 1_500_000.0 / 8.0;

/// Makes `count` films of 20 to 40 minutes each.
pub fn make(kind: FilmKind, count: usize, random: &mut Random) -> Vec<Film> {
    (0..count)
        .map(|_| {
            let seconds = random.between(1200.0, 2400.0) as usize;
            film(&levels(kind, seconds, random))
        })
        .collect()
}

/// Returns the rate of each quarter second of a film of `seconds`, relative to the mean.
pub fn levels(kind: FilmKind, seconds: usize, random: &mut Random) -> Vec<f64> {
    let mut weights = match kind {
        FilmKind::Constant => constant(seconds, random),
        FilmKind::Scenes => scenes(seconds, random),
        FilmKind::Vodca => vodca(seconds, random),
    };
    let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    weights.iter_mut().for_each(|weight| *weight /= mean);
    weights
}

/// Makes a film with these levels of quarter seconds.
fn film(levels: &[f64]) -> Film {
    let bins = levels
        .iter()
        .map(|level| (level * MEAN / BINS as f64) as u32);
    let curve = Curve::new(bins.collect());
    let (smoothed, _) = smooth(&curve, 0, AHEAD * BINS);
    Film {
        curve: Arc::new(curve),
        smoothed: Arc::new(smoothed),
    }
}

/// Draws from the standard normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    // The logarithm of 0 is infinite, and a random number is never 1.
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

fn constant(seconds: usize, random: &mut Random) -> Vec<f64> {
    (0..seconds * BINS)
        .map(|_| random.between(0.95, 1.05))
        .collect()
}

fn scenes(seconds: usize, random: &mut Random) -> Vec<f64> {
    let mut weights = Vec::with_capacity(seconds * BINS);
    while weights.len() < seconds * BINS {
        let length = random.between(3.0, 20.0) * BINS as f64;
        // Most scenes are calm; a few need many times as much.
        let level = (0.75 * normal(random)).exp().clamp(0.2, 6.0);
        let within = |random: &mut Random| level * random.between(0.85, 1.15);
        weights.extend((0..length as usize).map(|_| within(random)));
    }
    weights.truncate(seconds * BINS);
    weights
}

/// GOPs of 7.4 to 252.9 KB, 124.1 KB on average (film 1 of the paper), which at 1.5 Mbit/s all play
/// for the same time.
fn vodca(seconds: usize, random: &mut Random) -> Vec<f64> {
    const GOP: f64 = 124_100.0 / MEAN;
    let end = seconds as f64;
    let mut weights = vec![0.0; seconds * BINS];
    let mut at = 0.0;
    while at < end {
        let size: f64 = (124.1 + 42.0 * normal(random)).clamp(7.4, 252.9);
        let until = (at + GOP).min(end);
        // Distributed over the quarter seconds in which it plays.
        let bin = BIN as f64 / 1e9;
        let (first, last) = ((at / bin) as usize, (until / bin).ceil() as usize);
        for number in first..last.min(weights.len()) {
            let (from, to) = (number as f64 * bin, (number + 1) as f64 * bin);
            weights[number] += size * (to.min(until) - from.max(at)).max(0.0) / GOP;
        }
        at = until;
    }
    weights
}

/// Draws arrivals of viewers: the time in ns, and the film.
pub fn arrivals(films: usize, rate: f64, seconds: f64, random: &mut Random) -> Vec<(u64, usize)> {
    // Zipf with an exponent of 0.8, like requests to real catalogues.
    let weights: Vec<f64> = (1..=films).map(|rank| (rank as f64).powf(-0.8)).collect();
    let mut arrivals = Vec::new();
    let mut at = random.exponential(1.0 / rate);
    while at < seconds {
        arrivals.push(((at * 1e9) as u64, random.pick(&weights)));
        at += random.exponential(1.0 / rate);
    }
    arrivals
}
