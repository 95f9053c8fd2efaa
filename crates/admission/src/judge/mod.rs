//! The judge: newcomers, bookings, verdicts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use reelway_demand::{BIN, BINS, Curve, Play};

use crate::calendar::{Calendar, HORIZON, Second};
use crate::capacity::{Capacity, Resource};
use crate::crowd::{Crowd, Limits, Member};
use crate::policy::{Class, Policy};
use crate::verdict::{Admitted, BookingId, Newcomer, PastRefusal, Refused, RefusedFor};

/// Starts that are tried to find out when a refused newcomer could be admitted: bounds the cost of
/// a refusal. Beyond it, the answer is a time before which asking is useless.
const TRIES: usize = 16;

/// Maximum seconds booked of a play, and ahead of its start: half of a calendar's horizon each.
const LONGEST: usize = HORIZON / 2;

/// Maximum number of refusals that are kept for display.
const REMEMBERED: usize = 256;

struct Booking {
    member: Member,
    terms: Terms,
    fast: bool,
    /// What is booked for the viewer now; empty while they rest.
    plays: Vec<(Resource, Play)>,
    start: Second,
    end: Second,
}

/// A viewer who is out of the books temporarily.
pub(crate) struct TakenOut {
    id: BookingId,
    plays: Vec<(Resource, Play)>,
    booking: Booking,
}

/// The conditions of a viewer's booking.
#[derive(Clone, Copy, Debug)]
struct Terms {
    class: usize,
    /// Whether nothing is sent to them ahead of its time.
    fetches: bool,
}

impl Terms {
    fn of(newcomer: &Newcomer<'_>) -> Terms {
        Terms {
            class: newcomer.class,
            fetches: newcomer.fetches,
        }
    }
}

/// The books of a machine: what it can carry, what is promised, and whether there is room for one more.
pub struct Admission {
    policy: Policy,
    capacity: Capacity,
    classes: Vec<Class>,
    /// How far ahead of their time packets may leave while a network has room.
    ahead: Duration,
    /// Thousandths of each limit that are available at the moment; 1000 if missing.
    shares: BTreeMap<Resource, u32>,
    calendars: BTreeMap<Resource, Calendar>,
    bookings: BTreeMap<BookingId, Booking>,
    /// When bookings end, the next first.
    ends: BTreeSet<(Second, BookingId)>,
    crowd: Crowd,
    fast: u32,
    serial: u64,
    /// The present quarter second.
    now: u64,
    refusals: VecDeque<PastRefusal>,
    refused: u64,
}

impl Admission {
    /// A machine without viewers.
    pub fn new(policy: Policy, capacity: Capacity, limits: Limits) -> Admission {
        Admission {
            policy,
            capacity,
            classes: vec![Class::default()],
            ahead: Duration::ZERO,
            shares: BTreeMap::new(),
            calendars: BTreeMap::new(),
            bookings: BTreeMap::new(),
            ends: BTreeSet::new(),
            crowd: Crowd::new(limits),
            fast: 0,
            serial: 0,
            now: 0,
            refusals: VecDeque::new(),
            refused: 0,
        }
    }

    /// Sets the classes of viewers, the first one first. With none, there is one for everybody.
    pub fn with_classes(mut self, classes: Vec<Class>) -> Admission {
        if !classes.is_empty() {
            self.classes = classes;
        }
        self
    }

    /// Sets how far ahead of their time packets may leave while a network has room.
    pub fn with_ahead(mut self, ahead: Duration) -> Admission {
        self.ahead = ahead;
        self
    }

    /// The rule for judging newcomers.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What the machine can carry, as configured.
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// How much of a resource a class may use at the moment; `None` if it is not limited.
    pub fn limit(&self, resource: Resource, class: usize) -> Option<u64> {
        let there_is = self.there_is(resource)?;
        let class = self.classes.get(class);
        Some(class.map_or(there_is, |class| class.part_of(there_is)))
    }

    /// How much of a resource is available at the moment; `None` if it is not limited.
    fn there_is(&self, resource: Resource) -> Option<u64> {
        let limit = self.capacity.limit(resource)?;
        let share = self.shares.get(&resource).copied().unwrap_or(1000);
        Some((u128::from(limit) * u128::from(share) / 1000) as u64)
    }

