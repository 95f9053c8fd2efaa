//! What event listeners have been sent about sessions, and the texts for that: made once, plain and
//! compressed, and shared by all listeners.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress};
use reelway_session::{Moment, Protocol, Session, SessionView, State};
use serde::Serialize;

use super::json::to_text;

/// Maximum number of sessions per event: in full, changed, and removed.
const IN_FULL: usize = 100;
const CHANGED: usize = 200;
const REMOVED: usize = 2000;

/// The header of a gzip stream (RFC 1952 2.3): deflate, no flags, no time, Unix.
pub(super) const GZIP: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

/// Some events, in plain and compressed form.
#[derive(Clone)]
pub(super) struct Piece {
    pub plain: Bytes,
    pub packed: Bytes,
}

/// Pieces that all listeners get together.
pub(super) type Batch = Arc<[Piece]>;

impl Piece {
    /// Makes an event.
    pub fn event(name: &str, data: &impl Serialize) -> Piece {
        Piece::of(format!("event: {name}\ndata: {}\n\n", to_text(data)))
    }

    pub fn of(text: String) -> Piece {
        Piece {
            packed: deflated(text.as_bytes()).into(),
            plain: text.into(),
        }
    }
}

/// Compresses to a self-contained part of a deflate stream: it ends on a byte boundary and refers
/// to nothing before it, so it may follow any other part (RFC 1951 3.2.3; a flush as by
/// `Z_SYNC_FLUSH`).
fn deflated(bytes: &[u8]) -> Vec<u8> {
    reelway_clock::reactor::worked_on(bytes.len());
    let mut packer = Compress::new(Compression::fast(), false);
    let mut packed = Vec::with_capacity(bytes.len() / 4 + 64);
    loop {
        let taken = packer.total_in() as usize;
        // Compressing into memory cannot fail; the buffer grows as needed.
        let _ = packer.compress_vec(&bytes[taken..], &mut packed, FlushCompress::Sync);
        if packer.total_in() as usize == bytes.len() && packed.len() < packed.capacity() {
            packed.shrink_to_fit();
            return packed;
        }
        packed.reserve(bytes.len() / 4 + 64);
    }
}

/// The sessions as listeners know them.
#[derive(Default)]
pub(super) struct KnownSessions {
    sessions: BTreeMap<u64, (Session, Moment)>,
    /// The session at which the last update stopped; the next continues there.
    turn: u64,
}

/// The changes since the last update.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    added: Vec<SessionView>,
    changed: Vec<Changed>,
    removed: Vec<String>,
}

/// A session's change: all of its values that can change.
#[derive(Debug, PartialEq, Serialize)]
struct Changed {
    id: String,
    protocol: Protocol,
    state: State,
    position: Option<f64>,
    rate: u64,
    bytes: u64,
    packets: u64,
    lost: Option<u64>,
    jitter_ms: Option<f64>,
    late_p99_ms: Option<f64>,
    late_max_ms: Option<f64>,
}

impl Changed {
    fn of(session: &Session, moment: &Moment) -> Changed {
        let progress = &moment.progress;
        Changed {
            id: session.id().to_owned(),
            protocol: moment.protocol,
            state: progress.state,
            position: progress.position,
            rate: moment.rate,
            bytes: progress.bytes,
            packets: progress.packets,
            lost: progress.lost,
            jitter_ms: progress.jitter_ms,
            late_p99_ms: progress.late_p99_ms,
            late_max_ms: progress.late_max_ms,
        }
    }
}

