//! Whether an edge is healthy according to its checks. Pure: time comes with each check.

use std::time::Duration;

use reelway_time::Monotonic;

use crate::sections::HealthConfig;

/// An edge's state.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    is_up: bool,
    /// Number of consecutive checks whose result contradicts `is_up`.
    against: u32,
    /// When it recovered; `None` if it was healthy from the beginning.
    since: Option<Monotonic>,
    /// Result of the last check that failed.
    trouble: Option<String>,
    checked: bool,
}

/// A change of state that a check has caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The edge gets viewers from now on.
    Up,
    /// The edge gets no viewers from now on, for this reason.
    Down(String),
}

impl Health {
    /// Creates the state of an edge of which nothing is known. The first check decides, so that
    /// viewers do not wait for a director that starts.
    pub fn new() -> Health {
        Health {
            is_up: false,
            against: 0,
            since: None,
            trouble: None,
            checked: false,
        }
    }

    /// Creates the state of an edge that already has viewers, from a previous director.
    pub fn up() -> Health {
        Health {
            is_up: true,
            checked: true,
            ..Health::new()
        }
    }

    /// Creates the state of an edge that is added while others have viewers. It has to pass as many
    /// checks as an edge that recovers.
    pub fn added() -> Health {
        Health {
            checked: true,
            ..Health::new()
        }
    }

    /// Enters the result of a check that ended at `now`.
    pub fn checked(
        &mut self,
        result: Result<(), String>,
        now: Monotonic,
        config: &HealthConfig,
    ) -> Option<Event> {
        let is_first = !std::mem::replace(&mut self.checked, true);
        let is_well = result.is_ok();
        if let Err(trouble) = result {
            self.trouble = Some(trouble);
        }
        if is_well == self.is_up {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let enough = match self.is_up {
            true => config.fall,
            false if is_first => 1,
            false => config.rise,
        };
        if self.against < enough {
            return None;
        }
        self.against = 0;
        self.is_up = is_well;
        if is_well {
            self.since = (!is_first).then_some(now);
            self.trouble = None;
            return Some(Event::Up);
        }
        self.since = None;
        Some(Event::Down(self.trouble.clone().unwrap_or_default()))
    }

    /// Whether the last check failed.
    pub fn is_suspect(&self) -> bool {
        match self.is_up {
            true => self.against > 0,
            false => self.against == 0,
        }
    }

    /// Returns why the edge gets no viewers, if it gets none and the reason is known.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref().filter(|_| !self.is_up)
    }

    /// Returns the share of its weight that the edge gets, in thousandths; 0: it gets no viewers.
    pub fn share(&self, now: Monotonic, config: &HealthConfig) -> u32 {
        let slow_start = Duration::from_secs(config.slow_start.into());
        match (self.is_up, self.since) {
            (false, _) => 0,
            (true, Some(since)) if now.since(since) < slow_start => {
                let part = now.since(since).as_secs_f64() / slow_start.as_secs_f64();
                // At least a twentieth: with a weight of 0 the edge would never get its first
                // viewers.
                ((part * 1000.0) as u32).max(50)
            }
            (true, _) => 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> HealthConfig {
        HealthConfig {
            rise: 2,
            fall: 3,
            slow_start: 20,
            ..HealthConfig::default()
        }
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    /// Enters these checks, a second apart, and returns the change that each causes.
    fn changes(health: &mut Health, from: u64, checks: &str) -> Vec<Option<Event>> {
        let check = |(second, check)| {
            let result = match check {
                '+' => Ok(()),
                _ => Err("silent".to_owned()),
            };
            health.checked(result, at(from + second), &config())
        };
        (0..).zip(checks.chars()).map(check).collect()
    }

    #[test]
    fn one_lost_check_changes_nothing_and_three_do() {
        let mut health = Health::new();
        assert_eq!(changes(&mut health, 0, "+"), [Some(Event::Up)]);
        assert_eq!(health.share(at(0), &config()), 1000);
        assert_eq!(changes(&mut health, 1, "-+--+"), vec![None; 5]);
        assert_eq!(health.trouble(), None);
        assert!(!health.is_suspect());
        changes(&mut health, 5, "-");
        assert!(health.is_suspect());
        changes(&mut health, 5, "+");
        let down = Some(Event::Down("silent".into()));
        assert_eq!(changes(&mut health, 6, "---"), [None, None, down]);
        assert_eq!(health.trouble(), Some("silent"));
        assert!(health.is_suspect());
        changes(&mut health, 9, "+");
        assert!(!health.is_suspect());
        assert_eq!(health.share(at(9), &config()), 0);
    }

    #[test]
    fn an_edge_that_has_viewers_when_the_director_starts_keeps_them_for_as_many_checks_as_any() {
        let mut health = Health::up();
        assert_eq!(health.share(at(0), &config()), 1000);
        assert_eq!(changes(&mut health, 0, "--+"), vec![None; 3]);
        let down = Some(Event::Down("silent".into()));
        assert_eq!(changes(&mut health, 3, "---"), [None, None, down]);
    }

    #[test]
    fn an_edge_that_is_added_begins_as_one_that_comes_back() {
        let mut health = Health::added();
        assert_eq!(changes(&mut health, 0, "++"), [None, Some(Event::Up)]);
        assert_eq!(health.share(at(1), &config()), 50);
    }

    #[test]
    fn an_edge_that_has_come_back_gets_its_weight_little_by_little() {
        let mut health = Health::new();
        assert_eq!(changes(&mut health, 0, "-"), [None]);
        assert_eq!(health.share(at(0), &config()), 0);
        assert_eq!(changes(&mut health, 1, "++"), [None, Some(Event::Up)]);
        assert_eq!(health.share(at(2), &config()), 50);
        assert_eq!(health.share(at(12), &config()), 500);
        assert_eq!(health.share(at(22), &config()), 1000);
    }
}
