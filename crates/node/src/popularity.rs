//! How much each film was watched recently. It survives a restart.
//!
//! Hours of watching decay with a half-life of three days.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

/// Maximum number of films; those watched least are removed first.
const MOST: usize = 10_000;
/// Half-life of an hour of watching, in seconds.
const HALF: f64 = 3.0 * 86_400.0;

/// How much films were watched.
#[derive(Debug)]
pub(crate) struct Popularity {
    path: PathBuf,
    films: BTreeMap<String, Watched>,
    is_written: bool,
    has_failed: bool,
}

/// Hours that a film was watched, weighted as of the time `at` (seconds since 1970).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Watched {
    hours: f64,
    at: u64,
}

impl Watched {
    fn hours(self, now: u64) -> f64 {
        let age = now.saturating_sub(self.at) as f64;
        self.hours * (-age / HALF).exp2()
    }
}

impl Popularity {
    /// Reads the figures from before a restart.
    pub fn of(state: &Path) -> Popularity {
        let path = state.join("popularity.json");
        let films = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                warn!(
                    "{}: {error}; the films' popularity is counted from zero",
                    path.display()
                );
                BTreeMap::new()
            }),
            Err(_) => BTreeMap::new(),
        };
        Popularity {
            path,
            films,
            is_written: true,
            has_failed: false,
        }
    }

    /// Adds this many hours to a film, as of now (seconds since 1970).
    pub fn watched(&mut self, title: &str, hours: f64, now: u64) {
        let before = self.films.get(title).map_or(0.0, |film| film.hours(now));
        let watched = Watched {
            hours: before + hours,
            at: now,
        };
        self.films.insert(title.to_owned(), watched);
        self.is_written = false;
        // Removes a tenth at once, so that this is rare.
        if self.films.len() > MOST {
            for (title, _) in self.most(now).into_iter().skip(MOST / 10 * 9) {
                self.films.remove(&title);
            }
        }
    }

    /// Returns the films and their weighted hours, most watched first.
    pub fn most(&self, now: u64) -> Vec<(String, f64)> {
        let films = self.films.iter();
        let mut films: Vec<_> = films
            .map(|(title, film)| (title.clone(), film.hours(now)))
            .collect();
        films.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        films
    }

    /// Returns the text to be written for a restart, and its path; `None` if nothing is new. The
    /// caller reports the result ([`Popularity::was_written`]).
    pub fn unwritten(&mut self) -> Option<(PathBuf, Vec<u8>)> {
        if std::mem::replace(&mut self.is_written, true) {
            return None;
        }
        // Numbers and strings always serialise.
        let text = serde_json::to_vec(&self.films).unwrap_or_default();
        Some((self.path.clone(), text))
    }

    /// Enters the result of writing.
    pub fn was_written(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => self.has_failed = false,
            Err(error) => {
                self.is_written = false;
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!(
                        "{}: {error}; a restart forgets the films' popularity",
                        self.path.display()
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn empty() -> (tempfile::TempDir, Popularity) {
        let dir = tempfile::tempdir().unwrap();
        let popularity = Popularity::of(dir.path());
        (dir, popularity)
    }

    fn titles(popularity: &Popularity, now: u64) -> Vec<String> {
        let most = popularity.most(now).into_iter();
        most.map(|(title, _)| title).collect()
    }

    #[test]
    fn what_was_watched_three_days_ago_counts_half() {
        let (_dir, mut popularity) = empty();
        popularity.watched("old", 10.0, 0);
        popularity.watched("new", 6.0, 3 * DAY);
        assert_eq!(titles(&popularity, 3 * DAY), ["new", "old"]);
        assert!((popularity.most(3 * DAY)[1].1 - 5.0).abs() < 1e-9);
        popularity.watched("old", 2.0, 3 * DAY);
        assert_eq!(titles(&popularity, 3 * DAY), ["old", "new"]);
    }

    #[test]
    fn it_survives_a_restart_and_a_damaged_file_is_empty() {
        let (dir, mut popularity) = empty();
        popularity.watched("a/\"ü", 1.5, 7);
        let (path, text) = popularity.unwritten().unwrap();
        fs::write(path, text).unwrap();
        assert_eq!(popularity.unwritten(), None);
        popularity.was_written(Err(io::Error::other("full")));
        assert!(popularity.unwritten().is_some(), "it is tried again");
        assert_eq!(Popularity::of(dir.path()).most(7), popularity.most(7));
        fs::write(dir.path().join("popularity.json"), "{").unwrap();
        assert!(Popularity::of(dir.path()).most(7).is_empty());
    }

    #[test]
    fn the_films_watched_least_are_forgotten_first() {
        let (_dir, mut popularity) = empty();
        for number in 0..=MOST {
            popularity.watched(&format!("{number:05}"), number as f64, 1);
        }
        let left = titles(&popularity, 1);
        assert_eq!(left.len(), MOST / 10 * 9);
        assert_eq!(left[0], format!("{MOST:05}"));
        assert!(!left.contains(&"00000".to_owned()));
    }
}
