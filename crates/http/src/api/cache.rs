//! The contents and the benefit of the cache: `GET /api/cache`. `PUT` and `DELETE /api/cache/TITLE`
//! keep a film on the tier or drop its cached data. `PUT` and `DELETE /api/prefill` start and stop
//! fetching the most watched films to the tier.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use reelway_catalogue::{Catalogue, CatalogueError};
use reelway_session::Sessions;
use reelway_store::Store;
use serde::Serialize;

use super::reply::Reply;
use crate::answer::{self, Answer};
use crate::blocking::blocking;
use crate::node::{OtherServer, Prefill};
use crate::repeated::Repeated;
use crate::route;
use crate::shadow::{self, Shadow};
use crate::status::Status;

/// Maximum number of films shown, those with the most viewers first.
const FILMS: usize = 20;
/// Maximum number of parts in a film's map: more than a chart can show.
const PARTS: u64 = 200;

#[derive(Serialize)]
struct Cache {
    bytes: u64,
    used: u64,
    hits: u64,
    misses: u64,
    /// Bytes read from disks and remote servers since the start, and bytes sent to viewers.
    read: u64,
    sent: u64,
    compared: Option<Compared>,
    disks: Vec<Disk>,
    films: Vec<Film>,
    tier: Option<Tier>,
    servers: Vec<OtherServer>,
}

/// The tier and its contents.
#[derive(Serialize)]
struct Tier {
    bytes: u64,
    used: u64,
    kept: Vec<Kept>,
    prefill: Option<Prefill>,
}

#[derive(Serialize)]
struct Kept {
    title: String,
    /// Bytes of the film that the tier lacks; `null`: not known yet.
    lacking: Option<u64>,
}

/// Hit ratios over the same recent requests, actual and with other policies.
#[derive(Serialize)]
struct Compared {
    requests: u64,
    this: f64,
    lru: f64,
    ons: f64,
    belady: f64,
}

