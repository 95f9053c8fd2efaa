//! The gate: what the pure judge of [`reelway_admission`] needs of the world. The time, the films' curves, and
//! a lock.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_admission::{
    Admission, Admitted, BookingId, Capacity, Class, Limits, Newcomer, Policy, Refused, Resource,
};
use reelway_catalogue::Film;
use reelway_media::{Nanos, SECOND};
use reelway_rtp::PayloadOptions;
use reelway_supervise as supervise;
use reelway_timetable::{Carriage, Demand, Eager, Reading, Schedule};

use crate::following::{Following, Left};
use crate::links::Links;
use crate::members::Members;
use crate::needs::{Curves, Needs, Wants};
use crate::registry::{NewSession, Refusal};
use crate::sharing::{Moved, Sharing, held_beside};
use crate::users::Users;

mod beside;
mod room;

/// How to judge.
#[derive(Clone, Debug)]
pub struct GateConfig {
    /// By which rule.
    pub policy: Policy,
    /// What there is.
    pub capacity: Capacity,
    /// The interfaces that `capacity` limits one by one.
    pub links: Links,
    /// Most viewers of a title, an address, a user.
    pub limits: Limits,
    /// How users are known.
    pub users: Users,
    /// Classes of viewers and who belongs to them, the first class first.
    pub classes: Vec<(Class, Members)>,
    /// A newcomer who would find room within so many seconds waits for it.
    pub wait: u32,
    /// Whether a viewer who seeks or goes on after a pause is refused like a newcomer.
    pub ask_again: bool,
    /// What fits a packet, as the sender has it.
    pub payload: PayloadOptions,
    /// Bytes of the pool in which blocks stay that somebody is going to ask for; 0: nothing is sure to stay.
    pub pool: u64,
    /// How films are read into the pool.
    pub reading: Reading,
    /// How films over HTTP are held to what is booked for them, where a network is limited.
    pub eager: Eager,
    /// How far ahead of their time films are sent over RTP, so that they are sent evenly, as the sender has it.
    pub sent_ahead: Nanos,
    /// How far ahead of their time films may be sent over RTP while a limited network has room.
    pub link_ahead: Duration,
}

impl Default for GateConfig {
    fn default() -> Self {
        GateConfig {
            policy: Policy::Exact,
            capacity: Capacity::unlimited(),
            links: Links::default(),
            limits: Limits::default(),
            users: Users::default(),
            classes: Vec::new(),
            wait: 0,
            ask_again: false,
            payload: PayloadOptions::default(),
            pool: 0,
            reading: Reading {
                block: 256 << 10,
                ahead: 2 * SECOND,
            },
            eager: Eager::default(),
            sent_ahead: 0,
            link_ahead: Duration::ZERO,
        }
    }
}

/// The gate of a server; clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    config: GateConfig,
    judge: Mutex<Admission>,
    curves: Curves,
    /// Who takes what others had read; locked before the judge.
    following: Mutex<Following>,
    /// Whether that is looked at.
    follows: bool,
    /// Who shares blocks with whom; locked between the two.
    sharing: Mutex<Sharing>,
    /// Whether that is looked at.
    shares: bool,
    /// Thousandths of resources, as far as others measure them.
    measured: Mutex<BTreeMap<Resource, u32>>,
    /// Seconds for which there has been less of something than there was.
    slow: AtomicU32,
}

/// What is booked for one viewer.
#[derive(Debug)]
pub(crate) struct Booked {
    pub id: BookingId,
    /// What he takes of what is limited; `None`: he is only counted.
    wants: Option<Wants>,
    /// The interface he is reached by.
    link: Option<u8>,
    /// What is booked begins with this bin, and began at this time (ns).
    from: usize,
    since: u64,
    /// Whether he has begun to play.
    pub played: bool,
}

impl Booked {
    /// He takes these tracks.
    pub fn takes(&mut self, mut tracks: Vec<usize>, carriage: Carriage) {
        tracks.sort_unstable();
        let Some(wants) = &mut self.wants else {
            return;
        };
        let mut usual = wants.demand.usual_tracks().to_vec();
        usual.sort_unstable();
        if tracks == usual {
            tracks.clear();
        }
        if wants.tracks != tracks || wants.carriage != carriage {
            (wants.tracks, wants.carriage) = (tracks, carriage);
            // What was booked is not what he does.
            self.since = 0;
        }
    }
}

