//! Demand curves: what films need, made once for all viewers, and what the policy makes of it.
//!
//! A film's needs are known roughly from its table of groups, which is in memory, and exactly from
//! its index. The index is not read here: a [`Want`] asks for it.

use std::hash::Hash;
use std::sync::{Arc, Weak};

use reelway_demand::{
    BIN, BINS, Carriage, Curve, Demand, Eager, Reading, Schedule, memory_held, sent_evenly, smooth,
};
use reelway_determinism::FixedMap;
use reelway_media::{Nanos, SECOND, Title};
use reelway_rtp::PayloadOptions;

use crate::capacity::{Capacity, Resource, WHOLE_NETWORK};
use crate::config::Config;
use crate::policy::{Class, Policy};

/// Maximum number of films whose curves are kept, and of indexes that are wanted at once.
pub const FILMS: usize = 64;

/// Memory in which films' needs are kept bin by bin: those of a two-hour film take about half a
/// megabyte. Once it is used up, needs are kept in runs of [`SPAN`], in less than a tenth of the
/// memory: those of other films, and those of single viewers who do not begin at the beginning.
const EXACT: usize = 16 << 20;

/// Quarter seconds per run, which is booked by its largest second, when memory is short.
const SPAN: usize = 16;

/// Maximum number of wire curves that are kept per film.
const WIRES: usize = 16;

/// Maximum number of curves derived from others that are kept.
const SHAPED: usize = 256;

/// A film that goes on is booked for this much more than is indexed, at the highest rate seen. It
/// is booked again when it has grown.
pub const BEYOND: Nanos = 600 * SECOND;

/// What a viewer takes of a film, and how.
#[derive(Clone, Debug)]
pub struct Wants {
    /// The film's needs.
    pub demand: Arc<Demand>,
    /// Indices into `Title::tracks`; empty for those that players take by default.
    pub tracks: Vec<usize>,
    /// The transport to the viewer.
    pub carriage: Carriage,
    /// Whether the film is on another server.
    pub is_remote: bool,
    /// Whether the film may become longer than it is indexed, as a recording that is still being
    /// made, and the viewer plays that, too.
    pub goes_on: bool,
    /// How far ahead it is fetched, and how fast; `None`: as all films are ([`Config::eager`]).
    pub eager: Option<Eager>,
}

impl Wants {
    /// Whether the viewer fetches what they watch, as over HTTP.
    pub fn fetches(&self) -> bool {
        self.carriage == Carriage::Http
    }

    /// Where the film's bytes come from.
    pub fn source(&self) -> Resource {
        match self.is_remote {
            true => Resource::Origin,
            false => Resource::Disk,
        }
    }
}

/// A request to read a film's index, which has the film's exact needs ([`Curves::learn`]).
#[must_use = "until the index is read, the film is booked by an estimate"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want<F> {
    /// The film.
    pub film: F,
}

/// What a viewer needs of each limited resource while they play a part of a film.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Along the film's time, if the viewer shares nothing with others.
    pub(crate) of: Vec<(Resource, Arc<Curve>)>,
    /// The schedule by which they are sent, if that is not the film's own time.
    pub schedule: Option<Arc<Schedule>>,
    /// The part, in bins of those curves.
    pub(crate) range: (usize, usize),
    /// Number of bins of the whole film.
    pub(crate) len: usize,
    /// The part, in film times.
    pub(crate) times: (Nanos, Nanos),
    /// Where its bytes come from; `None` if nothing is needed.
    pub(crate) source: Option<Resource>,
    /// The film, if it is sent at the viewer's pace; viewers who fetch share nothing.
    pub(crate) sent: Option<Arc<Demand>>,
}

/// What a policy makes of a curve. The original is held, so that its address stays unique.
#[derive(Clone)]
struct Shaped {
    _of: Arc<Curve>,
    curve: Arc<Curve>,
    schedule: Option<Arc<Schedule>>,
}

/// The wire curves of a film, for all viewers who take the same of it.
struct Wires {
    /// Keeps the address unique, but does not count as a use.
    of: Weak<Demand>,
    /// By tracks and carriage.
    curves: Vec<(Vec<usize>, Carriage, Arc<Curve>)>,
}

