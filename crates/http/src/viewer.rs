//! One viewer over HTTP: what his requests tell of where he is, and the pace of his flows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_media::{Nanos, SECOND};
use reelway_session::{Progress, Refusal, Session, State};
use reelway_store::{Source, Watcher};
use reelway_supervise as supervise;
use reelway_viewing::{Pace, Pacer};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::films::Show;

/// The flow of a file; the others are track_IDs.
pub(crate) const FILE: u32 = 0;
/// How long a viewer of a file is silent at most while he plays, as long as a segment would make him:
/// nearly every film fills a window of the store in that time.
const OF_FILE: Duration = Duration::from_secs(10);
/// Longest silence of a viewer who has a playlist but asked for nothing yet.
const UNDECIDED: Duration = Duration::from_secs(30);

/// Bytes of media that make a viewer of one who has a playlist. Asking alone costs nothing, and whoever does nothing else is
/// among the first to go when room is short.
const BEGUN: u64 = 64 << 10;

/// One viewer.
pub(crate) struct Viewer {
    pub session: Session,
    /// His name in addresses; empty for one without.
    pub token: String,
    /// How fast he is sent media.
    pub pace: Pace,
    title: String,
    version: String,
    timeout: Duration,
    bytes: AtomicU64,
    answers: AtomicU64,
    place: Mutex<Place>,
    /// Tells the store's cache where he is.
    watcher: Watcher,
    /// Wakes the flows that wait: one of them need not any more.
    refilled: Notify,
}

/// Where a viewer is, as far as what he asks for tells.
struct Place {
    /// He was at this presentation time at this moment …
    anchor: Option<(Monotonic, Nanos)>,
    /// … and has asked for all up to here.
    reached: Nanos,
    /// Longest silence of one who plays.
    rest: Duration,
    /// Silence after which he is given up.
    idle: Duration,
    /// Answers under way: as long as there is one he is not silent, even if he takes nothing of it (a
    /// browser that pauses a file does not); his connection has limits of its own.
    sending: usize,
    flows: HashMap<u32, Flow>,
}

/// One track of a viewer, or the file.
struct Flow {
    pacer: Pacer,
    /// Where the next piece is expected: a segment's number, or a file's offset.
    next: u64,
    /// Where the last piece began.
    last: u64,
    /// Whether it was asked for somewhere else than expected.
    moved: bool,
    /// The viewer broke its answer off.
    cut: bool,
}

impl Flow {
    fn new(pace: Pace, now: Monotonic) -> Flow {
        Flow {
            pacer: Pacer::new(pace, now),
            next: u64::MAX,
            last: u64::MAX,
            moved: false,
            cut: false,
        }
    }

    /// The piece from `at` to `next` is asked for; whether that is somewhere else than expected: a
    /// start or a seek.
    ///
    /// Asking once more for a piece is one: whoever does has thrown away what he had. So has who broke the last answer
    /// off, even if he seeks what was expected. And a file from its first byte is a start however often: it is the next
    /// viewer with this address and program, or the same one anew. (Segments count from 1.)
    fn moves(&mut self, at: u64, next: u64) -> bool {
        self.moved = at == 0 || self.next != at || self.cut;
        self.cut = false;
        self.next = next;
        self.last = at;
        self.moved
    }

    /// The answer that began at `at` was broken off. Whether that makes what was asked for since a seek: players
    /// close one connection and ask on another, and either may be seen first.
    fn is_cut(&mut self, at: u64) -> bool {
        self.cut = self.last == at;
        !self.cut && !std::mem::replace(&mut self.moved, true)
    }
}

/// A piece of media that a viewer asks for.
pub(crate) struct Piece {
    /// The flow it belongs to: a track_ID, or [`FILE`].
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
    /// One who has asked for nothing yet.
    pub fn new(
        session: Session,
        token: String,
        pace: Pace,
        show: &Show,
        timeout: Duration,
        watcher: Watcher,
    ) -> Viewer {
        let idle = timeout.min(UNDECIDED);
        // One who waits for his turn cannot ask for more meanwhile.
        session.set_idle_limit(idle.saturating_add(session.starts_in()));
        Viewer {
            session,
            token,
            pace,
            title: show.film.name.clone(),
            version: show.version.clone(),
            timeout,
            bytes: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            place: Mutex::new(Place {
                anchor: None,
                reached: 0,
                rest: Duration::from_secs(10),
                idle,
                sending: 0,
                flows: HashMap::new(),
            }),
            watcher,
            refilled: Notify::new(),
        }
    }

    /// The bytes of his film from here on are asked for next.
    pub fn comes_to(&self, source: &Source, offset: u64) {
        self.watcher.comes_to(source, offset, 1.0);
    }

    /// Whether this is his film.
    pub fn watches(&self, show: &Show) -> bool {
        self.title == show.film.name
    }

    /// Whether it is still the file that he began to watch.
    pub fn watches_version(&self, show: &Show) -> bool {
        self.version == show.version
    }

