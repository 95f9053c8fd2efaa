//! Arrival times of viewers.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use reelway_determinism::Random;

/// Maximum number of lines in a trace.
const MOST_LINES: usize = 1_000_000;
/// Maximum number of viewers in a burst or step.
const MOST_AT_ONCE: u32 = 100_000;

/// The arrival process of viewers.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// A Poisson process with this mean rate per second (`poisson:0.25`, as in the VODCA paper).
    Poisson(f64),
    /// All at the same time (`burst:500`).
    Burst(u32),
    /// Some at the start, and more at every step (`steps:8+6/10min`, the staircase of the LVS-cache
    /// paper).
    Steps {
        /// Viewers at the start.
        first: u32,
        /// Viewers at each step.
        more: u32,
        /// Time between steps.
        every: Duration,
    },
    /// From a trace (`trace:FILE`, lines of `SECONDS[,FILM[,WATCHED SECONDS]]`, films counted from
    /// 1).
    Trace(Vec<PlannedVisit>),
}

/// A planned arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedVisit {
    /// Time from the start of the run.
    pub at: Duration,
    /// The film, counted from 0; `None`: chosen at random.
    pub film: Option<usize>,
    /// How long the viewer watches, if given.
    pub watch: Option<Duration>,
}

/// Parses a duration with its unit: `500ms`, `10s`, `10min`, `1h`; without a unit, in seconds.
pub(super) fn length(text: &str) -> Option<Duration> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = text[..digits].parse::<f64>().ok()? * unit;
    (0.0..=31_536_000.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        let usage = || {
            format!(
                "{text:?}: poisson:RATE (viewers a second), burst:N, steps:FIRST+MORE/TIME (steps:8+6/10min) or trace:FILE"
            )
        };
        let count = |text: &str| {
            let count = text.parse::<u32>().ok().ok_or_else(usage)?;
            if count > MOST_AT_ONCE {
                return Err(format!("{count} viewers at once: {MOST_AT_ONCE} at most"));
            }
            Ok(count)
        };
        let (kind, rest) = text.split_once(':').ok_or_else(usage)?;
        match kind {
            "poisson" => match rest.parse::<f64>() {
                Ok(rate) if rate > 0.0 && rate <= 1e5 => Ok(Arrivals::Poisson(rate)),
                _ => Err(usage()),
            },
            "burst" => Ok(Arrivals::Burst(count(rest)?.max(1))),
            "steps" => {
                let (first, rest) = rest.split_once('+').ok_or_else(usage)?;
                let (more, every) = rest.split_once('/').ok_or_else(usage)?;
                let every = length(every).filter(|every| *every >= Duration::from_millis(1));
                Ok(Arrivals::Steps {
                    first: count(first)?,
                    more: count(more)?.max(1),
                    every: every.ok_or_else(usage)?,
                })
            }
            "trace" => read_trace(Path::new(rest)),
            _ => Err(usage()),
        }
    }
}

fn read_trace(path: &Path) -> Result<Arrivals, String> {
    let text = std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let mut wishes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wish = wish(line).ok_or_else(|| {
            format!(
                "{} line {}: {line:?} is not SECONDS[,FILM[,WATCHED SECONDS]], films counted from 1",
                path.display(),
                number + 1
            )
        })?;
        if wishes.len() >= MOST_LINES {
            return Err(format!(
                "{}: more than {MOST_LINES} viewers",
                path.display()
            ));
        }
        wishes.push(wish);
    }
    if wishes.is_empty() {
        return Err(format!("{}: nobody comes", path.display()));
    }
    wishes.sort_by_key(|wish| wish.at);
    Ok(Arrivals::Trace(wishes))
}

