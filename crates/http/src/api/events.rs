//! Server-sent events: sessions and node once a second while something plays, and films as they
//! change.
//!
//! A new listener first gets all sessions, and then the changes. Both are made once for all
//! listeners, off the reactor. The full text is remade only after many updates: a listener gets the
//! last full text and the updates since then.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures_util::stream;
use reelway_connections::{Counted, Limits, TooMany};
use reelway_supervise::{self as supervise, lock};
use serde::Serialize;
use tokio::sync::broadcast;

use super::feed::{Batch, GZIP, KnownSessions, Piece};
use super::node::{Node, Overview};
use crate::answer::{self, Answer};
use crate::blocking::blocking;
use crate::node::NodeState;
use crate::peer::Peer;
use crate::speed::Speed;

/// Interval between two updates.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of updates after the last session in which the event `node` is still sent every time,
/// until its rates, which are averages over some seconds, have settled.
const FADING: u32 = 6;
/// Number of updates between two `node` events on an idle server. They keep the connection alive.
const SELDOM: u32 = 10;
/// Maximum bytes of film names per event, except for a single longer name.
const NAMES: usize = 32 << 10;
/// Number of updates a listener may fall behind before it is closed, since later updates would make
/// no sense to it.
const BEHIND: usize = 32;
/// Time within which a listener must read a piece (at most some 60 KiB) before it is closed.
const PIECE_TIME: Duration = Duration::from_secs(10);
/// Number of updates after which the full text for new listeners is remade.
const RENEWED: usize = 10;
/// Maximum number of sessions reported per update. If there are more, they take turns.
const TOLD: usize = 500;

/// The source of all events.
pub(crate) struct Events {
    listeners: broadcast::Sender<Batch>,
    limits: Limits,
    most: usize,
    /// Films that changed since the last update.
    films: Mutex<BTreeSet<String>>,
    /// Locked while texts are made, by threads that may wait.
    known: Mutex<KnownSessions>,
    /// Locked only briefly.
    texts: Mutex<Texts>,
    /// Locked by the task that makes the full text; the others wait for it.
    making: Arc<tokio::sync::Mutex<()>>,
    /// Listeners refused because there were too many …
    pub refused: AtomicU64,
    /// … and closed because they fell behind.
    pub closed: AtomicU64,
}

/// The texts for a new listener.
#[derive(Default)]
struct Texts {
    /// All sessions and the node; `None` if there has been no listener.
    first: Option<Batch>,
    /// Updates sent to listeners since then.
    since: Vec<Batch>,
}

/// A listener's state.
struct Listener {
    waiting: VecDeque<Batch>,
    /// The next piece of the first waiting batch.
    next: usize,
    news: broadcast::Receiver<Batch>,
    /// Whether it reads compressed texts, and their header until that is sent.
    compressed: bool,
    begin: Option<Bytes>,
    speed: Speed,
    events: Arc<Events>,
    _counted: Counted,
}

impl Events {
    /// Creates events for at most `most` listeners, half of them from one address.
    pub fn new(most: usize) -> Events {
        Events {
            listeners: broadcast::channel(BEHIND).0,
            limits: Limits::new(most, most.div_ceil(2)),
            most,
            films: Mutex::default(),
            known: Mutex::default(),
            texts: Mutex::default(),
            making: Arc::default(),
            refused: AtomicU64::new(0),
            closed: AtomicU64::new(0),
        }
    }

    /// Returns the number of listeners.
    pub fn count(&self) -> usize {
        self.listeners.receiver_count()
    }

    /// Notes changed films for the next update, so that copying in a directory makes few events.
    pub fn films_changed(&self, names: &[String]) {
        lock(&self.films).extend(names.iter().cloned());
    }

    fn take_films(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.films))
    }

    /// Adds a listener if the full text exists and is recent enough.
    fn join(&self) -> Option<(VecDeque<Batch>, broadcast::Receiver<Batch>)> {
        let texts = lock(&self.texts);
        let first = texts
            .first
            .clone()
            .filter(|_| texts.since.len() < RENEWED)?;
        let waiting = std::iter::once(first).chain(texts.since.iter().cloned());
        // Under the lock, so that the next update is neither missed nor sent twice.
        Some((waiting.collect(), self.listeners.subscribe()))
    }

    /// Remakes the full text. Takes long.
    fn renew(&self, overview: &Overview) {
        let mut known = lock(&self.known);
        if self.count() == 0 {
            // No listener needs to learn what changed meanwhile.
            *known = KnownSessions::default();
            known.look(&overview.status.sessions.in_order(), usize::MAX);
        }
        let mut pieces = known.in_full();
        pieces.push(Piece::event("node", &Node::of(overview)));
        *lock(&self.texts) = Texts {
            first: Some(pieces.into()),
            since: Vec::new(),
        };
    }

    /// Sends the changes, and the `node` event if it is `due`. Takes long.
    fn look(&self, overview: &Overview, films: BTreeSet<String>, due: bool) {
        let mut known = lock(&self.known);
        let mut pieces = Vec::new();
        let (mut changed, mut bytes) = (Vec::new(), 0);
        for film in films {
            bytes += film.len();
            if bytes > NAMES && !changed.is_empty() {
                bytes = film.len();
                pieces.push(Changed::event(&mut changed));
            }
            changed.push(film);
        }
        if !changed.is_empty() {
            pieces.push(Changed::event(&mut changed));
        }
        pieces.extend(
            known
                .look(&overview.status.sessions.in_order(), TOLD)
                .pieces(),
        );
        if due {
            pieces.push(Piece::event("node", &Node::of(overview)));
        }
        if pieces.is_empty() {
            return;
        }
        let batch: Batch = pieces.into();
        let mut texts = lock(&self.texts);
        // New listeners do not join a text that is too old.
        if texts.since.len() < RENEWED {
            texts.since.push(batch.clone());
        } else {
            *texts = Texts::default();
        }
        // Fails if there are no listeners left, which is fine.
        let _ = self.listeners.send(batch);
    }

    /// Discards all texts if there are no listeners.
    fn rest(&self) -> bool {
        let mut texts = lock(&self.texts);
        // Under the lock, as listeners are added under it.
        let rests = self.count() == 0;
        if rests {
            *texts = Texts::default();
        }
        rests
    }
}