impl Wires {
    /// Keeps only curves by which viewers are booked.
    fn drop_unused(&mut self) {
        self.curves
            .retain(|(.., curve)| Arc::strong_count(curve) > 1);
    }
}

/// Curves derived from others, by the addresses of those.
type Shapes = FixedMap<usize, Shaped>;

/// All curves that are kept. `F` identifies a film: another version of a file is another film.
pub struct Curves<F> {
    policy: Policy,
    capacity: Capacity,
    payload: PayloadOptions,
    reading: Reading,
    demands: FixedMap<F, Arc<Demand>>,
    /// Films whose indexes are wanted, and not yet being read.
    wanted: FixedMap<F, ()>,
    /// By the addresses of the demands.
    wires: FixedMap<usize, Wires>,
    shaped: Shapes,
    /// The same for films that are fetched ahead.
    fetched: Shapes,
    /// The same for films that go on.
    longer: Shapes,
    eager: Eager,
    sent_ahead: Nanos,
}

impl<F: Clone + Eq + Hash> Curves<F> {
    /// Creates an empty set of curves.
    pub fn new(config: &Config) -> Curves<F> {
        Curves {
            policy: config.policy,
            capacity: config.capacity.clone(),
            payload: config.payload,
            reading: config.reading,
            demands: FixedMap::default(),
            wanted: FixedMap::default(),
            wires: FixedMap::default(),
            shaped: FixedMap::default(),
            fetched: FixedMap::default(),
            longer: FixedMap::default(),
            eager: config.eager,
            // A limited network evens out what coincides by itself.
            sent_ahead: if config.capacity.limits_a_network() {
                0
            } else {
                config.sent_ahead
            },
        }
    }

    /// A film's needs; `None` if nothing is limited. Until its index is read, this is an estimate,
    /// so that no viewer waits for a disk. The index is wanted once, unless `FILMS` others are.
    pub fn demand(&mut self, film: &F, title: &Title) -> Option<(Arc<Demand>, Option<Want<F>>)> {
        if self.capacity.is_unlimited() {
            return None;
        }
        if let Some(demand) = self.demands.get(film) {
            return Some((demand.clone(), None));
        }
        if is_full() {
            self.forget();
        }
        let rough = fitting(Demand::rough(title, self.payload, self.reading));
        let is_wanted = self.wanted.contains_key(film);
        if !is_wanted && self.wanted.len() >= FILMS {
            return Some((rough, None));
        }
        self.keep(film.clone(), rough.clone());
        if is_wanted {
            return Some((rough, None));
        }
        self.wanted.insert(film.clone(), ());
        let want = Want { film: film.clone() };
        Some((rough, Some(want)))
    }

    /// Notes that a wanted index is being read, or cannot be: another may be wanted in its place.
    pub fn reads(&mut self, film: &F) {
        self.wanted.remove(film);
    }

    /// Notes a film's needs according to its index ([`fitting`]).
    pub fn learn(&mut self, film: F, demand: Arc<Demand>) {
        self.keep(film, demand);
    }

    /// Returns `wants`, fetched more slowly at first if it would otherwise take more than `class`
    /// (`None`: all) may fill of a network, the processor or the disks: the viewer would be refused
    /// even without others, depending on how their seconds align with those of the books.
    pub fn slowly_if_narrow(
        &mut self,
        mut wants: Wants,
        link: Option<u8>,
        class: Option<&Class>,
    ) -> Wants {
        if !self.is_fetched(&wants) {
            return wants;
        }
        let wire = self.wire_of(&wants);
        let of = |resource| {
            let limit = self.capacity.limit(resource)?;
            Some(class.map_or(limit, |class| class.part_of(limit)))
        };
        let networks = [Some(WHOLE_NETWORK), link.map(Resource::Network)];
        let on_wire = networks.into_iter().flatten().chain([Resource::Processor]);
        let limits = [
            (wire, on_wire.filter_map(of).min()),
            (wants.demand.disk(), of(wants.source())),
        ];
        let fits = |eager: &&Eager| {
            let mut limits = limits.iter();
            limits.all(|(curve, limit)| {
                limit.is_none_or(|limit| eager.fullest_second(curve) <= limit)
            })
        };
        let ways = self.eager.slower();
        wants.eager = ways.iter().find(fits).or(ways.last()).copied();
        wants
    }

