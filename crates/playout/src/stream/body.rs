//! The memory of a stream, and what is asked of it everywhere.

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

/// How long before it is sent a picture counts as taken, by sender reports. Pictures are sent by
/// decode time and stamped with presentation time, which may be later by what reordering takes. A
/// report of the moment of sending would then lie before the first packet's timestamp, and
/// GStreamer throws such reports away: it would learn how sound and picture belong together 5 s
/// later, and jump. More than a second ahead it throws away too.
const CAPTURED: Nanos = 300_000_000;

/// What a stream is made from.
pub struct NewStream<H: Host> {
    /// Its number.
    pub id: StreamId,
    /// What it sends.
    pub script: Arc<H::Script>,
    /// Its tracks.
    pub tracks: Vec<Track<H>>,
    /// How its packets are carried.
    pub carriage: Carriage,
    /// Whether the kernel holds its packets until they are to depart.
    pub held: bool,
    /// The limited links that its packets pass, if any.
    pub link: Option<Box<OnLink>>,
    /// What all streams go by.
    pub rules: Arc<Rules<H::Share>>,
    /// Where it is to begin, and to end (none: at the film's end), presentation time.
    pub wish: (Nanos, Option<Nanos>),
    /// Where the answer goes that it is ready.
    pub reply: H::Reply,
    /// What the caller keeps with it.
    pub owner: H::Owner,
}

/// A stream of a lane. What a turn reads and writes of it comes first, in as few cache lines as it takes:
/// other streams and the films' bytes have pushed them out since its last turn.
#[repr(C, align(64))]
pub struct Stream<H: Host> {
    pub(crate) tally: Tally,
    pub(crate) state: State,
    /// Whether the kernel holds packets until they are to depart.
    pub(super) held: bool,
    /// When it last waited for a plan, that it is not blamed on the reader.
    pub(super) starved: bool,
    /// The first sender report has left since the stream was put where it is.
    pub(super) reported: bool,
    /// How its packets are carried.
    pub(super) carriage: Carriage,
    /// Its tracks.
    pub tracks: Vec<Track<H>>,
    /// Film time `film` leaves at `wall`.
    pub(super) wall: u64,
    pub(super) film: Nanos,
    pub(crate) window: Window,
    /// The kernel had no room, or a TCP reader was slow: not before this.
    pub(crate) retry_at: u64,
    /// When sender reports are due.
    pub(super) next_report: u64,
    /// When BYE is due.
    pub(super) over_at: Option<u64>,
    /// A TCP stream's connection took no more when it was last tried.
    pub(super) slow: Option<Box<Slow<H::Share>>>,
    pub(super) rules: Arc<Rules<H::Share>>,
    /// What to send by, if not the film's own times.
    pub(crate) schedule: Option<Arc<Schedule>>,
    /// Presentation time it began with; the range's end.
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) script: Arc<H::Script>,
    /// The limited links that its packets pass, if any.
    pub(crate) link: Option<Box<OnLink>>,
    /// Something of [`Stream::mishaps`] has changed since the caller last looked.
    pub(super) has_news: bool,

    /// What the caller keeps with it.
    pub owner: H::Owner,
    pub(super) id: StreamId,
    /// Its place in the lane.
    pub(crate) place: u32,
    /// Counts beginnings.
    pub(super) epoch: u32,
    pub(super) mishaps: Mishaps,
    /// The track that tells where the viewer is: the picture, if there is one.
    pub(super) leader: usize,
    /// What was asked for last.
    pub(crate) wish: (Nanos, Option<Nanos>),
    /// Who waits for it to be ready.
    pub(super) reply: Option<H::Reply>,
    /// Where it begins has been found, and not yet when its first packets leave.
    pub(super) found: bool,
    /// How far ahead of its time the first packet left.
    pub(super) lead: Nanos,
    /// `go` came before it was ready.
    pub(super) go: bool,
    /// BYE was sent for what was sent.
    pub(super) bye: bool,
    /// Whether another lane had it first.
    pub(crate) moved: bool,
    /// A TCP stream that was behind sends at most at twice the film's rate.
    pub(super) not_before: u64,
    /// It is listed among those whose receivers miss packets.
    pub(crate) is_resending: bool,
}

/// Bytes of [`Stream`] that a turn touches.
pub(super) const HOT: usize = 4 * LINE;

impl<H: Host> Stream<H> {
    /// A stream to be prepared.
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
            // On a limited link its pacer says when packets leave.
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

    /// Its number.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// What it does.
    pub fn state(&self) -> State {
        self.state
    }

    /// What it sends.
    pub fn script(&self) -> &Arc<H::Script> {
        &self.script
    }

    /// What it has done.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What has happened to it.
    pub fn mishaps(&self) -> &Mishaps {
        &self.mishaps
    }

    /// What has happened to it, if that has changed since this was last asked.
    pub fn news(&mut self) -> Option<&Mishaps> {
        std::mem::take(&mut self.has_news).then_some(&self.mishaps)
    }

    /// Whether it is sent through a connection.
    pub fn is_tcp(&self) -> bool {
        self.carriage == Carriage::Tcp
    }

    /// Whether BYE is still to be said when it is stopped.
    pub fn owes_bye(&self) -> bool {
        !self.bye
    }

    /// Something has happened to it.
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

    /// When something due at this film time should leave.
    pub(super) fn wall_of(&self, film: Nanos) -> u64 {
        self.wall
            .saturating_add_signed(film.saturating_sub(self.film))
    }

    /// What film time it is.
    pub(super) fn film_at(&self, now: u64) -> Nanos {
        self.film.saturating_add(now.wrapping_sub(self.wall) as i64)
    }

    /// How far ahead of its time anything may leave.
    pub(super) fn most_ahead(&self) -> Nanos {
        let by_schedule = self.schedule.as_ref().map_or(0, |schedule| schedule.most());
        let by_link = self
            .link
            .as_ref()
            .map_or(0, |_| self.rules.link_ahead as Nanos);
        by_schedule.max(self.script.outline().ahead()).max(by_link)
    }

    /// Whether an answer for this beginning of it is still of use.
    pub fn is_at(&self, epoch: u32) -> bool {
        self.epoch == epoch
    }

    /// The presentation time a viewer sees at `now`.
    pub fn position(&self, now: u64) -> Nanos {
        match self.state {
            State::Playing => self
                .film_at(now)
                .clamp(self.start, self.end.max(self.start)),
            _ => self.tally.position,
        }
    }

    /// RTP timestamp of a track for the time `now`, for sender reports: one line through film
    /// time and wall time, the same for all tracks, 300 ms ahead of what is being sent.
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
