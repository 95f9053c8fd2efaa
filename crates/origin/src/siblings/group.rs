//! Connections to the siblings, shared by all sources of a server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use reelway_catalogue::{MOST_WATCHED, Watched};
use reelway_supervise::{self as supervise, lock};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tracing::{debug, info, warn};

use super::choice::{Candidate, Choice, Edge};
use super::load::Load;
use super::standing::{Standing, Standings};
use super::titles::Titles;
use crate::address::{Address, Scheme};
use crate::fault::Fault;
use crate::lists::{ListedFilm, Page, known_version};
use crate::redirects::Hosts;
use crate::secret::Secret;
use crate::web::Web;

/// Timeout for connecting to a sibling, and longest time without a byte from it. After that the
/// origin is asked instead; a viewer may be waiting.
const CONNECT: Duration = Duration::from_secs(1);
const STALL: Duration = Duration::from_secs(2);
/// Maximum size of a list with at most one film, and of a sibling's self-description, in bytes.
const MOST_LIST: usize = 256 << 10;
/// Siblings are asked about themselves again after this time, as they may have been reinstalled.
const SELDOM: Duration = Duration::from_secs(60);
/// The same time if viewers are sent to siblings that have room: so they are asked at each tick.
const OFTEN: Duration = Duration::from_millis(500);
/// Upper bound of any network's rate, in bytes per second.
const MOST_RATE: u64 = 1 << 50;

/// The configured siblings of this server.
#[derive(Clone, Debug, Default)]
pub struct GroupConfig {
    /// Addresses of their HTTP servers. This server may be among them.
    pub addresses: Vec<Address>,
    /// The token by which they recognise each other.
    pub token: Secret,
    /// The id of this server.
    pub own_id: String,
    /// Whether viewers are sent to the sibling that has their film.
    pub redirects: bool,
}

/// The siblings of this server: edges of the same sources.
#[derive(Debug)]
pub struct Group {
    siblings: Vec<Sibling>,
    choice: Mutex<Choice>,
    standings: Mutex<Standings>,
    titles: Mutex<Titles>,
}

#[derive(Debug)]
struct Sibling {
    web: Web,
    version: Mutex<Option<String>>,
    requests: AtomicU64,
    bytes: AtomicU64,
    faults: AtomicU64,
}

/// What was received from a sibling since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiblingStats {
    /// Its address.
    pub address: String,
    /// Its id is known, and it has answered as it should since its last failure.
    pub is_up: bool,
    /// It is this server itself.
    pub is_own: bool,
    /// Its version, once it is known.
    pub version: Option<String>,
    /// Requests for films and parts of them.
    pub requests: u64,
    /// Bytes of films and indexes that were received.
    pub bytes: u64,
    /// Requests that failed.
    pub faults: u64,
}

impl Group {
    /// Creates clients for all siblings, without asking them anything yet. The error names the
    /// address or token that is unusable.
    pub fn new(config: &GroupConfig) -> Result<Arc<Group>, String> {
        let token = config.token.resolve().map_err(|error| error.to_string())?;
        let siblings = config.addresses.iter().map(|address| {
            if address.scheme != Scheme::Web {
                return Err(format!("{}: a sibling is a web server", address.shown()));
            }
            let web = Web::new(address.clone(), &token, Hosts::none(), CONNECT, STALL);
            let web = web.map_err(|error| format!("{}: {error}", address.shown()))?;
            Ok(Sibling {
                web,
                version: Mutex::default(),
                requests: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                faults: AtomicU64::new(0),
            })
        });
        let siblings = siblings.collect::<Result<Vec<_>, String>>()?;
        let again = if config.redirects { OFTEN } else { SELDOM };
        let own = Edge {
            id: config.own_id.clone(),
            redirects: config.redirects,
        };
        Ok(Arc::new(Group {
            choice: Mutex::new(Choice::new(own, siblings.len(), again)),
            standings: Mutex::new(Standings::new(siblings.len())),
            titles: Mutex::default(),
            siblings,
        }))
    }

    /// The number of siblings.
    pub(super) fn count(&self) -> usize {
        self.siblings.len()
    }

    /// Whether a sibling is this server itself.
    pub(super) fn is_own(&self, number: usize) -> bool {
        self.choice().is_own(number)
    }

    /// What was received from each sibling.
    pub fn stats(&self) -> Vec<SiblingStats> {
        let choice = self.choice();
        let siblings = self.siblings.iter().enumerate();
        siblings
            .map(|(number, sibling)| SiblingStats {
                address: sibling.web.address().shown().to_owned(),
                is_up: choice.is_up(number),
                is_own: choice.is_own(number),
                version: lock(&sibling.version).clone(),
                requests: sibling.requests.load(Ordering::Relaxed),
                bytes: sibling.bytes.load(Ordering::Relaxed),
                faults: sibling.faults.load(Ordering::Relaxed),
            })
            .collect()
    }

