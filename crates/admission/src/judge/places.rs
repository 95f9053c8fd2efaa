//! Finds room for plays in the calendars.

use std::sync::Arc;

use reelway_demand::{BINS, Curve, Play};

use super::{Admission, LONGEST, TRIES, Terms};
use crate::calendar::{Calendar, Second};
use crate::capacity::Resource;
use crate::verdict::{Newcomer, RefusedFor};

impl Admission {
    /// The quarter of its second at which a play begins: the present one, even in a later second.
    pub(super) fn quarter_at(&self, _: Second) -> usize {
        (self.now % BINS as u64) as usize
    }

    pub(super) fn plays(
        &self,
        needs: &[(Resource, Arc<Curve>)],
        from: usize,
        to: usize,
        quarter: usize,
    ) -> Vec<(Resource, Play)> {
        let to = to.min(from.saturating_add(LONGEST * BINS));
        needs
            .iter()
            .map(|(resource, curve)| (*resource, Play::new(curve.clone(), from, to, quarter)))
            .collect()
    }

    pub(super) fn plays_of(
        &self,
        newcomer: &Newcomer<'_>,
        needs: &[(Resource, Arc<Curve>)],
    ) -> Vec<(Resource, Play)> {
        let quarter = self.quarter_at(self.second());
        self.plays(needs, newcomer.from, newcomer.to, quarter)
    }

    /// Describes what is overbooked, and by how much, if these plays begin now.
    pub(super) fn full(
        &self,
        (resource, place): (Resource, usize),
        plays: &[(Resource, Play)],
        class: usize,
    ) -> RefusedFor {
        let need = plays.iter().find(|(of, _)| *of == resource);
        RefusedFor::Full {
            resource,
            ahead: place as u64,
            load: self.load(resource, self.second() + place as u64),
            need: need.map_or(0, |(_, play)| play.need(place).into()),
            limit: self.limit(resource, class).unwrap_or(u64::MAX),
        }
    }

    /// The first second of plays from `start` on that has no room, and the resource that lacks it.
    pub(super) fn overfull(
        &self,
        start: Second,
        plays: &[(Resource, Play)],
        terms: Terms,
    ) -> Option<(Resource, usize)> {
        let mut first: Option<(Resource, usize)> = None;
        for (resource, play) in plays {
            if !self.policy.asks(*resource) {
                continue;
            }
            let Some(limit) = self.limit(*resource, terms.class) else {
                continue;
            };
            let carry = match terms.fetches {
                true => 0,
                false => self.carry(*resource, limit),
            };
            let at = match self.calendars.get(resource) {
                Some(calendar) => calendar.overfull(start, play, limit, carry),
                None if u64::from(play.most()) <= limit => None,
                None => Calendar::new(start).overfull(start, play, limit, carry),
            };
            if let Some(at) = at.filter(|at| first.is_none_or(|(_, first)| *at < first)) {
                first = Some((*resource, at));
            }
        }
        first
    }

    /// A second after `now` in which these plays could begin (and `true`), or one before which they
    /// could not. An early one is the first such second; a late one may be preceded by others.
    pub(super) fn earliest(
        &self,
        now: Second,
        plays: &[(Resource, Play)],
        terms: Terms,
    ) -> (Second, bool) {
        let mut start = now + 1;
        let last = now + LONGEST as u64;
        for _ in 0..TRIES {
            let Some((resource, _)) = self.overfull(start, plays, terms) else {
                return (start, true);
            };
            // While the range has a second that even the film's quietest second would overfill,
            // trying is useless.
            let quietest = plays.iter().find(|(of, _)| *of == resource);
            let limit = self.limit(resource, terms.class).unwrap_or(u64::MAX);
            let most = limit.saturating_add(self.carry(resource, limit));
            let full = quietest.and_then(|(_, play)| {
                let room = most.checked_sub(u64::from(play.curve().least()))?;
                self.calendars
                    .get(&resource)?
                    .last_above(start, play.len(), room)
            });
            start = full.unwrap_or(0).max(start + 1);
            if start >= last {
                return (last, false);
            }
        }
        let fits = |start| self.overfull(start, plays, terms).is_none();
        // Steps forward in growing strides, then back to where it begins to fit.
        let (mut no, mut step) = (start - 1, 1);
        while no + step < last && !fits(no + step) {
            (no, step) = (no + step, step * 2);
        }
        let mut yes = no + step;
        if yes >= last {
            return (start, false);
        }
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            match fits(middle) {
                true => yes = middle,
                false => no = middle,
            }
        }
        (yes, true)
    }
}
