//! The catalogue as the protocols query it.

use std::collections::BTreeMap;
use std::sync::Arc;

use reelway_metrics::Exposition;

use crate::entry::{CatalogueError, Entry, Film, State};
use crate::intake::Intake;
use crate::placement::Soon;
use crate::subtitles::SubtitleFile;

/// The number of catalogue entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Entries in each state, by the state's name.
    pub states: BTreeMap<&'static str, usize>,
    /// Ready entries that are renditions of another film.
    pub renditions: usize,
}

/// The films that this server offers. Every protocol queries it for every new viewer.
pub trait Catalogue: Send + Sync {
    /// Returns all entries, playable or not, in order of their names.
    fn list(&self) -> Vec<Arc<Entry>>;

    /// Returns the entry with this name.
    fn entry(&self, name: &str) -> Option<Arc<Entry>>;

    /// Returns the film with this name and its index, which is loaded if it is not in memory.
    fn film(&self, name: &str) -> Result<Arc<Film>, CatalogueError>;

    /// Returns the text of subtitles on another server
    /// ([`SubtitleTrack::elsewhere`](crate::SubtitleTrack::elsewhere)) as WebVTT. The error is a
    /// message: the text cannot be fetched now, which has already been logged.
    fn subtitles<'a>(
        &'a self,
        film: &'a Film,
        file: &'a SubtitleFile,
    ) -> Soon<'a, Result<Arc<str>, String>>;

    /// Where films can be added and deleted; `None` if they cannot.
    fn intake(&self) -> Option<&dyn Intake> {
        None
    }

    /// Counts the entries.
    fn tally(&self) -> Tally {
        let mut tally = Tally {
            states: BTreeMap::from(State::NAMES.map(|name| (name, 0))),
            renditions: 0,
        };
        for entry in self.list() {
            *tally.states.entry(entry.state.name()).or_default() += 1;
            if entry.set.rendition_of.is_some() && matches!(entry.state, State::Ready(_)) {
                tally.renditions += 1;
            }
        }
        tally
    }

    /// Writes the number of films in each state.
    fn write_metrics(&self, out: &mut Exposition) {
        out.family("reelway_films", "gauge", "Films by state.");
        for (state, count) in self.tally().states {
            out.value("reelway_films", &[("state", state)], count);
        }
    }
}
