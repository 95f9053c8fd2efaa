//! The gate: the shell of [`reelway_admission`]. It owns the lock around the desk, the clock, the
//! network interfaces and the thread that reads indexes.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_admission::{
    Admission, Arrival, BookingId, CapacityNotice, Config, Curves, Desk, Needs, Outcome, PATIENCE,
    Refusal, Refused, Reservation, Resource, WHOLE_NETWORK, Wants,
};
use reelway_catalogue::Film;
use reelway_demand::{Demand, Schedule};
use reelway_media::Nanos;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;

use crate::indexes::Indexes;
use crate::links::Links;
use crate::newcomer::NewSession;
use crate::users::Users;

/// How viewers are admitted.
#[derive(Clone, Debug, Default)]
pub struct GateConfig {
    /// How viewers are judged, and what is booked for them.
    pub admission: Config,
    /// The interfaces that have limits of their own.
    pub links: Links,
    /// How users are recognised.
    pub users: Users,
}

/// The gate of a server; clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    config: GateConfig,
    desk: Mutex<Desk>,
    /// Never locked together with the desk.
    curves: Arc<Mutex<Curves<FileIdentity>>>,
    /// Reads indexes; `None` if nothing is booked.
    indexes: Option<Indexes>,
}

/// The bookings, locked against changes.
pub struct Books<'a>(MutexGuard<'a, Desk>);

impl Deref for Books<'_> {
    type Target = Admission;

    fn deref(&self) -> &Admission {
        self.0.books()
    }
}

/// How long a newcomer's place is held while their session is made: no longer than a standstill of
/// the server.
const HELD: Duration = Duration::from_secs(10);

impl Gate {
    /// Creates a gate with this configuration. If anything is limited, it starts a thread that
    /// reads indexes.
    pub fn new(config: GateConfig) -> Gate {
        let curves = Arc::new(Mutex::new(Curves::new(&config.admission)));
        let books = config.admission.books();
        Gate(Arc::new(Inner {
            indexes: books.then(|| Indexes::start(&curves, &config.admission)),
            curves,
            desk: Mutex::new(Desk::new(config.admission.clone())),
            config,
        }))
    }

    /// Returns the configuration.
    pub fn config(&self) -> &GateConfig {
        &self.0.config
    }

