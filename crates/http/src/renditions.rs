//! Renditions of a film for adaptive bit rates: which ones players are offered, and whose viewers
//! request them.

use std::sync::Arc;

use reelway_catalogue::Entry;
use reelway_package::check_alignment;

use crate::films::{Films, Recorded, Show};

/// A requested film.
pub(crate) struct Wanted {
    pub show: Arc<Show>,
    /// The film of which it is a rendition: that film's viewers request it too.
    pub best: Option<Arc<Show>>,
    /// The growth of that film, or of this one if it is not a rendition.
    pub recorded: Option<Recorded>,
}

impl Wanted {
    /// Creates it for a film on its own, even if it is a rendition of another.
    pub fn alone(show: Arc<Show>) -> Wanted {
        Wanted {
            show,
            best: None,
            recorded: None,
        }
    }
}

/// Another rendition of a film.
pub(crate) struct Rendition {
    /// Its title.
    pub name: String,
    /// The rendition if players are offered it, otherwise why not.
    pub offered: Result<Arc<Show>, String>,
}

impl Films {
    /// Returns this film, with the film of which it is a rendition, if that plays.
    pub async fn wanted(&self, show: Arc<Show>) -> Wanted {
        let entry = self.entry(&show.film.name);
        let best = match entry.and_then(|entry| entry.set.rendition_of.clone()) {
            Some(best) => self.get(&best).await.ok(),
            None => None,
        };
        let recorded = self.recorded(best.as_ref().unwrap_or(&show));
        Wanted {
            show,
            best,
            recorded,
        }
    }

    /// Returns the other renditions of a film, largest first.
    pub async fn renditions(&self, entry: &Entry) -> Vec<Rendition> {
        let names = &entry.set.renditions;
        if names.is_empty() {
            return Vec::new();
        }
        let best = self.get(&entry.name).await;
        let mut renditions = Vec::with_capacity(names.len());
        for name in names {
            let offered = match &best {
                Ok(best) => self.aligned(best, name).await,
                Err(error) => Err(error.to_string()),
            };
            renditions.push(Rendition {
                name: name.clone(),
                offered,
            });
        }
        renditions
    }

    async fn aligned(&self, best: &Show, name: &str) -> Result<Arc<Show>, String> {
        if self.recorded(best).is_some() {
            return Err("the film is a recording that is still being made".to_owned());
        }
        let other = self.get(name).await.map_err(|error| error.to_string())?;
        let aligned = check_alignment(&best.package, &other.package);
        aligned.map_err(|why| why.to_string())?;
        Ok(other)
    }
}
