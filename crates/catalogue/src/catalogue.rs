//! What the protocols ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use reelway_metrics::Exposition;

use crate::entry::{CatalogueError, Entry, Film, State};
use crate::intake::Intake;
use crate::placement::Soon;
use crate::subtitles::SubtitleFile;

/// How many entries of the catalogue there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// In each state, by the state's name.
    pub states: BTreeMap<&'static str, usize>,
    /// Of those that are ready: renditions of another film.
    pub renditions: usize,
}

/// Which films there are. Asked by every protocol, for every newcomer.
pub trait Catalogue: Send + Sync {
    /// All entries by name, playable or not.
    fn list(&self) -> Vec<Arc<Entry>>;

    /// One entry.
    fn entry(&self, name: &str) -> Option<Arc<Entry>>;

    /// The film of this name with its index, loaded if it was not in memory.
    fn film(&self, name: &str) -> Result<Arc<Film>, CatalogueError>;

    /// The text of subtitles beside a film that are elsewhere ([`SubtitleTrack::elsewhere`](crate::SubtitleTrack::elsewhere)),
    /// as WebVTT. An error, in words: it cannot be fetched now, which was logged.
    fn subtitles<'a>(
        &'a self,
        film: &'a Film,
        file: &'a SubtitleFile,
    ) -> Soon<'a, Result<Arc<str>, String>>;

    /// Where films can be put and taken away; `None` where they cannot.
    fn intake(&self) -> Option<&dyn Intake> {
        None
    }

    /// How many entries there are.
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

    /// Writes how many films there are, by state.
    fn write_metrics(&self, out: &mut Exposition) {
        out.family("reelway_films", "gauge", "Films by state.");
        for (state, count) in self.tally().states {
            out.value("reelway_films", &[("state", state)], count);
        }
    }
}
