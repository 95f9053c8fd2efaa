//! What viewers need: films' curves, read once for all who watch, and what the policy makes of them.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use reelway_admission::{Capacity, Policy, Resource};
use reelway_catalogue::Film;
use reelway_media::Nanos;
use reelway_rtp::PayloadOptions;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use reelway_timetable::{
    BIN, BINS, Carriage, Curve, Demand, Eager, Reading, Schedule, memory_held, sent_evenly, smooth,
};

use crate::following::Place;
use crate::gate::GateConfig;
use crate::sharing::Near;

/// Films whose curves are kept.
const FILMS: usize = 64;

/// Memory that all curves may take while films' needs are known bin by bin, as long as there is more of it: those of a
/// two-hour film take about half a megabyte. What comes beyond that is known in runs of [`SPAN`], in less than a tenth of it.
const EXACT: usize = 16 << 20;

/// Quarter seconds of which the largest second's need is booked for all, where there is no memory for more.
const SPAN: usize = 16;

/// Curves made of others that are kept.
const SHAPED: usize = 256;

/// What all viewers on all interfaces take together; interfaces by themselves are counted from 1.
pub const WHOLE_NETWORK: Resource = Resource::Network(0);

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

/// Needs, and what they are booked from.
#[derive(Default)]
pub(crate) struct Needs {
    pub of: Vec<(Resource, Arc<Curve>)>,
    pub schedule: Option<Arc<Schedule>>,
    /// Bins of the curves.
    pub range: (usize, usize),
    /// Bins of the whole film.
    pub len: usize,
}

impl Needs {
    /// Near another viewer, with whom blocks are shared.
    pub fn share(&mut self, near: Option<&Near>) {
        let Some(near) = near else {
            return;
        };
        for (resource, curve) in &mut self.of {
            if *resource == Resource::Memory {
                *curve = near.holds(curve);
            }
        }
    }

    /// In this place behind another viewer.
    pub fn take(&mut self, place: Option<Place>) {
        let Some(place) = place else {
            return;
        };
        for (resource, curve) in &mut self.of {
            if *resource == Resource::Disk {
                *curve = Arc::new(place.read(curve));
            }
        }
    }
}

/// What a policy makes of a curve. The curve is held, so that its address stays its own.
#[derive(Clone)]
struct Shaped {
    _of: Arc<Curve>,
    curve: Arc<Curve>,
    schedule: Option<Arc<Schedule>>,
}

/// Films' needs by the files they are of.
type Demands = Mutex<HashMap<FileIdentity, Arc<Demand>>>;

impl Wants {
    /// Whether what they watch is fetched, as over HTTP.
    pub fn fetches(&self) -> bool {
        self.carriage == Carriage::Http
    }
}

/// All curves that are kept.
pub(crate) struct Curves {
    policy: Policy,
    capacity: Capacity,
    payload: PayloadOptions,
    reading: Reading,
    demands: Arc<Demands>,
    /// Films whose index is to be read; none where nothing is booked.
    reader: Option<SyncSender<Arc<Film>>>,
    shaped: Mutex<HashMap<usize, Shaped>>,
    /// The same of what is fetched ahead.
    fetched: Mutex<HashMap<usize, Shaped>>,
    eager: Eager,
    sent_ahead: Nanos,
}

impl Curves {
    /// None yet. Where anything is limited, a thread is started that reads indexes.
    pub fn new(config: &GateConfig) -> Curves {
        let demands: Arc<Demands> = Arc::default();
        let (reader, films) = sync_channel(FILMS);
        let books = !config.capacity.is_unlimited();
        if books {
            let (kept, payload, reading) =
                (Arc::downgrade(&demands), config.payload, config.reading);
            // It ends with the curves, whose end of the channel goes then.
            let reading = supervise::thread("reelway-needs", move || {
                read_needs(&films, &kept, payload, reading)
            });
            if let Err(error) = reading {
                tracing::warn!(
                    "what films need stays an estimate, as no thread can be started: {error}"
                );
            }
        }
        Curves {
            policy: config.policy,
            capacity: config.capacity.clone(),
            payload: config.payload,
            reading: config.reading,
            demands,
            reader: books.then_some(reader),
            shaped: Mutex::default(),
            fetched: Mutex::default(),
            eager: config.eager,
            // A limited network makes up for what coincides by itself.
            sent_ahead: if config.capacity.limits_a_network() {
                0
            } else {
                config.sent_ahead
            },
        }
    }

