//! A viewer: their position in the film according to their requests, how long they may be silent,
//! and when more may be sent.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use reelway_media::{Kind, Nanos, SECOND};
use reelway_time::Monotonic;

use crate::budget::{COPIED, LONGEST_WAIT};
use crate::flow::Flow;
use crate::pace::{Pace, Pacer, Standing};

/// Longest expected silence of a viewer who plays a file, treated like a segment of this length:
/// nearly every film fills a window of the store in that time.
const OF_FILE: Duration = Duration::from_secs(10);
/// The same limit for segments, however long they are.
const OF_SEGMENT: Duration = Duration::from_secs(600);
/// Added to the silence of viewers who play, since players choose when to request.
const SLACK: Duration = Duration::from_secs(10);
/// Longest silence of viewers who have a playlist but have not requested media yet.
const UNDECIDED: Duration = Duration::from_secs(30);

/// Bytes of media after which a client with a playlist counts as a viewer. A request costs the
/// client nothing, and sessions of clients that do nothing else are among the first to end when
/// room is short.
const BEGUN: u64 = 64 << 10;

/// A viewer's flows of media; each has its own pace, since players request audio and video
/// separately, from any rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowKind {
    /// A file, by byte ranges.
    File,
    /// Segments of the video, or of a transport stream.
    Picture,
    /// Segments of the audio.
    Sound,
}

impl From<Kind> for FlowKind {
    fn from(kind: Kind) -> FlowKind {
        match kind {
            Kind::Video => FlowKind::Picture,
            Kind::Audio => FlowKind::Sound,
        }
    }
}

/// A piece of media that a viewer requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The flow it belongs to.
    pub flow: FlowKind,
    /// Its position: a segment number, or an offset in the file.
    pub at: u64,
    /// The position of the piece that follows.
    pub next: u64,
    /// The presentation times that it covers.
    pub time: Range<Nanos>,
    /// Whether this flow determines the viewer's position.
    pub main: bool,
    /// Bytes that are not film, in seconds' worth.
    pub extra: f64,
}

/// A change of a viewer's position in the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The presentation time from which they play.
    pub to: Nanos,
    /// Whether they play for the first time.
    pub begins: bool,
}

/// What a viewer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// They have not requested any media yet.
    Ready,
    /// They request media regularly.
    Playing,
    /// They have been silent for longer than playing viewers are.
    Paused,
}

/// A viewer's progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What they are doing.
    pub doing: Doing,
    /// The presentation time being played, in seconds, as inferred from their requests.
    pub position: Option<f64>,
    /// Bytes of media sent.
    pub bytes: u64,
    /// Answers begun.
    pub answers: u64,
}

/// A viewer.
#[derive(Debug)]
pub struct Viewer {
    pace: Pace,
    /// Silence after which viewers are given up; long segments extend it.
    timeout: Duration,
    bytes: u64,
    answers: u64,
    /// A time, and the presentation time at which they were then …
    anchor: Option<(Monotonic, Nanos)>,
    /// … and up to where they have requested media.
    reached: Nanos,
    /// Longest silence of a viewer who is playing.
    rest: Duration,
    /// Silence after which this viewer is given up.
    idle: Duration,
    /// Answers in progress. While there is one, the viewer does not count as silent, even if they
    /// read nothing (a browser that pauses a file does not); the connection has its own limits.
    sending: usize,
    flows: BTreeMap<FlowKind, Flow>,
}

impl Viewer {
    /// Creates a viewer who has requested nothing yet. `timeout` is the silence after which viewers
    /// are given up.
    pub fn new(pace: Pace, timeout: Duration) -> Viewer {
        Viewer {
            pace,
            timeout,
            bytes: 0,
            answers: 0,
            anchor: None,
            reached: 0,
            rest: SLACK,
            idle: timeout.min(UNDECIDED),
            sending: 0,
            flows: BTreeMap::new(),
        }
    }

