//! Indexes that siblings or the origin of a film have made.

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
    /// Of which endpoint's version it is: of a recording that has grown, a longer one. `None`: of the film's.
    pub of: Option<(usize, Version)>,
}

impl Source {
    /// The film's index, as a sibling or its origin has made it; `None`: the film's tables are to be read.
    ///
    /// # Errors
    /// In words: of a recording, why it cannot be had now. It is not read through for that.
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
