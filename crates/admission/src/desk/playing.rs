//! Admitted viewers play, pause, seek and leave.

use std::sync::Arc;
use std::time::Duration;

use reelway_demand::{Carriage, Demand};
use reelway_time::Monotonic;

use crate::curves::{Needs, Wants};
use crate::desk::newcomers::Outcome;
use crate::desk::room::{ROUNDS, Trial};
use crate::desk::state::{Booked, Desk, Stage};
use crate::unplayed::Claim;
use crate::verdict::{BookingId, Refusal, Refused};

/// A viewer who begins this close to the booked time keeps their booking.
const CLOSE: Duration = Duration::from_millis(500);

/// How long room is kept for an admitted viewer who does not begin.
const KEPT: Duration = Duration::from_secs(10);

/// What a viewer is doing, according to their protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// They have not begun yet.
    Ready,
    /// Media is being sent to them.
    Playing,
    /// They pause.
    Paused,
}

impl Desk {
    /// Notes which tracks the viewer takes, and over which transport.
    pub fn takes(&mut self, id: BookingId, mut tracks: Vec<usize>, carriage: Carriage) {
        let Some(booked) = self.booked_mut(id) else {
            return;
        };
        let Some(wants) = &mut booked.wants else {
            return;
        };
        tracks.sort_unstable();
        let mut usual = wants.demand.usual_tracks().to_vec();
        usual.sort_unstable();
        if tracks == usual {
            tracks.clear();
        }
        if wants.tracks != tracks || wants.carriage != carriage {
            (wants.tracks, wants.carriage) = (tracks, carriage);
            (booked.is_current, booked.is_judged) = (false, false);
        }
    }

    /// Notes that the viewer's film is a recording that has grown and goes on, with its new needs.
    pub fn grows(&mut self, id: BookingId, demand: Arc<Demand>) {
        if let Some(booked) = self.booked_mut(id)
            && let Some(wants) = &mut booked.wants
        {
            (wants.demand, wants.goes_on) = (demand, true);
            booked.is_current = false;
        }
    }

    /// What the viewer takes of their film, and the interface that carries it; `None` if nothing of
    /// it is limited.
    pub fn wants(&self, id: BookingId) -> Option<(Wants, Option<u8>)> {
        let booked = self.booked(id)?;
        Some((booked.wants.clone()?, booked.link))
    }

    /// Books `needs`, which the viewer plays from now on, in place of what they played before.
    ///
    /// An admitted viewer may always go on, unless the configuration makes them ask again and
    /// `may_refuse` says that they can be refused here. A viewer who has not played yet is judged
    /// in any case if nothing is booked for them, or if they begin elsewhere or take other tracks
    /// than was judged. Sessions that have not asked for media may end so that they are admitted.
    pub fn plays(
        &mut self,
        now: Monotonic,
        id: BookingId,
        needs: &Needs,
        may_refuse: bool,
    ) -> Outcome<()> {
        self.advance(now);
        let Some(viewer) = self.viewers.get(&id) else {
            return Outcome::done(Vec::new());
        };
        let owner = viewer.owner;
        let has_played = viewer.booked.as_ref().is_none_or(|booked| booked.played);
        let mut trial = Trial::default();
        let mut played = self.play(now, id, needs, may_refuse);
        for _ in 0..ROUNDS {
            // Others who have not asked for media may hold the room.
            if played.is_ok() || has_played {
                break;
            }
            let is_out = |other| other == id || trial.out.contains(&other);
            let candidates = self.candidates(now, owner, Claim::Player, is_out);
            let beside = self.beside(now, Some(id), needs);
            let go = self.books.who_must_go_for(
                now.nanos(),
                id,
                &beside.needs,
                needs.range,
                &candidates,
            );
            let go = go.unwrap_or_default();
            if go.is_empty() {
                break;
            }
            for other in go {
                self.take_out(now, &mut trial, other);
            }
            played = self.play(now, id, needs, may_refuse);
        }
        match played {
            Ok(()) => Outcome::done(self.settle(now, trial)),
            Err(refused) => {
                self.undo(now, trial);
                Outcome::refused(Refusal::from(&refused))
            }
        }
    }