    /// Records a request for a piece of media, whose answer is in progress until [`Viewer::ends`]
    /// is called. Returns the viewer's new position if it changed.
    pub fn asks(&mut self, piece: &Piece, now: Monotonic) -> Option<Moved> {
        let Range { start, end } = piece.time;
        // Viewers who play send a request per segment, and players buffer several segments: a
        // longer silence is a pause.
        let longest = match piece.flow {
            FlowKind::File => OF_FILE,
            FlowKind::Picture | FlowKind::Sound => {
                Duration::from_nanos((end - start).max(0) as u64).min(OF_SEGMENT)
            }
        };
        self.rest = self.rest.max(longest * 2 + SLACK);
        self.idle = self.timeout.max(self.rest + longest);
        self.sending += 1;
        let pace = self.pace;
        let flow = self.flows.entry(piece.flow);
        let flow = flow.or_insert_with(|| Flow::new(pace, now));
        let jump = flow.moves(piece.at, piece.next);
        if jump {
            flow.pacer.refill(piece.extra, now);
        }
        // A viewer may begin with the audio, or fetch nothing else.
        let begins = self.anchor.is_none();
        if !piece.main && !begins {
            return None;
        }
        if jump || begins {
            self.anchor = Some((now, start));
            self.reached = end;
            return Some(Moved { to: start, begins });
        }
        self.reached = self.reached.max(end);
        None
    }

    /// Records that the viewer was refused: they have no position yet.
    pub fn is_refused(&mut self) {
        self.anchor = None;
    }

    /// Ends the answer for the piece of `flow` that begins at `at`; `is_whole` if all of it was
    /// handed over. Returns whether the flow's other answers need not wait any more.
    pub fn ends(&mut self, flow: FlowKind, at: u64, is_whole: bool, now: Monotonic) -> bool {
        self.sending -= 1;
        if is_whole {
            return false;
        }
        let flow = self.flows.get_mut(&flow);
        flow.is_some_and(|flow| {
            let is_cut = flow.is_cut(at);
            if is_cut {
                flow.pacer.refill(0.0, now);
            }
            is_cut
        })
    }

    /// Returns a flow's state relative to its pace, including the time to wait before more of it is
    /// sent.
    pub fn standing(&mut self, flow: FlowKind, now: Monotonic) -> Standing {
        match self.flows.get_mut(&flow) {
            Some(flow) => flow.pacer.standing(now),
            None => Standing {
                wait: Duration::ZERO,
                ahead: 0.0,
                begins: true,
                is_behind: false,
            },
        }
    }

    /// Returns the time to wait after sending `seconds` of a flow now.
    pub fn wait_after(&self, flow: FlowKind, seconds: f64) -> Duration {
        let flow = self.flows.get(&flow);
        flow.map_or(Duration::ZERO, |flow| flow.pacer.wait_after(seconds))
    }

    /// Returns the size of a flow's next window, at most `most` bytes that each play for
    /// `seconds_per_byte`: reduced until the window after it waits no longer than [`LONGEST_WAIT`],
    /// but not below [`COPIED`].
    pub fn window(&self, flow: FlowKind, most: u64, seconds_per_byte: f64) -> u64 {
        let mut size = most;
        while size / 2 >= COPIED
            && self.wait_after(flow, size as f64 * seconds_per_byte) > LONGEST_WAIT
        {
            size /= 2;
        }
        size
    }

    /// Records `bytes` of a flow sent, which play for `seconds`. Returns whether a client that had
    /// only a playlist becomes a viewer by that.
    pub fn sent(&mut self, flow: FlowKind, bytes: u64, seconds: f64) -> bool {
        self.went(flow, bytes, |pacer| pacer.sent(seconds))
    }

    /// The same for media sent from unbooked capacity.
    pub fn caught_up(&mut self, flow: FlowKind, bytes: u64, seconds: f64) -> bool {
        self.went(flow, bytes, |pacer| pacer.caught_up(seconds))
    }

