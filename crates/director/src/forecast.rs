//! Forecast of an edge's failure: whether the other edges have room for its viewers, and which
//! films they must fetch again. Pure.

use std::collections::BTreeSet;

use serde::Serialize;

/// State of an edge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Whether it gets viewers.
    pub is_up: bool,
    /// Number of its sessions.
    pub viewers: u64,
    /// Booked and free bytes per second; `None` if it has no limit or does not report one.
    pub network: Option<Booked>,
    /// Films that are being watched there.
    pub films: BTreeSet<String>,
}

/// Bytes per second of an edge's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Booked {
    pub booked: u64,
    pub free: u64,
}

/// Forecast of an edge's failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Without {
    /// Number of viewers who would have to move to other edges.
    pub viewers: u64,
    /// Bytes per second that they have booked; `None` if not known.
    pub booked: Option<u64>,
    /// Bytes per second that are free on the other edges; `None` if one of them has no limit or
    /// does not report it.
    pub room: Option<u64>,
    /// Whether the other edges have room for all of them; `None` if not known.
    pub fits: Option<bool>,
    /// Films that only this edge is sending; another one would have to fetch them.
    pub films: Vec<String>,
}

/// Forecasts what happens if the edge with index `gone` fails.
pub(crate) fn without(edges: &[Known], gone: usize) -> Without {
    let edge = &edges[gone];
    let others = || {
        let others = edges.iter().enumerate();
        others.filter(move |(number, other)| *number != gone && other.is_up)
    };
    let booked = edge.network.map(|network| network.booked);
    let is_alone = others().next().is_none();
    let free = others().map(|(_, other)| other.network.map(|network| network.free));
    let room = free.sum::<Option<u64>>();
    let fits = match (booked, room) {
        _ if edge.viewers == 0 => Some(true),
        _ if is_alone => Some(false),
        (Some(booked), Some(room)) => Some(booked <= room),
        _ => None,
    };
    let elsewhere = |film: &String| others().any(|(_, other)| other.films.contains(film));
    Without {
        viewers: edge.viewers,
        booked,
        room,
        fits,
        films: (edge.films.iter().filter(|film| !elsewhere(film)).cloned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(viewers: u64, network: Option<(u64, u64)>, films: &[&str]) -> Known {
        Known {
            is_up: true,
            viewers,
            network: network.map(|(booked, free)| Booked { booked, free }),
            films: films.iter().map(|film| film.to_string()).collect(),
        }
    }

    #[test]
    fn viewers_fit_where_the_others_have_as_much_free_as_is_booked() {
        let edges = [
            edge(3, Some((30, 70)), &["a", "b"]),
            edge(6, Some((60, 20)), &["b"]),
            edge(8, Some((80, 9)), &[]),
        ];
        let first = without(&edges, 0);
        assert_eq!(
            (first.booked, first.room, first.fits),
            (Some(30), Some(29), Some(false))
        );
        assert_eq!(first.films, ["a"]);
        let second = without(&edges, 1);
        assert_eq!(
            (second.viewers, second.room, second.fits),
            (6, Some(79), Some(true))
        );
        assert!(second.films.is_empty());
    }

    #[test]
    fn an_edge_that_is_down_has_no_room_and_the_last_one_has_nobody_to_take_over() {
        let mut edges = [
            edge(3, Some((30, 70)), &["a"]),
            edge(0, Some((0, 100)), &["a"]),
        ];
        assert_eq!(without(&edges, 0).fits, Some(true));
        edges[1].is_up = false;
        let alone = without(&edges, 0);
        assert_eq!((alone.room, alone.fits), (Some(0), Some(false)));
        assert_eq!(alone.films, ["a"]);
        assert_eq!(without(&edges, 1).fits, Some(true), "nobody is there");
    }

    #[test]
    fn nothing_is_said_of_room_that_is_not_known() {
        let edges = [edge(3, Some((30, 70)), &[]), edge(1, None, &[])];
        assert_eq!(without(&edges, 0).fits, None);
        assert_eq!(without(&edges, 1).fits, None);
    }
}
