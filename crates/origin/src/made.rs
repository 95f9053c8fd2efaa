//! Indexes that siblings or a film's origin have made.

use std::sync::atomic::Ordering;

use reelway_media::{Index, Scratch};
use tracing::warn;

use crate::endpoint::Endpoint;
use crate::indexes;
use crate::source::{Film, Pin, Source};
use crate::version::Version;

/// An index that another server has made.
pub(crate) struct Made {
    pub index: Index,
    /// The endpoint and its version to which the index belongs, which may be longer for a
    /// recording. `None`: it belongs to the film's own version.
    pub of: Option<(usize, Version)>,
}

impl Source {
    /// The film's index, if a sibling or the origin has made one; `None` if the film's tables have
    /// to be read.
    ///
    /// # Errors
    /// Says why the index of a recording is not available now. A recording is not read through for
    /// it.
    pub async fn index(
        &self,
        film: &Film,
        origin_is_reelway: bool,
        scratch: Scratch,
    ) -> Result<Option<Made>, String> {
        if let Some(siblings) = &self.siblings
            && let Some(index) = siblings.index(&film.at_siblings, &scratch).await
        {
            return Ok(Some(Made { index, of: None }));
        }
        let mut endpoints = self.endpoints.iter().enumerate();
        let asked = endpoints
            .find_map(|(number, endpoint)| match (endpoint, film.pin(number)) {
                (Endpoint::Web(web), Pin::Is(version)) => Some((number, web, version)),
                _ => None,
            })
            .filter(|_| origin_is_reelway);
        let Some((number, web, version)) = asked else {
            return Ok(None);
        };
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let came = |bytes| {
            self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        };
        match indexes::fetch(web, &film.path, &version, scratch, came).await {
            Ok(made) => Ok(made.map(|(version, index)| Made {
                index,
                of: Some((number, version)),
            })),
            Err(why) if film.is_recording() => Err(why),
            Err(why) => {
                let (shown, path) = (web.address().shown(), &film.path);
                warn!("{shown}: {path}: {why}; the film itself is read instead of its index");
                Ok(None)
            }
        }
    }
}
