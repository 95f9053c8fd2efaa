//! Viewers over HTTP are sessions too.
//!
//! An HLS or DASH viewer is born with the multivariant playlist or the MPD: there he is let in or
//! refused, and gets a token that all addresses below carry (`?s=TOKEN`). A token is a name, not a
//! permission: whoever brings one that is well-formed but unknown (his session expired while he
//! paused, or the server was started anew) is a newcomer under that name, let in if there is room.
//! A token that somebody ended is answered with 410 from then on, one of another film with 403.
//! Segments asked for without a token, and files, belong to a viewer known by his address and
//! program.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_media::{Nanos, SECOND};
use reelway_session::{
    EndReason, NewSession, Progress, Protocol, Refusal, Session, Sessions, State,
};

use crate::films::Show;
use crate::pace::{Pace, Pacer};

/// Characters of a token.
pub(crate) const TOKEN_LENGTH: usize = 24;
/// How long an ended token is answered with 410.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// How long a viewer without a token is kept out after he was ended.
const KEPT_OUT: Duration = Duration::from_secs(60);
/// Ended viewers that are remembered.
const MOST_REMEMBERED: usize = 10_000;
/// Longest silence of a viewer who has a playlist but asked for nothing yet.
const UNDECIDED: Duration = Duration::from_secs(30);

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub peer: SocketAddr,
    pub agent: Option<String>,
    /// The token in the address.
    pub token: Option<String>,
}