    /// Whether a viewer is booked by what they may fetch ahead.
    fn is_fetched(&self, wants: &Wants) -> bool {
        wants.fetches() && matches!(self.policy, Policy::Exact | Policy::Smoothed(_))
    }

    /// Bytes on the wire of the tracks that a viewer takes.
    fn wire_of(&mut self, wants: &Wants) -> Arc<Curve> {
        let tracks = match wants.tracks.as_slice() {
            [] => wants.demand.usual_tracks(),
            tracks => tracks,
        };
        self.wire(&wants.demand, tracks, wants.carriage)
    }

    /// A viewer's needs of limited resources for these film times. `link`: their interface.
    pub fn needs(&mut self, wants: &Wants, link: Option<u8>, (from, to): (Nanos, Nanos)) -> Needs {
        let wire = self.wire_of(wants);
        let wire = self.longer(wire, wants.goes_on);
        let mut range = (wire.bin_at(from), wire.bin_at(to.saturating_add(BIN - 1)));
        // The last bin holds what is due at the very end.
        let is_to_the_end = wire.bin_at(to) + 1 >= wire.len();
        // A viewer over HTTP is booked what they may fetch ahead, whether they do or not.
        let is_fetched = self.is_fetched(wants);
        let (wire, schedule) = match self.policy {
            _ if is_fetched => (self.fetched(&wire, range.0, wants.eager), None),
            policy if self.sent_ahead > 0 && !wants.fetches() => {
                let ahead = self.sent_ahead;
                let sent = shaped_from(&mut self.shaped, &wire, range.0, || {
                    policy.booked(WHOLE_NETWORK, &Arc::new(sent_evenly(&wire, range.0, ahead)))
                });
                (sent, None)
            }
            // A film's beginning is smoothed once for all; elsewhere, nothing is ahead at first.
            Policy::Smoothed(seconds) if range.0 > 0 => {
                let (curve, schedule) = smooth(&wire, range.0, seconds as usize * BINS);
                (Arc::new(curve), Some(Arc::new(schedule)))
            }
            policy => {
                let shaped = self.shaped(policy, &wire);
                (shaped.curve, shaped.schedule)
            }
        };
        let of_wire = [
            Some(WHOLE_NETWORK),
            link.map(Resource::Network),
            Some(Resource::Processor),
        ];
        let len = wire.len();
        if is_to_the_end {
            // What is sent ahead also begins ahead, and so lasts longer.
            range.1 = len;
        }
        let mut of: Vec<(Resource, Arc<Curve>)> = of_wire
            .into_iter()
            .flatten()
            .filter(|resource| self.capacity.limit(*resource).is_some())
            .map(|resource| (resource, wire.clone()))
            .collect();
        // Nothing of the file is sent before it is read: the same bins will do.
        let source = wants.source();
        if self.capacity.limit(source).is_some() {
            let read = self.longer(wants.demand.disk(), wants.goes_on);
            let read = match is_fetched {
                true => self.fetched(&read, range.0, wants.eager),
                false => self.policy.booked(source, &read),
            };
            of.push((source, read));
        }
        // The memory that HTTP pins is bounded, and set aside.
        if self.capacity.limit(Resource::Memory).is_some() && !wants.fetches() {
            let memory = match self.policy {
                Policy::Vodca => wants.demand.two_groups(),
                _ => wants.demand.memory(),
            };
            of.push((Resource::Memory, self.longer(memory, wants.goes_on)));
        }
        Needs {
            of,
            schedule,
            range,
            len,
            // The same for all who play to the end, named or not: they can follow each other.
            times: (from, if is_to_the_end { Nanos::MAX } else { to }),
            sent: (!wants.fetches()).then(|| wants.demand.clone()),
            source: Some(source),
        }
    }

