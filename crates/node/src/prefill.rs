//! Fetching the most watched films to the tier at night, when the links to their origins are idle.
//! This module decides when, and which films. Pure but for the file of [`Popularity`]: the time of
//! day is an argument.

use std::fmt;
use std::str::FromStr;

use reelway_http::{Prefill as Shown, PrefillFilm};
use serde::Deserialize;

use crate::popularity::Popularity;

/// Percentage of the tier's room that may be filled; the rest is for what is watched meanwhile.
const PART: u64 = 90;
/// Hours of watching from which a film is fetched; one that somebody only looked into is not.
const LEAST: f64 = 0.1;

/// A period of the day, in minutes; it spans midnight if `until` is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Hours {
    from: u32,
    until: u32,
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Hours, String> {
        let minute = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let number = |text: &str, most: u32| -> Option<u32> {
                let plain = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|number| plain && *number <= most)
            };
            Some(number(hour, 23)? * 60 + number(minute, 59)?)
        };
        let hours = text
            .split_once('-')
            .and_then(|(from, until)| Some((minute(from)?, minute(until)?)))
            .filter(|(from, until)| from != until);
        let (from, until) =
            hours.ok_or("must be two different times of the day, such as 02:00-06:00")?;
        Ok(Hours { from, until })
    }
}

impl TryFrom<String> for Hours {
    type Error = String;

    fn try_from(text: String) -> Result<Hours, String> {
        text.parse()
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hours { from, until } = self;
        let (from, until) = ((from / 60, from % 60), (until / 60, until % 60));
        write!(
            f,
            "{:02}:{:02}-{:02}:{:02}",
            from.0, from.1, until.0, until.1
        )
    }
}

impl Hours {
    /// Whether a minute of the day lies within the period.
    fn has(self, minute: u32) -> bool {
        match self.from < self.until {
            true => (self.from..self.until).contains(&minute),
            false => minute >= self.from || minute < self.until,
        }
    }
}

/// The films to fetch, and when.
#[derive(Debug)]
pub(crate) struct Prefill {
    hours: Option<Hours>,
    /// Whether an operator has asked for it.
    is_asked: bool,
    popularity: Popularity,
    /// The films that are being fetched.
    films: Vec<PrefillFilm>,
}

impl Prefill {
    /// Creates a prefill for these hours; with `None` it runs only on request.
    pub fn new(hours: Option<Hours>, popularity: Popularity) -> Prefill {
        Prefill {
            hours,
            is_asked: false,
            popularity,
            films: Vec::new(),
        }
    }

    /// Returns how much films were watched.
    pub fn popularity(&mut self) -> &mut Popularity {
        &mut self.popularity
    }

    /// Starts or stops at an operator's request.
    pub fn ask(&mut self, is_asked: bool) {
        self.is_asked = is_asked;
        if !is_asked {
            self.films.clear();
        }
    }

    /// Chooses again: the most watched films, as many as fit. To be called from time to time, with
    /// the time (seconds since 1970) and the minute of the local day. `size` returns the bytes of a
    /// film that can be fetched; `room` is the tier's room in bytes without that for kept films.
    pub fn choose(
        &mut self,
        (now, minute): (u64, u32),
        size: impl Fn(&str) -> Option<u64>,
        room: u64,
    ) {
        let is_time = self.hours.is_some_and(|hours| hours.has(minute));
        // A request ends when all films are complete.
        let is_whole = |film: &PrefillFilm| film.lacking == Some(0);
        if !self.films.is_empty() && self.films.iter().all(is_whole) {
            self.is_asked = false;
        }
        let before = std::mem::take(&mut self.films);
        if !is_time && !self.is_asked {
            return;
        }
        let mut left = room / 100 * PART;
        let most = self.popularity.most(now).into_iter();
        for (title, hours) in most.take_while(|(_, hours)| *hours >= LEAST) {
            let Some(size) = size(&title).filter(|size| *size <= left) else {
                continue;
            };
            left -= size;
            let known = before.iter().find(|film| film.title == title);
            self.films.push(PrefillFilm {
                lacking: known.and_then(|film| film.lacking),
                hours_watched: (hours * 100.0).round() / 100.0,
                title,
            });
        }
        if self.films.is_empty() {
            self.is_asked = false;
        }
    }