    fn choice(&self) -> MutexGuard<'_, Choice> {
        // Only figures for choosing a sibling; if they mislead, the origin is asked.
        supervise::whole(self.choice.lock())
    }

    /// What siblings have reported about themselves.
    pub(super) fn standings(&self) -> MutexGuard<'_, Standings> {
        // Each entry is written as a whole.
        supervise::whole(self.standings.lock())
    }

    /// The titles of films at siblings.
    pub(super) fn titles(&self) -> MutexGuard<'_, Titles> {
        supervise::whole(self.titles.lock())
    }

    /// The available siblings, the one responsible for this part of the film first.
    pub(super) fn candidates(&self, film: u128, part: u64) -> Vec<Candidate> {
        self.choice().candidates(film, part, reelway_clock::now())
    }

    /// The available siblings, in the order of their rank for a film's viewers.
    pub(super) fn for_viewers(&self, film: u128) -> Vec<Candidate> {
        self.choice().for_viewers(film, reelway_clock::now())
    }

    /// Asks the siblings that are due about themselves.
    pub(super) async fn meet(&self) {
        let unmet = self.choice().unmet(reelway_clock::now());
        join_all(unmet.into_iter().map(|number| self.meet_one(number))).await;
    }

    /// Does the same in the background. Must be called in the runtime, once a second: siblings come
    /// and go.
    pub fn tick(self: &Arc<Self>) {
        let unmet = self.choice().unmet(reelway_clock::now());
        for number in unmet {
            let group = self.clone();
            tokio::spawn(async move { group.meet_one(number).await });
        }
    }

    async fn meet_one(&self, number: usize) {
        let asked = reelway_clock::now();
        match self.document::<NodeDocument>(number, "api/node", "").await {
            Ok(node) if !node.id.is_empty() => {
                let now = reelway_clock::now();
                self.standings().heard(number, node.standing(), asked);
                *lock(&self.siblings[number].version) = known_version(&node.version);
                let mut choice = self.choice();
                choice.good(number);
                let edge = Edge {
                    id: node.id,
                    redirects: node.redirects,
                };
                let is_new = choice.met(number, edge, now);
                if is_new && !choice.is_own(number) {
                    info!("{}: is a sibling", self.shown(number));
                }
            }
            Ok(_) => self.not_met(number, &Fault::Wrong("no Reelway, or an old one".into())),
            Err(fault) => self.not_met(number, &fault),
        }
    }

    fn not_met(&self, number: usize, fault: &Fault) {
        self.standings().lost(number);
        self.failed(number, fault);
    }

    /// A sibling's address as it is shown.
    pub(super) fn shown(&self, number: usize) -> &str {
        self.siblings[number].web.address().shown()
    }

    /// The client for a sibling. Each call counts as a request.
    pub(super) fn ask(&self, number: usize) -> &Web {
        let sibling = &self.siblings[number];
        sibling.requests.fetch_add(1, Ordering::Relaxed);
        &sibling.web
    }

    /// Counts bytes from a sibling.
    pub(super) fn came(&self, number: usize, bytes: u64) {
        let sibling = &self.siblings[number];
        sibling.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that a sibling has answered as it should.
    pub(super) fn answered(&self, number: usize) {
        self.choice().good(number);
    }

    /// Notes that a sibling has failed.
    pub(super) fn failed(&self, number: usize, fault: &Fault) {
        self.siblings[number].faults.fetch_add(1, Ordering::Relaxed);
        let now = reelway_clock::now();
        let chance = getrandom::u64().unwrap_or(now.nanos());
        let shown = self.shown(number);
        let why = match fault {
            Fault::Forbidden(status) => {
                format!("access is refused (status {status}): its `siblings.token` is another one")
            }
            fault => fault.to_string(),
        };
        if self.choice().bad(number, now, chance) {
            warn!("sibling {shown}: {why}; the origin is asked instead");
        } else {
            debug!("sibling {shown}: {why}");
        }
    }

    /// The film with this number at a sibling, whether it is ready there or not.
    pub(super) async fn find(
        &self,
        number: usize,
        film: u128,
    ) -> Result<Option<ListedFilm>, Fault> {
        let identity = format!("{film:032x}");
        let query = format!("per_page=1&identity={identity}");
        let page: Page = self.document(number, "api/films", &query).await?;
        // Older servers ignore `identity` and list all their films.
        let film = page.films.into_iter().next();
        Ok(film.filter(|film| film.identity.as_ref() == Some(&identity)))
    }

    async fn document<T: DeserializeOwned>(
        &self,
        number: usize,
        path: &str,
        query: &str,
    ) -> Result<T, Fault> {
        let document = self
            .ask(number)
            .document(path, query, "application/json", MOST_LIST);
        let text = document.await?;
        let text = text.ok_or_else(|| Fault::Wrong(format!("no {path}")))?;
        serde_json::from_str(&text).map_err(|error| Fault::Wrong(format!("its {path}: {error}")))
    }
}