/// Seconds for which less than there was is borne before anybody has to leave for it.
const PATIENCE: u32 = 3;

/// Seconds to come in which nothing may be overfull when there is less than there was.
const NEAR: u64 = 5;

/// Bookings are exact to a quarter of a second; within it pictures leave in bursts. This part of what is booked, a quarter, is
/// not given to downloads, so that a burst finds room.
const SLACK: u64 = 4;

/// A beginning this close to what was booked keeps its booking.
const CLOSE: u64 = 500_000_000;

impl Gate {
    /// A gate that judges so.
    pub fn new(config: GateConfig) -> Gate {
        let classes = config.classes.iter().map(|(class, _)| class.clone());
        let judge = Admission::new(config.policy, config.capacity.clone(), config.limits)
            .with_classes(classes.collect())
            .with_ahead(config.link_ahead);
        let books_disk = config.capacity.limit(Resource::Disk).is_some();
        let knows = matches!(config.policy, Policy::Exact | Policy::Smoothed(_));
        let follows = books_disk && knows && config.pool > 0;
        let books_memory = config.capacity.limit(Resource::Memory).is_some();
        let shares = books_memory && config.policy != Policy::Vodca;
        Gate(Arc::new(Inner {
            curves: Curves::new(&config),
            following: Mutex::new(Following::new(config.pool)),
            follows,
            sharing: Mutex::default(),
            shares,
            config,
            judge: Mutex::new(judge),
            measured: Mutex::default(),
            slow: AtomicU32::new(0),
        }))
    }

    /// How it judges.
    pub fn config(&self) -> &GateConfig {
        &self.0.config
    }

