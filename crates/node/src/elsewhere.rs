//! The servers of remote films, for `/metrics` and the API.

use std::sync::Arc;

use reelway_catalogue::{Catalogue, MOST_WATCHED, Placement, Watched};
use reelway_http::OtherServer;
use reelway_metrics::Exposition;
use reelway_origin::{Group, Load, Origin, Own, Places};
use reelway_session::Sessions;

/// Origins and siblings.
#[derive(Default)]
pub struct Elsewhere {
    pub(crate) origins: Vec<Arc<Origin>>,
    pub(crate) group: Option<Arc<Group>>,
    /// Whether viewers are redirected to the sibling that has their film.
    pub(crate) redirects: bool,
}

/// The load and the films of this server, for its siblings.
struct Viewers {
    sessions: Sessions,
    catalogue: Arc<dyn Catalogue>,
}

impl Own for Viewers {
    fn load(&self) -> Option<Load> {
        (!self.sessions.is_draining()).then(|| Load {
            viewers: self.sessions.len() as u64,
            network: self.sessions.gate().network(),
        })
    }

    fn watched(&self) -> Vec<Watched> {
        self.sessions.watched(&*self.catalogue, MOST_WATCHED)
    }
}

impl Elsewhere {
    /// Returns the placement of viewers on this server and its siblings; `None` if viewers are
    /// never redirected.
    pub fn placement(
        &self,
        sessions: &Sessions,
        catalogue: Arc<dyn Catalogue>,
    ) -> Option<Arc<dyn Placement>> {
        let group = self.group.as_ref().filter(|_| self.redirects)?;
        let own = Viewers {
            sessions: sessions.clone(),
            catalogue,
        };
        Some(Arc::new(Places::new(group.clone(), own)))
    }

    /// Polls the siblings. To be called once a second, in the runtime.
    pub fn tick(&self) {
        if let Some(group) = &self.group {
            group.tick();
        }
    }

    /// Returns the statistics of each server, origins first. This server is not included.
    pub fn servers(&self) -> Vec<OtherServer> {
        let origins = self.origins.iter().map(|origin| {
            let stats = origin.stats();
            OtherServer {
                address: origin.shown().to_owned(),
                sibling: false,
                up: origin.is_up(),
                version: origin.version(),
                requests: stats.requests,
                bytes: stats.bytes,
                faults: stats.faults,
            }
        });
        let siblings = self.group.iter().flat_map(|group| group.stats());
        let siblings = siblings
            .filter(|stats| !stats.is_own)
            .map(|stats| OtherServer {
                address: stats.address,
                sibling: true,
                up: stats.is_up,
                version: stats.version,
                requests: stats.requests,
                bytes: stats.bytes,
                faults: stats.faults,
            });
        origins.chain(siblings).collect()
    }

    /// Writes the metrics of requests and answers.
    pub fn write_metrics(&self, out: &mut Exposition) {
        let origins: Vec<_> = (self.origins.iter())
            .map(|origin| (origin.shown(), origin.stats()))
            .collect();
        let mut each = |name: &str, help: &str, value: fn(&reelway_origin::OriginStats) -> u64| {
            if !origins.is_empty() {
                out.family(name, "counter", help);
            }
            for (source, stats) in &origins {
                out.value(name, &[("source", source)], value(stats));
            }
        };
        each(
            "reelway_origin_requests_total",
            "Requests to a source for bytes, versions and indexes of films.",
            |stats| stats.requests,
        );
        each(
            "reelway_origin_bytes_total",
            "Bytes of films and indexes received from a source.",
            |stats| stats.bytes,
        );
        each(
            "reelway_origin_faults_total",
            "Requests to a source that failed.",
            |stats| stats.faults,
        );
        let Some(group) = &self.group else { return };
        let siblings: Vec<_> = (group.stats().into_iter())
            .filter(|sibling| !sibling.is_own)
            .collect();
        let mut each = |name: &str,
                        kind: &str,
                        help: &str,
                        value: fn(&reelway_origin::SiblingStats) -> u64| {
            out.family(name, kind, help);
            for sibling in &siblings {
                out.value(name, &[("sibling", &sibling.address)], value(sibling));
            }
        };
        each(
            "reelway_sibling_up",
            "gauge",
            "1 if the sibling has answered correctly since its last failure.",
            |sibling| sibling.is_up.into(),
        );
        each(
            "reelway_sibling_requests_total",
            "counter",
            "Requests to a sibling.",
            |sibling| sibling.requests,
        );
        each(
            "reelway_sibling_bytes_total",
            "counter",
            "Bytes of films and indexes received from a sibling.",
            |sibling| sibling.bytes,
        );
        each(
            "reelway_sibling_faults_total",
            "counter",
            "Requests to a sibling that failed.",
            |sibling| sibling.faults,
        );
    }
}
