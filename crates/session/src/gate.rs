//! The gate: what the pure judge of [`reelway_admission`] needs of the world. The time, the films' curves, and
//! a lock.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use reelway_admission::{
    Admission, Admitted, BookingId, Capacity, Class, Limits, Newcomer, Policy, Refused, Resource,
};
use reelway_catalogue::Film;
use reelway_media::Nanos;
use reelway_rtp::PayloadOptions;
use reelway_sys::FileIdentity;
use reelway_timetable::{BIN, BINS, Carriage, Curve, Demand, Schedule, smooth};

use crate::links::Links;
use crate::registry::{NewSession, Refusal};

/// Films whose curves are kept: a three-hour film's take about a megabyte.
const FILMS: usize = 64;

/// Curves made of others that are kept.
const SHAPED: usize = 256;

/// What all viewers on all interfaces take together; interfaces by themselves are counted from 1.
pub const WHOLE_NETWORK: Resource = Resource::Network(0);

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
    /// Classes of viewers and who belongs to them, the first class first.
    pub classes: Vec<(Class, Members)>,
    /// A newcomer who would find room within so many seconds waits for it.
    pub wait: u32,
    /// Whether a viewer who seeks or goes on after a pause is refused like a newcomer.
    pub ask_again: bool,
    /// What fits a packet, as the sender has it.
    pub payload: PayloadOptions,
}

impl Default for GateConfig {
    fn default() -> Self {
        GateConfig {
            policy: Policy::Exact,
            capacity: Capacity::unlimited(),
            links: Links::default(),
            limits: Limits::default(),
            classes: Vec::new(),
            wait: 0,
            ask_again: false,
            payload: PayloadOptions::default(),
        }
    }
}

/// Who belongs to a class: whoever comes from one of these networks, or wants one of these titles. Both empty:
/// everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Networks, each with the length of its prefix.
    pub networks: Vec<(IpAddr, u8)>,
    /// Beginnings of titles.
    pub titles: Vec<String>,
}

impl Members {
    fn has(&self, address: IpAddr, title: &str) -> bool {
        if self.networks.is_empty() && self.titles.is_empty() {
            return true;
        }
        self.titles.iter().any(|begin| title.starts_with(begin))
            || self
                .networks
                .iter()
                .any(|(network, bits)| is_within(address, *network, *bits))
    }
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let top = |number: u128, width: u32| {
        number
            .checked_shr(width.saturating_sub(bits.into()))
            .unwrap_or(0)
    };
    match (address.to_canonical(), network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            top(a.to_bits().into(), 32) == top(b.to_bits().into(), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => top(a.to_bits(), 128) == top(b.to_bits(), 128),
        _ => false,
    }
}

/// What a viewer takes of a film, and how.
#[derive(Clone, Debug)]
pub struct Wants {
    /// What the film needs.
    pub demand: Arc<Demand>,
    /// Which tracks (indices into `Title::tracks`); empty: what players take that choose nothing.
    pub tracks: Vec<usize>,
    /// How it gets to him.
    pub carriage: Carriage,
}

/// The gate of a server; clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    config: GateConfig,
    judge: Mutex<Admission>,
    demands: Mutex<HashMap<FileIdentity, Arc<Demand>>>,
    /// Films whose index is to be read; none where nothing is booked.
    reader: Option<SyncSender<Arc<Film>>>,
    shaped: Mutex<HashMap<usize, Shaped>>,
    /// Thousandths of resources, as far as others measure them.
    measured: Mutex<BTreeMap<Resource, u32>>,
    /// Seconds for which there has been less of something than there was.
    slow: AtomicU32,
}

/// What a policy makes of a curve. The curve is held, so that its address stays its own.
#[derive(Clone)]
struct Shaped {
    _of: Arc<Curve>,
    curve: Arc<Curve>,
    schedule: Option<Arc<Schedule>>,
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

/// Needs, and what they are booked from.
#[derive(Default)]
struct Needs {
    of: Vec<(Resource, Arc<Curve>)>,
    schedule: Option<Arc<Schedule>>,
    /// Bins of the curves.
    range: (usize, usize),
    /// Bins of the whole film.
    len: usize,
}

/// Seconds for which less than there was is borne before anybody has to leave for it.
const PATIENCE: u32 = 3;

/// Seconds to come in which nothing may be overfull when there is less than there was.
const NEAR: u64 = 5;

/// A beginning this close to what was booked keeps its booking.
const CLOSE: u64 = 500_000_000;

impl Gate {
    /// A gate that judges so.
    pub fn new(config: GateConfig) -> Gate {
        let classes = config.classes.iter().map(|(class, _)| class.clone());
        let judge = Admission::new(config.policy, config.capacity.clone(), config.limits)
            .with_classes(classes.collect());
        let (reader, films) = sync_channel(FILMS);
        let books = !config.capacity.is_unlimited();
        let gate = Gate(Arc::new(Inner {
            config,
            judge: Mutex::new(judge),
            demands: Mutex::default(),
            reader: books.then_some(reader),
            shaped: Mutex::default(),
            measured: Mutex::default(),
            slow: AtomicU32::new(0),
        }));
        if books {
            let inner = Arc::downgrade(&gate.0);
            // It ends with the gate, whose end of the channel goes then.
            let reading = std::thread::Builder::new()
                .name("reelway-needs".into())
                .spawn(move || read_needs(&films, &inner));
            if let Err(error) = reading {
                tracing::warn!("films' needs stay estimates, as no thread can be started: {error}");
            }
        }
        gate
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
        let reader = self.0.reader.as_ref()?;
        if let Some(demand) = lock(&self.0.demands).get(&film.identity) {
            return Some(demand.clone());
        }
        let rough = Arc::new(Demand::rough(&film.title, self.0.config.payload));
        // Where too many films are waited for already, the next who asks tries again.
        if reader.try_send(film.clone()).is_ok() {
            self.0.keep(film.identity, rough.clone());
        }
        Some(rough)
    }

