//! One viewer: where their requests say they are in the film, how long they may be silent, and when more may be sent.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use reelway_media::{Kind, Nanos, SECOND};
use reelway_time::Monotonic;

use crate::budget::{COPIED, LONGEST_WAIT};
use crate::flow::Flow;
use crate::pace::{Pace, Pacer, Standing};

/// How long a viewer of a file is silent at most while they play, as long as a segment would make them:
/// nearly every film fills a window of the store in that time.
const OF_FILE: Duration = Duration::from_secs(10);
/// The same of a segment, however long it is.
const OF_SEGMENT: Duration = Duration::from_secs(600);
/// What is added to the silence of viewers who play, as players ask at their own times.
const SLACK: Duration = Duration::from_secs(10);
/// Longest silence of viewers who have a playlist but asked for nothing yet.
const UNDECIDED: Duration = Duration::from_secs(30);

/// Bytes of media after which somebody who has a playlist counts as a viewer. To ask costs nothing, and those who do nothing
/// else are among the first to go when room is short.
const BEGUN: u64 = 64 << 10;

/// A viewer's flows of media go side by side, each at its own pace: a player asks for picture and sound by themselves, of
/// whatever rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowKind {
    /// A file, by byte ranges.
    File,
    /// Segments of the picture, or of a transport stream.
    Picture,
    /// Segments of the sound.
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

/// A piece of media that a viewer asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The flow it belongs to.
    pub flow: FlowKind,
    /// Which piece it is: a segment's number, or an offset in the file.
    pub at: u64,
    /// The one that follows it.
    pub next: u64,
    /// When it plays.
    pub time: Range<Nanos>,
    /// Whether the flow shows where the viewer is.
    pub main: bool,
    /// Seconds' worth of bytes that are not film.
    pub extra: f64,
}

/// That a viewer is somewhere else in the film than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// They play from here.
    pub to: Nanos,
    /// They play for the first time.
    pub begins: bool,
}

/// What a viewer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// They have asked for no media yet.
    Ready,
    /// They ask for more again and again.
    Playing,
    /// They have been silent for longer than viewers are who play.
    Paused,
}

/// How far a viewer has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What they do.
    pub doing: Doing,
    /// The presentation time they play, as far as their requests show it, in seconds.
    pub position: Option<f64>,
    /// Bytes of media they were sent.
    pub bytes: u64,
    /// Answers they were given.
    pub answers: u64,
}

/// One viewer.
#[derive(Debug)]
pub struct Viewer {
    pace: Pace,
    /// Silence after which a viewer is given up; films of long segments give longer.
    timeout: Duration,
    bytes: u64,
    answers: u64,
    /// They were at this presentation time at this moment …
    anchor: Option<(Monotonic, Nanos)>,
    /// … and have asked for all up to here.
    reached: Nanos,
    /// Longest silence of a viewer who plays.
    rest: Duration,
    /// Silence after which this one is given up.
    idle: Duration,
    /// Answers under way: as long as there is one they are not silent, even if they take nothing of it (a
    /// browser that pauses a file does not); the connection has limits of its own.
    sending: usize,
    flows: BTreeMap<FlowKind, Flow>,
}

impl Viewer {
    /// One who has asked for nothing yet. `timeout` is the silence after which viewers are given up.
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

    /// A piece of media is asked for. Its answer is under way until [`Viewer::ends`] is called. Where they are now, if
    /// that is somewhere else than before.
    pub fn asks(&mut self, piece: &Piece, now: Monotonic) -> Option<Moved> {
        let Range { start, end } = piece.time;
        // Viewers who play ask once a segment, and players hold some of them: silence for longer is a pause.
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
        // Somebody may begin with the sound, or take nothing else.
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

    /// There is no room for what the viewer began with: they are nowhere yet.
    pub fn is_refused(&mut self) {
        self.anchor = None;
    }

    /// The answer to the piece of `flow` that begins at `at` is over, and all of it was handed over or not. Whether the
    /// flow's answers need not wait any more.
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

    /// How a flow stands against its pace: how long to wait before more of it is sent.
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

    /// How long there would be to wait if `seconds` of a flow were sent now.
    pub fn wait_after(&self, flow: FlowKind, seconds: f64) -> Duration {
        let flow = self.flows.get(&flow);
        flow.map_or(Duration::ZERO, |flow| flow.pacer.wait_after(seconds))
    }

    /// Bytes of a flow's next window, of at most `most`, of which each plays for so many seconds: as many as make them wait
    /// no longer than [`LONGEST_WAIT`] for the one after, or [`COPIED`].
    pub fn window(&self, flow: FlowKind, most: u64, seconds_per_byte: f64) -> u64 {
        let mut size = most;
        while size / 2 >= COPIED
            && self.wait_after(flow, size as f64 * seconds_per_byte) > LONGEST_WAIT
        {
            size /= 2;
        }
        size
    }

    /// Media went out: `bytes` of a flow, which play for `seconds`. Whether they make a viewer of somebody who had no more
    /// than a playlist.
    pub fn sent(&mut self, flow: FlowKind, bytes: u64, seconds: f64) -> bool {
        self.went(flow, bytes, |pacer| pacer.sent(seconds))
    }

    /// The same of media that went out of what nobody has booked.
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

    /// Silence after which the viewer is given up. `Duration::MAX` while an answer is under way.
    pub fn idle_limit(&self) -> Duration {
        match self.sending {
            0 => self.idle,
            _ => Duration::MAX,
        }
    }

    /// Whether nothing has been answered yet.
    pub fn is_new(&self) -> bool {
        self.answers == 0
    }

    /// An answer was begun.
    pub fn answered(&mut self) {
        self.answers += 1;
    }

    /// How far they have come, after so long a silence.
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
        // 16 s of film for each 256 KiB: two of these are beyond what goes freely.
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