    /// Returns the films to fetch now, most watched first.
    pub fn titles(&self) -> Vec<String> {
        let films = self.films.iter();
        films.map(|film| film.title.clone()).collect()
    }

    /// Records how many bytes of a film the tier lacks.
    pub fn lacks(&mut self, title: &str, bytes: u64) {
        if let Some(film) = self.films.iter_mut().find(|film| film.title == title) {
            film.lacking = Some(bytes);
        }
    }

    /// Returns the state for the API.
    pub fn shown(&self) -> Shown {
        Shown {
            hours: self.hours.map(|hours| hours.to_string()),
            running: self.is_asked || !self.films.is_empty(),
            asked: self.is_asked,
            films: self.films.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(text: &str) -> Hours {
        text.parse().unwrap()
    }

    /// A prefill after "a" was watched for three hours, "b" for two, "c" for one, "d" for some
    /// minutes.
    fn prefill(hours: Option<Hours>) -> (tempfile::TempDir, Prefill) {
        let dir = tempfile::tempdir().unwrap();
        let mut popularity = Popularity::of(dir.path());
        for (title, hours) in [("c", 1.0), ("a", 3.0), ("d", 0.05), ("b", 2.0)] {
            popularity.watched(title, hours, 1000);
        }
        (dir, Prefill::new(hours, popularity))
    }

    const NIGHT: (u64, u32) = (1000, 3 * 60);
    const DAY: (u64, u32) = (1000, 12 * 60);

    #[test]
    fn hours_may_go_over_midnight() {
        let night = hours("02:00-06:30");
        let minutes = [119, 120, 389, 390];
        assert_eq!(
            minutes.map(|minute| night.has(minute)),
            [false, true, true, false]
        );
        let over = hours(" 23:30 - 1:05");
        let minutes = [0, 64, 65, 1409, 1410, 1439];
        let is_in = [true, true, false, false, true, true];
        assert_eq!(minutes.map(|minute| over.has(minute)), is_in);
        assert_eq!(over.to_string(), "23:30-01:05");
    }

    #[test]
    fn what_are_no_hours_is_refused_with_an_example() {
        for text in [
            "",
            "2-6",
            "02:00",
            "24:00-06:00",
            "02:60-06:00",
            "02:00-02:00",
            "02:00-+6:00",
        ] {
            let error = text.parse::<Hours>().unwrap_err();
            assert!(error.contains("02:00-06:00"), "{text}: {error}");
        }
    }

    #[test]
    fn at_night_the_films_watched_most_are_chosen_as_many_as_fit() {
        let (_dir, mut prefill) = prefill(Some(hours("02:00-06:00")));
        let size = |title: &str| match title {
            "a" => Some(400),
            "b" => Some(600),
            _ => Some(300),
        };
        prefill.choose(NIGHT, size, 1000);
        assert_eq!(
            prefill.titles(),
            ["a", "c"],
            "b does not fit, d was only looked into"
        );
        prefill.choose(DAY, size, 1000);
        assert!(prefill.titles().is_empty() && !prefill.shown().running);
    }

    #[test]
    fn a_film_that_is_gone_or_lies_here_is_left_out() {
        let (_dir, mut prefill) = prefill(Some(hours("02:00-06:00")));
        prefill.choose(NIGHT, |title| (title != "a").then_some(1), 1000);
        assert_eq!(prefill.titles(), ["b", "c"]);
    }

    #[test]
    fn what_is_asked_for_by_day_ends_when_all_of_it_is_there() {
        let (_dir, mut prefill) = prefill(None);
        prefill.choose(DAY, |_| Some(1), 1000);
        assert!(prefill.titles().is_empty());
        prefill.ask(true);
        prefill.choose(DAY, |_| Some(1), 1000);
        assert_eq!(prefill.titles(), ["a", "b", "c"]);
        for title in ["a", "b"] {
            prefill.lacks(title, 0);
        }
        prefill.choose(DAY, |_| Some(1), 1000);
        assert_eq!(prefill.titles().len(), 3, "one is not there yet");
        prefill.lacks("c", 0);
        prefill.choose(DAY, |_| Some(1), 1000);
        assert!(prefill.titles().is_empty() && !prefill.shown().running);
        prefill.ask(true);
        prefill.choose(DAY, |_| Some(1), 1000);
        prefill.ask(false);
        assert!(prefill.titles().is_empty(), "an operator may end it");
    }
}