#[derive(Serialize)]
struct Disk {
    name: String,
    depth: usize,
    under_way: usize,
    queued: usize,
    reads: u64,
    bytes: u64,
    errors: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// A film that is being watched.
#[derive(Serialize)]
struct Film {
    title: String,
    /// Bytes of the film in memory, and its size.
    held: u64,
    size: u64,
    /// Hit ratio of the recent requests for it; `null` if there were none.
    hit_ratio: Option<f64>,
    /// Percentage of each part of the file that is in memory.
    map: Vec<u8>,
    /// Viewers' positions as fractions of the film's length.
    viewers: Vec<f64>,
}

fn share(part: u64, whole: u64) -> f64 {
    let share = part as f64 / whole.max(1) as f64;
    (share * 1e4).round() / 1e4
}

/// Returns the percentage of each part of a film of `blocks` blocks that is in memory.
fn map(held: &[u32], blocks: u64) -> Vec<u8> {
    let parts = blocks.clamp(1, PARTS);
    let part_of = |block: u64| block * parts / blocks.max(1);
    let mut counts = vec![0u64; parts as usize];
    for block in held {
        if let Some(count) = counts.get_mut(part_of(u64::from(*block)) as usize) {
            *count += 1;
        }
    }
    let mut sizes = vec![0u64; parts as usize];
    (0..blocks).for_each(|block| sizes[part_of(block) as usize] += 1);
    let percent = |(held, all): (&u64, &u64)| (held * 100 / (*all).max(1)).min(100) as u8;
    counts.iter().zip(&sizes).map(percent).collect()
}

fn films(
    catalogue: &dyn Catalogue,
    sessions: &Sessions,
    store: &Store,
    compared: Option<&shadow::Compared>,
) -> Vec<Film> {
    let mut watched: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for session in sessions.in_order() {
        let (moment, seconds) = (session.moment(), session.duration().as_secs_f64());
        let place = moment.progress.position.unwrap_or(0.0) / seconds.max(0.001);
        let places = watched.entry(session.title().to_owned()).or_default();
        places.push((place.clamp(0.0, 1.0) * 1e4).round() / 1e4);
    }
    let mut watched: Vec<_> = watched
        .into_iter()
        .filter_map(|(title, places)| Some((catalogue.entry(&title)?, places)))
        .collect();
    watched.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    watched.truncate(FILMS);
    let files: Vec<_> = watched.iter().map(|(entry, _)| entry.identity).collect();
    let held = store.in_memory(&files);
    let block_bytes = u64::from(store.block_bytes());
    watched
        .into_iter()
        .zip(held)
        .map(|((entry, viewers), held)| {
            let size = entry.identity.size;
            let (number, held) = held.unzip();
            let held = held.unwrap_or_default();
            let of_film = compared.zip(number);
            let count = of_film.and_then(|(compared, number)| compared.films.get(&number));
            Film {
                title: entry.name.clone(),
                held: (held.len() as u64 * block_bytes).min(size),
                size,
                hit_ratio: count.map(|count| share(count.hits, count.requests)),
                map: map(&held, size.div_ceil(block_bytes)),
                viewers,
            }
        })
        .collect()
}

/// `GET /api/cache`.
pub(crate) async fn cache(
    State(catalogue): State<Arc<dyn Catalogue>>,
    State(store): State<Store>,
    State(shadow): State<Arc<Shadow>>,
    State(status): State<Arc<Status>>,
    reply: Reply,
) -> Answer {
    let make = move || Ok(Cache::of(&*catalogue, &store, &shadow, &status));
    reply.json(make).await
}

/// Returns the title in an address below `/api/cache/`.
fn named(uri: &Uri) -> String {
    let path = uri.path().strip_prefix("/api/cache/").unwrap_or_default();
    route::title(path).unwrap_or_else(|| path.to_owned())
}

fn unknown(title: String) -> Answer {
    answer::api_error(StatusCode::NOT_FOUND, CatalogueError::Unknown(title))
}

/// `PUT /api/cache/TITLE`.
pub(crate) async fn keep(
    State(catalogue): State<Arc<dyn Catalogue>>,
    State(store): State<Store>,
    State(status): State<Arc<Status>>,
    uri: Uri,
) -> Answer {
    let title = named(&uri);
    let Some(entry) = catalogue.entry(&title) else {
        return unknown(title);
    };
    let cannot = match (store.tier(), entry.path.is_absolute()) {
        (None, _) => Some("this server has no tier on which it could be kept"),
        (Some(_), true) => Some("the film lies on a disk of this machine already"),
        (Some(_), false) => None,
    };
    if let Some(words) = cannot {
        return answer::api_error(StatusCode::CONFLICT, words);
    }
    set(status, title, true).await
}

/// `DELETE /api/cache/TITLE`.
pub(crate) async fn purge(
    State(catalogue): State<Arc<dyn Catalogue>>,
    State(store): State<Store>,
    State(repeated): State<Arc<Repeated>>,
    State(status): State<Arc<Status>>,
    uri: Uri,
) -> Answer {
    let title = named(&uri);
    let entry = catalogue.entry(&title);
    // A film that is still to be kept may be gone.
    let is_kept = || status.node.kept().iter().any(|(kept, _)| *kept == title);
    if entry.is_none() && !is_kept() {
        return unknown(title);
    }
    let answer = set(status, title, false).await;
    if let Some(entry) = entry {
        let file = entry.identity;
        // The tier's records are on a disk.
        blocking(move || store.purge(file)).await;
        repeated.forget(file);
    }
    answer
}

/// `PUT /api/prefill`.
pub(crate) async fn prefill(
    State(store): State<Store>,
    State(status): State<Arc<Status>>,
) -> Answer {
    if store.tier().is_none() {
        let words = "this server has no tier to which films could be brought";
        return answer::api_error(StatusCode::CONFLICT, words);
    }
    status.node.ask_prefill(true);
    answer::empty(StatusCode::NO_CONTENT)
}

/// `DELETE /api/prefill`.
pub(crate) async fn stop_prefill(State(status): State<Arc<Status>>) -> Answer {
    status.node.ask_prefill(false);
    answer::empty(StatusCode::NO_CONTENT)
}

/// Starts or stops keeping a title on the tier.
async fn set(status: Arc<Status>, title: String, is_kept: bool) -> Answer {
    match blocking(move || status.node.keep(&title, is_kept)).await {
        Ok(()) => answer::empty(StatusCode::NO_CONTENT),
        Err(words) => answer::api_error(StatusCode::INSUFFICIENT_STORAGE, words),
    }
}

impl Cache {
    fn of(catalogue: &dyn Catalogue, store: &Store, shadow: &Shadow, status: &Status) -> Cache {
        let stats = store.stats();
        let block = u64::from(stats.block_bytes);
        let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let disks = store.lanes().into_iter().map(|lane| Disk {
            p50_ms: millis(lane.latency(0.5)),
            p99_ms: millis(lane.latency(0.99)),
            max_ms: millis(lane.longest),
            name: lane.name,
            depth: lane.depth,
            under_way: lane.under_way,
            queued: lane.queued,
            reads: lane.reads,
            bytes: lane.bytes,
            errors: lane.errors,
        });
        let found = shadow.compared();
        let films = films(catalogue, &status.sessions, store, found.as_deref());
        let compared = found.map(|compared| Compared {
            requests: compared.requests,
            this: share(compared.hits, compared.requests),
            lru: share(compared.lru, compared.requests),
            ons: share(compared.ons, compared.requests),
            belady: share(compared.belady, compared.requests),
        });
        let kept = status.node.kept().into_iter();
        Cache {
            bytes: stats.blocks * block,
            used: stats.cached * block,
            hits: stats.hits,
            misses: stats.misses,
            read: stats.bytes_read,
            sent: status.counters.sent.load(Ordering::Relaxed) + status.node.sent(),
            compared,
            disks: disks.collect(),
            films,
            tier: store.tier().map(|tier| Tier {
                bytes: tier.blocks * block,
                used: tier.cached * block,
                kept: kept
                    .map(|(title, lacking)| Kept { title, lacking })
                    .collect(),
                prefill: status.node.prefill(),
            }),
            servers: status.node.servers(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_a_part_for_each_block_of_a_short_film_and_shares_of_a_long_one() {
        assert_eq!(map(&[0, 2], 3), [100, 0, 100]);
        assert_eq!(map(&[], 0), [0]);
        let long = map(&(0..500).collect::<Vec<u32>>(), 2000);
        assert_eq!(long.len(), 200);
        assert_eq!((long[49], long[50]), (100, 0));
        let half = map(&(0..2000).step_by(2).collect::<Vec<u32>>(), 2000);
        assert!(half.iter().all(|part| *part == 50));
        // A file that has grown has blocks beyond the size in the catalogue.
        assert_eq!(map(&[9], 3), [0, 0, 0]);
    }
}
