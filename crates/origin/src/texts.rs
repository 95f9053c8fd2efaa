//! Texts of subtitles that were fetched, kept so that many viewers cause one request. A text
//! belongs to one version of a file: it is served even while the server that it comes from does not
//! answer. Pure.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reelway_clock::Monotonic;
use tokio::sync::OnceCell;

/// Maximum number of bytes that are kept: several hundred texts of usual length. The least recently
/// used text is evicted first.
const MOST: usize = 32 << 20;
/// After a failure, a text is not requested again for this time.
const REST: Duration = Duration::from_secs(5);

/// The film's address, and the version of the subtitle file beside it.
pub(crate) type Key = (PathBuf, String);

/// Holds a text that one task fetches and many may wait for.
pub(crate) type Cell = Arc<OnceCell<Arc<str>>>;

/// The texts that were fetched.
#[derive(Default)]
pub(crate) struct Texts {
    kept: HashMap<Key, Kept>,
    bytes: usize,
    uses: u64,
}

#[derive(Default)]
struct Kept {
    cell: Cell,
    bytes: usize,
    /// When it was asked for last, as the count of uses.
    used: u64,
    /// Until when it is not requested again, and why.
    failed: Option<(Monotonic, String)>,
}

impl Texts {
    /// Returns the cell that holds this text, or will hold it.
    pub fn cell(&mut self, key: &Key) -> Cell {
        self.uses += 1;
        let kept = self.kept.entry(key.clone()).or_default();
        kept.used = self.uses;
        kept.cell.clone()
    }

    /// Why this text is not to be requested now, if that is so.
    pub fn failed(&self, key: &Key, now: Monotonic) -> Option<String> {
        let (until, why) = self.kept.get(key)?.failed.as_ref()?;
        (now < *until).then(|| why.clone())
    }

    /// Notes that this text could not be fetched.
    pub fn fail(&mut self, key: &Key, why: String, now: Monotonic) {
        if let Some(kept) = self.kept.get_mut(key) {
            kept.failed = Some((now + REST, why));
        }
    }

    /// Notes that this text was fetched and its length; evicts others to stay within the bound.
    pub fn keep(&mut self, key: &Key, bytes: usize) {
        let Some(kept) = self.kept.get_mut(key) else {
            return;
        };
        self.bytes = self.bytes - kept.bytes + bytes;
        kept.bytes = bytes;
        kept.failed = None;
        while self.bytes > MOST {
            let filled = self
                .kept
                .iter()
                .filter(|(of, kept)| *of != key && kept.bytes > 0);
            let oldest = filled.min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.forget(&oldest);
        }
    }

    /// Drops texts that are no longer listed.
    pub fn retain(&mut self, is_listed: impl Fn(&Key) -> bool) {
        let gone: Vec<Key> = self
            .kept
            .keys()
            .filter(|key| !is_listed(key))
            .cloned()
            .collect();
        for key in gone {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(kept) = self.kept.remove(key) {
            self.bytes -= kept.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(film: &str) -> Key {
        (film.into(), "1".to_owned())
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn texts_stay_within_bounds_and_the_one_used_last_stays() {
        let mut texts = Texts::default();
        let many = 9;
        let all: Vec<Key> = (0..many).map(|film| key(&film.to_string())).collect();
        let cells: Vec<Cell> = all.iter().map(|key| texts.cell(key)).collect();
        texts.keep(&all[0], MOST / 4);
        for key in &all[1..] {
            texts.keep(key, MOST / 4);
            texts.cell(&all[0]);
            assert!(texts.bytes <= MOST);
        }
        assert!(Arc::ptr_eq(&texts.cell(&all[0]), &cells[0]));
        assert!(!Arc::ptr_eq(&texts.cell(&all[1]), &cells[1]));
        texts.retain(|key| *key == all[0]);
        assert_eq!((texts.kept.len(), texts.bytes), (1, MOST / 4));
        // A text that was dropped while it was being fetched is not counted.
        texts.keep(&all[1], MOST);
        assert_eq!(texts.bytes, MOST / 4);
    }

    #[test]
    fn after_a_failure_nothing_is_asked_for_a_while() {
        let mut texts = Texts::default();
        let film = key("film");
        texts.cell(&film);
        texts.fail(&film, "away".to_owned(), at(10));
        assert_eq!(texts.failed(&film, at(14)).as_deref(), Some("away"));
        assert_eq!(texts.failed(&film, at(15)), None);
        texts.keep(&film, 7);
        assert_eq!(texts.failed(&film, at(14)), None);
        assert_eq!(texts.failed(&key("other"), at(14)), None);
    }
}