    /// How much of a resource with `limit` per second may be owed. A network's packets may leave
    /// ahead of their time, and make up for seconds in which more is due. Half of that time counts;
    /// the other half absorbs what coincides within a second.
    fn carry(&self, resource: Resource, limit: u64) -> u64 {
        match (resource, self.policy) {
            (Resource::Network(_), Policy::Exact | Policy::Smoothed(_)) => {
                let half = self.ahead.as_millis().min(10_000) / 2;
                (u128::from(limit) * half / 1000) as u64
            }
            _ => 0,
        }
    }

    /// Sets how many thousandths of a resource are available, as when a disk is slower or a link
    /// narrower. Existing bookings stay; newcomers are judged by it.
    pub fn set_share(&mut self, resource: Resource, thousandths: u32) {
        self.shares.insert(resource, thousandths.min(1000));
    }

    /// Thousandths of a resource that are available.
    pub fn share(&self, resource: Resource) -> u32 {
        self.shares.get(&resource).copied().unwrap_or(1000)
    }

    /// Advances the time to `now`, in nanoseconds of a monotonic clock. A step back is ignored.
    pub fn advance(&mut self, now: u64) {
        self.now = self.now.max(now / BIN as u64);
        let second = self.second();
        if self
            .calendars
            .values()
            .all(|calendar| calendar.now() >= second)
        {
            return;
        }
        for resource in self.calendars.keys().copied().collect::<Vec<_>>() {
            let limit = self.there_is(resource).unwrap_or(u64::MAX);
            let carry = self.carry(resource, limit);
            if let Some(calendar) = self.calendars.get_mut(&resource) {
                calendar.advance(second, limit, carry);
            }
        }
    }

    /// The present second.
    pub fn second(&self) -> Second {
        self.now / BINS as u64
    }

    /// Judges a newcomer at `now`, and books for them if they are admitted. If there is no room
    /// now, but within `wait` seconds, that later start is booked.
    ///
    /// # Errors
    /// The newcomer is refused; the error says why, and when they could be admitted.
    pub fn decide(
        &mut self,
        now: u64,
        newcomer: &Newcomer<'_>,
        wait: u32,
    ) -> Result<Admitted, Refused> {
        self.advance(now);
        let judged = self.judge(newcomer, wait);
        let start = match judged {
            Ok(start) => start,
            Err(refused) => {
                self.refused += 1;
                if self.refusals.len() >= REMEMBERED {
                    self.refusals.pop_front();
                }
                self.refusals.push_back(PastRefusal {
                    at: self.second(),
                    title: newcomer.title.into(),
                    refused: refused.clone(),
                });
                return Err(refused);
            }
        };
        let id = self.new_id();
        let member = Member::new(newcomer.title, newcomer.address, newcomer.user);
        self.crowd.enter(&member);
        self.fast += u32::from(newcomer.fast);
        let booking = Booking {
            member,
            terms: Terms::of(newcomer),
            fast: newcomer.fast,
            plays: Vec::new(),
            start,
            end: 0,
        };
        self.bookings.insert(id, booking);
        let quarter = self.quarter_at(start);
        let needs = match newcomer.later {
            Some(later) if start > self.second() => later,
            _ => newcomer.needs,
        };
        self.book(
            id,
            start,
            self.plays(needs, newcomer.from, newcomer.to, quarter),
        );
        let starts_in = (start * BINS as u64 + quarter as u64).saturating_sub(self.now);
        Ok(Admitted {
            id,
            starts_in: Duration::from_nanos(starts_in * BIN as u64),
        })
    }

    /// An id for another viewer, for whom nothing is booked.
    pub(crate) fn new_id(&mut self) -> BookingId {
        self.serial += 1;
        BookingId(self.serial)
    }

    /// The answer that a newcomer would get at `now`: how long they would wait for the beginning.
    ///
    /// # Errors
    /// They would be refused.
    pub fn what_if(
        &mut self,
        now: u64,
        newcomer: &Newcomer<'_>,
        wait: u32,
    ) -> Result<Duration, Refused> {
        self.advance(now);
        let start = self.judge(newcomer, wait)?;
        Ok(Duration::from_secs(start.saturating_sub(self.second())))
    }

