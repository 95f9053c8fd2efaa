//! The register of panics and problems. Pure: times are arguments.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use reelway_clock::{Monotonic, Real};

/// Restarts within [`WINDOW`] after which a part counts as failed.
const MOST_RESTARTS: usize = 5;
/// How long a restart counts.
const WINDOW: Duration = Duration::from_secs(60);
/// How long a panic is listed.
const LISTED: Duration = Duration::from_secs(3600);
/// The number of parts that are counted separately; the panics of others count under [`OTHERS`].
const PARTS: usize = 256;
const OTHERS: &str = "others";
/// Maximum length of a stored message, in characters.
const MESSAGE: usize = 500;
/// The pause before the second restart within a minute; it doubles with each further one, up to 16
/// times this.
const PAUSE: Duration = Duration::from_millis(50);

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A panic was caught; the part runs again, or the panic ended only one piece of work.
    Recovered,
    /// The server works, but not as well as it should, until the operator acts.
    Degraded,
    /// A part does not work: it keeps panicking.
    Failed,
}

impl Severity {
    /// Its name in answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Recovered => "recovered",
            Severity::Degraded => "degraded",
            Severity::Failed => "failed",
        }
    }
}

/// A problem that the server has, or had within the last hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part of the server: the name of a thread or task, or the argument of [`crate::raise`].
    pub part: String,
    /// Its severity.
    pub severity: Severity,
    /// A description: the last panic's message and place, or the argument of [`crate::raise`].
    pub message: String,
    /// The time of the last panic, or of when the problem was first raised.
    pub since: Real,
    /// Panics since the start; 0 for a problem that is not a panic.
    pub panics: u64,
}

#[derive(Default)]
struct Part {
    panics: u64,
    /// The last panic.
    last: Option<(Monotonic, Real, String)>,
    /// The last restarts, the oldest first.
    restarts: VecDeque<Monotonic>,
}

impl Part {
    fn restarts_lately(&self, now: Monotonic) -> usize {
        let lately = |at: &&Monotonic| now.since(**at) < WINDOW;
        self.restarts.iter().filter(lately).count()
    }
}

/// The register.
#[derive(Default)]
pub(crate) struct Book {
    parts: BTreeMap<String, Part>,
    raised: BTreeMap<&'static str, (Real, String)>,
}

fn shortened(message: &str) -> String {
    message.chars().take(MESSAGE).collect()
}

impl Book {
    /// An empty register.
    pub const fn new() -> Book {
        Book {
            parts: BTreeMap::new(),
            raised: BTreeMap::new(),
        }
    }

    fn part(&mut self, name: &str) -> &mut Part {
        let known = self.parts.contains_key(name) || self.parts.len() < PARTS;
        let name = if known { name } else { OTHERS };
        self.parts.entry(name.to_owned()).or_default()
    }

    /// Registers a part that has started: it is counted from now on, with 0 panics.
    pub fn started(&mut self, name: &str) {
        self.part(name);
    }

    /// Records a panic of a part.
    pub fn panicked(&mut self, name: &str, message: &str, now: Monotonic, real: Real) {
        let part = self.part(name);
        part.panics += 1;
        part.last = Some((now, real, shortened(message)));
    }

    /// Records that a part's loop ended by a panic and will restart; returns the pause before that.
    pub fn restarted(&mut self, name: &str, now: Monotonic) -> Duration {
        let part = self.part(name);
        let before = part.restarts_lately(now);
        if part.restarts.len() >= MOST_RESTARTS {
            part.restarts.pop_front();
        }
        part.restarts.push_back(now);
        match before {
            0 => Duration::ZERO,
            before => PAUSE * (1 << (before - 1)),
        }
    }

    /// Adds a problem that is not a panic, or changes its message.
    pub fn raise(&mut self, part: &'static str, message: &str, real: Real) {
        let raised = self.raised.entry(part).or_insert((real, String::new()));
        raised.1 = shortened(message);
    }

    /// Removes a problem; returns whether it existed.
    pub fn clear(&mut self, part: &'static str) -> bool {
        self.raised.remove(part).is_some()
    }

