//! Each edge's share of new viewers: its weight in the kernel's table. Pure.
//!
//! Schedulers that divide connections by weight (wlc, lblc, lblcr, sed, nq) count an edge's
//! connections themselves: for them, the weight is the edge's total capacity. wrr counts nothing,
//! so its weight is the free capacity.

use reelway_ipvs::Scheduler;
use serde::Serialize;

/// Capacity of an edge's network in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Capacity {
    /// Total capacity.
    pub total: u64,
    /// Capacity that is not booked.
    pub free: u64,
}

/// Components of a weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The configured weight.
    pub weight: u32,
    /// Share of that weight that the edge gets at present, in thousandths, such as during slow
    /// start; 0: it gets no viewers.
    pub share: u32,
    /// `None` if the edge does not report its capacity or has no limit.
    pub capacity: Option<Capacity>,
}

/// Number of steps of free capacity. It changes with each viewer, but the table does not need to.
const STEPS: u64 = 20;

/// Minimum that the largest configured weight counts as, so that fractions of it can be
/// distinguished.
const FINE: u32 = 100;

/// Number of places in the hash table of `sh`. The kernel assigns them to edges in turn, each as
/// many in a row as its weight: if all have a weight of 100, the fourth gets none.
const PLACES: usize = 256;

/// Maximum weight for `sh`.
const COARSE: u64 = 8;

impl Capacity {
    /// Parses an edge's header: `total=122500000, free=61000000` (a dictionary of RFC 9651).
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

/// Returns the weights of the edges for a scheduler. Capacities count only if all edges that get
/// viewers report theirs.
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
    let largest = parts.iter().map(|part| part.weight).max().unwrap_or(0);
    // The locality schedulers compare weights with connections: an edge with more connections than
    // its weight is overloaded.
    let finer = match scheduler {
        Scheduler::Locality | Scheduler::LocalityReplicated => 1.0,
        _ => f64::from(FINE) / f64::from(largest.clamp(1, FINE)),
    };
    let weight = |part: &Part| match (part.weight, part.share) {
        (0, _) | (_, 0) => 0,
        (weight, share) => {
            let share = f64::from(share) / 1000.0;
            (f64::from(weight) * finer * share * of_capacity(part)).max(1.0) as u32
        }
    };
    let weights = parts.iter().map(weight).collect();
    match scheduler {
        Scheduler::SourceHash => in_few_places(weights),
        _ => weights,
    }
}

/// Returns similar proportions in weights so small that all edges get some of the [`PLACES`].
fn in_few_places(weights: Vec<u32>) -> Vec<u32> {
    let largest = u64::from(weights.iter().copied().max().unwrap_or(0).max(1));
    let edges = weights.iter().filter(|weight| **weight > 0).count().max(1);
    let most = ((PLACES / edges) as u64).clamp(1, COARSE);
    let few = |weight: &u32| match u64::from(*weight) {
        0 => 0,
        weight => ((weight * most + largest / 2) / largest).max(1),
    };
    let few: Vec<u64> = weights.iter().map(few).collect();
    let divisor = few.iter().copied().fold(0, gcd).max(1);
    few.iter().map(|weight| (weight / divisor) as u32).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
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
    fn small_weights_leave_room_for_slow_start_and_capacity() {
        let one = |share, total| Part {
            weight: 1,
            share,
            ..part(total, 0)
        };
        let parts = [one(1000, 1000), one(50, 1000), one(1000, 100)];
        assert_eq!(
            weights(&parts, Scheduler::WeightedLeastConnections),
            [100, 5, 10]
        );
    }

    #[test]
    fn where_a_hash_of_the_address_chooses_all_edges_get_their_part_of_its_places() {
        // Fills the hash table as the kernel does.
        let places = |weights: &[u32]| {
            let mut counts = vec![0; weights.len()];
            let (mut edge, mut in_a_row) = (0, 0);
            for _ in 0..PLACES {
                counts[edge] += 1;
                in_a_row += 1;
                if in_a_row >= weights[edge] {
                    (edge, in_a_row) = ((edge + 1) % weights.len(), 0);
                }
            }
            counts
        };
        let given = |parts: &[Part]| {
            let weights = weights(parts, Scheduler::SourceHash);
            (weights.clone(), places(&weights))
        };
        assert_eq!(given(&[SILENT; 4]), (vec![1; 4], vec![64; 4]));
        let half = Part {
            weight: 50,
            ..SILENT
        };
        assert_eq!(given(&[SILENT, half, SILENT]).0, [2, 1, 2]);
        assert_eq!(given(&[SILENT, half, SILENT]).1, [103, 51, 102]);
        let many = given(&[SILENT; 60]).1;
        assert!(many.iter().all(|count| (4..=5).contains(count)), "{many:?}");
        let drained = Part {
            weight: 0,
            ..SILENT
        };
        assert_eq!(weights(&[SILENT, drained], Scheduler::SourceHash), [1, 0]);
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