    /// The second in which the newcomer may begin.
    fn judge(&self, newcomer: &Newcomer<'_>, wait: u32) -> Result<Second, Refused> {
        let now = self.second();
        if let Some(reason) = self.turned_away(newcomer) {
            return Err(self.refuse_for_now(reason));
        }
        let terms = Terms::of(newcomer);
        let plays = self.plays_of(newcomer, newcomer.needs);
        let Some(overfull) = self.overfull(now, &plays, terms) else {
            return Ok(now);
        };
        let (start, is_exact) = self.earliest(now, &plays, terms);
        let soon = |(start, is_exact): &(Second, bool)| {
            *is_exact && *start - now <= u64::from(wait).min(LONGEST as u64)
        };
        if soon(&(start, is_exact)) {
            let begins = match newcomer.later {
                Some(later) => self.earliest(now, &self.plays_of(newcomer, later), terms),
                None => (start, is_exact),
            };
            if soon(&begins) {
                return Ok(begins.0);
            }
        }
        Err(Refused {
            reason: self.full(overfull, &plays, newcomer.class),
            retry_after: Duration::from_secs(start - now),
            is_exact,
        })
    }

    /// Why the newcomer is refused whatever is booked: because of the number of viewers.
    fn turned_away(&self, newcomer: &Newcomer<'_>) -> Option<RefusedFor> {
        let member = Member::new(newcomer.title, newcomer.address, newcomer.user);
        if let Some(words) = self.crowd.full(&member) {
            return Some(RefusedFor::Crowd(words));
        }
        let present = self.bookings.len() as u32;
        match self.policy {
            Policy::Count(most) if present >= most => Some(RefusedFor::Count { present }),
            // At most a fifth of all, including the newcomer.
            Policy::Vodca if newcomer.fast && (self.fast + 1) * 5 > present + 1 => {
                Some(RefusedFor::Fast)
            }
            _ => None,
        }
    }

    /// A refusal until the next booking ends.
    fn refuse_for_now(&self, reason: RefusedFor) -> Refused {
        let now = self.second();
        let next = self.ends.range((now + 1, BookingId(0))..).next();
        Refused {
            reason,
            retry_after: Duration::from_secs(next.map_or(30, |(end, _)| end - now)),
            is_exact: false,
        }
    }

    fn book(&mut self, id: BookingId, start: Second, plays: Vec<(Resource, Play)>) {
        let now = self.second();
        let len = plays.iter().map(|(_, play)| play.len()).max().unwrap_or(0);
        for (resource, play) in &plays {
            let calendar = self
                .calendars
                .entry(*resource)
                .or_insert_with(|| Calendar::new(now));
            calendar.add(start, play);
        }
        let Some(booking) = self.bookings.get_mut(&id) else {
            return;
        };
        (booking.plays, booking.start, booking.end) = (plays, start, start + len as u64);
        self.ends.insert((booking.end, id));
    }

    fn unbook(&mut self, id: BookingId) {
        let Some(booking) = self.bookings.get_mut(&id) else {
            return;
        };
        for (resource, play) in booking.plays.drain(..) {
            if let Some(calendar) = self.calendars.get_mut(&resource) {
                calendar.remove(booking.start, &play);
            }
        }
        self.ends.remove(&(booking.end, id));
    }

    /// The viewer pauses: frees their booking for others. They keep their place in the crowd.
    pub fn rest(&mut self, now: u64, id: BookingId) {
        self.advance(now);
        self.unbook(id);
    }

    /// Whether anything is booked for the viewer now.
    pub fn is_booked(&self, id: BookingId) -> bool {
        self.bookings
            .get(&id)
            .is_some_and(|booking| !booking.plays.is_empty())
    }

