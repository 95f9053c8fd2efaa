//! The desk and what it holds for each viewer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reelway_demand::{Curve, Demand};
use reelway_time::Monotonic;

use crate::capacity::Resource;
use crate::change::Change;
use crate::config::{Bounds, Config};
use crate::curves::{Needs, Wants, own};
use crate::following::{Following, Interval};
use crate::judge::Admission;
use crate::policy::{Class, Policy};
use crate::sharing::{Near, Sharing, held_beside};
use crate::unplayed::{Owner, Seat, Unplayed};
use crate::verdict::BookingId;

/// Everything that admission knows of a machine's viewers. Pure: the time is an argument.
pub struct Desk {
    pub(super) config: Config,
    pub(super) bounds: Bounds,
    pub(super) books: Admission,
    /// Viewers who take what others have read, and whether these are tracked.
    pub(super) following: Following,
    follows: bool,
    /// Viewers who share blocks, and whether these are tracked.
    pub(super) sharing: Sharing,
    shares: bool,
    /// Viewers who are admitted, or for whom a place is reserved.
    pub(super) viewers: BTreeMap<BookingId, Viewer>,
    /// How many of them each address has.
    pub(super) homes: BTreeMap<IpAddr, usize>,
    /// Viewers who have not asked for media yet.
    pub(super) unplayed: Unplayed<BookingId>,
    /// Deadlines of reservations, the next first.
    pub(super) deadlines: BTreeSet<(Monotonic, BookingId)>,
    /// Available thousandths of resources that are measured elsewhere.
    pub(super) measured: BTreeMap<Resource, u32>,
    /// For how long each resource has had less than its full capacity.
    pub(super) slow: BTreeMap<Resource, Duration>,
    /// When the last look was.
    pub(super) weighed: Option<Monotonic>,
}

/// One viewer.
pub(super) struct Viewer {
    pub owner: Owner,
    pub since: Monotonic,
    /// How long they wait for their film's beginning.
    pub wait: Duration,
    pub stage: Stage,
    /// What is booked for them; `None`: no viewer is ever refused here.
    pub booked: Option<Booked>,
}

/// The stage that a viewer has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Their place is reserved until this time.
    Reserved(Monotonic),
    /// They have not asked for media yet.
    Unplayed(Seat),
    /// They have asked for media.
    Playing,
}

/// What is booked for a viewer.
pub(super) struct Booked {
    /// What they take of limited resources; `None` if they are only counted.
    pub wants: Option<Wants>,
    /// The interface by which they are reached.
    pub link: Option<u8>,
    /// The first bin that is booked.
    pub from: usize,
    /// When it began, or begins.
    pub since: Monotonic,
    /// Whether the booking matches what they take now.
    pub is_current: bool,
    /// Whether the tracks and the transport are those that were judged.
    pub is_judged: bool,
    /// Whether they have begun to play.
    pub played: bool,
}

/// What a viewer needs, given the viewers beside whom they play.
pub(super) struct Beside {
    pub needs: Vec<(Resource, Arc<Curve>)>,
    pub interval: Option<Interval>,
    near: Option<Near>,
}

impl Beside {
    /// Whether it is less than the viewer would need alone.
    pub(super) fn is_less(&self) -> bool {
        self.interval.is_some() || self.near.is_some()
    }
}

impl Desk {
    /// The desk of a machine without viewers.
    pub fn new(config: Config) -> Desk {
        let classes: Vec<Class> = config.classes.iter().map(|(of, _)| of.clone()).collect();
        let books = Admission::new(config.policy, config.capacity.clone(), config.limits)
            .with_classes(classes)
            .with_ahead(config.link_ahead);
        let limits = |resource| config.capacity.limit(resource).is_some();
        let knows = matches!(config.policy, Policy::Exact | Policy::Smoothed(_));
        Desk {
            follows: knows && config.pool > 0,
            shares: limits(Resource::Memory) && config.policy != Policy::Vodca,
            following: Following::new(config.pool),
            sharing: Sharing::default(),
            books,
            config,
            bounds: Bounds::default(),
            viewers: BTreeMap::new(),
            homes: BTreeMap::new(),
            unplayed: Unplayed::default(),
            deadlines: BTreeSet::new(),
            measured: BTreeMap::new(),
            slow: BTreeMap::new(),
            weighed: None,
        }
    }

    /// Sets the bounds on the number of sessions.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// The bookings, as they were when time was last advanced.
    pub fn books(&self) -> &Admission {
        &self.books
    }

    /// Viewers who are admitted, or for whom a place is reserved.
    pub fn len(&self) -> usize {
        self.viewers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.viewers.is_empty()
    }

    /// How many of them have not asked for media yet.
    pub fn unplayed(&self) -> usize {
        self.unplayed.len()
    }

    /// Advances the time to `now`, and releases reservations whose deadline has passed.
    pub fn advance(&mut self, now: Monotonic) {
        self.books.advance(now.nanos());
        while let Some((until, id)) = self.deadlines.first().copied() {
            if until > now {
                break;
            }
            self.deadlines.pop_first();
            self.remove(now, id);
        }
    }

