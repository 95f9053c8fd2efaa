//! The choice of the edge to which a new viewer of a film is sent. Pure.
//!
//! All edges rank each film in the same order (rendezvous hashing), and a viewer goes to the first
//! edge of that order whose load is not much above the average (consistent hashing with bounded
//! loads: Mirrokni, Thorup and Zadimoghaddam, SODA 2018). If that is too much for the first edge,
//! the films with the most viewers move on to other edges, as many as necessary, and the rest stay:
//! each copy of a film takes memory from others, and one film with many viewers weighs as much as
//! many films with few. So the viewers of most films meet on one edge, a film with many viewers is
//! on as many edges as it needs, and no edge has a much higher load than the others.

use super::favourites::Favourites;

/// Highest load of an edge, in percent of the average.
const BOUND: u128 = 125;
/// An edge whose network carries less than 1/`IDLE` of its capacity takes every viewer of its
/// films.
const IDLE: u64 = 8;

/// How busy an edge is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Viewers who have a session.
    pub viewers: u64,
    /// Capacity of its network in bytes per second, and the part of it that is not booked. `None`:
    /// it has no limit.
    pub network: Option<(u64, u64)>,
}

impl Load {
    /// The load with another viewer, of a film that needs `rate` bytes per second.
    pub(super) fn with(self, rate: u64) -> Load {
        Load {
            viewers: self.viewers.saturating_add(1),
            network: self
                .network
                .map(|(total, free)| (total, free.saturating_sub(rate))),
        }
    }

    /// Whether there is room for a film that needs `rate` bytes per second.
    fn has_room(&self, rate: u64) -> bool {
        self.network.is_none_or(|(_, free)| free >= rate)
    }

    /// Whether its network carries almost nothing.
    fn is_idle(&self) -> bool {
        self.network
            .is_some_and(|(total, free)| total.saturating_sub(free) < total / IDLE)
    }
}