    /// Rebooks a viewer who resumes or seeks: the bins `from..to` of `needs`, from now on. Always
    /// succeeds without `ask`; with it, the old booking stays if there is no room.
    ///
    /// # Errors
    /// There is no room, and the viewer has to ask.
    pub fn rebook(
        &mut self,
        now: u64,
        id: BookingId,
        needs: &[(Resource, Arc<Curve>)],
        (from, to): (usize, usize),
        ask: bool,
    ) -> Result<(), Refused> {
        self.advance(now);
        let Some(booking) = self.bookings.get(&id) else {
            return Ok(());
        };
        let (terms, before, start) = (booking.terms, booking.plays.clone(), booking.start);
        self.unbook(id);
        let second = self.second();
        let plays = self.plays(needs, from, to, self.quarter_at(second));
        if ask && let Some(overfull) = self.overfull(second, &plays, terms) {
            let (at, is_exact) = self.earliest(second, &plays, terms);
            let refused = Refused {
                reason: self.full(overfull, &plays, terms.class),
                retry_after: Duration::from_secs(at - second),
                is_exact,
            };
            if !before.is_empty() {
                self.book(id, start, before);
            }
            return Err(refused);
        }
        self.book(id, second, plays);
        Ok(())
    }

    /// Changes the viewer's need of one resource to `curve` from now on, whether there is room or
    /// not. Returns the previous need; `None`, without a change, if none of it is booked.
    pub fn change(
        &mut self,
        now: u64,
        id: BookingId,
        resource: Resource,
        curve: &Arc<Curve>,
    ) -> Option<Arc<Curve>> {
        self.advance(now);
        let booking = self.bookings.get_mut(&id)?;
        let calendar = self.calendars.get_mut(&resource)?;
        let (_, play) = booking.plays.iter_mut().find(|(of, _)| *of == resource)?;
        let before = play.curve().clone();
        calendar.remove(booking.start, play);
        *play = play.of(curve.clone());
        calendar.add(booking.start, play);
        Some(before)
    }

    /// Does the same if there is room. If not, changes nothing and returns false.
    pub fn change_if_room(
        &mut self,
        now: u64,
        id: BookingId,
        resource: Resource,
        curve: &Arc<Curve>,
    ) -> bool {
        self.advance(now);
        let Some(own) = self.take_out(id) else {
            return false;
        };
        let plays: Vec<(Resource, Play)> = own
            .plays
            .iter()
            .filter(|(of, _)| *of == resource)
            .map(|(of, play)| (*of, play.of(curve.clone())))
            .collect();
        let overfull = self.overfull(own.booking.start, &plays, own.booking.terms);
        self.put_back(own);
        overfull.is_none() && self.change(now, id, resource, curve).is_some()
    }

    /// Removes a viewer who leaves.
    pub fn end(&mut self, now: u64, id: BookingId) {
        self.advance(now);
        self.unbook(id);
        if let Some(booking) = self.bookings.remove(&id) {
            self.crowd.leave(&booking.member);
            self.fast -= u32::from(booking.fast);
        }
    }

    /// The number of viewers.
    pub fn viewers(&self) -> usize {
        self.bookings.len()
    }

    /// What is booked of a resource in a second.
    pub fn load(&self, resource: Resource, second: Second) -> u64 {
        self.calendars
            .get(&resource)
            .map_or(0, |calendar| calendar.load(second))
    }

    /// Resources of which anything was ever booked.
    pub fn resources(&self) -> impl Iterator<Item = Resource> + '_ {
        self.calendars.keys().copied()
    }

    /// Checks that each second of each calendar holds what the bookings need of it.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        for (resource, calendar) in &self.calendars {
            let now = calendar.now();
            let mut loads: BTreeMap<Second, u64> = BTreeMap::new();
            for booking in self.bookings.values() {
                let plays = booking.plays.iter().filter(|(of, _)| of == resource);
                for (nth, play) in
                    plays.flat_map(|(_, play)| (0..play.len()).map(move |n| (n, play)))
                {
                    let second = booking.start + nth as u64;
                    *loads.entry(second).or_default() += u64::from(play.need(nth));
                }
            }
            let end = loads.keys().next_back().map_or(now, |last| last + 1);
            for second in now..end {
                let sum = loads.get(&second).copied().unwrap_or(0);
                assert_eq!(calendar.load(second), sum, "{resource} in second {second}");
            }
        }
    }

    /// Newcomers refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The last refusals, the oldest first.
    pub fn refusals(&self) -> impl Iterator<Item = &PastRefusal> {
        self.refusals.iter()
    }
}

mod places;
mod room;

#[cfg(test)]
mod tests;