    /// Adds a viewer for whom the booking is already made.
    pub(super) fn enter(&mut self, id: BookingId, viewer: Viewer) {
        *self.homes.entry(viewer.owner.home).or_default() += 1;
        if let Stage::Reserved(until) = viewer.stage {
            self.deadlines.insert((until, id));
        }
        self.viewers.insert(id, viewer);
    }

    /// Removes a viewer, with all that is held for them. A place without media counts as wasted.
    pub(super) fn remove(&mut self, now: Monotonic, id: BookingId) {
        let Some(viewer) = self.viewers.remove(&id) else {
            return;
        };
        match viewer.stage {
            Stage::Reserved(until) => drop(self.deadlines.remove(&(until, id))),
            Stage::Unplayed(seat) => drop(self.unplayed.leave(seat, now, true)),
            Stage::Playing => {}
        }
        let home = viewer.owner.home;
        if let Some(count) = self.homes.get_mut(&home) {
            *count -= 1;
            if *count == 0 {
                self.homes.remove(&home);
            }
        }
        if viewer.booked.is_some() {
            self.books.end(now.nanos(), id);
            self.part(now, id);
        }
    }

    /// What a viewer needs beside others. `me`: their booking, if they already have one.
    pub(super) fn beside(
        &mut self,
        now: Monotonic,
        me: Option<BookingId>,
        needs: &Needs,
    ) -> Beside {
        let disk = self.followed(needs);
        let interval =
            disk.and_then(|(_, disk)| self.following.behind(me, &disk, now.nanos(), needs.times));
        let film = self.shared(needs);
        let near = self.sharing.near(me, film, now.nanos(), needs.times);
        let beside = |(resource, curve): &(Resource, Arc<Curve>)| {
            let curve = match (resource, &interval, &near) {
                (Resource::Disk | Resource::Origin, Some(interval), _) => {
                    own(Arc::new(interval.read(curve)))
                }
                (Resource::Memory, _, Some(near)) => near.holds(curve),
                _ => curve.clone(),
            };
            (*resource, curve)
        };
        Beside {
            needs: needs.of.iter().map(beside).collect(),
            interval,
            near,
        }
    }

    /// Notes that a viewer plays from `since` on, beside the viewers who were found at `now`.
    pub(super) fn join(
        &mut self,
        now: Monotonic,
        id: BookingId,
        since: Monotonic,
        needs: &Needs,
        beside: Beside,
    ) {
        let (is_later, times) = (since > now, needs.times);
        let Beside {
            interval, mut near, ..
        } = beside;
        if let Some(demand) = self.shared(needs) {
            // A viewer who waits was judged as playing alone, which in some seconds needs less.
            if is_later {
                near = self.sharing.near(None, Some(demand), since.nanos(), times);
                let held = held_beside(demand, near.as_ref());
                let memory = Resource::Memory;
                near = near.filter(|_| self.books.change_if_room(now.nanos(), id, memory, &held));
            }
            self.sharing.join(id, demand, since.nanos(), times, near);
        }
        if let Some((source, disk)) = self.followed(needs) {
            let kept = interval.filter(|_| !is_later);
            let of = (source, &disk);
            let changes = self.following.join(id, of, since.nanos(), times, kept);
            self.apply(now, changes);
        }
    }

    /// Notes that a viewer stops playing, or plays elsewhere, and books for those beside them what
    /// they need without them.
    pub(super) fn part(&mut self, now: Monotonic, id: BookingId) {
        let changes = self.leave_others(now, id);
        self.apply(now, changes);
    }

    /// Does the same without booking: returns what those viewers need now.
    pub(super) fn leave_others(&mut self, now: Monotonic, id: BookingId) -> Vec<Change> {
        let mut changes = self.following.leave(id);
        changes.extend(self.sharing.leave(id, now.nanos()));
        changes
    }

    fn apply(&mut self, now: Monotonic, changes: Vec<Change>) {
        for Change {
            id,
            resource,
            curve,
        } in changes
        {
            self.books.change(now.nanos(), id, resource, &curve);
        }
    }

    /// The film's source and its need for it, if the source is limited and the viewer may follow
    /// others and be followed.
    fn followed(&self, needs: &Needs) -> Option<(Resource, Arc<Curve>)> {
        let film = needs.sent.as_ref().filter(|_| self.follows)?;
        let source = needs.source?;
        self.config.capacity.limit(source)?;
        Some((source, film.disk()))
    }

    /// What a viewer's film needs, if they may share its blocks with others.
    fn shared<'a>(&self, needs: &'a Needs) -> Option<&'a Arc<Demand>> {
        needs.sent.as_ref().filter(|_| self.shares)
    }

    /// Whether nothing is held for any viewer.
    #[cfg(test)]
    pub(super) fn holds_nothing(&self) -> bool {
        self.is_empty()
            && self.homes.is_empty()
            && self.unplayed.is_empty()
            && self.deadlines.is_empty()
            && self.following.is_empty()
            && self.sharing.is_empty()
    }
}
