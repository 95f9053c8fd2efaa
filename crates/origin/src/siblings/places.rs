//! Sends viewers to the sibling that has their film.

use std::sync::Arc;
use std::time::Duration;

use reelway_catalogue::{Film, Place, Placement, Soon, Watched};
use tokio::time::timeout;

use super::choice::Candidate;
use super::favourites::Favourites;
use super::group::Group;
use super::load::{Load, choose};

/// Timeout for asking a sibling whether it has a film: a viewer is waiting.
const ASKING: Duration = Duration::from_millis(300);
/// Maximum number of other servers that a player is given beside this one.
const MOST_OTHERS: usize = 2;

/// Places viewers at this server and its siblings.
pub struct Places {
    group: Arc<Group>,
    own: Box<dyn Own>,
}

/// This server as one of the siblings.
pub trait Own: Send + Sync {
    /// Its load; `None` while it is shutting down.
    fn load(&self) -> Option<Load>;
    /// Films with the most viewers here.
    fn watched(&self) -> Vec<Watched>;
}

impl Places {
    /// Creates the placement for this server and its siblings.
    pub fn new(group: Arc<Group>, own: impl Own + 'static) -> Places {
        let own = Box::new(own);
        Places { group, own }
    }

    /// This server (`None`) and the siblings that admit viewers, in the order of their rank for a
    /// film.
    fn ranked(&self, film: u128) -> Vec<(Option<usize>, Load)> {
        let now = reelway_clock::now();
        let candidates = self.group.for_viewers(film);
        let own = candidates.partition_point(|candidate| candidate.is_above);
        let standings = self.group.standings();
        let (above, below) = candidates.split_at(own);
        let loads = |candidates: &[Candidate]| -> Vec<(Option<usize>, Load)> {
            let numbers = candidates.iter().map(|candidate| candidate.number);
            let known = numbers.filter_map(|number| {
                let (_, load) = standings.of(number, now)?;
                Some((Some(number), load))
            });
            known.collect()
        };
        let own = self.own.load().map(|load| (None, load));
        [loads(above), own.into_iter().collect(), loads(below)].concat()
    }

    /// How much the films that share this film's first edge are watched; `load` is that edge's
    /// load.
    fn favourites(
        &self,
        film: u128,
        (first, load): (Option<usize>, Load),
        in_bytes: bool,
    ) -> Favourites {
        let now = reelway_clock::now();
        let mut lists = vec![(None, self.own.watched())];
        {
            let standings = self.group.standings();
            let siblings = (0..self.group.count()).filter(|number| !self.group.is_own(*number));
            let known = siblings.filter_map(|number| {
                let (standing, _) = standings.of(number, now)?;
                Some((Some(number), standing.watched.clone()))
            });
            lists.extend(known);
        }
        let amount = |watched: &Watched| match in_bytes {
            true => watched.rate,
            false => watched.viewers,
        };
        let used = match load.network {
            Some((total, free)) if in_bytes => total.saturating_sub(free),
            _ => load.viewers,
        };
        let home = |film| self.ranked(film).first().map(|(edge, _)| *edge);
        Favourites::of(film, (first, used), lists, amount, home)
    }

    /// Where viewers find a film at a sibling, if it plays there.
    async fn at(&self, sibling: usize, film: u128) -> Option<Place> {
        let known = self.group.titles().of(sibling, film, reelway_clock::now());
        let title = match known {
            Some(title) => title?,
            None => {
                // A sibling that does not answer in time is asked again for the next viewer.
                let found = timeout(ASKING, self.group.find(sibling, film)).await.ok()?;
                let found = found.inspect_err(|fault| self.group.failed(sibling, fault));
                let title = found.ok()?.and_then(|film| film.playing());
                let now = reelway_clock::now();
                self.group.titles().note(sibling, film, title.clone(), now);
                title?
            }
        };
        let standings = self.group.standings();
        let (standing, _) = standings.of(sibling, reelway_clock::now())?;
        Some(Place {
            rtsp: standing.rtsp.clone(),
            http: standing.http.clone(),
            title,
        })
    }
}

impl Placement for Places {
    fn place<'a>(&'a self, film: &'a Arc<Film>) -> Soon<'a, Option<Place>> {
        Box::pin(async {
            let number = film.identity.number()?;
            let rate = film.rate();
            let mut ranked = self.ranked(number);
            loop {
                let loads: Vec<Load> = ranked.iter().map(|(_, load)| *load).collect();
                let first = *ranked.first()?;
                let favourites = |in_bytes| self.favourites(number, first, in_bytes);
                let chosen = choose(&loads, rate, favourites)?;
                let sibling = ranked[chosen].0?;
                if let Some(place) = self.at(sibling, number).await {
                    let now = reelway_clock::now();
                    self.group.standings().sent(sibling, rate, now);
                    return Some(place);
                }
                ranked.remove(chosen);
            }
        })
    }

    fn addresses(&self) -> Vec<String> {
        let now = reelway_clock::now();
        let standings = self.group.standings();
        let siblings = (0..self.group.count()).filter(|number| !self.group.is_own(*number));
        let known = siblings.filter_map(|number| standings.of(number, now));
        known.map(|(standing, _)| standing.http.clone()).collect()
    }

    fn others<'a>(&'a self, film: &'a Arc<Film>) -> Soon<'a, Vec<Place>> {
        Box::pin(async {
            let Some(number) = film.identity.number() else {
                return Vec::new();
            };
            let mut others = Vec::new();
            for (sibling, _) in self.ranked(number) {
                if let Some(sibling) = sibling
                    && others.len() < MOST_OTHERS
                    && let Some(place) = self.at(sibling, number).await
                {
                    others.push(place);
                }
            }
            others
        })
    }
}
