//! The server as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use reelway_catalogue::{Catalogue, MOST_WATCHED};
use reelway_session::State as Doing;
use reelway_store::Store;
use serde::Serialize;
use serde_json::Value;

use super::reply::Reply;
use crate::answer::Answer;
use crate::node::{Addresses, NodeState, Problem};
use crate::status::Status;

/// The data from which the server as a whole is described.
#[derive(Clone)]
pub(crate) struct Overview {
    pub catalogue: Arc<dyn Catalogue>,
    pub store: Store,
    pub status: Arc<Status>,
}

#[derive(Serialize)]
pub(super) struct Node {
    id: String,
    name: String,
    version: &'static str,
    uptime: f64,
    state: NodeState,
    problems: Vec<Problem>,
    films: BTreeMap<&'static str, usize>,
    renditions: usize,
    sessions: Sessions,
    sending: Value,
    http: Http,
    pool: Pool,
    network: Option<Network>,
    redirects: bool,
    watched: Vec<Watched>,
    addresses: Addresses,
}

/// A film with many viewers.
#[derive(Serialize)]
struct Watched {
    identity: String,
    viewers: u64,
    /// Bytes per second.
    rate: u64,
}

#[derive(Serialize)]
struct Sessions {
    total: usize,
    playing: usize,
    by_protocol: BTreeMap<&'static str, usize>,
}

#[derive(Serialize)]
struct Http {
    connections: i64,
    bytes: u64,
}

/// The network's capacity and its unbooked part, in bytes per second.
#[derive(Serialize)]
struct Network {
    total: u64,
    free: u64,
}

#[derive(Serialize)]
struct Pool {
    bytes: u64,
    used: u64,
    hits: u64,
    misses: u64,
}

impl Watched {
    fn of(film: reelway_catalogue::Watched) -> Watched {
        Watched {
            identity: format!("{:032x}", film.film),
            viewers: film.viewers,
            rate: film.rate,
        }
    }
}

impl Node {
    pub fn of(overview: &Overview) -> Node {
        let Overview {
            catalogue,
            store,
            status,
        } = overview;
        let (mut total, mut playing, mut by_protocol) = (0, 0, BTreeMap::new());
        for ((protocol, state), count) in status.sessions.tally() {
            total += count;
            playing += if state == Doing::Playing { count } else { 0 };
            *by_protocol.entry(protocol.name()).or_default() += count;
        }
        let films = catalogue.tally();
        let pool = store.stats();
        let block = u64::from(pool.block_bytes);
        let redirects = status.node.redirects();
        // Only needed by siblings that redirect viewers to each other.
        let watched = match redirects {
            true => status.sessions.watched(&**catalogue, MOST_WATCHED),
            false => Vec::new(),
        };
        Node {
            id: status.node.id(),
            name: status.node.name(),
            version: env!("CARGO_PKG_VERSION"),
            uptime: (status.uptime().as_secs_f64() * 10.0).round() / 10.0,
            state: status.state(),
            problems: status.node.problems(),
            films: films.states,
            renditions: films.renditions,
            sessions: Sessions {
                total,
                playing,
                by_protocol,
            },
            sending: status.node.sending(),
            http: Http {
                connections: status.counters.connections.load(Ordering::Relaxed),
                bytes: status.counters.sent.load(Ordering::Relaxed),
            },
            pool: Pool {
                bytes: pool.blocks * block,
                used: pool.cached * block,
                hits: pool.hits,
                misses: pool.misses,
            },
            network: (status.sessions.gate().network())
                .map(|(total, free)| Network { total, free }),
            redirects,
            watched: watched.into_iter().map(Watched::of).collect(),
            addresses: status.node.addresses(),
        }
    }
}

/// `GET /api/node`.
pub(crate) async fn node(State(overview): State<Overview>, reply: Reply) -> Answer {
    reply.json(move || Ok(Node::of(&overview))).await
}
