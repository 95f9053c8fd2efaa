//! The state of a stream, and accessors that are used everywhere.

use std::mem::offset_of;
use std::sync::Arc;

use reelway_demand::{Carriage, Schedule};
use reelway_hint::LINE;
use reelway_media::Nanos;

use super::on_link::OnLink;
use super::slow::Slow;
use super::track::Track;
use crate::effect::{Effect, Effects};
use crate::host::{Host, Script};
use crate::pacing::Window;
use crate::play::{Mishaps, State, StreamId, Tally};
use crate::rules::Rules;

/// How long before it is sent a picture counts as captured in sender reports. Pictures are sent by
/// decode time and stamped with presentation time, which reordering can make later. A report for
/// the moment of sending would lie before the first packet's timestamp, and GStreamer discards such
/// reports: it would synchronise sound and picture 5 s later, and jump. It also discards reports
/// that are more than a second ahead.
const CAPTURED: Nanos = 300_000_000;

/// The parameters of a new stream.
pub struct NewStream<H: Host> {
    /// Its number.
    pub id: StreamId,
    /// The content that it sends.
    pub script: Arc<H::Script>,
    /// Its tracks.
    pub tracks: Vec<Track<H>>,
    /// How its packets are carried.
    pub carriage: Carriage,
    /// Whether the kernel holds its packets until their departure time.
    pub held: bool,
    /// The limited links that its packets pass, if any.
    pub link: Option<Box<OnLink>>,
    /// The rules for all streams.
    pub rules: Arc<Rules<H::Share>>,
    /// Where it should begin and end (`None`: at the film's end), presentation time.
    pub wish: (Nanos, Option<Nanos>),
    /// The destination of the answer that it is ready.
    pub reply: H::Reply,
    /// The data that the caller keeps with it.
    pub owner: H::Owner,
}

/// A stream of a lane. The fields that a turn reads and writes come first, in as few cache lines as
/// possible: other streams and the films' bytes have evicted them since its last turn.
#[repr(C, align(64))]
pub struct Stream<H: Host> {
    pub(crate) tally: Tally,
    pub(crate) state: State,
    /// Whether the kernel holds packets until their departure time.
    pub(super) held: bool,
    /// Whether it waited for a plan at the last look; then its lateness is not the reader's fault.
    pub(super) starved: bool,
    /// Whether the first sender report has left since the stream was placed at its position.
    pub(super) reported: bool,
    /// How its packets are carried.
    pub(super) carriage: Carriage,
    /// Its tracks.
    pub tracks: Vec<Track<H>>,
    /// Packets due at film time `film` leave at `wall`.
    pub(super) wall: u64,
    pub(super) film: Nanos,
    pub(crate) window: Window,
    /// Not to be tried before this: the kernel had no room, or a TCP reader was slow.
    pub(crate) retry_at: u64,
    /// When the next sender reports are due.
    pub(super) next_report: u64,
    /// When BYE is due.
    pub(super) over_at: Option<u64>,
    /// Present if a TCP stream's connection took no more when it was last tried.
    pub(super) slow: Option<Box<Slow<H::Share>>>,
    pub(super) rules: Arc<Rules<H::Share>>,
    /// The schedule by which it sends, if not by the film's own times.
    pub(crate) schedule: Option<Arc<Schedule>>,
    /// The presentation time with which it began, and the end of the range.
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) script: Arc<H::Script>,
    /// The limited links that its packets pass, if any.
    pub(crate) link: Option<Box<OnLink>>,
    /// Whether [`Stream::mishaps`] has changed since the caller last looked.
    pub(super) has_news: bool,

    /// The data that the caller keeps with it.
    pub owner: H::Owner,
    pub(super) id: StreamId,
    /// Its place in the lane.
    pub(crate) place: u32,
    /// Counts the stream's beginnings.
    pub(super) epoch: u32,
    pub(super) mishaps: Mishaps,
    /// The track that defines the viewer's position: the video track, if there is one.
    pub(super) leader: usize,
    /// The last requested range.
    pub(crate) wish: (Nanos, Option<Nanos>),
    /// The destination of the answer when it is ready.
    pub(super) reply: Option<H::Reply>,
    /// Whether its beginning has been found, but not yet when its first packets leave.
    pub(super) found: bool,
    /// How far ahead of its time the first packet leaves.
    pub(super) lead: Nanos,
    /// Whether `go` was called before it was ready.
    pub(super) go: bool,
    /// Whether a BYE was sent for the packets sent so far.
    pub(super) bye: bool,
    /// Whether it came from another lane.
    pub(crate) moved: bool,
    /// Not to send before this: a TCP stream that was behind sends at no more than twice
    /// the film's rate.
    pub(super) not_before: u64,
    /// Whether it is listed among the streams whose receivers miss packets.
    pub(crate) is_resending: bool,
}

