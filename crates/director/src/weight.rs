//! How much of the newcomers each edge gets: its weight in the kernel's table. Pure.
//!
//! Schedulers that divide connections by weights (wlc, lblc, lblcr, sed, nq) count what an edge carries by themselves: for them
//! a weight is what the edge can carry in all. wrr counts nothing: for it the weight is what is left.

use reelway_ipvs::Scheduler;
use serde::Serialize;

/// What an edge's network carries, bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Capacity {
    /// In all.
    pub total: u64,
    /// What nobody has booked.
    pub free: u64,
}

/// What a weight is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// As it is configured.
    pub weight: u32,
    /// Of that, what it gets as it has come back a moment ago, in thousandths; 0: it gets no viewers.
    pub share: u32,
    /// `None`: the edge does not say, or has no limit.
    pub capacity: Option<Capacity>,
}

/// What is left changes with each viewer; the table does not need to.
const STEPS: u64 = 20;

impl Capacity {
    /// Reads what an edge says: `total=122500000, free=61000000` (a dictionary of RFC 9651).
    pub fn parse(text: &str) -> Option<Capacity> {
        let value = |wanted: &str| {
            let members = text.split(',').filter_map(|member| member.split_once('='));
            let mut found = members.filter(|(key, _)| key.trim() == wanted);
            found.next()?.1.trim().parse().ok()
        };
        let (total, free) = (value("total")?, value("free")?);
        (total > 0).then_some(Capacity { total, free })
    }
}

/// The weights of the edges, as the scheduler needs them. Capacities count where all edges that get viewers say theirs.
pub(crate) fn weights(parts: &[Part], scheduler: Scheduler) -> Vec<u32> {
    let well = || parts.iter().filter(|part| part.share > 0);
    let most = well().filter_map(|part| Some(part.capacity?.total)).max();
    let most = most.filter(|_| well().all(|part| part.capacity.is_some()));
    let of_capacity = |part: &Part| match (part.capacity, most) {
        (Some(Capacity { total, free }), Some(most)) => match scheduler {
            Scheduler::WeightedRoundRobin => {
                let steps = u128::from(free) * u128::from(STEPS) / u128::from(most);
                steps as f64 / STEPS as f64
            }
            _ => total as f64 / most as f64,
        },
        _ => 1.0,
    };
    let weight = |part: &Part| match (part.weight, part.share) {
        (0, _) | (_, 0) => 0,
        (weight, share) => {
            let share = f64::from(share) / 1000.0;
            (f64::from(weight) * share * of_capacity(part)).max(1.0) as u32
        }
    };
    parts.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(total: u64, free: u64) -> Part {
        Part {
            weight: 100,
            share: 1000,
            capacity: Some(Capacity { total, free }),
        }
    }

    const SILENT: Part = Part {
        weight: 100,
        share: 1000,
        capacity: None,
    };

    #[test]
    fn who_carries_twice_as_much_weighs_twice_as_much_however_full_it_is() {
        let parts = [part(1000, 0), part(500, 500)];
        for scheduler in [
            Scheduler::WeightedLeastConnections,
            Scheduler::ShortestDelay,
        ] {
            assert_eq!(weights(&parts, scheduler), [100, 50]);
        }
    }

    #[test]
    fn where_no_connections_are_counted_what_is_left_weighs() {
        let parts = [part(1000, 500), part(500, 500), part(1000, 0)];
        assert_eq!(weights(&parts, Scheduler::WeightedRoundRobin), [50, 50, 1]);
        let a_little_less = [part(1000, 549), part(500, 500), part(1000, 1)];
        assert_eq!(
            weights(&a_little_less, Scheduler::WeightedRoundRobin),
            [50, 50, 1]
        );
    }

    #[test]
    fn the_configured_weights_count_alone_where_one_edge_says_nothing() {
        let parts = [part(1000, 0), SILENT];
        assert_eq!(
            weights(&parts, Scheduler::WeightedLeastConnections),
            [100, 100]
        );
        let down = Part { share: 0, ..SILENT };
        let parts = [part(1000, 0), part(250, 0), down];
        assert_eq!(
            weights(&parts, Scheduler::WeightedLeastConnections),
            [100, 25, 0]
        );
    }

    #[test]
    fn configured_weight_slow_start_and_capacity_multiply_and_only_a_drained_edge_has_none() {
        let drained = Part {
            weight: 0,
            ..part(1000, 1000)
        };
        let returning = Part {
            share: 50,
            ..part(500, 500)
        };
        let small = Part {
            weight: 1,
            ..part(1, 1)
        };
        let parts = [part(1000, 1000), drained, returning, small];
        assert_eq!(
            weights(&parts, Scheduler::WeightedLeastConnections),
            [100, 0, 2, 1]
        );
    }

    #[test]
    fn what_an_edge_says_is_read_and_nonsense_is_nothing() {
        let both = Some(Capacity { total: 10, free: 3 });
        for text in ["total=10, free=3", "free=3,total=10 , more=?1"] {
            assert_eq!(Capacity::parse(text), both, "{text}");
        }
        for text in [
            "",
            "total=10",
            "total=0, free=0",
            "total=-1, free=3",
            "total=10; free=3",
        ] {
            assert_eq!(Capacity::parse(text), None, "{text}");
        }
    }
}
