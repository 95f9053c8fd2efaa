//! Server-sent events: sessions and node once a second while something plays, and films as they change.
//!
//! A new listener gets all sessions at first, and what has changed since from then on. Both are made once for all, off
//! the reactor. The first text is made anew only when what came after it has become long: a listener gets the last one
//! and what came since.

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

/// Between two looks at what plays.
const PERIOD: Duration = Duration::from_secs(1);
/// Looks after the last session in which the event `node` still comes each time: its rates, which are means of some seconds, come
/// to rest.
const FADING: u32 = 6;
/// Looks between two events `node` on a server where nothing happens. They keep the connection.
const SELDOM: u32 = 10;
/// Bytes of an event's names of films, but for a single one that is longer.
const NAMES: usize = 32 << 10;
/// Looks that a listener may be behind; then it is closed, as what follows would make no sense to it.
const BEHIND: usize = 32;
/// Time in which a listener must take a piece (at most some 60 KiB); then it is closed.
const PIECE_TIME: Duration = Duration::from_secs(10);
/// Looks after which the first text is made anew for those who begin to listen.
const RENEWED: usize = 10;
/// Sessions that are told of in a look at most. More of them are told of in turn.
const TOLD: usize = 500;

/// Where events are told.
pub(crate) struct Events {
    listeners: broadcast::Sender<Batch>,
    limits: Limits,
    most: usize,
    /// Films that changed since the last look.
    films: Mutex<BTreeSet<String>>,
    /// Held while texts are made, by threads that may wait.
    told: Mutex<KnownSessions>,
    /// Held for moments.
    texts: Mutex<Texts>,
    /// Taken by the one who makes the first text; the others wait for it.
    making: Arc<tokio::sync::Mutex<()>>,
    /// Listeners turned away because there were too many …
    pub refused: AtomicU64,
    /// … and closed because they fell behind.
    pub closed: AtomicU64,
}

/// What a new listener gets.
#[derive(Default)]
struct Texts {
    /// All sessions and the node; none where nobody listened before.
    first: Option<Batch>,
    /// What listeners have been told since.
    since: Vec<Batch>,
}

/// What a listener is to get.
struct Listener {
    waiting: VecDeque<Batch>,
    /// The next piece of the first of them.
    next: usize,
    news: broadcast::Receiver<Batch>,
    /// Whether it reads compressed texts; what these begin with, until it is sent.
    compressed: bool,
    begin: Option<Bytes>,
    speed: Speed,
    events: Arc<Events>,
    _counted: Counted,
}

impl Events {
    /// For at most `most` listeners, half of them of one address.
    pub fn new(most: usize) -> Events {
        Events {
            listeners: broadcast::channel(BEHIND).0,
            limits: Limits::new(most, most.div_ceil(2)),
            most,
            films: Mutex::default(),
            told: Mutex::default(),
            texts: Mutex::default(),
            making: Arc::default(),
            refused: AtomicU64::new(0),
            closed: AtomicU64::new(0),
        }
    }

    /// Number of listeners.
    pub fn count(&self) -> usize {
        self.listeners.receiver_count()
    }

    /// Notes films for the next look, so that a directory that is copied in makes few events of many.
    pub fn films_changed(&self, names: &[String]) {
        lock(&self.films).extend(names.iter().cloned());
    }

    fn take_films(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.films))
    }

    /// Begins to listen, if the first text is there and new enough.
    fn join(&self) -> Option<(VecDeque<Batch>, broadcast::Receiver<Batch>)> {
        let texts = lock(&self.texts);
        let first = texts
            .first
            .clone()
            .filter(|_| texts.since.len() < RENEWED)?;
        let waiting = std::iter::once(first).chain(texts.since.iter().cloned());
        // Under the lock: what is told next is neither missed nor told twice.
        Some((waiting.collect(), self.listeners.subscribe()))
    }

    /// Makes the first text anew. Takes long.
    fn renew(&self, overview: &Overview) {
        let mut told = lock(&self.told);
        if self.count() == 0 {
            // Nobody has to be told what changed meanwhile.
            *told = KnownSessions::default();
            told.look(&overview.status.sessions.in_order(), usize::MAX);
        }
        let mut pieces = told.in_full();
        pieces.push(Piece::event("node", &Node::of(overview)));
        *lock(&self.texts) = Texts {
            first: Some(pieces.into()),
            since: Vec::new(),
        };
    }

    /// Tells what is new, and of the node where that is `due`. Takes long.
    fn look(&self, overview: &Overview, films: BTreeSet<String>, due: bool) {
        let mut told = lock(&self.told);
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
            told.look(&overview.status.sessions.in_order(), TOLD)
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
        // Nobody joins a text that is too old.
        if texts.since.len() < RENEWED {
            texts.since.push(batch.clone());
        } else {
            *texts = Texts::default();
        }
        // Nobody listens any more: nobody is told.
        let _ = self.listeners.send(batch);
    }

    /// Forgets everything where nobody listens.
    fn rest(&self) -> bool {
        let mut texts = lock(&self.texts);
        // Under the lock, as listeners come under it.
        let rests = self.count() == 0;
        if rests {
            *texts = Texts::default();
        }
        rests
    }
}

/// Looks once a second what there is to tell.
pub(crate) async fn tell(events: Arc<Events>, overview: Overview) {
    let status = &overview.status;
    let mut told: Option<(u64, NodeState)> = None;
    // Looks since there was a session or something changed.
    let mut quiet = 0u32;
    loop {
        tokio::time::sleep(PERIOD).await;
        supervise::inject("http.events");
        let films = events.take_films();
        if events.rest() {
            continue;
        }
        let now = (status.sessions.changes(), status.state());
        let is_quiet = told == Some(now) && status.sessions.is_empty();
        quiet = if is_quiet { quiet.wrapping_add(1) } else { 0 };
        let due = quiet <= FADING || quiet.is_multiple_of(SELDOM);
        told = Some(now);
        let (events, overview) = (events.clone(), overview.clone());
        blocking(move || events.look(&overview, films, due)).await;
    }
}

#[derive(Serialize)]
struct Changed {
    changed: Vec<String>,
}

impl Changed {
    /// An event of these, which are taken.
    fn event(changed: &mut Vec<String>) -> Piece {
        let changed = std::mem::take(changed);
        Piece::event("films", &Changed { changed })
    }
}

impl Listener {
    /// The next piece, when there is one; `None` where it is too late for it.
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
                // Seen at the top of the loop before.
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
        // Others may have made it meanwhile.
        if let Some(joined) = events.join() {
            break joined;
        }
        let (telling, overview) = (events.clone(), overview.clone());
        blocking(move || {
            // Held until it is made, even if whoever asked is gone.
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
    // nginx in front must not collect events.
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