    /// The number of panics of each part since the start.
    pub fn panics(&self) -> Vec<(String, u64)> {
        let parts = self.parts.iter();
        parts
            .map(|(name, part)| (name.clone(), part.panics))
            .collect()
    }

    /// The current problems, the worst first.
    pub fn problems(&self, now: Monotonic) -> Vec<Problem> {
        let of_part = |(name, part): (&String, &Part)| {
            let (at, since, message) = part.last.as_ref()?;
            if now.since(*at) >= LISTED {
                return None;
            }
            let severity = match part.restarts_lately(now) >= MOST_RESTARTS {
                true => Severity::Failed,
                false => Severity::Recovered,
            };
            Some(Problem {
                part: name.clone(),
                severity,
                message: message.clone(),
                since: *since,
                panics: part.panics,
            })
        };
        let raised = self.raised.iter().map(|(part, (since, message))| Problem {
            part: (*part).to_owned(),
            severity: Severity::Degraded,
            message: message.clone(),
            since: *since,
            panics: 0,
        });
        let mut all: Vec<Problem> = self
            .parts
            .iter()
            .filter_map(of_part)
            .chain(raised)
            .collect();
        all.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::ZERO + Duration::from_secs(seconds)
    }

    fn panics(book: &mut Book, seconds: u64) -> Duration {
        book.panicked("disk", "no", at(seconds), Real::from_nanos(seconds));
        book.restarted("disk", at(seconds))
    }

    fn severity(book: &Book, seconds: u64) -> Option<Severity> {
        Some(book.problems(at(seconds)).first()?.severity)
    }

    #[test]
    fn a_part_that_panics_five_times_within_a_minute_has_failed_until_it_is_quiet() {
        let mut book = Book::new();
        for second in 0..4 {
            panics(&mut book, second);
        }
        assert_eq!(severity(&book, 4), Some(Severity::Recovered));
        panics(&mut book, 4);
        assert_eq!(severity(&book, 5), Some(Severity::Failed));
        assert_eq!(severity(&book, 64), Some(Severity::Recovered));
        assert_eq!(severity(&book, 3603), Some(Severity::Recovered));
        assert_eq!(severity(&book, 3604), None, "an hour later it is forgotten");
        assert_eq!(book.panics(), [("disk".to_owned(), 5)], "but counted");
    }

    #[test]
    fn panics_now_and_then_are_no_failure() {
        let mut book = Book::new();
        for number in 0..100 {
            assert_eq!(panics(&mut book, number * 70), Duration::ZERO);
            assert_eq!(severity(&book, number * 70), Some(Severity::Recovered));
        }
    }

    #[test]
    fn the_pause_before_a_restart_grows_to_less_than_a_second() {
        let mut book = Book::new();
        let pauses: Vec<u128> = (0..8).map(|_| panics(&mut book, 0).as_millis()).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 800, 800]);
    }

    #[test]
    fn raised_problems_stay_until_they_are_cleared() {
        let mut book = Book::new();
        book.raise("state directory", "full", Real::from_nanos(1));
        book.raise("state directory", "read-only", Real::from_nanos(2));
        let problems = book.problems(at(100_000));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].severity, Severity::Degraded);
        assert_eq!(problems[0].message, "read-only");
        assert_eq!(problems[0].since, Real::from_nanos(1));
        assert!(book.clear("state directory"));
        assert!(!book.clear("state directory"));
        assert_eq!(book.problems(at(0)), []);
    }

    #[test]
    fn the_register_is_bounded() {
        let mut book = Book::new();
        for number in 0..1000 {
            book.panicked(
                &number.to_string(),
                &"x".repeat(10_000),
                at(0),
                Real::from_nanos(0),
            );
        }
        assert_eq!(book.parts.len(), PARTS + 1);
        assert_eq!(
            book.panics().iter().map(|(_, count)| count).sum::<u64>(),
            1000
        );
        assert!(
            book.problems(at(0))
                .iter()
                .all(|problem| problem.message.len() == MESSAGE)
        );
    }
}
