//! The titles of films at siblings. Pure: time is an argument.

use std::collections::HashMap;
use std::time::Duration;

use reelway_clock::Monotonic;

/// How long a sibling's answer with the title of a film is valid …
const THERE: Duration = Duration::from_secs(60);
/// … and how long its answer that the film does not play there.
const NOT_THERE: Duration = Duration::from_secs(3);
/// Maximum number of answers that are kept.
const MOST_TITLES: usize = 16_384;
/// The titles of films at siblings, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Titles(HashMap<(usize, u128), (Monotonic, Option<String>)>);

impl Titles {
    /// A film's title at a sibling, or `Some(None)` if it does not play there; `None` if that is
    /// not known now.
    pub fn of(&self, sibling: usize, film: u128, now: Monotonic) -> Option<Option<String>> {
        let (at, title) = self.0.get(&(sibling, film))?;
        let holds = if title.is_some() { THERE } else { NOT_THERE };
        (now.since(*at) <= holds).then(|| title.clone())
    }

    pub fn note(&mut self, sibling: usize, film: u128, title: Option<String>, now: Monotonic) {
        if self.0.len() >= MOST_TITLES {
            self.0.retain(|_, (at, _)| now.since(*at) <= NOT_THERE);
        }
        if self.0.len() < MOST_TITLES {
            self.0.insert((sibling, film), (now, title));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos((1 + seconds) * 1_000_000_000)
    }

    #[test]
    fn what_a_film_is_called_is_asked_again_after_a_minute_and_whether_it_is_there_after_three_seconds()
     {
        let mut titles = Titles::default();
        assert_eq!(titles.of(0, 7, at(0)), None);
        titles.note(0, 7, Some("a/b".into()), at(0));
        titles.note(1, 7, None, at(0));
        assert_eq!(titles.of(0, 7, at(60)), Some(Some("a/b".into())));
        assert_eq!(titles.of(0, 7, at(61)), None);
        assert_eq!(titles.of(1, 7, at(3)), Some(None));
        assert_eq!(titles.of(1, 7, at(4)), None);
        assert_eq!(titles.of(1, 8, at(0)), None);
    }

    #[test]
    fn however_many_films_are_asked_for_memory_is_bounded() {
        let mut titles = Titles::default();
        for film in 0..40_000 {
            titles.note(0, film, Some(String::new()), at(0));
        }
        assert_eq!(titles.0.len(), MOST_TITLES);
        titles.note(0, 50_000, Some("new".into()), at(10));
        assert_eq!(titles.of(0, 50_000, at(10)), Some(Some("new".into())));
    }
}
