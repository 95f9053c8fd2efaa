//! What the protocols ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use reelway_metrics::Exposition;

use crate::entry::{CatalogueError, Entry, Film, State};
use crate::intake::Intake;
use crate::placement::Soon;
use crate::subtitles::SubtitleFile;

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

    /// How many entries there are in each state, by the state's name.
    fn tally(&self) -> BTreeMap<&'static str, usize> {
        let mut tally = BTreeMap::from(State::NAMES.map(|name| (name, 0)));
        for entry in self.list() {
            *tally.entry(entry.state.name()).or_default() += 1;
        }
        tally
    }

    /// How many of the entries that are ready are renditions of another film.
    fn renditions(&self) -> usize {
        let entries = self.list();
        let is_rendition = |entry: &&Arc<Entry>| {
            entry.set.rendition_of.is_some() && matches!(entry.state, State::Ready(_))
        };
        entries.iter().filter(is_rendition).count()
    }

    /// Writes how many films there are, by state.
    fn write_metrics(&self, out: &mut Exposition) {
        out.family("reelway_films", "gauge", "Films by state.");
        for (state, count) in self.tally() {
            out.value("reelway_films", &[("state", state)], count);
        }
    }
}