    fn needs(&self, wants: &Wants, link: Option<u8>, (from, to): (Nanos, Nanos)) -> Needs {
        let tracks = match wants.tracks.as_slice() {
            [] => wants.demand.usual_tracks(),
            tracks => tracks,
        };
        let wire = wants.demand.wire(tracks, wants.carriage);
        let range = (wire.bin_at(from), wire.bin_at(to.saturating_add(BIN - 1)));
        let (wire, schedule) = match self.0.config.policy {
            // What is ahead at a film's beginning is known once for all; from elsewhere it begins with nothing ahead.
            Policy::Smoothed(seconds) if range.0 > 0 => {
                let (curve, schedule) = smooth(&wire, range.0, seconds as usize * BINS);
                (Arc::new(curve), Some(Arc::new(schedule)))
            }
            policy => {
                let shaped = self.shaped(policy, &wire);
                (shaped.curve, shaped.schedule)
            }
        };
        let capacity = &self.0.config.capacity;
        let of_wire = [
            Some(WHOLE_NETWORK),
            link.map(Resource::Network),
            Some(Resource::Processor),
        ];
        let len = wire.bins().len();
        let mut of: Vec<(Resource, Arc<Curve>)> = of_wire
            .into_iter()
            .flatten()
            .filter(|resource| capacity.limit(*resource).is_some())
            .map(|resource| (resource, wire.clone()))
            .collect();
        // Of the file itself nothing is sent ahead of what was read: the same bins will do.
        if capacity.limit(Resource::Disk).is_some() {
            let disk = wants.demand.disk();
            of.push((
                Resource::Disk,
                self.0.config.policy.booked(Resource::Disk, &disk),
            ));
        }
        if capacity.limit(Resource::Memory).is_some() {
            let memory = match self.0.config.policy {
                Policy::Vodca => wants.demand.two_groups(),
                _ => wants.demand.memory(),
            };
            of.push((Resource::Memory, memory));
        }
        Needs {
            of,
            schedule,
            range,
            len,
        }
    }

    fn shaped(&self, policy: Policy, curve: &Arc<Curve>) -> Shaped {
        let key = Arc::as_ptr(curve) as usize;
        if let Some(shaped) = lock(&self.0.shaped).get(&key) {
            return shaped.clone();
        }
        let (shape, schedule) = match policy {
            Policy::Smoothed(seconds) => {
                let (curve, schedule) = smooth(curve, 0, seconds as usize * BINS);
                (Arc::new(curve), Some(Arc::new(schedule)))
            }
            policy => (policy.booked(WHOLE_NETWORK, curve), None),
        };
        let shaped = Shaped {
            _of: curve.clone(),
            curve: shape,
            schedule,
        };
        let mut all = lock(&self.0.shaped);
        if all.len() >= SHAPED {
            all.clear();
        }
        all.insert(key, shaped.clone());
        shaped
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
        let needs = self.needs_of(viewer, link, from);
        self.ask(viewer, &needs, |judge, newcomer, wait| {
            judge.what_if(now(), newcomer, wait)
        })
    }

    /// Judges a newcomer, and books for him.
    pub(crate) fn enter(&self, viewer: &NewSession) -> Result<(Option<Booked>, Duration), Refusal> {
        if self.is_open() {
            return Ok((None, Duration::ZERO));
        }
        let link = self.0.config.links.leaving_to(viewer.peer.ip());
        let needs = self.needs_of(viewer, link, 0);
        let admitted = self.ask(viewer, &needs, |judge, newcomer, wait| {
            judge.decide(now(), newcomer, wait)
        });
        let Admitted { id, starts_in } = admitted.map_err(|refused| refusal(&refused))?;
        let booked = Booked {
            id,
            wants: viewer.wants.clone().filter(|_| !needs.of.is_empty()),
            link,
            from: 0,
            since: now() + starts_in.as_nanos() as u64,
            played: false,
        };
        Ok((Some(booked), starts_in))
    }