/// Why a caller is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// 503.
    Refused(Refusal),
    /// 403.
    Forbidden(&'static str),
    /// 410.
    Gone(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Token(String),
    Anonymous {
        ip: IpAddr,
        agent: Option<String>,
        title: String,
        protocol: Protocol,
    },
}

/// One viewer.
pub(crate) struct Viewer {
    pub session: Session,
    /// His name in addresses; empty for one without.
    pub token: String,
    title: String,
    version: String,
    timeout: Duration,
    bytes: AtomicU64,
    answers: AtomicU64,
    place: Mutex<Place>,
}

/// Where a viewer is, as far as what he asks for tells.
struct Place {
    /// He was at this presentation time at this moment …
    anchor: Option<(Monotonic, Nanos)>,
    /// … and has asked for all up to here.
    reached: Nanos,
    /// Last sign of interest in media.
    asked: Monotonic,
    /// Longest silence of one who plays.
    rest: Duration,
    flows: HashMap<u32, Flow>,
}

/// One track of a viewer (0: the file).
struct Flow {
    pacer: Pacer,
    /// Where the next piece is expected: a segment's number, or a file's offset.
    next: u64,
    /// Where the last piece began.
    last: u64,
}

impl Flow {
    fn new(pace: Pace, now: Monotonic) -> Flow {
        Flow {
            pacer: Pacer::new(pace, now),
            next: u64::MAX,
            last: u64::MAX,
        }
    }

    /// The piece from `at` to `next` is asked for; whether that is somewhere else than expected: a
    /// start or a seek.
    ///
    /// Asking once more for the piece before is none. (It is known by its beginning: pieces of a file
    /// mostly have the file's end as theirs.) But a file from its first byte is a start however often:
    /// it is the next viewer with this address and program, or the same one anew. (Segments count
    /// from 1.)
    fn moves(&mut self, at: u64, next: u64) -> bool {
        let moves = at == 0 || (self.next != at && self.last != at);
        self.next = next;
        self.last = at;
        moves
    }
}

/// A piece of media that a viewer asks for.
pub(crate) struct Piece {
    /// The flow it belongs to: a track_ID, or 0 for the file.
    pub flow: u32,
    /// Which piece it is: a segment's number, or an offset in the file.
    pub at: u64,
    /// The one that follows it.
    pub next: u64,
    /// When it plays.
    pub time: Range<Nanos>,
    /// Whether the flow tells where the viewer is.
    pub main: bool,
    /// Seconds' worth of bytes that are not film.
    pub extra: f64,
}

impl Viewer {
    /// A piece of media is asked for.
    pub fn asks(&self, piece: Piece, pace: Pace) {
        let Piece {
            flow,
            at,
            next,
            time,
            main,
            extra,
        } = piece;
        let now = reelway_clock::now();
        self.session.touch();
        let mut place = self.place();
        // Whoever plays asks once a segment, and players hold some of them: silence for longer is a pause.
        let longest = Duration::from_nanos((time.end - time.start).max(0) as u64)
            .min(Duration::from_secs(600));
        place.rest = place.rest.max(longest * 2 + Duration::from_secs(10));
        place.asked = now;
        self.session
            .set_idle_limit(self.timeout.max(place.rest + longest));
        let entry = place
            .flows
            .entry(flow)
            .or_insert_with(|| Flow::new(pace, now));
        let jump = entry.moves(at, next);
        if jump {
            entry.pacer.refill(extra, now);
        }
        if main {
            if jump || place.anchor.is_none() {
                place.anchor = Some((now, time.start));
                place.reached = time.end;
            }
            place.reached = place.reached.max(time.end);
        }
    }

    /// How long to wait before more of a flow is sent, and how many seconds of film are ahead already.
    pub fn wait(&self, flow: u32) -> (Duration, f64) {
        let now = reelway_clock::now();
        let mut place = self.place();
        match place.flows.get_mut(&flow) {
            Some(flow) => (flow.pacer.wait(now), flow.pacer.ahead()),
            None => (Duration::ZERO, 0.0),
        }
    }

    /// Media went out: `bytes` of flow `flow`, which play for `seconds`.
    pub fn sent(&self, flow: u32, bytes: u64, seconds: f64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.session.touch();
        let mut place = self.place();
        place.asked = reelway_clock::now();
        if let Some(flow) = place.flows.get_mut(&flow) {
            flow.pacer.sent(seconds);
        }
    }

    /// An answer was begun.
    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.session.touch();
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> Progress {
        let now = reelway_clock::now();
        let place = self.place();
        let played = |(since, from): (Monotonic, Nanos)| {
            let played = i64::try_from(now.since(since).as_nanos()).unwrap_or(i64::MAX);
            from.saturating_add(played).min(place.reached)
        };
        let state = match place.anchor {
            None if place.flows.is_empty() => State::Ready,
            _ if now.since(place.asked) > place.rest => State::Paused,
            _ => State::Playing,
        };
        Progress {
            state,
            position: place
                .anchor
                .map(|anchor| played(anchor) as f64 / SECOND as f64),
            bytes: self.bytes.load(Ordering::Relaxed),
            packets: self.answers.load(Ordering::Relaxed),
            ..Progress::default()
        }
    }
}

/// All viewers over HTTP.
pub(crate) struct Viewers(Arc<Inner>);

struct Inner {
    sessions: Sessions,
    timeout: Duration,
    present: Mutex<HashMap<Key, Arc<Viewer>>>,
    /// Who was here.
    past: Mutex<HashMap<Key, Past>>,
}

/// What is remembered of one who was here.
#[derive(Clone, Copy)]
struct Past {
    /// Not longer than this.
    until: Monotonic,
    /// He was ended and is not to come back; else he only was silent for too long.
    ended: bool,
    protocol: Protocol,
}

impl Viewers {
    pub fn new(sessions: Sessions, timeout: Duration) -> Viewers {
        Viewers(Arc::new(Inner {
            sessions,
            timeout,
            present: Mutex::default(),
            past: Mutex::default(),
        }))
    }

    /// A viewer begins, with the multivariant playlist or the MPD; one who brings his token goes on.
    pub fn begin(
        &self,
        protocol: Protocol,
        show: &Show,
        caller: &Caller,
    ) -> Result<Arc<Viewer>, Denied> {
        match caller.token {
            Some(_) => self.resume(protocol, show, caller),
            None => self.open(protocol, show, caller, None),
        }
    }

    /// The viewer who asks for something below the playlist.
    pub fn resume(
        &self,
        protocol: Protocol,
        show: &Show,
        caller: &Caller,
    ) -> Result<Arc<Viewer>, Denied> {
        let key = match &caller.token {
            Some(token) if is_token(token) => Key::Token(token.clone()),
            Some(_) => {
                return Err(Denied::Forbidden(
                    "this is no viewer's token; open the film's playlist again",
                ));
            }
            None => Key::Anonymous {
                ip: caller.peer.ip(),
                agent: caller.agent.clone(),
                title: show.film.name.clone(),
                protocol,
            },
        };
        let now = reelway_clock::now();
        let past = lock(&self.0.past)
            .get(&key)
            .copied()
            .filter(|past| now < past.until);
        if past.is_some_and(|past| past.ended) {
            return Err(Denied::Gone("this viewer's session was ended"));
        }
        let protocol = past.map_or(protocol, |past| past.protocol);
        let present = lock(&self.0.present).get(&key).cloned();
        let Some(viewer) = present else {
            return self.open(protocol, show, caller, Some(key));
        };
        if viewer.title != show.film.name {
            return Err(Denied::Forbidden(
                "this token belongs to a viewer of another film",
            ));
        }
        if viewer.version != show.version {
            viewer.session.end(EndReason::Failed(
                "the film was replaced while it was watched".into(),
            ));
            return Err(Denied::Gone(
                "the film was replaced while it was watched; open it again",
            ));
        }
        Ok(viewer)
    }

    fn open(
        &self,
        protocol: Protocol,
        show: &Show,
        caller: &Caller,
        key: Option<Key>,
    ) -> Result<Arc<Viewer>, Denied> {
        let newcomer = NewSession {
            protocol,
            peer: caller.peer,
            title: show.film.name.clone(),
            duration: Duration::from_nanos(show.package.duration().max(0) as u64),
            user_agent: caller.agent.clone(),
        };
        // The lock is held so that two requests of one newcomer do not make two of him.
        let mut present = lock(&self.0.present);
        if let Some(viewer) = key.as_ref().and_then(|key| present.get(key)) {
            return Ok(viewer.clone());
        }
        let session = self.0.sessions.open(newcomer).map_err(Denied::Refused)?;
        let key = key.unwrap_or_else(|| Key::Token(session.token().to_owned()));
        let now = reelway_clock::now();
        let token = match &key {
            Key::Token(token) => token.clone(),
            Key::Anonymous { .. } => String::new(),
        };
        let viewer = Arc::new(Viewer {
            session: session.clone(),
            token,
            title: show.film.name.clone(),
            version: show.version.clone(),
            timeout: self.0.timeout,
            bytes: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            place: Mutex::new(Place {
                anchor: None,
                reached: 0,
                asked: now,
                rest: Duration::from_secs(10),
                flows: HashMap::new(),
            }),
        });
        present.insert(key.clone(), viewer.clone());
        drop(present);
        session.set_idle_limit(self.0.timeout.min(UNDECIDED));
        let probed = Arc::downgrade(&viewer);
        session.set_probe(move || {
            probed
                .upgrade()
                .map(|viewer| viewer.progress())
                .unwrap_or_default()
        });
        let inner = Arc::downgrade(&self.0);
        session.on_end(move |reason| {
            if let Some(inner) = inner.upgrade() {
                inner.forget(&key, protocol, reason);
            }
        });
        Ok(viewer)
    }
}

impl Inner {
    fn forget(&self, key: &Key, protocol: Protocol, reason: &EndReason) {
        // The last handle keeps the counters until the story is told.
        lock(&self.present).remove(key);
        let (ended, keep) = match (reason, key) {
            (EndReason::Kicked | EndReason::Failed(_), Key::Token(_)) => (true, REMEMBERED),
            (EndReason::Kicked, Key::Anonymous { .. }) => (true, KEPT_OUT),
            (EndReason::Expired, Key::Token(_)) => (false, REMEMBERED),
            _ => return,
        };
        let now = reelway_clock::now();
        let mut past = lock(&self.past);
        if past.len() >= MOST_REMEMBERED {
            past.retain(|_, past| now < past.until && past.ended);
        }
        if past.len() < MOST_REMEMBERED {
            past.insert(
                key.clone(),
                Past {
                    until: now + keep,
                    ended,
                    protocol,
                },
            );
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this could be a token of ours.
fn is_token(text: &str) -> bool {
    text.len() == TOKEN_LENGTH
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        let pace = Pace {
            ahead: 20.0,
            factor: 2.0,
        };
        Flow::new(pace, Monotonic::from_nanos(0))
    }

    #[test]
    fn segments_in_turn_and_one_asked_for_again_are_no_seek() {
        let mut flow = flow();
        let moves = [1, 2, 2, 3, 4].map(|number| flow.moves(number, number + 1));
        assert_eq!(moves, [true, false, false, false, false]);
        assert!(flow.moves(9, 10), "over four segments");
        assert!(flow.moves(3, 4), "back again");
    }

    #[test]
    fn a_file_read_on_in_ranges_is_no_seek_and_each_other_place_is() {
        let mut flow = flow();
        assert!(flow.moves(0, 1000));
        assert!(!flow.moves(1000, 2000));
        assert!(!flow.moves(2000, 9999), "from where it stood to the end");
        assert!(!flow.moves(2000, 9999), "the same once more");
        assert!(flow.moves(5000, 9999), "a seek");
    }

    #[test]
    fn a_file_from_its_first_byte_is_a_start_each_time() {
        let mut flow = flow();
        assert!(flow.moves(0, 9999));
        assert!(flow.moves(0, 9999), "the next one from this address");
    }
}