fn wish(line: &str) -> Option<PlannedVisit> {
    let mut fields = line.split(',').map(str::trim);
    let at = length(fields.next()?)?;
    let film = match fields.next() {
        None | Some("") => None,
        Some(film) => Some(film.parse::<usize>().ok()?.checked_sub(1)?),
    };
    let watch = match fields.next() {
        None | Some("") => None,
        Some(watch) => Some(length(watch)?),
    };
    let nothing_more = fields.next().is_none();
    nothing_more.then_some(PlannedVisit { at, film, watch })
}

impl Arrivals {
    /// Returns the arrivals in order of time; the iterator is endless if the process is.
    pub(super) fn wishes(&self, seed: u64) -> Box<dyn Iterator<Item = PlannedVisit> + Send> {
        let at = |at| PlannedVisit {
            at,
            film: None,
            watch: None,
        };
        match self.clone() {
            Arrivals::Poisson(rate) => {
                let mut random = Random::new(seed);
                let mut now = 0.0;
                Box::new(std::iter::repeat_with(move || {
                    now += random.exponential(1.0 / rate);
                    at(Duration::from_secs_f64(now.min(1e9)))
                }))
            }
            Arrivals::Burst(viewers) => Box::new((0..viewers).map(move |_| at(Duration::ZERO))),
            Arrivals::Steps { first, more, every } => Box::new((0_u32..).map(move |number| {
                let step = match number.checked_sub(first) {
                    None => 0,
                    Some(later) => later / more + 1,
                };
                at(every.saturating_mul(step))
            })),
            Arrivals::Trace(wishes) => Box::new(wishes.into_iter()),
        }
    }

    /// Whether viewers arrive endlessly if neither their number nor the duration is limited.
    pub fn is_endless(&self) -> bool {
        matches!(self, Arrivals::Poisson(_) | Arrivals::Steps { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str, count: usize) -> Vec<f64> {
        let arrivals: Arrivals = text.parse().unwrap();
        let wishes = arrivals.wishes(7).take(count);
        wishes.map(|wish| wish.at.as_secs_f64()).collect()
    }

    #[test]
    fn the_staircase_of_the_paper_is_climbed() {
        let times = times("steps:8+6/10min", 20);
        assert_eq!(times[..8], [0.0; 8]);
        assert_eq!(times[8..14], [600.0; 6]);
        assert_eq!(times[14..], [1200.0; 6]);
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_their_spread() {
        let times = times("poisson:4", 40_000);
        let rate = times.len() as f64 / times[times.len() - 1];
        assert!((3.9..4.1).contains(&rate), "{rate}");
        // In a Poisson process, the standard deviation of the gaps equals their mean.
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.9..1.1).contains(&(variance.sqrt() / mean)));
    }

    #[test]
    fn nonsense_is_told_with_the_way_out() {
        for text in [
            "",
            "poisson",
            "poisson:0",
            "poisson:nan",
            "burst:-1",
            "burst:1e9",
            "steps:8",
            "steps:8+6",
            "steps:8+6/0s",
            "steps:8+6/1week",
            "who:3",
        ] {
            let told = text.parse::<Arrivals>().unwrap_err();
            assert!(told.contains("steps:8+6/10min"), "{text}: {told}");
        }
        let told = "burst:200000".parse::<Arrivals>().unwrap_err();
        assert!(told.contains("100000 at most"), "{told}");
        let told = "trace:/no/such/file".parse::<Arrivals>().unwrap_err();
        assert!(told.contains("/no/such/file"), "{told}");
    }

    #[test]
    fn a_line_of_a_trace_says_when_what_and_how_long() {
        let line = wish("1.5, 2, 10min").unwrap();
        assert_eq!(line.at, Duration::from_millis(1500));
        assert_eq!(
            (line.film, line.watch),
            (Some(1), Some(Duration::from_secs(600)))
        );
        assert_eq!(wish("3").unwrap().film, None);
        for line in ["x", "1,0", "1,2,x", "1,2,3,4", "-1"] {
            assert!(wish(line).is_none(), "{line}");
        }
    }
}