    /// The judge at this moment, for pages and metrics, and for whoever finds that the world has changed.
    pub fn judge(&self) -> MutexGuard<'_, Admission> {
        let mut judge = lock(&self.0.judge);
        judge.advance(now());
        judge
    }

    /// Whether anything is limited by what viewers need. Where nothing is, no film's needs are looked at.
    pub fn books(&self) -> bool {
        !self.0.config.capacity.is_unlimited()
    }

    /// Whether a network is limited, and so what is sent over HTTP is held to what is booked.
    pub fn books_network(&self) -> bool {
        self.0.config.capacity.limits_a_network()
    }

    /// The numbers of the limited networks that packets to `peer` pass: all viewers' together, and an interface
    /// ([`Resource::Network`]).
    pub fn networks_to(&self, peer: IpAddr) -> Vec<u8> {
        let link = self.0.config.links.leaving_to(peer);
        let is_limited = |number: &u8| {
            let limit = self.0.config.capacity.limit(Resource::Network(*number));
            limit.is_some()
        };
        std::iter::once(0).chain(link).filter(is_limited).collect()
    }

    /// What is limited of all that is needed to send a file over HTTP to this address: networks, processor, disks.
    pub fn on_the_way_to(&self, peer: IpAddr) -> Vec<Resource> {
        if !self.books() {
            return Vec::new();
        }
        let link = self.0.config.links.leaving_to(peer);
        let is_on_it = |resource: &Resource| match resource {
            Resource::Network(0) | Resource::Processor | Resource::Disk => true,
            Resource::Network(number) => Some(*number) == link,
            // Pinned by HTTP's own rule.
            Resource::Memory => false,
        };
        let limits = self.0.config.capacity.limits().iter();
        limits.map(|(of, _)| *of).filter(is_on_it).collect()
    }

    /// Bytes a second of a resource that nobody has booked at the moment, less a part of what is booked (`SLACK`).
    pub fn unbooked(&self, resource: Resource) -> u64 {
        let judge = self.judge();
        let now = judge.second();
        // A second may be over in a moment.
        let loads = [now, now + 1].map(|second| judge.load(resource, second));
        let booked = loads.into_iter().max().unwrap_or(0);
        let limit = judge.limit(resource, 0).unwrap_or(0);
        limit.saturating_sub(booked.saturating_add(booked / SLACK))
    }

    /// Whether nobody is ever refused here.
    fn is_open(&self) -> bool {
        let config = &self.0.config;
        !self.books()
            && config.limits == Limits::default()
            && !matches!(config.policy, Policy::Count(_))
    }

    /// What a film needs; `None`: nobody asks for it. Where its index has not been read for that yet, that is begun, and
    /// what the film's groups tell is answered: whoever opens a film does not wait for a disk.
    pub fn demand(&self, film: &Arc<Film>) -> Option<Arc<Demand>> {
        self.0.curves.demand(film)
    }

    fn class(&self, viewer: &NewSession) -> usize {
        let classes = &self.0.config.classes;
        let of = |(_, members): &(Class, Members)| members.has(viewer.peer.ip(), &viewer.title);
        classes
            .iter()
            .position(of)
            .unwrap_or(classes.len().saturating_sub(1))
    }

    /// What the judge says to a newcomer who wants to see his film from `from` on; nothing is booked.
    ///
    /// # Errors
    /// Why he may not come in, and when he could.
    pub fn what_if(&self, viewer: &NewSession, from: Nanos) -> Result<Duration, Refused> {
        let link = self.0.config.links.leaving_to(viewer.peer.ip());
        let mut needs = self.needs_of(viewer, link, from);
        let following = lock(&self.0.following);
        if let Some(wants) = &viewer.wants {
            let disk = self.followed(wants);
            let range = (from, Nanos::MAX);
            needs.take(disk.and_then(|disk| following.behind(None, &disk, now(), range)));
            let near = lock(&self.0.sharing).near(None, self.shared(wants), now(), range);
            needs.share(near.as_ref());
        }
        drop(following);
        self.ask((viewer, None), &needs, |judge, newcomer, wait| {
            judge.what_if(now(), newcomer, wait)
        })
    }

    /// Who a newcomer is, where his address says so.
    pub(crate) fn user_of(&self, viewer: &NewSession) -> Result<Option<String>, Refusal> {
        self.0.config.users.of(viewer.query.as_deref())
    }

    /// Judges a newcomer, this user if he is known, and books for him.
    pub(crate) fn enter(
        &self,
        viewer: &NewSession,
        user: Option<&str>,
    ) -> Result<(Option<Booked>, Duration), Refusal> {
        if self.is_open() {
            return Ok((None, Duration::ZERO));
        }
        let link = self.0.config.links.leaving_to(viewer.peer.ip());
        let mut needs = self.needs_of(viewer, link, 0);
        let (mut following, range) = (lock(&self.0.following), (0, Nanos::MAX));
        let disk = viewer.wants.as_ref().and_then(|wants| self.followed(wants));
        let place = disk
            .as_ref()
            .and_then(|disk| following.behind(None, disk, now(), range));
        needs.take(place);
        let shared = viewer.wants.as_ref().and_then(|wants| self.shared(wants));
        let mut sharing = lock(&self.0.sharing);
        let mut near = sharing.near(None, shared, now(), range);
        needs.share(near.as_ref());
        let admitted = self.ask((viewer, user), &needs, |judge, newcomer, wait| {
            judge.decide(now(), newcomer, wait)
        });
        let Admitted { id, starts_in } = admitted.map_err(|refused| refusal(&refused))?;
        let since = now() + starts_in.as_nanos() as u64;
        if let Some(demand) = shared {
            // One who waits for their beginning is further from others than was reckoned.
            if !starts_in.is_zero() {
                near = sharing.near(None, Some(demand), since, range);
                let holds = held_beside(demand, near.as_ref());
                let moved = vec![Moved { id, holds }];
                self.hold_for(&mut lock(&self.0.judge), moved);
            }
            sharing.join(id, demand, since, range, near);
        }
        drop(sharing);
        if let Some(disk) = disk {
            // One who waits for his beginning is further behind than was reckoned: he reads.
            let nearby = place.filter(|_| starts_in.is_zero());
            let mut left = following.join(id, &disk, since, range, nearby);
            if place.is_some() && nearby.is_none() {
                left.push(Left { id, disk });
            }
            self.read_for(&mut lock(&self.0.judge), left);
        }
        let booked = Booked {
            id,
            wants: viewer.wants.clone().filter(|_| !needs.of.is_empty()),
            link,
            from: 0,
            since,
            played: false,
        };
        Ok((Some(booked), starts_in))
    }

    fn needs_of(&self, viewer: &NewSession, link: Option<u8>, from: Nanos) -> Needs {
        let wants = viewer.wants.as_ref();
        wants.map_or_else(Needs::default, |wants| {
            self.0.curves.needs(wants, link, (from, Nanos::MAX))
        })
    }

    fn ask<T>(
        &self,
        (viewer, user): (&NewSession, Option<&str>),
        needs: &Needs,
        judged: impl FnOnce(&mut Admission, &Newcomer<'_>, u32) -> T,
    ) -> T {
        let newcomer = Newcomer {
            title: &viewer.title,
            address: viewer.peer.ip(),
            user,
            class: self.class(viewer),
            fast: false,
            fetches: viewer.wants.as_ref().is_some_and(Wants::fetches),
            needs: &needs.of,
            from: needs.range.0,
            to: needs.range.1,
        };
        judged(&mut lock(&self.0.judge), &newcomer, self.0.config.wait)
    }

    /// He plays from `from` to `to` from now on. What he is to be sent by, if it is not the film's own time.
    ///
    /// Who was let in may always go on, unless the configuration wants him to ask again. Before he ever began he is refused
    /// as well if he let his place go, or begins elsewhere than at the beginning; `may_refuse` must say that he can be
    /// refused here.
    pub(crate) fn plays(
        &self,
        booked: &mut Booked,
        range: (Nanos, Nanos),
        may_refuse: bool,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        let Some(wants) = &booked.wants else {
            return Ok(None);
        };
        let mut needs = self.0.curves.needs(wants, booked.link, range);
        let first = needs.range.0;
        let mut following = lock(&self.0.following);
        let mut sharing = lock(&self.0.sharing);
        let mut judge = lock(&self.0.judge);
        supervise::inject("judge");
        let now = now();
        let has_place = judge.is_booked(booked.id);
        // What was booked when he came in is what he does now.
        let is_as_booked = has_place
            && !booked.played
            && booked.from == first
            && now.abs_diff(booked.since) < CLOSE
            && needs.range.1 == needs.len;
        if !is_as_booked {
            // Who let his place go, or begins elsewhere than where he was judged to begin, is a newcomer still.
            let is_new = !booked.played && (!has_place || booked.from != first);
            let ask = may_refuse && (self.0.config.ask_again || is_new);
            let disk = self.followed(wants);
            let place = disk
                .as_ref()
                .and_then(|disk| following.behind(Some(booked.id), disk, now, range));
            needs.take(place);
            let shared = self.shared(wants);
            let near = sharing.near(Some(booked.id), shared, now, range);
            needs.share(near.as_ref());
            judge
                .rebook(now, booked.id, &needs.of, needs.range, ask)
                .map_err(|refused| refusal(&refused))?;
            let mut left = following.leave(booked.id);
            if let Some(disk) = disk {
                left.extend(following.join(booked.id, &disk, now, range, place));
            }
            self.read_for(&mut judge, left);
            self.hold_for(&mut judge, sharing.leave(booked.id, now));
            if let Some(demand) = shared {
                sharing.join(booked.id, demand, now, range, near);
            }
        }
        (booked.from, booked.since, booked.played) = (first, now, true);
        Ok(needs.schedule)
    }

    /// Whether there is anything to keep in step with what he does.
    pub(crate) fn keeps(&self, booked: &Booked) -> bool {
        booked.wants.is_some()
    }

    /// How long something has been booked for one who does not play; `None`: nothing is.
    pub(crate) fn booked_for(&self, booked: &Booked) -> Option<Duration> {
        lock(&self.0.judge)
            .is_booked(booked.id)
            .then(|| Duration::from_nanos(now().saturating_sub(booked.since)))
    }

    /// Tells that there are only so many thousandths of a resource at the moment: the disks are slower than they were.
    pub fn measured(&self, resource: Resource, thousandths: u32) {
        lock(&self.0.measured).insert(resource, thousandths);
    }

    /// Looks whether links and disks are as fast as they were. Who has to leave because they are not, and have not been
    /// for some seconds; to be called once a second.
    pub(crate) fn look_at_the_world(&self) -> Vec<BookingId> {
        let links = self.0.config.links.shares().into_iter();
        let mut shares: BTreeMap<Resource, u32> = links
            .map(|(number, share)| (Resource::Network(number), share))
            .collect();
        for (of, share) in lock(&self.0.measured).iter() {
            // A link may carry even less than it agreed on.
            let there = shares.entry(*of).or_insert(*share);
            *there = (*there).min(*share);
        }
        if shares.is_empty() {
            return Vec::new();
        }
        let shares: Vec<(Resource, u32)> = shares.into_iter().collect();
        self.weigh(&shares)
    }

    fn weigh(&self, shares: &[(Resource, u32)]) -> Vec<BookingId> {
        let mut judge = lock(&self.0.judge);
        judge.advance(now());
        let slower = self.adjust(&mut judge, shares);
        let seconds = match slower {
            true => self.0.slow.fetch_add(1, Ordering::Relaxed) + 1,
            false => {
                self.0.slow.store(0, Ordering::Relaxed);
                0
            }
        };
        if seconds < PATIENCE {
            return Vec::new();
        }
        judge.too_many(NEAR)
    }

    /// Sets what there is of each resource; whether there is less than there should be of any.
    fn adjust(&self, judge: &mut Admission, shares: &[(Resource, u32)]) -> bool {
        let mut slower = false;
        for (resource, share) in shares.iter().copied() {
            let before = judge.share(resource);
            // What is measured wavers: every tenth is told.
            if before != share && (before / 100 != share / 100 || share == 1000) {
                let name = match resource {
                    Resource::Network(number @ 1..) => {
                        format!("network {}", self.0.config.links.name(number))
                    }
                    other => other.to_string(),
                };
                if share < 1000 {
                    tracing::warn!(
                        "{name}: capacity is down to {} %: newcomers are judged by that, and after {PATIENCE} s the \
                         newest sessions that do not fit are ended",
                        share / 10
                    );
                } else {
                    tracing::info!("{name}: capacity is back to what it was");
                }
            }
            judge.set_share(resource, share);
            slower |= share < 1000;
        }
        slower
    }
}