/// The fields of a sibling's `GET /api/node` that are used here.
#[derive(Debug, Deserialize)]
struct NodeDocument {
    id: String,
    #[serde(default)]
    version: String,
    state: String,
    sessions: SessionsDocument,
    /// Missing from servers older than this field, which rank edges part by part.
    #[serde(default)]
    redirects: bool,
    /// Missing from servers older than this field: they count as having no limit.
    #[serde(default)]
    network: Option<NetworkDocument>,
    addresses: AddressesDocument,
    /// Missing from servers older than this field.
    #[serde(default)]
    watched: Vec<WatchedDocument>,
}

#[derive(Debug, Deserialize)]
struct WatchedDocument {
    identity: String,
    viewers: u64,
    rate: u64,
}

#[derive(Debug, Deserialize)]
struct SessionsDocument {
    total: u64,
}

#[derive(Debug, Deserialize)]
struct NetworkDocument {
    total: u64,
    free: u64,
}

#[derive(Debug, Deserialize)]
struct AddressesDocument {
    rtsp: String,
    http: String,
}

impl NetworkDocument {
    /// The rates, bounded so that many can be added up.
    fn bounded(&self) -> (u64, u64) {
        let total = self.total.min(MOST_RATE);
        (total, self.free.min(total))
    }
}

impl NodeDocument {
    fn standing(&self) -> Standing {
        let AddressesDocument { rtsp, http } = &self.addresses;
        // They become part of answers to viewers.
        let are_addresses =
            is_address(rtsp, &["rtsp://"]) && is_address(http, &["http://", "https://"]);
        let watched = self.watched.iter().take(MOST_WATCHED).filter_map(|film| {
            Some(Watched {
                film: u128::from_str_radix(&film.identity, 16).ok()?,
                viewers: film.viewers,
                rate: film.rate,
            })
        });
        Standing {
            watched: watched.collect(),
            load: Load {
                viewers: self.sessions.total,
                network: self.network.as_ref().map(NetworkDocument::bounded),
            },
            is_serving: self.state == "serving" && are_addresses,
            rtsp: rtsp.clone(),
            http: http.clone(),
        }
    }
}

/// Whether a text is one of these schemes, followed by a host and a port, so that it can be given
/// to viewers.
fn is_address(text: &str, schemes: &[&str]) -> bool {
    let host = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    let is_sound = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    host.is_some_and(|host| (1..=300).contains(&host.len()) && host.chars().all(is_sound))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(rtsp: &str, http: &str, state: &str) -> Standing {
        let text = format!(
            r#"{{"id": "a", "state": "{state}", "sessions": {{"total": 7, "playing": 3}},
                "network": {{"total": 100, "free": 30}},
                "watched": [{{"identity": "1f", "viewers": 5, "rate": 70}}, {{"identity": "x", "viewers": 1, "rate": 1}}],
                "addresses": {{"rtsp": "{rtsp}", "http": "{http}"}}, "more": 1}}"#
        );
        serde_json::from_str::<NodeDocument>(&text)
            .expect("JSON")
            .standing()
    }

    #[test]
    fn what_a_sibling_says_of_itself_is_read() {
        let standing = standing(
            "rtsp://[2001:db8::1]:8554",
            "http://edge-2.example:8080",
            "serving",
        );
        assert!(standing.is_serving);
        assert_eq!(
            (standing.load.viewers, standing.load.network),
            (7, Some((100, 30)))
        );
        let watched = Watched {
            film: 31,
            viewers: 5,
            rate: 70,
        };
        assert_eq!(standing.watched, [watched]);
        assert_eq!(standing.rtsp, "rtsp://[2001:db8::1]:8554");
    }

    #[test]
    fn rates_beyond_all_measure_can_be_reckoned_with() {
        let network = |total, free| NetworkDocument { total, free }.bounded();
        assert_eq!(network(u64::MAX, u64::MAX), (MOST_RATE, MOST_RATE));
        assert_eq!(network(10, u64::MAX), (10, 10));
        let load = Load {
            viewers: u64::MAX,
            network: Some(network(u64::MAX, 0)),
        };
        assert_eq!(load.with(1).viewers, u64::MAX);
        let none = |_| super::super::favourites::Favourites { all: 0, hotter: 0 };
        assert_eq!(super::super::load::choose(&[load; 64], 1, none), None);
    }

    #[test]
    fn viewers_are_not_sent_to_what_is_no_address_or_admits_nobody() {
        let (rtsp, http) = ("rtsp://h:1", "http://h:2");
        assert!(standing(rtsp, http, "serving").is_serving);
        for (rtsp, http, state) in [
            (rtsp, http, "draining"),
            (rtsp, http, "starting"),
            (rtsp, "javascript:x", "serving"),
            (rtsp, "http://", "serving"),
            (rtsp, "http://h/path", "serving"),
            ("rtsp://h 1", http, "serving"),
            ("rtsp://h\\r\\nX: y", http, "serving"),
        ] {
            assert!(
                !standing(rtsp, http, state).is_serving,
                "{rtsp} {http} {state}"
            );
        }
    }
}
