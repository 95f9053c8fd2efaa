//! Which viewers have to leave: so that another can be admitted, or because capacity is reduced.

use std::collections::BTreeMap;
use std::sync::Arc;

use reelway_demand::Curve;

use super::{Admission, Booking, TakenOut, Terms};
use crate::calendar::Second;
use crate::capacity::Resource;
use crate::crowd::Member;
use crate::verdict::{BookingId, Newcomer, RefusedFor};

/// Maximum number of viewers who leave for one newcomer.
const MOST: usize = 32;

/// A viewer who could be admitted if others left.
enum Applicant<'a> {
    /// A newcomer, who may wait for this many seconds.
    Newcomer(&'a Newcomer<'a>, u32),
    /// A present viewer who wants these bins of their needs from now on.
    Again(&'a [(Resource, Arc<Curve>)], (usize, usize), Terms),
}

impl Admission {
    /// Which of `candidates` have to leave so that a newcomer can be admitted at `now`: taken in
    /// their order, and nobody leaves in vain. Empty if there is room; `None` if there is none even
    /// without them. Changes nothing.
    pub fn who_must_go(
        &mut self,
        now: u64,
        newcomer: &Newcomer<'_>,
        wait: u32,
        candidates: &[BookingId],
    ) -> Option<Vec<BookingId>> {
        self.advance(now);
        self.try_without(&Applicant::Newcomer(newcomer, wait), candidates)
    }

    /// The same for a present viewer who wants the bins `range` of `needs` instead of what is
    /// booked.
    pub fn who_must_go_for(
        &mut self,
        now: u64,
        id: BookingId,
        needs: &[(Resource, Arc<Curve>)],
        range: (usize, usize),
        candidates: &[BookingId],
    ) -> Option<Vec<BookingId>> {
        self.advance(now);
        let own = self.take_out(id)?;
        let wish = Applicant::Again(needs, range, own.booking.terms);
        let gone = self.try_without(&wish, candidates);
        self.put_back(own);
        gone
    }

    /// Which viewers have to leave so that no second of the next `seconds` exceeds a reduced
    /// capacity, for the resources that `counts` accepts: the newest of the last class first.
    pub fn too_many(&self, seconds: u64, counts: impl Fn(Resource) -> bool) -> Vec<BookingId> {
        let now = self.second();
        let mut over: BTreeMap<(Resource, Second), u64> = BTreeMap::new();
        for (resource, calendar) in &self.calendars {
            // Seeks may overfill a resource at full capacity: nobody leaves for that. Room that
            // classes leave free counts as available.
            let limit = self.there_is(*resource);
            let is_less = counts(*resource) && self.share(*resource) < 1000;
            let Some(limit) = limit.filter(|_| is_less) else {
                continue;
            };
            let carry = self.carry(*resource, limit);
            for (second, excess) in calendar.over(now, seconds, limit, carry) {
                over.insert((*resource, second), excess);
            }
        }
        let mut candidates: Vec<(&BookingId, &Booking)> = self.bookings.iter().collect();
        candidates
            .sort_unstable_by_key(|(id, booking)| std::cmp::Reverse((booking.terms.class, **id)));
        let mut leave = Vec::new();
        for (id, booking) in candidates {
            if over.is_empty() {
                break;
            }
            let mut helps = false;
            for (resource, play) in &booking.plays {
                over.retain(|(of, second), excess| {
                    if of == resource && *second >= booking.start {
                        let need = u64::from(play.need((*second - booking.start) as usize));
                        helps |= need > 0;
                        *excess = excess.saturating_sub(need);
                    }
                    *excess > 0
                });
            }
            if helps {
                leave.push(*id);
            }
        }
        leave
    }

    fn try_without(
        &mut self,
        wish: &Applicant<'_>,
        candidates: &[BookingId],
    ) -> Option<Vec<BookingId>> {
        let mut left: Vec<BookingId> = candidates.to_vec();
        let mut out = Vec::new();
        let fits = loop {
            let Some(hindrance) = self.hindrance(wish) else {
                break true;
            };
            let next = left
                .iter()
                .position(|id| self.is_in_the_way(*id, &hindrance, wish))
                .filter(|_| out.len() < MOST);
            let Some(next) = next else { break false };
            let id = left.remove(next);
            out.extend(self.take_out(id));
        };
        let gone = out.iter().map(|taken| taken.id).collect();
        for taken in out.into_iter().rev() {
            self.put_back(taken);
        }
        fits.then_some(gone)
    }

    /// The reason why the applicant cannot be admitted.
    fn hindrance(&self, wish: &Applicant<'_>) -> Option<RefusedFor> {
        let (plays, terms) = match wish {
            Applicant::Newcomer(newcomer, wait @ 1..) => {
                let refused = self.judge(newcomer, *wait).err()?;
                return Some(refused.reason);
            }
            // Without waiting, there is no need to find out when there would be room, which is a
            // search second by second.
            Applicant::Newcomer(newcomer, 0) => {
                let reason = self.turned_away(newcomer);
                if reason.is_some() {
                    return reason;
                }
                (self.plays_of(newcomer, newcomer.needs), Terms::of(newcomer))
            }
            Applicant::Again(needs, (from, to), terms) => {
                let quarter = self.quarter_at(self.second());
                (self.plays(needs, *from, *to, quarter), *terms)
            }
        };
        let overfull = self.overfull(self.second(), &plays, terms)?;
        Some(self.full(overfull, &plays, terms.class))
    }

