//! Who has to leave the machine so that somebody else can come in.

use reelway_admission::BookingId;
use reelway_media::Nanos;

use super::{Booked, Gate, lock, now};
use crate::registry::NewSession;

impl Gate {
    /// Which of `candidates`, in this order, have to leave so that this newcomer can come in. None, if there is room or
    /// it would not help.
    pub(crate) fn who_must_go(
        &self,
        viewer: &NewSession,
        user: Option<&str>,
        candidates: &[BookingId],
    ) -> Vec<BookingId> {
        if self.is_open() || candidates.is_empty() {
            return Vec::new();
        }
        let link = self.0.config.links.leaving_to(viewer.peer.ip());
        let mut needs = self.needs_of(viewer, link, 0);
        let disk = viewer.wants.as_ref().and_then(|wants| self.followed(wants));
        let nearby = disk.and_then(|disk| {
            let following = lock(&self.0.following);
            following.behind(None, &disk, now(), (0, Nanos::MAX))
        });
        needs.take(nearby);
        let shared = viewer.wants.as_ref().and_then(|wants| self.shared(wants));
        let near = lock(&self.0.sharing).near(None, shared, now(), (0, Nanos::MAX));
        needs.share(near.as_ref());
        let gone = self.ask((viewer, user), &needs, |judge, newcomer, wait| {
            judge.who_must_go(now(), newcomer, wait, candidates)
        });
        gone.unwrap_or_default()
    }

    /// The same for one who is here and wants to play from `from` to `to`.
    pub(crate) fn who_must_go_for(
        &self,
        booked: &Booked,
        range: (Nanos, Nanos),
        candidates: &[BookingId],
    ) -> Vec<BookingId> {
        let Some(wants) = booked.wants.as_ref().filter(|_| !candidates.is_empty()) else {
            return Vec::new();
        };
        let mut needs = self.0.curves.needs(wants, booked.link, range);
        let near = lock(&self.0.sharing).near(Some(booked.id), self.shared(wants), now(), range);
        needs.share(near.as_ref());
        let mut judge = lock(&self.0.judge);
        let gone = judge.who_must_go_for(now(), booked.id, &needs.of, needs.range, candidates);
        gone.unwrap_or_default()
    }
}