impl KnownSessions {
    /// Compares with the current sessions, sorted by number. Reports at most `most` new or changed
    /// ones: first new sessions, then those with a changed state, then the others in turn.
    pub fn look(&mut self, now: &[Session], most: usize) -> Changes {
        let mut removed = Vec::new();
        self.sessions.retain(|number, (session, _)| {
            let stays = now.binary_search_by_key(number, Session::number).is_ok();
            if !stays {
                removed.push(session.id().to_owned());
            }
            stays
        });
        let (mut urgent, mut others) = (Vec::new(), Vec::new());
        for (number, (session, then)) in &self.sessions {
            let moment = session.moment();
            if (moment.protocol, moment.progress.state) != (then.protocol, then.progress.state) {
                urgent.push((*number, moment));
            } else if moment != *then {
                others.push((*number, moment));
            }
        }
        let mut added = Vec::new();
        for session in now {
            if added.len() == most {
                break;
            }
            if let Entry::Vacant(unknown) = self.sessions.entry(session.number()) {
                let moment = session.moment();
                added.push(session.view_at(&moment));
                unknown.insert((session.clone(), moment));
            }
        }
        let begin = others.partition_point(|(number, _)| *number <= self.turn);
        others.rotate_left(begin);
        let left = most - added.len();
        let few = left.saturating_sub(urgent.len());
        let named = few.min(others.len());
        if let Some((last, _)) = others[..named].last() {
            self.turn = *last;
        }
        let mut changed = Vec::new();
        for (number, moment) in urgent.into_iter().chain(others).take(left) {
            if let Some((session, then)) = self.sessions.get_mut(&number) {
                changed.push(Changed::of(session, &moment));
                *then = moment;
            }
        }
        Changes {
            added,
            changed,
            removed,
        }
    }

    /// Returns everything sent so far, for a new listener.
    pub fn in_full(&self) -> Vec<Piece> {
        #[derive(Serialize)]
        struct Sessions {
            total: usize,
            from: usize,
            sessions: Vec<SessionView>,
        }
        let total = self.sessions.len();
        let (mut pieces, mut from, mut after) = (Vec::new(), 0, Bound::Unbounded);
        loop {
            let rest = self.sessions.range((after, Bound::Unbounded)).take(IN_FULL);
            let mut sessions = Vec::with_capacity(IN_FULL.min(total - from));
            for (number, (session, moment)) in rest {
                sessions.push(session.view_at(moment));
                after = Bound::Excluded(*number);
            }
            let named = sessions.len();
            let event = Sessions {
                total,
                from,
                sessions,
            };
            pieces.push(Piece::event("sessions", &event));
            from += named;
            if from == total {
                return pieces;
            }
        }
    }
}