    fn needs_of(&self, viewer: &NewSession, link: Option<u8>, from: Nanos) -> Needs {
        let wants = viewer.wants.as_ref();
        wants.map_or_else(Needs::default, |wants| {
            self.needs(wants, link, (from, Nanos::MAX))
        })
    }

    fn ask<T>(
        &self,
        viewer: &NewSession,
        needs: &Needs,
        judged: impl FnOnce(&mut Admission, &Newcomer<'_>, u32) -> T,
    ) -> T {
        let newcomer = Newcomer {
            title: &viewer.title,
            address: viewer.peer.ip(),
            user: None,
            class: self.class(viewer),
            fast: false,
            needs: &needs.of,
            from: needs.range.0,
            to: needs.range.1,
        };
        judged(&mut lock(&self.0.judge), &newcomer, self.0.config.wait)
    }

    /// He plays from `from` to `to` from now on. What he is to be sent by, if it is not the film's own time.
    ///
    /// Who was let in may always go on, unless the configuration wants him to ask again, or he let his place go before
    /// he ever began; then `may_refuse` must say that he can be refused here.
    pub(crate) fn plays(
        &self,
        booked: &mut Booked,
        range: (Nanos, Nanos),
        may_refuse: bool,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        let Some(wants) = &booked.wants else {
            return Ok(None);
        };
        let needs = self.needs(wants, booked.link, range);
        let first = needs.range.0;
        let mut judge = lock(&self.0.judge);
        let now = now();
        let has_place = judge.is_booked(booked.id);
        // What was booked when he came in is what he does now.
        let is_as_booked = has_place
            && !booked.played
            && booked.from == first
            && now.abs_diff(booked.since) < CLOSE
            && needs.range.1 == needs.len;
        if !is_as_booked {
            let let_go = !booked.played && !has_place;
            let ask = may_refuse && (self.0.config.ask_again || let_go);
            judge
                .rebook(now, booked.id, &needs.of, needs.range, ask)
                .map_err(|refused| refusal(&refused))?;
        }
        (booked.from, booked.since, booked.played) = (first, now, true);
        Ok(needs.schedule)
    }

    /// He does not play: what was booked is free.
    pub(crate) fn rests(&self, booked: &Booked) {
        lock(&self.0.judge).rest(now(), booked.id);
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
        let mut shares: Vec<(Resource, u32)> = links
            .map(|(number, share)| (Resource::Network(number), share))
            .collect();
        let measured = lock(&self.0.measured);
        shares.extend(measured.iter().map(|(of, share)| (*of, *share)));
        drop(measured);
        if shares.is_empty() {
            return Vec::new();
        }
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
                    Resource::Network(number) => {
                        format!("network {}", self.0.config.links.name(number))
                    }
                    other => other.to_string(),
                };
                if share < 1000 {
                    tracing::warn!(
                        "{name}: there is only {} % of what there was: newcomers are judged by that, and whoever does \
                         not fit in {PATIENCE} s has to leave, the newest first",
                        share / 10
                    );
                } else {
                    tracing::info!("{name}: there is as much as there was");
                }
            }
            judge.set_share(resource, share);
            slower |= share < 1000;
        }
        slower
    }

    pub(crate) fn leaves(&self, id: BookingId) {
        lock(&self.0.judge).end(now(), id);
    }
}

impl Inner {
    fn keep(&self, film: FileIdentity, demand: Arc<Demand>) {
        let mut demands = lock(&self.demands);
        if demands.len() >= FILMS {
            // Those that somebody watches are kept; they are few, as films go.
            demands.retain(|_, demand| Arc::strong_count(demand) > 1);
        }
        demands.insert(film, demand);
    }
}

/// Reads the indexes of films one after the other, for what they need exactly.
fn read_needs(films: &Receiver<Arc<Film>>, gate: &Weak<Inner>) {
    for film in films {
        let Some(gate) = gate.upgrade() else {
            return;
        };
        // A film whose index cannot be read is told of when it is played.
        if let Ok(demand) = Demand::of(&film.title, &*film.samples, gate.config.payload) {
            gate.keep(film.identity, Arc::new(demand));
        }
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
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
        assert!(come().is_ok(), "the link is whole again");
        gate.leaves(first);
    }

    #[test]
    fn a_network_holds_its_addresses_in_either_dress() {
        let of = |address: &str, network: &str, bits| {
            is_within(address.parse().unwrap(), network.parse().unwrap(), bits)
        };
        assert!(of("10.1.2.3", "10.1.0.0", 16));
        assert!(of("::ffff:10.1.2.3", "10.1.0.0", 16));
        assert!(!of("10.2.0.1", "10.1.0.0", 16));
        assert!(of("192.0.2.1", "0.0.0.0", 0));
        assert!(of("2001:db8::1", "2001:db8::", 32));
        assert!(!of("2001:db9::1", "2001:db8::", 32));
        assert!(of("10.1.2.3", "10.1.2.3", 32) && !of("10.1.2.4", "10.1.2.3", 32));
    }
}