fn now() -> u64 {
    reelway_clock::now().nanos()
}

fn refusal(refused: &Refused) -> Refusal {
    Refusal {
        reason: refused.reason.to_string(),
        retry_after: Some(refused.retry_after),
    }
}

/// Enters the bookings, or what belongs to them. They cannot be made anew while viewers watch: after a
/// panic under this lock the process ends, rather than let in more viewers than it can carry.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    supervise::essential(mutex.lock(), "the bookings of admission")
}

#[cfg(test)]
mod tests {
    use reelway_timetable::Curve;

    use super::*;

    #[test]
    fn a_slower_link_is_borne_for_some_seconds_and_then_who_came_last_leaves() {
        let eth0 = Resource::Network(1);
        let gate = Gate::new(GateConfig {
            capacity: Capacity::unlimited().with(eth0, 100, 1000),
            ..GateConfig::default()
        });
        let needs = [(eth0, Arc::new(Curve::new(vec![10; 4 * 600])))];
        let newcomer = Newcomer {
            title: "a",
            address: [10, 0, 0, 1].into(),
            user: None,
            class: 0,
            fast: false,
            fetches: false,
            needs: &needs,
            from: 0,
            to: usize::MAX,
        };
        let come = || gate.judge().decide(now(), &newcomer, 0);
        let (first, second) = (come().unwrap().id, come().unwrap().id);
        assert!(come().is_err(), "40 of 100 each");
        for _ in 1..PATIENCE {
            assert!(gate.weigh(&[(eth0, 500)]).is_empty());
        }
        assert!(gate.weigh(&[(eth0, 1000)]).is_empty(), "it was passing");
        for _ in 1..PATIENCE {
            assert!(gate.weigh(&[(eth0, 500)]).is_empty());
        }
        assert_eq!(gate.weigh(&[(eth0, 500)]), [second]);
        gate.leaves(second);
        assert!(gate.weigh(&[(eth0, 500)]).is_empty(), "the first stays");
        assert!(come().is_err(), "half of the link is the first one's");
        gate.weigh(&[(eth0, 1000)]);
        assert_eq!(gate.unbooked(eth0), 100 - 40 - 40 / SLACK);
        assert!(come().is_ok(), "the link is whole again");
        assert_eq!(gate.unbooked(eth0), 0);
        gate.leaves(first);
    }
}