impl Changes {
    /// Converts to events; none if nothing changed.
    pub fn pieces(mut self) -> Vec<Piece> {
        #[derive(Serialize)]
        struct Event {
            added: Vec<SessionView>,
            changed: Vec<Changed>,
            removed: Vec<String>,
        }
        fn some<T>(of: &mut Vec<T>, most: usize) -> Vec<T> {
            of.drain(..most.min(of.len())).collect()
        }
        let mut pieces = Vec::new();
        while !(self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()) {
            let event = Event {
                added: some(&mut self.added, IN_FULL),
                changed: some(&mut self.changed, CHANGED),
                removed: some(&mut self.removed, REMOVED),
            };
            pieces.push(Piece::event("changes", &event));
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Mutex;
    use std::time::Duration;

    use reelway_session::{EndReason, Limits, NewSession, Progress, Sessions};

    use super::*;

    struct Viewer {
        session: Session,
        progress: Arc<Mutex<Progress>>,
    }

    fn viewers(sessions: &Sessions, count: usize) -> Vec<Viewer> {
        let open = |number: usize| {
            let newcomer = NewSession {
                protocol: Protocol::Hls,
                peer: "127.0.0.1:1".parse().unwrap(),
                connection: number as u64,
                title: format!("film {number}"),
                duration: Duration::from_secs(10),
                user_agent: None,
                query: None,
                wants: None,
            };
            let session = sessions.open(newcomer).unwrap();
            let progress = Arc::new(Mutex::new(Progress::default()));
            let probe = progress.clone();
            session.set_probe(move || probe.lock().unwrap().clone());
            Viewer { session, progress }
        };
        (0..count).map(open).collect()
    }

    fn ids(changed: &[Changed]) -> Vec<&str> {
        changed.iter().map(|changed| changed.id.as_str()).collect()
    }

    #[test]
    fn what_is_new_since_the_last_look_is_told_once() {
        let sessions = Sessions::new(Limits::default());
        let viewers = viewers(&sessions, 3);
        let mut known = KnownSessions::default();
        let look = |known: &mut KnownSessions| known.look(&sessions.in_order(), 100);
        assert_eq!(look(&mut known).added.len(), 3);
        assert_eq!(look(&mut known), Changes::default());
        viewers[1].progress.lock().unwrap().bytes = 7;
        viewers[2].session.end(EndReason::Left);
        let changes = look(&mut known);
        assert_eq!(ids(&changes.changed), [viewers[1].session.id()]);
        assert_eq!(changes.removed, [viewers[2].session.id()]);
        assert_eq!(look(&mut known), Changes::default());
        assert!(look(&mut known).pieces().is_empty());
    }

    #[test]
    fn of_many_changes_a_few_are_told_at_a_time_each_in_its_turn_and_new_states_first() {
        let sessions = Sessions::new(Limits::default());
        let viewers = viewers(&sessions, 7);
        let mut known = KnownSessions::default();
        assert_eq!(known.look(&sessions.in_order(), 4).added.len(), 4);
        assert_eq!(known.look(&sessions.in_order(), 4).added.len(), 3);
        let mut seen = Vec::new();
        for bytes in 1..=3 {
            for viewer in &viewers {
                viewer.progress.lock().unwrap().bytes = bytes;
            }
            let changes = known.look(&sessions.in_order(), 3);
            assert_eq!(changes.changed.len(), 3);
            seen.extend(changes.changed.into_iter().map(|changed| changed.id));
        }
        let all: Vec<&str> = viewers.iter().map(|viewer| viewer.session.id()).collect();
        assert_eq!(seen[..7], all);
        viewers[6].progress.lock().unwrap().state = State::Playing;
        let changes = known.look(&sessions.in_order(), 1);
        assert_eq!(ids(&changes.changed), [all[6]]);
    }

    #[test]
    fn everything_told_so_far_comes_in_pieces_of_bounded_size() {
        let sessions = Sessions::new(Limits::default());
        let mut known = KnownSessions::default();
        let empty = known.in_full();
        assert_eq!(empty.len(), 1);
        assert!(String::from_utf8_lossy(&empty[0].plain).contains("\"total\":0"));
        let _viewers = viewers(&sessions, 450);
        known.look(&sessions.in_order(), usize::MAX);
        let pieces = known.in_full();
        assert_eq!(pieces.len(), 5);
        let mut read = Vec::new();
        for piece in &pieces {
            assert!(piece.plain.len() < 64 << 10);
            let text = std::str::from_utf8(&piece.plain).unwrap();
            let data = text.strip_prefix("event: sessions\ndata: ").unwrap();
            let data: serde_json::Value = serde_json::from_str(data.trim_end()).unwrap();
            assert_eq!(
                (&data["total"], &data["from"]),
                (&450.into(), &read.len().into())
            );
            read.extend(data["sessions"].as_array().unwrap().clone());
        }
        assert_eq!(read.len(), 450);
        assert_eq!(read[449]["title"], "film 449");
    }

    #[test]
    fn compressed_pieces_follow_each_other_in_any_order() {
        let texts: Vec<String> = [10, 70_000, 3]
            .map(|lines| "event: x\ndata: 1\n\n".repeat(lines))
            .into();
        let pieces: Vec<Piece> = texts.iter().cloned().map(Piece::of).collect();
        for order in [[0, 1, 2], [2, 0, 1], [1, 1, 0]] {
            let mut stream = GZIP.to_vec();
            order.iter().for_each(|n| stream.extend(&pieces[*n].packed));
            let mut read = String::new();
            // The stream has no end yet, but what has arrived can be decoded.
            let _ = flate2::read::GzDecoder::new(&stream[..]).read_to_string(&mut read);
            let wanted: String = order.iter().map(|n| texts[*n].as_str()).collect();
            assert!(read == wanted, "{} of {} bytes", read.len(), wanted.len());
        }
    }
}