    /// What a film needs; `None`: nobody asks for it. Where its index has not been read for that yet, that is begun, and
    /// what the film's groups tell is answered: whoever opens a film does not wait for a disk.
    pub fn demand(&self, film: &Arc<Film>) -> Option<Arc<Demand>> {
        let reader = self.reader.as_ref()?;
        if let Some(demand) = lock(&self.demands).get(&film.identity) {
            return Some(demand.clone());
        }
        if is_full() {
            self.forget();
        }
        let rough = Arc::new(fitting(Demand::rough(
            &film.title,
            self.payload,
            self.reading,
        )));
        // Where too many films are waited for already, the next who asks tries again.
        if reader.try_send(film.clone()).is_ok() {
            keep(&self.demands, film.identity, rough.clone());
        }
        Some(rough)
    }

    /// What he needs of what is limited, playing these film times; `link`: the interface he is reached by.
    pub fn needs(&self, wants: &Wants, link: Option<u8>, (from, to): (Nanos, Nanos)) -> Needs {
        let tracks = match wants.tracks.as_slice() {
            [] => wants.demand.usual_tracks(),
            tracks => tracks,
        };
        let wire = wants.demand.wire(tracks, wants.carriage);
        let mut range = (wire.bin_at(from), wire.bin_at(to.saturating_add(BIN - 1)));
        let is_to_the_end = range.1 == wire.len();
        // What a viewer over HTTP may fetch ahead is booked so, whether he does or not.
        let is_fetched = wants.carriage == Carriage::Http
            && matches!(self.policy, Policy::Exact | Policy::Smoothed(_));
        let (wire, schedule) = match self.policy {
            _ if is_fetched => (self.fetched(&wire, range.0), None),
            policy if self.sent_ahead > 0 && wants.carriage != Carriage::Http => {
                let sent = || sent_evenly(&wire, range.0, self.sent_ahead);
                let sent = Curves::from(&self.shaped, &wire, range.0, || {
                    policy.booked(WHOLE_NETWORK, &Arc::new(sent()))
                });
                (sent, None)
            }
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
        let capacity = &self.capacity;
        let of_wire = [
            Some(WHOLE_NETWORK),
            link.map(Resource::Network),
            Some(Resource::Processor),
        ];
        let len = wire.len();
        if is_to_the_end {
            // What is sent ahead begins ahead, and so lasts longer.
            range.1 = len;
        }
        let mut of: Vec<(Resource, Arc<Curve>)> = of_wire
            .into_iter()
            .flatten()
            .filter(|resource| capacity.limit(*resource).is_some())
            .map(|resource| (resource, wire.clone()))
            .collect();
        // Of the file itself nothing is sent ahead of what was read: the same bins will do.
        if capacity.limit(Resource::Disk).is_some() {
            let disk = wants.demand.disk();
            let disk = match is_fetched {
                true => self.fetched(&disk, range.0),
                false => self.policy.booked(Resource::Disk, &disk),
            };
            of.push((Resource::Disk, disk));
        }
        // What HTTP pins is bounded, and set aside.
        if capacity.limit(Resource::Memory).is_some() && wants.carriage != Carriage::Http {
            let memory = match self.policy {
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

    /// Nothing is kept but what is booked.
    fn forget(&self) {
        lock(&self.shaped).clear();
        lock(&self.fetched).clear();
        drop_unused(&mut lock(&self.demands));
    }

    fn shaped(&self, policy: Policy, curve: &Arc<Curve>) -> Shaped {
        let key = Arc::as_ptr(curve) as usize;
        if let Some(shaped) = lock(&self.shaped).get(&key) {
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
        keep_shaped(&self.shaped, key, shaped.clone());
        shaped
    }

    /// What is sent at most of one who fetches a film from this bin on.
    fn fetched(&self, curve: &Arc<Curve>, from: usize) -> Arc<Curve> {
        let shape = || Arc::new(self.eager.curve(curve, from));
        Curves::from(&self.fetched, curve, from, shape)
    }

    /// What a curve becomes from this bin on; kept if that is the film's beginning.
    fn from(
        kept: &Mutex<HashMap<usize, Shaped>>,
        curve: &Arc<Curve>,
        from: usize,
        shape: impl FnOnce() -> Arc<Curve>,
    ) -> Arc<Curve> {
        let key = Arc::as_ptr(curve) as usize;
        let known = lock(kept).get(&key).filter(|_| from == 0).cloned();
        if let Some(shaped) = known {
            return shaped.curve;
        }
        let shape = shape();
        if from == 0 {
            let shaped = Shaped {
                _of: curve.clone(),
                curve: shape.clone(),
                schedule: None,
            };
            keep_shaped(kept, key, shaped);
        }
        shape
    }
}

fn keep_shaped(all: &Mutex<HashMap<usize, Shaped>>, key: usize, shaped: Shaped) {
    let mut all = lock(all);
    if all.len() >= SHAPED || is_full() {
        all.clear();
    }
    all.insert(key, shaped);
}

fn keep(demands: &Demands, film: FileIdentity, demand: Arc<Demand>) {
    let mut demands = lock(demands);
    if demands.len() >= FILMS {
        drop_unused(&mut demands);
    }
    demands.insert(film, demand);
}

/// Those that somebody watches are kept.
fn drop_unused(demands: &mut HashMap<FileIdentity, Arc<Demand>>) {
    demands.retain(|_, demand| Arc::strong_count(demand) > 1);
}

/// Whether curves have as much memory as they may.
fn is_full() -> bool {
    memory_held() >= EXACT
}

/// What a film needs, as exactly as there is memory for.
fn fitting(demand: Demand) -> Demand {
    if is_full() {
        return demand.coarse(SPAN);
    }
    demand
}

/// Reads the indexes of films one after the other, for what they need exactly.
fn read_needs(
    films: &Receiver<Arc<Film>>,
    kept: &Weak<Demands>,
    payload: PayloadOptions,
    reading: Reading,
) {
    for film in films {
        supervise::inject("needs");
        // A film whose index cannot be read is told of when it is played. After a panic its needs stay
        // an estimate.
        let demand = supervise::guard("needs of a film", || {
            supervise::inject("needs.film");
            Demand::of(&film.title, &*film.samples, payload, reading)
        });
        let (Ok(Ok(demand)), Some(kept)) = (demand, kept.upgrade()) else {
            continue;
        };
        keep(&kept, film.identity, Arc::new(fitting(demand)));
    }
}

/// Enters a list of what was worked out, whose entries come and go one at a time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    supervise::whole(mutex.lock())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reelway_media::{Codec, Container, Group, H264Config, Kind, SECOND, Title, Track};
    use reelway_timetable::BINS;

    /// A film of groups of a second, of which one in four has nine times the bytes of the others.
    fn demand(seconds: u32) -> Arc<Demand> {
        let group = |number: u32| Group {
            first: number * 25,
            count: 25,
            dts: i64::from(number) * 1000,
            cts: 0,
            bytes: if number % 4 == 3 { 900_000 } else { 100_000 },
            sync: true,
        };
        let groups: Vec<Group> = (0..seconds).map(group).collect();
        let track = Track {
            id: 1,
            kind: Kind::Video,
            codec: Codec::H264(H264Config {
                fourcc: *b"avc1",
                length_size: 4,
                profile: [100, 0, 30],
                sps: Vec::new(),
                pps: Vec::new(),
            }),
            timescale: 1000,
            shift: 0,
            language: None,
            name: None,
            enabled: true,
            samples: seconds * 25,
            bytes: groups.iter().map(|group| u64::from(group.bytes)).sum(),
            duration: u64::from(seconds) * 1000,
            groups: groups.into_iter().collect(),
            picture: None,
            sound: None,
            sample_entry: Vec::new(),
        };
        let title = Title {
            container: Container::Mp4,
            name: None,
            tracks: vec![track],
            duration: Nanos::from(seconds) * SECOND,
            notes: Vec::new(),
        };
        Arc::new(Demand::rough(
            &title,
            PayloadOptions::default(),
            GateConfig::default().reading,
        ))
    }

    #[test]
    fn what_is_sent_ahead_over_rtp_is_booked_as_it_is_sent() {
        let demand = demand(40);
        let needs = |ahead, carriage, from| {
            let curves = Curves::new(&GateConfig {
                capacity: Capacity::unlimited().with(Resource::Processor, 1 << 30, 1000),
                sent_ahead: ahead,
                ..GateConfig::default()
            });
            let wants = Wants {
                demand: demand.clone(),
                tracks: Vec::new(),
                carriage,
            };
            let needs = curves.needs(&wants, None, (from, Nanos::MAX));
            assert_eq!(needs.range.1, needs.len, "to the end");
            (needs.of[0].1.clone(), needs.range)
        };
        for carriage in [Carriage::UdpV4, Carriage::Tcp] {
            for from in [0, 11 * SECOND] {
                let ((own, _), (even, range)) =
                    (needs(0, carriage, from), needs(4 * SECOND, carriage, from));
                assert!(
                    even.peak() < own.peak() / 2,
                    "{} {}",
                    even.peak(),
                    own.peak()
                );
                let due: u64 = own.bins()[range.0..]
                    .iter()
                    .map(|bin| u64::from(*bin))
                    .sum();
                assert!(
                    even.total().abs_diff(due) <= range.1 as u64,
                    "all of it is booked"
                );
                let longer = even.len() - own.len();
                assert!(longer <= 4 * BINS, "{longer}");
            }
        }
        let (own, even) = (
            needs(0, Carriage::Http, 0),
            needs(4 * SECOND, Carriage::Http, 0),
        );
        assert_eq!(
            own, even,
            "what viewers fetch is not sent ahead by the sender"
        );
    }
}