/// The number of bytes of [`Stream`] that a turn touches.
pub(super) const HOT: usize = 4 * LINE;

impl<H: Host> Stream<H> {
    /// Creates a stream that must be prepared.
    pub fn new(new: NewStream<H>) -> Stream<H> {
        const { assert!(offset_of!(Stream<H>, owner) + size_of::<usize>() <= HOT) };
        let NewStream {
            id,
            script,
            tracks,
            carriage,
            held,
            link,
            rules,
            wish,
            reply,
            owner,
        } = new;
        let is_picture = |track: &Track<H>| script.outline().is_picture(track.cursor.track);
        let leader = tracks.iter().position(is_picture).unwrap_or(0);
        Stream {
            tally: Tally {
                position: wish.0,
                ..Tally::default()
            },
            // On a limited link its pacer decides when packets leave.
            held: held && link.is_none(),
            carriage,
            link,
            script,
            tracks,
            rules,
            owner,
            id,
            place: u32::MAX,
            leader,
            wish,
            reply: Some(reply),
            state: State::Preparing,
            schedule: None,
            epoch: 0,
            mishaps: Mishaps::default(),
            has_news: false,
            wall: 0,
            film: 0,
            found: false,
            lead: 0,
            start: wish.0,
            end: 0,
            go: false,
            window: Window::default(),
            retry_at: 0,
            next_report: 0,
            reported: false,
            over_at: None,
            bye: true,
            not_before: 0,
            slow: None,
            starved: false,
            moved: false,
            is_resending: false,
        }
    }

    /// Returns its number.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the content that it sends.
    pub fn script(&self) -> &Arc<H::Script> {
        &self.script
    }

    /// Returns its counters.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns its rare events.
    pub fn mishaps(&self) -> &Mishaps {
        &self.mishaps
    }

    /// Returns its rare events, if they have changed since the last call.
    pub fn news(&mut self) -> Option<&Mishaps> {
        std::mem::take(&mut self.has_news).then_some(&self.mishaps)
    }

    /// Returns whether it is sent over a TCP connection.
    pub fn is_tcp(&self) -> bool {
        self.carriage == Carriage::Tcp
    }

    /// Returns whether a BYE must still be sent when it is stopped.
    pub fn owes_bye(&self) -> bool {
        !self.bye
    }

    /// Records a rare event.
    pub(super) fn mishap(&mut self, note: impl FnOnce(&mut Mishaps)) {
        note(&mut self.mishaps);
        self.has_news = true;
    }

    pub(super) fn does(&self, effect: Effect<H>, effects: &mut Effects<H>) {
        effects.push(self.place, effect);
    }

    pub(super) fn enter(&mut self, state: State, effects: &mut Effects<H>) {
        self.state = state;
        self.does(Effect::State(state), effects);
    }

    /// Returns when packets due at this film time should leave.
    pub(super) fn wall_of(&self, film: Nanos) -> u64 {
        self.wall
            .saturating_add_signed(film.saturating_sub(self.film))
    }

    /// Returns the film time at `now`.
    pub(super) fn film_at(&self, now: u64) -> Nanos {
        self.film.saturating_add(now.wrapping_sub(self.wall) as i64)
    }

    /// Returns how far ahead of its time anything may leave.
    pub(super) fn most_ahead(&self) -> Nanos {
        let by_schedule = self.schedule.as_ref().map_or(0, |schedule| schedule.most());
        let by_link = self
            .link
            .as_ref()
            .map_or(0, |_| self.rules.link_ahead as Nanos);
        by_schedule.max(self.script.outline().ahead()).max(by_link)
    }

    /// Returns whether an answer for the beginning numbered `epoch` is still useful.
    pub fn is_at(&self, epoch: u32) -> bool {
        self.epoch == epoch
    }

    /// Returns the presentation time that the viewer sees at `now`.
    pub fn position(&self, now: u64) -> Nanos {
        match self.state {
            State::Playing => self
                .film_at(now)
                .clamp(self.start, self.end.max(self.start)),
            _ => self.tally.position,
        }
    }

    /// Returns the RTP timestamp of a track for the time `now`, for sender reports. Film time and
    /// wall time are related linearly, with the same line for all tracks, 300 ms ahead of what is
    /// being sent.
    pub fn rtp_now(&self, track: &Track<H>, now: u64) -> u32 {
        let captured = self.film_at(now).saturating_add(self.lead + CAPTURED);
        let outline = self.script.outline();
        track
            .rtp_base
            .wrapping_add(outline.rtp_time(track.cursor.track, captured))
    }

    pub(super) fn has_begun(&self) -> bool {
        self.tracks.iter().any(|track| track.packets > 0)
    }
}