    /// A piece of media is asked for: its answer is under way until what this gives is dropped.
    ///
    /// # Errors
    /// It is the first one, the viewer's place was given away before, and there is no room.
    pub fn asks(self: &Arc<Self>, piece: Piece) -> Result<Sending, Refusal> {
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
        let longest = match flow {
            FILE => OF_FILE,
            _ => Duration::from_nanos((time.end - time.start).max(0) as u64)
                .min(Duration::from_secs(600)),
        };
        place.rest = place.rest.max(longest * 2 + Duration::from_secs(10));
        place.idle = self.timeout.max(place.rest + longest);
        place.sending += 1;
        self.set_limit(&place);
        let entry = place
            .flows
            .entry(flow)
            .or_insert_with(|| Flow::new(self.pace, now));
        let jump = entry.moves(at, next);
        if jump {
            entry.pacer.refill(extra, now);
        }
        let begins = place.anchor.is_none();
        let is_moved = main && (jump || begins);
        if is_moved {
            place.anchor = Some((now, time.start));
            place.reached = time.end;
        }
        if main {
            place.reached = place.reached.max(time.end);
        }
        drop(place);
        let sending = Sending {
            viewer: self.clone(),
            flow,
            at,
            is_whole: false,
        };
        if is_moved {
            // Where he is now is what is booked. Who was let in may always go on, unless his place was given away before
            // he began. Not under the lock: others may have to leave for him.
            let may_refuse = begins && !self.session.holds_place();
            let played = self.session.plays(time.start, Nanos::MAX, may_refuse);
            if let (Err(refusal), true) = (played, may_refuse) {
                self.place().anchor = None;
                return Err(refusal);
            }
        }
        Ok(sending)
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

    /// Comes when a flow of his need not wait any more, from this call on.
    pub fn refilled(&self) -> Notified<'_> {
        self.refilled.notified()
    }

    /// How long there would be to wait if `seconds` of a flow were sent now.
    pub fn wait_after(&self, flow: u32, seconds: f64) -> Duration {
        let place = self.place();
        let flow = place.flows.get(&flow);
        flow.map_or(Duration::ZERO, |flow| flow.pacer.wait_after(seconds))
    }

    /// Media went out: `bytes` of flow `flow`, which play for `seconds`.
    pub fn sent(&self, flow: u32, bytes: u64, seconds: f64) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before < BEGUN && before + bytes >= BEGUN {
            self.session.begins();
        }
        self.session.touch();
        let mut place = self.place();
        if let Some(flow) = place.flows.get_mut(&flow) {
            flow.pacer.sent(seconds);
        }
    }

    fn set_limit(&self, place: &Place) {
        let limit = if place.sending > 0 {
            Duration::MAX
        } else {
            place.idle
        };
        self.session.set_idle_limit(limit);
    }

    /// One who is let in a little later than he came waits for his answer, at the beginning and never after.
    pub async fn wait_for_turn(&self) {
        let wait = self.session.starts_in();
        if !wait.is_zero() && self.is_new() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Whether nothing has been answered to him yet.
    fn is_new(&self) -> bool {
        self.answers.load(Ordering::Relaxed) == 0
    }

    /// An answer was begun.
    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.session.touch();
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        supervise::whole(self.place.lock())
    }

    /// What is shown of him.
    pub fn progress(&self) -> Progress {
        let now = reelway_clock::now();
        let place = self.place();
        let played = |(since, from): (Monotonic, Nanos)| {
            let played = i64::try_from(now.since(since).as_nanos()).unwrap_or(i64::MAX);
            from.saturating_add(played).min(place.reached)
        };
        let state = match place.anchor {
            None if place.flows.is_empty() => State::Ready,
            _ if self.session.silence() > place.rest => State::Paused,
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

/// An answer under way.
pub(crate) struct Sending {
    pub viewer: Arc<Viewer>,
    /// Number of the viewer's flow.
    pub flow: u32,
    /// The piece that it answers.
    at: u64,
    /// Whether all of it was handed over.
    is_whole: bool,
}

impl Sending {
    /// All of it was handed over.
    pub fn is_done(&mut self) {
        self.is_whole = true;
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let mut place = self.viewer.place();
        place.sending -= 1;
        self.viewer.session.touch();
        self.viewer.set_limit(&place);
        if !self.is_whole
            && let Some(flow) = place.flows.get_mut(&self.flow)
            && flow.is_cut(self.at)
        {
            flow.pacer.refill(0.0, reelway_clock::now());
            self.viewer.refilled.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow::new(Pace::free(20.0, 2.0), Monotonic::from_nanos(0))
    }

    #[test]
    fn segments_in_turn_are_no_seek_and_each_other_is() {
        let mut flow = flow();
        let moves = [1, 2, 3, 4].map(|number| flow.moves(number, number + 1));
        assert_eq!(moves, [true, false, false, false]);
        assert!(flow.moves(9, 10), "over four segments");
        assert!(flow.moves(9, 10), "once more");
        assert!(flow.moves(3, 4), "back again");
    }

    #[test]
    fn what_is_asked_for_after_an_answer_that_was_broken_off_is_a_seek() {
        let mut flow = flow();
        assert!(flow.moves(1, 2));
        assert!(!flow.moves(2, 3));
        assert!(!flow.is_cut(2), "nothing was asked for since");
        assert!(flow.moves(3, 4), "though it was expected");
        assert!(!flow.moves(4, 5), "once");
    }

    #[test]
    fn an_answer_may_be_seen_to_be_broken_off_after_the_next_was_asked_for() {
        let mut flow = flow();
        assert!(flow.moves(1, 2));
        assert!(!flow.moves(2, 3));
        assert!(flow.is_cut(1));
        assert!(!flow.is_cut(1), "once");
        assert!(flow.moves(7, 8));
        assert!(!flow.is_cut(2), "that it was a seek is known");
    }

    #[test]
    fn a_file_read_on_in_ranges_is_no_seek_and_each_other_place_is() {
        let mut flow = flow();
        assert!(flow.moves(0, 1000));
        assert!(!flow.moves(1000, 2000));
        assert!(!flow.moves(2000, 9999), "from where it stood to the end");
        assert!(flow.moves(2000, 9999), "the same once more");
        assert!(flow.moves(5000, 9999), "a seek");
    }

    #[test]
    fn a_file_from_its_first_byte_is_a_start_each_time() {
        let mut flow = flow();
        assert!(flow.moves(0, 9999));
        assert!(flow.moves(0, 9999), "the next one from this address");
    }
}