    /// Returns the current bookings, for pages and metrics.
    pub fn judge(&self) -> Books<'_> {
        let mut desk = self.desk();
        desk.advance(reelway_clock::now());
        Books(desk)
    }

    /// Whether bookings limit anything. If not, no film's needs are computed.
    pub fn books(&self) -> bool {
        self.0.config.admission.books()
    }

    /// Whether a network is limited, so that HTTP sends no more than is booked.
    pub fn books_network(&self) -> bool {
        self.0.config.admission.capacity.limits_a_network()
    }

    /// Returns the interface of a resource that belongs to one.
    pub fn interface(&self, resource: Resource) -> Option<&str> {
        match resource {
            Resource::Network(number @ 1..) => Some(self.0.config.links.name(number)),
            _ => None,
        }
    }

    /// Returns the numbers of the limited networks that packets to `peer` pass
    /// ([`Resource::Network`]): the one shared by all viewers, and an interface.
    pub fn networks_to(&self, peer: IpAddr) -> Vec<u8> {
        let link = self.0.config.links.leaving_to(peer);
        let capacity = &self.0.config.admission.capacity;
        let is_limited = |number: &u8| capacity.limit(Resource::Network(*number)).is_some();
        std::iter::once(0).chain(link).filter(is_limited).collect()
    }

    /// Returns the limited resources needed to send this file over HTTP to this address: networks,
    /// processor, and the file's disk or origin.
    pub fn on_the_way(&self, file: &FileIdentity, peer: IpAddr) -> Vec<Resource> {
        if !self.books() {
            return Vec::new();
        }
        let link = self.0.config.links.leaving_to(peer);
        let is_on_it = |resource: &Resource| match resource {
            Resource::Network(0) | Resource::Processor => true,
            Resource::Disk => !file.is_remote(),
            Resource::Origin => file.is_remote(),
            Resource::Network(number) => Some(*number) == link,
            // Limited by HTTP itself.
            Resource::Memory => false,
        };
        let limits = self.0.config.admission.capacity.limits().iter();
        limits.map(|(of, _)| *of).filter(is_on_it).collect()
    }

    /// Returns the currently unbooked bytes per second of a resource, less a part of what is
    /// booked.
    pub fn unbooked(&self, resource: Resource) -> u64 {
        self.desk().unbooked(reelway_clock::now(), resource)
    }

    /// Returns the network's total capacity and its currently unbooked part, in bytes per second;
    /// `None`: it has no limit.
    pub fn network(&self) -> Option<(u64, u64)> {
        let limits = self.config().admission.capacity.limits().iter();
        let networks = limits.filter(|(of, _)| matches!(of, Resource::Network(_)));
        let amounts =
            networks.map(|(of, limit)| (*of == WHOLE_NETWORK, *limit, self.unbooked(*of)));
        let (whole, each): (Vec<_>, Vec<_>) = amounts.partition(|(is_whole, ..)| *is_whole);
        let sum = |amounts: &[(bool, u64, u64)]| {
            let total = amounts.iter().map(|(_, limit, _)| limit).sum::<u64>();
            let free = amounts.iter().map(|(.., free)| free).sum::<u64>();
            (!amounts.is_empty()).then_some((total, free))
        };
        match (sum(&whole), sum(&each)) {
            (Some(whole), Some(each)) => Some((whole.0.min(each.0), whole.1.min(each.1))),
            (whole, each) => whole.or(each),
        }
    }

    /// Returns a film's demand; `None`: nothing is limited. If its index has not been read for that
    /// yet, reading starts and the demand is estimated from the film's groups, so that no viewer
    /// waits for a disk.
    pub fn demand(&self, film: &Arc<Film>) -> Option<Arc<Demand>> {
        let indexes = self.0.indexes.as_ref()?;
        let (demand, want) = self.curves().demand(&film.bytes_identity(), &film.title)?;
        if let Some(want) = want {
            indexes.read(want, film);
        }
        Some(demand)
    }

    /// Returns the wants of a viewer of this title at this address, with a slower beginning if the
    /// path to them is narrow.
    pub fn slowly_if_narrow(&self, wants: Wants, title: &str, peer: IpAddr) -> Wants {
        let GateConfig {
            admission, links, ..
        } = &self.0.config;
        let class = admission.classes.get(admission.class_of(peer, title));
        let class = class.map(|(class, _)| class);
        let link = links.leaving_to(peer);
        self.curves().slowly_if_narrow(wants, link, class)
    }

    /// Returns how a newcomer who wants to watch from `from` would be judged; nothing is booked.
    ///
    /// # Errors
    /// Why they would be refused, and when they could be admitted.
    pub fn what_if(&self, viewer: &NewSession, from: Nanos) -> Result<Duration, Refused> {
        self.with_arrival(viewer, None, from, |desk, arrival| {
            desk.what_if(reelway_clock::now(), arrival)
        })
    }

    /// Sets a resource's current capacity in thousandths, such as when disks have become slower.
    pub fn measured(&self, resource: Resource, thousandths: u32) {
        self.desk().set_measured(resource, thousandths);
    }

    /// Returns the newcomer's user, if the URL of their request names one.
    pub(crate) fn user_of(&self, viewer: &NewSession) -> Result<Option<String>, Refusal> {
        self.0.config.users.of(viewer.query.as_deref())
    }

    /// Reserves a place for a newcomer, who is this user if known.
    pub(crate) fn reserve(&self, viewer: &NewSession, user: Option<&str>) -> Outcome<Reservation> {
        self.with_arrival(viewer, user, 0, |desk, arrival| {
            let now = reelway_clock::now();
            desk.reserve(now, arrival, now + HELD)
        })
    }

    /// Records that the viewer plays the film times `range` from now on. Returns the schedule to
    /// send by, if it is not the film's own timing.
    pub(crate) fn plays(
        &self,
        id: BookingId,
        range: (Nanos, Nanos),
        may_refuse: bool,
    ) -> Outcome<Option<Arc<Schedule>>> {
        let wants = self.desk().wants(id);
        let Some((wants, link)) = wants else {
            return Outcome {
                answer: Ok(None),
                ended: Vec::new(),
            };
        };
        let needs = self.curves().needs(&wants, link, range);
        let mut desk = self.desk();
        supervise::inject("judge");
        let played = desk.plays(reelway_clock::now(), id, &needs, may_refuse);
        Outcome {
            answer: played.answer.map(|()| needs.schedule),
            ended: played.ended,
        }
    }

    /// Checks whether links and disks are still as fast as they were. Returns the bookings that end
    /// because they are not; to be called once a second.
    pub(crate) fn weigh(&self) -> Vec<BookingId> {
        let links = self.0.config.links.shares();
        let weighed = self.desk().weigh(reelway_clock::now(), &links);
        for notice in &weighed.notices {
            self.log(notice);
        }
        weighed.ended
    }

    fn log(&self, CapacityNotice { resource, share }: &CapacityNotice) {
        let name = match resource {
            Resource::Network(number @ 1..) => {
                format!("network {}", self.0.config.links.name(*number))
            }
            other => other.to_string(),
        };
        if *share < 1000 {
            tracing::warn!(
                "{name}: capacity is down to {} %: newcomers are judged by that, and after {} s the newest \
                 sessions that do not fit are ended",
                share / 10,
                PATIENCE.as_secs()
            );
        } else {
            tracing::info!("{name}: capacity is back to normal");
        }
    }

    /// Presents a newcomer to the desk. Their needs are computed before the desk is locked.
    fn with_arrival<T>(
        &self,
        viewer: &NewSession,
        user: Option<&str>,
        from: Nanos,
        ask: impl FnOnce(&mut Desk, &Arrival<'_>) -> T,
    ) -> T {
        let link = self.0.config.links.leaving_to(viewer.peer.ip());
        let needs = |wants: &Wants| self.curves().needs(wants, link, (from, Nanos::MAX));
        let needs = viewer.wants.as_ref().map_or_else(Needs::default, needs);
        let arrival = Arrival {
            title: &viewer.title,
            address: viewer.peer.ip(),
            connection: viewer.connection,
            user,
            link,
            wants: viewer.wants.as_ref(),
            needs: &needs,
        };
        ask(&mut self.desk(), &arrival)
    }

    /// Locks the desk. The bookings cannot be rebuilt while viewers watch: after a panic under this
    /// lock the process exits rather than admit more viewers than it can carry.
    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        supervise::essential(self.0.desk.lock(), "the bookings of admission")
    }

    /// Locks the films' curves, whose entries are added and removed one at a time.
    fn curves(&self) -> MutexGuard<'_, Curves<FileIdentity>> {
        supervise::whole(self.0.curves.lock())
    }
}