/// Sends an update once a second.
pub(crate) async fn tell(events: Arc<Events>, overview: Overview) {
    let status = &overview.status;
    let mut sent: Option<(u64, NodeState)> = None;
    // Updates since there was a session or a change.
    let mut quiet = 0u32;
    loop {
        tokio::time::sleep(PERIOD).await;
        supervise::inject("http.events");
        let films = events.take_films();
        if events.rest() {
            continue;
        }
        let now = (status.sessions.changes(), status.state());
        let is_quiet = sent == Some(now) && status.sessions.is_empty();
        quiet = if is_quiet { quiet.wrapping_add(1) } else { 0 };
        let due = quiet <= FADING || quiet.is_multiple_of(SELDOM);
        sent = Some(now);
        let (events, overview) = (events.clone(), overview.clone());
        blocking(move || events.look(&overview, films, due)).await;
    }
}

#[derive(Serialize)]
struct Changed {
    changed: Vec<String>,
}

impl Changed {
    /// Makes an event of these films and empties the list.
    fn event(changed: &mut Vec<String>) -> Piece {
        let changed = std::mem::take(changed);
        Piece::event("films", &Changed { changed })
    }
}

impl Listener {
    /// Returns the next piece when there is one; `None` if the listener has fallen behind.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(begin) = self.begin.take() {
            return Some(begin);
        }
        loop {
            if self.news.len() >= BEHIND {
                self.events.closed.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            if let Some(batch) = self.waiting.front() {
                if let Some(piece) = batch.get(self.next) {
                    self.next += 1;
                    return Some(self.form(piece));
                }
                self.waiting.pop_front();
                self.next = 0;
                continue;
            }
            match self.news.recv().await {
                Ok(batch) => self.waiting.push_back(batch),
                // Already checked at the top of the loop.
                Err(broadcast::error::RecvError::Lagged(_)) => return None,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    fn form(&self, piece: &Piece) -> Bytes {
        self.speed.must_be_taken_within(PIECE_TIME);
        match self.compressed {
            true => piece.packed.clone(),
            false => piece.plain.clone(),
        }
    }
}

/// `GET /api/events`.
pub(crate) async fn events(
    State(events): State<Arc<Events>>,
    State(overview): State<Overview>,
    Extension(Peer(peer)): Extension<Peer>,
    Extension(speed): Extension<Speed>,
    headers: HeaderMap,
) -> Answer {
    let counted = match events.limits.enter(peer.ip()) {
        Ok(counted) => counted,
        Err(which) => return too_many(&events, which),
    };
    let (waiting, news) = loop {
        if let Some(joined) = events.join() {
            break joined;
        }
        let making = events.making.clone().lock_owned().await;
        // Another task may have made it meanwhile.
        if let Some(joined) = events.join() {
            break joined;
        }
        let (telling, overview) = (events.clone(), overview.clone());
        blocking(move || {
            // Held until the text is made, even if the client has gone.
            let _making = making;
            telling.renew(&overview);
        })
        .await;
    };
    let compressed = answer::accepts_gzip(&headers);
    let listener = Listener {
        waiting,
        next: 0,
        news,
        compressed,
        begin: compressed.then(|| Bytes::from_static(GZIP)),
        speed,
        events,
        _counted: counted,
    };
    let stream = stream::unfold(listener, async |mut listener| {
        let piece = listener.next().await?;
        Some((Ok::<_, Infallible>(piece), listener))
    });
    let mut answer = answer::with(
        StatusCode::OK,
        "text/event-stream",
        Body::from_stream(stream),
    );
    if compressed {
        answer::set(&mut answer, header::CONTENT_ENCODING, "gzip");
    }
    answer::set(&mut answer, header::VARY, "Accept-Encoding");
    answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
    // Prevents nginx as a reverse proxy from buffering events.
    answer::set(
        &mut answer,
        header::HeaderName::from_static("x-accel-buffering"),
        "no",
    );
    answer
}

fn too_many(events: &Events, which: TooMany) -> Answer {
    events.refused.fetch_add(1, Ordering::Relaxed);
    let most = events.most;
    let words = match which {
        TooMany::InAll { .. } => {
            format!("{most} clients listen to events already (http.max_listeners)")
        }
        TooMany::OfPeer { .. } => format!(
            "{} clients of this address listen to events already: an address may have half of http.max_listeners, {most}",
            most.div_ceil(2)
        ),
    };
    let mut answer = answer::api_error(StatusCode::SERVICE_UNAVAILABLE, words);
    answer::retry_after(&mut answer, PIECE_TIME);
    answer
}