    /// Bytes on the wire of these tracks.
    fn wire(&mut self, demand: &Arc<Demand>, tracks: &[usize], carriage: Carriage) -> Arc<Curve> {
        let key = Arc::as_ptr(demand) as usize;
        if !self.wires.contains_key(&key) {
            self.wires.retain(|_, wires| wires.of.strong_count() > 0);
        }
        let mut tracks = tracks.to_vec();
        tracks.sort_unstable();
        tracks.dedup();
        let wires = self.wires.entry(key).or_insert_with(|| Wires {
            of: Arc::downgrade(demand),
            curves: Vec::new(),
        });
        let is_it = |of: &&(Vec<usize>, Carriage, _)| of.0 == tracks && of.1 == carriage;
        if let Some((.., curve)) = wires.curves.iter().find(is_it) {
            return curve.clone();
        }
        let curve = Arc::new(demand.wire(&tracks, carriage));
        if wires.curves.len() >= WIRES {
            wires.drop_unused();
        }
        wires.curves.push((tracks, carriage, curve.clone()));
        curve
    }

    /// Drops everything that is not booked.
    fn forget(&mut self) {
        self.shaped.clear();
        self.fetched.clear();
        self.longer.clear();
        self.drop_unused();
        self.wires.retain(|_, wires| {
            wires.drop_unused();
            wires.of.strong_count() > 0 && !wires.curves.is_empty()
        });
    }

    fn keep(&mut self, film: F, demand: Arc<Demand>) {
        if self.demands.len() >= FILMS {
            self.drop_unused();
        }
        self.demands.insert(film, demand);
    }

    /// Drops films without viewers.
    fn drop_unused(&mut self) {
        let is_used = |demand: &Arc<Demand>| Arc::strong_count(demand) > 1;
        self.demands.retain(|_, demand| is_used(demand));
    }

    fn shaped(&mut self, policy: Policy, curve: &Arc<Curve>) -> Shaped {
        let key = Arc::as_ptr(curve) as usize;
        if let Some(shaped) = self.shaped.get(&key) {
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
        keep_shaped(&mut self.shaped, key, shaped.clone());
        shaped
    }

    /// The needs of a film that `goes_on`: beyond its end, each second is as high as the highest.
    fn longer(&mut self, curve: Arc<Curve>, goes_on: bool) -> Arc<Curve> {
        if !goes_on {
            return curve;
        }
        let beyond = (BEYOND / BIN) as usize;
        let shape = || Arc::new(curve.and_at_its_peak(beyond));
        shaped_from(&mut self.longer, &curve, 0, shape)
    }

    /// The most that is sent to a viewer who fetches a film from this bin on.
    fn fetched(&mut self, curve: &Arc<Curve>, from: usize, eager: Option<Eager>) -> Arc<Curve> {
        let eager = eager.unwrap_or(self.eager);
        let shape = || Arc::new(eager.curve(curve, from));
        match eager == self.eager {
            true => shaped_from(&mut self.fetched, curve, from, shape),
            false => own(shape()),
        }
    }
}

/// Derives a curve from this bin on; keeps it if the bin is the film's beginning.
fn shaped_from(
    kept: &mut Shapes,
    curve: &Arc<Curve>,
    from: usize,
    shape: impl FnOnce() -> Arc<Curve>,
) -> Arc<Curve> {
    let key = Arc::as_ptr(curve) as usize;
    if let Some(shaped) = kept.get(&key).filter(|_| from == 0) {
        return shaped.curve.clone();
    }
    let shape = shape();
    if from > 0 {
        return own(shape);
    }
    let shaped = Shaped {
        _of: curve.clone(),
        curve: shape.clone(),
        schedule: None,
    };
    keep_shaped(kept, key, shaped);
    shape
}

/// A curve by which one viewer alone is booked, as exact as memory allows.
pub(crate) fn own(curve: Arc<Curve>) -> Arc<Curve> {
    if is_full() {
        Arc::new(curve.coarse(SPAN))
    } else {
        curve
    }
}

fn keep_shaped(kept: &mut Shapes, key: usize, shaped: Shaped) {
    if is_full() {
        kept.retain(|_, shaped| Arc::strong_count(&shaped.curve) > 1);
    }
    if kept.len() >= SHAPED {
        kept.clear();
    }
    kept.insert(key, shaped);
}

/// Whether curves take as much memory as they may.
fn is_full() -> bool {
    memory_held() >= EXACT
}

/// A film's needs, as exact as memory allows.
pub fn fitting(demand: Demand) -> Arc<Demand> {
    Arc::new(if is_full() {
        demand.coarse(SPAN)
    } else {
        demand
    })
}

#[cfg(test)]
mod tests;
