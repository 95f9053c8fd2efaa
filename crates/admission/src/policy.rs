//! Rules for judging newcomers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use reelway_demand::Curve;

use crate::capacity::Resource;

/// A rule. All but the last two use less than is known; they are the rules of other servers, for
/// comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Everybody is admitted.
    Everybody,
    /// This many viewers, whatever they watch: the connection limit of other servers.
    Count(u32),
    /// The VODCA paper's rule: two buffers of the film's largest GOP for each viewer must fit the
    /// memory, and at most a fifth of all may play fast. The network is not considered.
    Vodca,
    /// Each viewer counts as needing their film's largest second all the time.
    Peak,
    /// Each viewer counts as needing their film's mean all the time.
    Mean,
    /// Each second of each film is booked as it will be.
    Exact,
    /// The same, for films that are sent up to this many seconds ahead into the viewer's buffer, as
    /// evenly as that allows ([`reelway_demand::smooth`]).
    Smoothed(u32),
}

/// Maximum number of seconds that a film is sent ahead: more than any player holds.
const MOST_AHEAD: u32 = 120;

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse::<u32>())),
            None => (text, None),
        };
        match (name, number) {
            ("everybody", None) => Ok(Policy::Everybody),
            ("count", Some(Ok(most @ 1..))) => Ok(Policy::Count(most)),
            ("vodca", None) => Ok(Policy::Vodca),
            ("peak", None) => Ok(Policy::Peak),
            ("mean", None) => Ok(Policy::Mean),
            ("exact", None) => Ok(Policy::Exact),
            ("smoothed", Some(Ok(seconds @ 1..=MOST_AHEAD))) => Ok(Policy::Smoothed(seconds)),
            _ => Err(format!(
                "unknown policy `{text}`; policies are everybody, count:N (viewers), vodca, peak, mean, exact, and \
                 smoothed:S (1 to {MOST_AHEAD} seconds)"
            )),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Everybody => f.write_str("everybody"),
            Policy::Count(most) => write!(f, "count:{most}"),
            Policy::Vodca => f.write_str("vodca"),
            Policy::Peak => f.write_str("peak"),
            Policy::Mean => f.write_str("mean"),
            Policy::Exact => f.write_str("exact"),
            Policy::Smoothed(seconds) => write!(f, "smoothed:{seconds}"),
        }
    }
}

impl Policy {
    /// What is booked of a resource for a film that needs `curve`. Smoothed curves are made with
    /// their schedules, and not here.
    pub fn booked(self, resource: Resource, curve: &Arc<Curve>) -> Arc<Curve> {
        match (self, resource) {
            (_, Resource::Memory) => curve.clone(),
            (Policy::Peak, _) => Arc::new(curve.flattened(curve.peak())),
            (Policy::Mean, _) => Arc::new(curve.flattened(curve.mean())),
            _ => curve.clone(),
        }
    }

    /// Whether this rule considers this resource.
    pub(crate) fn asks(self, resource: Resource) -> bool {
        match self {
            Policy::Everybody | Policy::Count(_) => false,
            Policy::Vodca => resource == Resource::Memory,
            Policy::Peak | Policy::Mean | Policy::Exact | Policy::Smoothed(_) => true,
        }
    }
}

/// A class of viewers. The first class has priority: for others, the machine counts as full
/// earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Thousandths of each limit up to which its viewers are admitted.
    pub ceiling: u32,
}

impl Class {
    /// The part of a limit that its viewers may fill.
    pub fn part_of(&self, limit: u64) -> u64 {
        (u128::from(limit) * u128::from(self.ceiling.min(1000)) / 1000) as u64
    }
}

impl Default for Class {
    fn default() -> Self {
        Class {
            name: "everybody".into(),
            ceiling: 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_written() {
        for text in [
            "everybody",
            "count:200",
            "vodca",
            "peak",
            "mean",
            "exact",
            "smoothed:10",
        ] {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "count",
            "count:0",
            "exact:3",
            "smoothed",
            "smoothed:121",
            "smoothed:-1",
            "fair",
        ] {
            let error = text.parse::<Policy>().unwrap_err();
            assert!(error.contains("smoothed:S"), "{error}");
        }
    }

    #[test]
    fn rates_are_flattened_for_all_but_memory() {
        let curve = Arc::new(Curve::new(vec![0, 0, 0, 0, 8, 8, 8, 8]));
        for (policy, most) in [(Policy::Peak, 32), (Policy::Mean, 16), (Policy::Exact, 32)] {
            let network = policy.booked(Resource::Network(0), &curve);
            assert_eq!(network.peak(), most, "{policy}");
            assert_eq!(network.total() == curve.total(), policy != Policy::Peak);
            let memory = policy.booked(Resource::Memory, &curve);
            assert!(Arc::ptr_eq(&memory, &curve), "{policy}");
        }
    }
}