    /// Whether it would help if this viewer left.
    fn is_in_the_way(&self, id: BookingId, hindrance: &RefusedFor, wish: &Applicant<'_>) -> bool {
        let Some(booking) = self.bookings.get(&id) else {
            return false;
        };
        match hindrance {
            RefusedFor::Full {
                resource, ahead, ..
            } => {
                let second = self.second() + ahead;
                let plays = booking.plays.iter().filter(|(of, _)| of == resource);
                let place = second.checked_sub(booking.start);
                place.is_some_and(|place| {
                    plays.clone().any(|(_, play)| play.need(place as usize) > 0)
                })
            }
            RefusedFor::Crowd(_) => match wish {
                Applicant::Newcomer(newcomer, _) => {
                    let member = Member::new(newcomer.title, newcomer.address, newcomer.user);
                    self.crowd.shares_full(&member, &booking.member)
                }
                Applicant::Again(..) => false,
            },
            RefusedFor::Count { .. } => true,
            RefusedFor::Fast => false,
        }
    }

    /// Takes a viewer out of the books, as if they had left, until they are put back.
    pub(crate) fn take_out(&mut self, id: BookingId) -> Option<TakenOut> {
        let plays = self.bookings.get(&id)?.plays.clone();
        self.unbook(id);
        let booking = self.bookings.remove(&id)?;
        self.crowd.leave(&booking.member);
        self.fast -= u32::from(booking.fast);
        Some(TakenOut { id, plays, booking })
    }

    /// Puts a viewer back who was taken out.
    pub(crate) fn put_back(&mut self, taken: TakenOut) {
        let TakenOut { id, plays, booking } = taken;
        self.crowd.enter(&booking.member);
        self.fast += u32::from(booking.fast);
        let start = booking.start;
        self.bookings.insert(id, booking);
        if !plays.is_empty() {
            self.book(id, start, plays);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::capacity::Capacity;
    use crate::crowd::Limits;
    use crate::policy::Policy;

    const DISK: Resource = Resource::Disk;

    fn newcomer<'a>(title: &'a str, needs: &'a [(Resource, Arc<Curve>)]) -> Newcomer<'a> {
        Newcomer {
            title,
            address: [10, 0, 0, 1].into(),
            user: None,
            class: 0,
            fast: false,
            fetches: false,
            needs,
            later: None,
            from: 0,
            to: usize::MAX,
        }
    }

    fn loads(judge: &Admission) -> Vec<u64> {
        (0..700).map(|second| judge.load(DISK, second)).collect()
    }

    #[test]
    fn as_few_leave_as_it_takes_and_asking_changes_nothing() {
        let capacity = Capacity::unlimited().with(DISK, 100, 1000);
        let mut judge = Admission::new(Policy::Exact, capacity, Limits::default());
        let small = [(DISK, Arc::new(Curve::new(vec![5; 4 * 600])))];
        let big = [(DISK, Arc::new(Curve::new(vec![10; 4 * 600])))];
        let ids: Vec<BookingId> = (0..5)
            .map(|_| judge.decide(0, &newcomer("a", &small), 0).unwrap().id)
            .collect();
        let before = loads(&judge);
        let go = judge.who_must_go(0, &newcomer("a", &big), 0, &[ids[3], ids[1], ids[0]]);
        assert_eq!(
            go,
            Some(vec![ids[3], ids[1]]),
            "20 a second each, 40 are wanted"
        );
        assert_eq!(
            judge.who_must_go(0, &newcomer("a", &big), 0, &ids[..1]),
            None
        );
        assert_eq!(loads(&judge), before);
        assert_eq!((judge.viewers(), judge.refused()), (5, 0));
        // A viewer who rested has to ask again, and may have the room of others who do not play.
        judge.rest(0, ids[4]);
        judge.decide(0, &newcomer("a", &small), 0).unwrap();
        let go = judge.who_must_go_for(0, ids[4], &small, (0, usize::MAX), &ids[..2]);
        assert_eq!(go, Some(vec![ids[0]]));
        judge.end(0, ids[0]);
        let go = judge.who_must_go_for(0, ids[4], &small, (0, usize::MAX), &ids[..2]);
        assert_eq!(go, Some(vec![]), "there is room");
    }

    #[test]
    fn who_does_not_stand_in_the_way_stays() {
        let limits = Limits {
            title: 1,
            ..Limits::default()
        };
        let capacity = Capacity::unlimited().with(DISK, 100, 1000);
        let mut judge = Admission::new(Policy::Exact, capacity, limits);
        let needs = [(DISK, Arc::new(Curve::new(vec![5; 4 * 600])))];
        let a = judge.decide(0, &newcomer("a", &needs), 0).unwrap().id;
        let b = judge.decide(0, &newcomer("b", &needs), 0).unwrap().id;
        let go = judge.who_must_go(0, &newcomer("b", &needs), 0, &[a, b]);
        assert_eq!(go, Some(vec![b]), "b's place is of the title");
        assert_eq!(
            judge.who_must_go(0, &newcomer("c", &needs), 0, &[a, b]),
            Some(vec![])
        );
        // Viewers who rest hold nothing of the disk.
        let big = [(DISK, Arc::new(Curve::new(vec![25; 4 * 600])))];
        judge.rest(0, a);
        let go = judge.who_must_go(0, &newcomer("c", &big), 0, &[a, b]);
        assert_eq!(go, Some(vec![b]));
        assert_eq!(judge.load(DISK, 0), 20);
        judge.end(0, b);
        assert_eq!(judge.load(DISK, 0), 0);
        assert_eq!(
            Duration::ZERO,
            judge.what_if(0, &newcomer("b", &big), 0).unwrap()
        );
    }
}
