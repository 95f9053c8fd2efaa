//! How much the films that share a first edge are watched. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;

use reelway_catalogue::Watched;

/// How much the films that share a first edge are watched: in bytes per second, or in viewers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Favourites {
    /// All of them, wherever their viewers are, and the other load of the edge.
    pub all: u64,
    /// Those that are watched more than the film in question.
    pub hotter: u64,
}

/// How much a film is watched.
#[derive(Clone, Copy, Default)]
struct Amount {
    /// At its first edge.
    there: u64,
    /// At other edges.
    elsewhere: u64,
}

impl Amount {
    fn whole(self) -> u64 {
        self.there.saturating_add(self.elsewhere)
    }
}

impl Favourites {
    /// Computes the favourites of edge `first`, whose load is `used`, from the point of view of
    /// `film`. `watched` is each edge's report on its films; `amount` takes the wanted unit from
    /// it; `home` returns the first edge of a film.
    pub fn of<E: PartialEq>(
        film: u128,
        (first, used): (E, u64),
        watched: impl IntoIterator<Item = (E, Vec<Watched>)>,
        amount: impl Fn(&Watched) -> u64,
        home: impl Fn(u128) -> Option<E>,
    ) -> Favourites {
        let mut films: HashMap<u128, Amount> = HashMap::new();
        for (edge, watched) in watched {
            for watched in watched {
                let film = films.entry(watched.film).or_default();
                let place = if edge == first {
                    &mut film.there
                } else {
                    &mut film.elsewhere
                };
                *place = place.saturating_add(amount(&watched));
            }
        }
        let heat = |film: u128, amount: Amount| (amount.whole(), Reverse(film));
        let at_hand = heat(film, films.get(&film).copied().unwrap_or_default());
        let (mut all, mut hotter) = (used, 0_u64);
        for (other, amount) in films {
            if home(other).as_ref() == Some(&first) {
                all = all.saturating_add(amount.elsewhere);
                if heat(other, amount) > at_hand {
                    hotter = hotter.saturating_add(amount.whole());
                }
            } else {
                all = all.saturating_sub(amount.there);
            }
        }
        Favourites { all, hotter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(films: &[(u128, u64)]) -> Vec<Watched> {
        let watched = |(film, viewers): &(u128, u64)| Watched {
            film: *film,
            viewers: *viewers,
            rate: viewers * 10,
        };
        films.iter().map(watched).collect()
    }

    /// Films below 10 have edge 0 as their first edge, the others edge 1.
    fn of(film: u128, used: u64, edges: [&[(u128, u64)]; 2]) -> (u64, u64) {
        let lists = edges.into_iter().map(watched).enumerate();
        let home = |film| Some(usize::from(film >= 10));
        let found = Favourites::of(film, (0, used), lists, |film| film.viewers, home);
        (found.all, found.hotter)
    }

    #[test]
    fn all_of_an_edge_s_films_count_wherever_they_are_watched_and_no_others() {
        // Of 20 viewers, 3 watch a film of the other edge; 4 viewers of this edge's films are
        // there.
        let edges: [&[(u128, u64)]; 2] = [&[(1, 9), (2, 5), (10, 3)], &[(1, 4), (11, 7)]];
        assert_eq!(of(3, 20, edges), (21, 18));
        assert_eq!(of(2, 20, edges), (21, 13));
        assert_eq!(of(1, 20, edges), (21, 0));
    }

    #[test]
    fn of_two_films_that_are_watched_equally_one_is_hotter() {
        let edges: [&[(u128, u64)]; 2] = [&[(1, 5), (2, 5)], &[]];
        assert_eq!((of(1, 10, edges).1, of(2, 10, edges).1), (0, 5));
    }

    #[test]
    fn whatever_siblings_say_nothing_overflows() {
        let edges: [&[(u128, u64)]; 2] = [&[(10, u64::MAX)], &[(1, u64::MAX), (2, u64::MAX)]];
        let lists = edges.map(|films| {
            let all = films.iter().map(|(film, viewers)| Watched {
                film: *film,
                viewers: *viewers,
                rate: *viewers,
            });
            all.collect::<Vec<_>>()
        });
        let home = |film: u128| Some(usize::from(film >= 10));
        let lists = lists.into_iter().enumerate();
        let found = Favourites::of(3, (0, u64::MAX), lists, |film| film.rate, home);
        assert_eq!(found.hotter, u64::MAX);
    }
}