    fn went(&mut self, flow: FlowKind, bytes: u64, count: impl FnOnce(&mut Pacer)) -> bool {
        let before = self.bytes;
        self.bytes += bytes;
        if let Some(flow) = self.flows.get_mut(&flow) {
            count(&mut flow.pacer);
        }
        before < BEGUN && self.bytes >= BEGUN
    }

    /// Returns the silence after which the viewer is given up; `Duration::MAX` while an answer is
    /// in progress.
    pub fn idle_limit(&self) -> Duration {
        match self.sending {
            0 => self.idle,
            _ => Duration::MAX,
        }
    }

    /// Whether no answer has begun yet.
    pub fn is_new(&self) -> bool {
        self.answers == 0
    }

    /// Records that an answer has begun.
    pub fn answered(&mut self) {
        self.answers += 1;
    }

    /// Returns the viewer's progress after this long a silence.
    pub fn progress(&self, silence: Duration, now: Monotonic) -> Progress {
        let played = |(since, from): (Monotonic, Nanos)| {
            let played = i64::try_from(now.since(since).as_nanos()).unwrap_or(i64::MAX);
            from.saturating_add(played).min(self.reached)
        };
        let doing = match self.anchor {
            None => Doing::Ready,
            _ if silence > self.rest => Doing::Paused,
            _ => Doing::Playing,
        };
        Progress {
            doing,
            position: self
                .anchor
                .map(|anchor| played(anchor) as f64 / SECOND as f64),
            bytes: self.bytes,
            answers: self.answers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        first: 20.0,
        factor: 2.0,
        ahead: 20.0,
        then: 2.0,
    };

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    fn viewer() -> Viewer {
        Viewer::new(PACE, Duration::from_secs(60))
    }

    /// A segment of six seconds.
    fn segment(number: u64, main: bool) -> Piece {
        let start = (number as i64 - 1) * 6 * SECOND;
        Piece {
            flow: if main {
                FlowKind::Picture
            } else {
                FlowKind::Sound
            },
            at: number,
            next: number + 1,
            time: start..start + 6 * SECOND,
            main,
            extra: 0.0,
        }
    }

    #[test]
    fn who_plays_on_is_booked_once_and_who_seeks_anew() {
        let mut viewer = viewer();
        let began = viewer.asks(&segment(1, true), at(0));
        assert_eq!(
            began,
            Some(Moved {
                to: 0,
                begins: true
            })
        );
        assert_eq!(viewer.asks(&segment(1, false), at(0)), None, "the sound");
        assert_eq!(viewer.asks(&segment(2, true), at(1)), None);
        let sought = viewer.asks(&segment(9, true), at(2));
        let to = 48 * SECOND;
        assert_eq!(sought, Some(Moved { to, begins: false }));
    }

    #[test]
    fn who_is_refused_begins_once_more() {
        let mut viewer = viewer();
        viewer.asks(&segment(1, true), at(0));
        viewer.is_refused();
        let doing = viewer.progress(Duration::ZERO, at(1)).doing;
        assert_eq!(doing, Doing::Ready, "nothing is booked for them");
        let again = viewer.asks(&segment(2, true), at(1));
        assert!(again.is_some_and(|moved| moved.begins));
    }

    #[test]
    fn who_begins_with_the_sound_begins_as_anybody() {
        let mut viewer = viewer();
        let began = viewer.asks(&segment(1, false), at(0));
        assert!(began.is_some_and(|moved| moved.begins));
        let pictures = viewer.asks(&segment(1, true), at(0));
        assert!(pictures.is_some_and(|moved| !moved.begins));
        assert_eq!(viewer.asks(&segment(9, false), at(0)), None);
    }

    #[test]
    fn a_position_runs_with_the_time_up_to_what_was_asked_for() {
        let mut viewer = viewer();
        let now = |viewer: &Viewer, seconds| viewer.progress(Duration::ZERO, at(seconds));
        assert_eq!(now(&viewer, 0).doing, Doing::Ready);
        assert_eq!(now(&viewer, 0).position, None);
        viewer.asks(&segment(2, true), at(10));
        assert_eq!(now(&viewer, 13).doing, Doing::Playing);
        assert_eq!(now(&viewer, 13).position, Some(9.0));
        assert_eq!(now(&viewer, 99).position, Some(12.0));
        let silent = viewer.progress(Duration::from_secs(23), at(33));
        assert_eq!(silent.doing, Doing::Paused);
    }

    #[test]
    fn long_segments_give_longer_and_files_as_long_as_segments_of_ten_seconds() {
        let silence = |flow, seconds: i64| {
            let mut viewer = viewer();
            let piece = Piece {
                flow,
                time: 0..seconds * SECOND,
                ..segment(1, true)
            };
            viewer.asks(&piece, at(0));
            viewer.ends(flow, 1, true, at(0));
            let is_paused = |after: &u64| {
                let silent = viewer.progress(Duration::from_secs(*after), at(*after));
                silent.doing == Doing::Paused
            };
            ((0..1000).find(is_paused), viewer.idle_limit().as_secs())
        };
        for flow in [FlowKind::Picture, FlowKind::Sound] {
            assert_eq!(silence(flow, 2), (Some(15), 60));
            assert_eq!(silence(flow, 120), (Some(251), 370));
        }
        assert_eq!(silence(FlowKind::File, 7200), (Some(31), 60));
    }

    #[test]
    fn nobody_is_given_up_while_an_answer_is_under_way() {
        let mut viewer = viewer();
        assert_eq!(viewer.idle_limit(), Duration::from_secs(30));
        viewer.asks(&segment(1, true), at(0));
        assert_eq!(viewer.idle_limit(), Duration::MAX);
        assert!(!viewer.ends(FlowKind::Picture, 1, true, at(1)));
        assert_eq!(viewer.idle_limit(), Duration::from_secs(60));
    }

    #[test]
    fn an_answer_that_is_broken_off_lets_the_one_after_a_seek_go_on() {
        let mut viewer = viewer();
        viewer.asks(&segment(1, true), at(0));
        viewer.asks(&segment(2, true), at(0));
        viewer.sent(FlowKind::Picture, 1_000_000, 30.0);
        assert!(viewer.standing(FlowKind::Picture, at(0)).wait > Duration::ZERO);
        assert!(viewer.ends(FlowKind::Picture, 1, false, at(0)));
        let standing = viewer.standing(FlowKind::Picture, at(0));
        assert_eq!((standing.wait, standing.ahead), (Duration::ZERO, 0.0));
    }

    #[test]
    fn the_bytes_that_make_a_viewer_are_told_once() {
        let mut viewer = viewer();
        viewer.asks(&segment(1, true), at(0));
        let told = [40_000, 40_000, 40_000].map(|bytes| viewer.sent(FlowKind::Picture, bytes, 0.0));
        assert_eq!(told, [false, true, false]);
    }

    #[test]
    fn windows_of_few_bits_are_small_so_that_the_next_is_not_waited_for_too_long() {
        let mut viewer = viewer();
        viewer.asks(&segment(1, true), at(0));
        assert_eq!(viewer.window(FlowKind::Picture, 1 << 20, 1e-6), 1 << 20);
        // 16 s of film in 256 KiB: two such windows exceed what is sent immediately.
        assert_eq!(viewer.window(FlowKind::Picture, 1 << 20, 64e-6), 256 << 10);
        assert_eq!(viewer.window(FlowKind::Picture, 1 << 20, 1.0), COPIED);
    }

    #[test]
    fn what_lets_a_viewer_catch_up_makes_a_viewer_of_them_too() {
        let mut viewer = viewer();
        viewer.asks(&segment(1, true), at(0));
        assert!(!viewer.sent(FlowKind::Picture, BEGUN - 1, 1.0));
        assert!(viewer.caught_up(FlowKind::Picture, 1, 1.0));
        assert!(!viewer.sent(FlowKind::Picture, 1, 1.0), "once");
    }
}