/// Chooses among these edges, in the order of their rank for a film, the one that takes a new
/// viewer who needs `rate` bytes per second. `None` if none has room. `favourites` returns those of
/// the first edge, in bytes per second if its argument is true.
pub(super) fn choose(
    edges: &[Load],
    rate: u64,
    favourites: impl FnOnce(bool) -> Favourites,
) -> Option<usize> {
    // Load and capacity of an edge: in bytes per second if all edges have a limit, else in viewers.
    let are_limited = edges.iter().all(|edge| edge.network.is_some());
    let amounts = |edge: &Load| match edge.network {
        Some((total, free)) if are_limited => (total.saturating_sub(free), total),
        _ => (edge.viewers, 1),
    };
    let one = if are_limited { rate } else { 1 };
    let (mut load, mut room) = (u128::from(one), 0);
    for (used, total) in edges.iter().map(amounts) {
        load += u128::from(used);
        room += u128::from(total);
    }
    let is_within = |edge: &Load, used: u64| {
        let (_, total) = amounts(edge);
        u128::from(used) * room * 100 < load * u128::from(total) * BOUND || edge.is_idle()
    };
    let first = edges.first()?;
    if first.has_room(rate) && !is_within(first, amounts(first).0) {
        let Favourites { all, hotter } = favourites(are_limited);
        // The film stays if it is enough that hotter films move on.
        if is_within(first, all.saturating_sub(hotter)) {
            return Some(0);
        }
    }
    let mut with_room = (edges.iter().enumerate()).filter(|(_, edge)| edge.has_room(rate));
    let within = (with_room.clone()).find(|(_, edge)| is_within(edge, amounts(edge).0));
    // If the other edges are full, all that have room may be above the bound.
    within
        .or_else(|| with_room.next())
        .map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Chooses without knowledge of the films that are watched.
    fn choose(edges: &[Load], rate: u64) -> Option<usize> {
        super::choose(edges, rate, |in_bytes| {
            let first = edges.first().expect("an edge");
            let used = first.network.map_or(0, |(total, free)| total - free);
            Favourites {
                all: if in_bytes { used } else { first.viewers },
                hotter: 0,
            }
        })
    }

    fn viewers(counts: &[u64]) -> Vec<Load> {
        let load = |viewers: &u64| Load {
            viewers: *viewers,
            network: None,
        };
        counts.iter().map(load).collect()
    }

    fn networks(amounts: &[(u64, u64)]) -> Vec<Load> {
        let load = |network: &(u64, u64)| Load {
            viewers: 0,
            network: Some(*network),
        };
        amounts.iter().map(load).collect()
    }

    #[test]
    fn the_first_takes_viewers_until_it_has_a_quarter_more_than_the_average() {
        assert_eq!(choose(&viewers(&[0, 0, 0]), 1), Some(0));
        // With the newcomer there are 40 viewers, 10 per edge: 12 are fewer than 12.5.
        assert_eq!(choose(&viewers(&[12, 9, 9, 9]), 1), Some(0));
        assert_eq!(choose(&viewers(&[13, 9, 9, 8]), 1), Some(1));
        assert_eq!(choose(&viewers(&[13, 13, 13, 0]), 1), Some(3));
    }

    #[test]
    fn networks_are_filled_in_proportion_to_what_they_carry() {
        // Each carries a third of the total load; the second has twice the capacity.
        assert_eq!(choose(&networks(&[(100, 50), (200, 150)]), 10), Some(1));
        assert_eq!(choose(&networks(&[(100, 70), (200, 130)]), 10), Some(0));
        // If one edge has no limit, all are compared by viewers.
        let mut edges = networks(&[(100, 50), (200, 150)]);
        edges[1].network = None;
        assert_eq!(choose(&edges, 10), Some(0));
    }

    #[test]
    fn an_edge_that_does_almost_nothing_takes_all_viewers_of_its_films() {
        assert_eq!(choose(&networks(&[(800, 701), (800, 800)]), 10), Some(0));
        assert_eq!(choose(&networks(&[(800, 700), (800, 800)]), 10), Some(1));
    }

    #[test]
    fn a_full_edge_is_passed_over_and_where_all_are_full_there_is_none() {
        assert_eq!(choose(&networks(&[(100, 9), (100, 10)]), 10), Some(1));
        assert_eq!(choose(&networks(&[(100, 9), (100, 9)]), 10), None);
        // The small edge is full: the other takes more than its share.
        assert_eq!(choose(&networks(&[(1000, 9), (50, 40)]), 11), Some(1));
        assert_eq!(choose(&networks(&[(40, 40), (1000, 9)]), 41), None);
        assert_eq!(choose(&[], 1), None);
    }

    #[test]
    fn a_film_stays_if_it_is_enough_that_hotter_ones_leave() {
        // With the newcomer there are 30 viewers, 10 per edge: the bound is 12.5.
        let edges = viewers(&[17, 6, 6]);
        let chosen = |all, hotter| {
            let favourites = |in_bytes: bool| {
                assert!(!in_bytes);
                Favourites { all, hotter }
            };
            super::choose(&edges, 1, favourites)
        };
        assert_eq!(chosen(17, 5), Some(0));
        assert_eq!(chosen(17, 4), Some(1));
        // Other viewers of its films are elsewhere already, and would come back.
        assert_eq!(chosen(20, 5), Some(1));
        assert_eq!(chosen(20, 8), Some(0));
        // An edge without room is passed over, whatever is watched there.
        let full = networks(&[(100, 9), (100, 90)]);
        let leave = |_: bool| Favourites {
            all: 91,
            hotter: 91,
        };
        assert_eq!(super::choose(&full, 10, leave), Some(1));
    }

    #[test]
    fn an_edge_within_its_share_is_not_asked_what_is_watched_there() {
        let favourites = |_: bool| -> Favourites { panic!("nobody needs to know") };
        assert_eq!(super::choose(&viewers(&[3, 3, 3]), 1, favourites), Some(0));
    }

    proptest! {
        #[test]
        fn no_edge_gets_much_more_than_the_average(
            films in prop::collection::vec(0_usize..24, 40..400),
            edges in 2_usize..7,
        ) {
            let mut loads = vec![Load::default(); edges];
            for film in &films {
                // Any order that depends on the film will do.
                let rank: Vec<usize> = (0..edges).map(|place| (film + place * (1 + film % 3)) % edges).collect();
                let mut order = Vec::new();
                for edge in rank.into_iter().chain(0..edges) {
                    if !order.contains(&edge) {
                        order.push(edge);
                    }
                }
                let in_order: Vec<Load> = order.iter().map(|edge| loads[*edge]).collect();
                let chosen = order[choose(&in_order, 1).unwrap()];
                loads[chosen] = loads[chosen].with(1);
            }
            let mean = films.len() as f64 / edges as f64;
            for load in &loads {
                prop_assert!(load.viewers as f64 <= mean * 1.25 + 1.0, "{loads:?}");
            }
        }
    }
}
