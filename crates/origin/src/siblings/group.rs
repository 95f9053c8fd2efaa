//! Connections to the siblings, which all sources of a server share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use reelway_supervise as supervise;
use tracing::{debug, info, warn};

use super::choice::{Candidate, Choice};
use crate::address::{Address, Scheme};
use crate::fault::Fault;
use crate::lists::{Page, Told};
use crate::redirects::Hosts;
use crate::secret::Secret;
use crate::web::Web;

/// Time for a connection to a sibling, and longest time without a byte from it: the origin is asked instead, and a
/// viewer may be waiting.
const CONNECT: Duration = Duration::from_secs(1);
const STALL: Duration = Duration::from_secs(2);
/// Bytes of a list with at most one film.
const MOST_LIST: usize = 256 << 10;

/// The siblings of this server, as they are configured.
#[derive(Clone, Debug, Default)]
pub struct GroupConfig {
    /// Where their HTTP servers are. This server may be among them.
    pub addresses: Vec<Address>,
    /// What they know each other by.
    pub token: Secret,
    /// The id of this server.
    pub own_id: String,
}

/// The siblings of this server: edges of the same sources.
#[derive(Debug)]
pub struct Group {
    siblings: Vec<Sibling>,
    choice: Mutex<Choice>,
}

#[derive(Debug)]
struct Sibling {
    web: Web,
    requests: AtomicU64,
    bytes: AtomicU64,
    faults: AtomicU64,
}

/// What came from a sibling since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiblingStats {
    /// Its address.
    pub address: String,
    /// It has said its id, and has answered as it should since it failed last.
    pub is_up: bool,
    /// It is this server itself.
    pub is_own: bool,
    /// Requests for films and parts of them.
    pub requests: u64,
    /// Bytes of films and indexes that came.
    pub bytes: u64,
    /// Requests that failed.
    pub faults: u64,
}

impl Group {
    /// Clients for all of them; nothing is asked yet. An error, in words: what cannot be.
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
                requests: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                faults: AtomicU64::new(0),
            })
        });
        let siblings = siblings.collect::<Result<Vec<_>, String>>()?;
        Ok(Arc::new(Group {
            choice: Mutex::new(Choice::new(&config.own_id, siblings.len())),
            siblings,
        }))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.siblings.len()
    }

    /// What came from each.
    pub fn stats(&self) -> Vec<SiblingStats> {
        let choice = self.choice();
        let siblings = self.siblings.iter().enumerate();
        siblings
            .map(|(number, sibling)| SiblingStats {
                address: sibling.web.address().shown().to_owned(),
                is_up: choice.is_up(number),
                is_own: choice.is_own(number),
                requests: sibling.requests.load(Ordering::Relaxed),
                bytes: sibling.bytes.load(Ordering::Relaxed),
                faults: sibling.faults.load(Ordering::Relaxed),
            })
            .collect()
    }

    fn choice(&self) -> MutexGuard<'_, Choice> {
        // Figures by which a sibling is chosen; the origin is asked where they mislead.
        supervise::whole(self.choice.lock())
    }

    /// The siblings that are well, the one that is to have this part of the film first.
    pub(super) fn candidates(&self, film: u128, part: u64) -> Vec<Candidate> {
        self.choice().candidates(film, part, reelway_clock::now())
    }

    /// Asks siblings for their ids, if it is time to.
    pub(super) async fn meet(&self) {
        let unmet = self.choice().unmet(reelway_clock::now());
        join_all(unmet.into_iter().map(|number| self.meet_one(number))).await;
    }

    /// The same while the caller goes on, which must be in the runtime. To be called once a second: siblings come and go.
    pub fn tick(self: &Arc<Self>) {
        let unmet = self.choice().unmet(reelway_clock::now());
        for number in unmet {
            let group = self.clone();
            tokio::spawn(async move { group.meet_one(number).await });
        }
    }

    async fn meet_one(&self, number: usize) {
        match self.list(number, "per_page=1").await {
            Ok(page) if !page.node.is_empty() => {
                let mut choice = self.choice();
                choice.good(number);
                let is_new = choice.met(number, &page.node, reelway_clock::now());
                if is_new && !choice.is_own(number) {
                    info!("{}: a sibling", self.shown(number));
                }
            }
            Ok(_) => self.failed(number, &Fault::Wrong("no Reelway, or an old one".into())),
            Err(fault) => self.failed(number, &fault),
        }
    }

    /// How a sibling is shown.
    pub(super) fn shown(&self, number: usize) -> &str {
        self.siblings[number].web.address().shown()
    }

    /// A sibling's server. What is asked of it is counted.
    pub(super) fn ask(&self, number: usize) -> &Web {
        let sibling = &self.siblings[number];
        sibling.requests.fetch_add(1, Ordering::Relaxed);
        &sibling.web
    }

    /// Bytes came from a sibling.
    pub(super) fn came(&self, number: usize, bytes: u64) {
        let sibling = &self.siblings[number];
        sibling.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A sibling has answered as it should.
    pub(super) fn answered(&self, number: usize) {
        self.choice().good(number);
    }

    /// A sibling has failed.
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
    pub(super) async fn find(&self, number: usize, film: u128) -> Result<Option<Told>, Fault> {
        let identity = format!("{film:032x}");
        let page = self
            .list(number, &format!("per_page=1&identity={identity}"))
            .await?;
        // Servers of before list their films, whatever they are asked for.
        let film = page.films.into_iter().next();
        Ok(film.filter(|film| film.identity.as_ref() == Some(&identity)))
    }

    async fn list(&self, number: usize, query: &str) -> Result<Page, Fault> {
        let document = self
            .ask(number)
            .document("api/films", query, "application/json", MOST_LIST);
        let text = document.await?;
        let text = text.ok_or_else(|| Fault::Wrong("no list of films".into()))?;
        serde_json::from_str(&text).map_err(|error| Fault::Wrong(format!("its list: {error}")))
    }
}