    fn play(
        &mut self,
        now: Monotonic,
        id: BookingId,
        needs: &Needs,
        may_refuse: bool,
    ) -> Result<(), Refused> {
        let has_room = self.books.is_booked(id);
        let first = needs.range.0;
        let Some(booked) = self.booked(id) else {
            return Ok(());
        };
        // What was booked at admission still matches what they do.
        let is_as_booked = has_room
            && !booked.played
            && booked.is_current
            && booked.from == first
            && now.since(booked.since).max(booked.since.since(now)) < CLOSE
            && needs.range.1 == needs.len;
        if !is_as_booked {
            // A viewer who lost their room, begins elsewhere than judged, or takes other tracks is
            // still a newcomer.
            let is_as_judged = has_room && booked.from == first && booked.is_judged;
            let is_new = !booked.played && !is_as_judged;
            // Nobody begins without room, whatever the caller can do about it.
            let ask = is_new || (may_refuse && self.config.ask_again);
            let beside = self.beside(now, Some(id), needs);
            // There must also be room for what others need once they do not play beside this one.
            let mut trial = Trial::default();
            if ask {
                self.part_on_trial(now, &mut trial, id);
            }
            let booked = self
                .books
                .rebook(now.nanos(), id, &beside.needs, needs.range, ask);
            if let Err(refused) = booked {
                self.undo(now, trial);
                return Err(refused);
            }
            self.part(now, id);
            self.join(now, id, now, needs, beside);
        }
        if let Some(booked) = self.booked_mut(id) {
            (booked.from, booked.since) = (first, now);
            (booked.is_current, booked.played) = (true, true);
            booked.is_judged = true;
        }
        Ok(())
    }

    /// The viewer asks for media: from now on, their session does not end to admit others. Returns
    /// false if it has ended already.
    #[must_use = "the session may have ended"]
    pub fn begins(&mut self, now: Monotonic, id: BookingId) -> bool {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return false;
        };
        if let Stage::Unplayed(seat) = viewer.stage {
            self.unplayed.leave(seat, now, false);
            viewer.stage = Stage::Playing;
        }
        true
    }

    /// The media that the viewer asked for was not available: they wait again.
    pub fn waits_again(&mut self, id: BookingId) {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        if viewer.stage == Stage::Playing {
            let (owner, since, wait) = (viewer.owner, viewer.since, viewer.wait);
            viewer.stage = Stage::Unplayed(self.unplayed.enter(owner, since, wait, id));
        }
    }

    /// The viewer does not play at the moment: frees what was booked for them.
    pub fn rests(&mut self, now: Monotonic, id: BookingId) {
        self.advance(now);
        if self.booked(id).is_some() {
            self.books.rest(now.nanos(), id);
            self.part(now, id);
        }
    }

    /// Frees what is booked for a viewer who does not play. Returns true if they play and nothing
    /// is booked: then [`Desk::plays`] is due. `excused`: how long the server did not listen to
    /// them.
    pub fn keep_books(
        &mut self,
        now: Monotonic,
        id: BookingId,
        activity: Activity,
        excused: Duration,
    ) -> bool {
        if !self.books_for(id) {
            return false;
        }
        let (Some(viewer), Some(booked)) = (self.viewers.get(&id), self.booked(id)) else {
            return false;
        };
        let (wait, idle) = (viewer.wait, now.since(booked.since));
        match (activity, self.books.is_booked(id)) {
            (Activity::Paused, true) => self.rests(now, id),
            (Activity::Ready, true) if idle > KEPT.saturating_add(wait) + excused => {
                self.rests(now, id);
            }
            (Activity::Playing, false) => return true,
            _ => {}
        }
        false
    }

    /// The viewer's session has ended, for whatever reason.
    pub fn end(&mut self, now: Monotonic, id: BookingId) {
        self.advance(now);
        self.remove(now, id);
    }

    /// Whether there is anything to be booked for a viewer.
    fn books_for(&self, id: BookingId) -> bool {
        self.booked(id).is_some_and(|booked| booked.wants.is_some())
    }

    fn booked(&self, id: BookingId) -> Option<&Booked> {
        self.viewers.get(&id)?.booked.as_ref()
    }

    fn booked_mut(&mut self, id: BookingId) -> Option<&mut Booked> {
        self.viewers.get_mut(&id)?.booked.as_mut()
    }
}

impl Outcome<()> {
    fn done(ended: Vec<BookingId>) -> Outcome<()> {
        Outcome {
            answer: Ok(()),
            ended,
        }
    }
}
