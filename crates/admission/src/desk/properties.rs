//! Invariants under any sequence of actions: the books are those of the present viewers, nothing is
//! held for absent ones, and a refused newcomer changes nothing.
//!
//! Networks and processor are booked for each viewer alone, so the books equal those of a fresh
//! desk to the byte. The booking of a viewer who begins within half a second of the booked time
//! stays where it was. Disks and memory are booked by the order in which viewers arrived, which a
//! fresh desk does not know: for those, the calendars equal the sum of the bookings.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use reelway_demand::{Carriage, Demand};
use reelway_media::{Nanos, SECOND};
use reelway_time::Monotonic;

use crate::capacity::{Capacity, Resource, WHOLE_NETWORK};
use crate::config::{Bounds, Config};
use crate::curves::{Curves, Wants};
use crate::desk::newcomers::{Arrival, Outcome, Reservation};
use crate::desk::state::Desk;
use crate::films::demand;
use crate::verdict::BookingId;

/// The resources limited here that are booked for each viewer alone.
const ALONE: [Resource; 2] = [WHOLE_NETWORK, Resource::Processor];
const ALL: [Resource; 4] = [
    WHOLE_NETWORK,
    Resource::Processor,
    Resource::Disk,
    Resource::Memory,
];
/// Seconds ahead in which books are compared: longer than any film.
const TO_COME: u64 = 120;

/// An action. Viewers and films are chosen by a number, modulo how many there are.
#[derive(Clone, Debug)]
enum Deed {
    Reserve { who: Who, held: u64 },
    Confirm(usize),
    Release(usize),
    Admit(Who),
    Begin(usize),
    Play { viewer: usize, from: u32, ask: bool },
    Pause(usize),
    WaitAgain(usize),
    End(usize),
    Weigh(u32),
    Wait(u64),
}

/// A newcomer.
#[derive(Clone, Debug)]
struct Who {
    address: u8,
    film: usize,
    fetches: bool,
}

fn deed() -> impl Strategy<Value = Deed> {
    let who = || {
        (0u8..4, 0usize..3, prop::bool::weighted(0.2)).prop_map(|(address, film, fetches)| Who {
            address,
            film,
            fetches,
        })
    };
    let viewer = || 0usize..64;
    prop_oneof![
        3 => (who(), 0u64..8000).prop_map(|(who, held)| Deed::Reserve { who, held }),
        3 => viewer().prop_map(Deed::Confirm),
        1 => viewer().prop_map(Deed::Release),
        6 => who().prop_map(Deed::Admit),
        3 => viewer().prop_map(Deed::Begin),
        4 => (viewer(), 0u32..60, any::<bool>())
            .prop_map(|(viewer, from, ask)| Deed::Play { viewer, from, ask }),
        2 => viewer().prop_map(Deed::Pause),
        1 => viewer().prop_map(Deed::WaitAgain),
        2 => viewer().prop_map(Deed::End),
        1 => (300u32..=1000).prop_map(Deed::Weigh),
        4 => (0u64..3000).prop_map(Deed::Wait),
    ]
}

/// A viewer, as the test knows them.
#[derive(Clone, Debug)]
struct Viewer {
    who: Who,
    /// When the booked play began, and at which film time; `None` if nothing is booked.
    plays: Option<(Monotonic, Nanos)>,
    has_played: bool,
    /// Until when their place is reserved.
    reserved: Option<Monotonic>,
}

struct Model {
    films: Vec<Arc<Demand>>,
    desk: Desk,
    curves: Curves<u32>,
    now: Monotonic,
    viewers: BTreeMap<BookingId, Viewer>,
}

impl Model {
    fn new(films: &[Arc<Demand>], config: Config) -> Model {
        Model {
            films: films.to_vec(),
            curves: Curves::new(&config),
            desk: Desk::new(config),
            now: Monotonic::from_nanos(1_000 * SECOND as u64),
            viewers: BTreeMap::new(),
        }
    }

    fn wants(&self, who: &Who) -> Wants {
        Wants {
            demand: self.films[who.film].clone(),
            tracks: Vec::new(),
            carriage: match who.fetches {
                true => Carriage::Http,
                false => Carriage::UdpV4,
            },
            is_remote: false,
            goes_on: false,
            eager: None,
        }
    }

    fn reserve(&mut self, who: &Who, until: Monotonic) -> Outcome<Reservation> {
        let wants = self.wants(who);
        let needs = self.curves.needs(&wants, None, (0, Nanos::MAX));
        let arrival = Arrival {
            title: ["a", "b", "c"][who.film],
            address: IpAddr::from([10, 0, 0, who.address]),
            connection: (who.address * 2 + who.film as u8 % 2).into(),
            user: None,
            link: None,
            wants: Some(&wants),
            needs: &needs,
        };
        self.desk.reserve(self.now, &arrival, until)
    }

    /// A newcomer arrives. A refusal changes nothing.
    fn come(&mut self, who: &Who, held: Option<u64>) -> Option<BookingId> {
        let until = held.map_or(Monotonic::MAX, |ms| self.now + Duration::from_millis(ms));
        let before = self.state();
        let outcome = self.reserve(who, until);
        let Ok(reservation) = outcome.answer else {
            assert_eq!(outcome.ended, []);
            assert_eq!(self.state(), before);
            return None;
        };
        self.gone(&outcome.ended);
        let viewer = Viewer {
            who: who.clone(),
            plays: Some((self.now, 0)),
            has_played: false,
            reserved: Some(until),
        };
        self.viewers.insert(reservation.id, viewer);
        Some(reservation.id)
    }

    fn gone(&mut self, ended: &[BookingId]) {
        for id in ended {
            assert!(
                self.viewers.remove(id).is_some(),
                "a session that ends was there"
            );
        }
    }

    fn confirm(&mut self, id: BookingId) {
        assert!(self.desk.confirm(self.now, id));
        if let Some(viewer) = self.viewers.get_mut(&id) {
            viewer.reserved = None;
        }
    }

    fn play(&mut self, id: BookingId, from: Nanos, ask: bool) {
        let viewer = self.viewers[&id].clone();
        let wants = self.wants(&viewer.who);
        let needs = self.curves.needs(&wants, None, (from, Nanos::MAX));
        let before = self.state();
        let outcome = self.desk.plays(self.now, id, &needs, ask);
        if outcome.answer.is_err() {
            assert!((ask || !viewer.has_played) && outcome.ended.is_empty());
            assert_eq!(self.state(), before);
            return;
        }
        self.gone(&outcome.ended);
        // A viewer who begins at once keeps the booking from their admission.
        let as_booked = |(since, at): &(Monotonic, Nanos)| {
            let close = self.now.since(*since) < Duration::from_millis(500);
            !viewer.has_played && close && *at == from
        };
        let plays = viewer.plays.filter(as_booked).unwrap_or((self.now, from));
        let viewer = Viewer {
            plays: Some(plays),
            has_played: true,
            ..viewer
        };
        self.viewers.insert(id, viewer);
    }

    fn does(&mut self, deed: &Deed) {
        let ids: Vec<BookingId> = self.viewers.keys().copied().collect();
        let is_reserved = |id: &&BookingId| self.viewers[*id].reserved.is_some();
        let one_of = |of: Vec<BookingId>, nth: usize| (!of.is_empty()).then(|| of[nth % of.len()]);
        let reserved: Vec<BookingId> = ids.iter().filter(is_reserved).copied().collect();
        let admitted: Vec<BookingId> = ids.iter().filter(|id| !is_reserved(id)).copied().collect();
        match deed {
            Deed::Reserve { who, held } => drop(self.come(who, Some(*held))),
            Deed::Admit(who) => {
                if let Some(id) = self.come(who, None) {
                    self.confirm(id);
                }
            }
            Deed::Confirm(nth) => one_of(reserved, *nth).into_iter().for_each(|id| {
                self.confirm(id);
            }),
            Deed::Release(nth) => {
                if let Some(id) = one_of(reserved, *nth) {
                    self.desk.release(self.now, id);
                    self.gone(&[id]);
                }
            }
            Deed::Begin(nth) => {
                if let Some(id) = one_of(admitted, *nth) {
                    assert!(self.desk.begins(self.now, id));
                }
            }
            Deed::Play { viewer, from, ask } => {
                if let Some(id) = one_of(admitted, *viewer) {
                    self.play(id, Nanos::from(*from) * SECOND, *ask);
                }
            }
            Deed::Pause(nth) => {
                if let Some(id) = one_of(admitted, *nth) {
                    self.desk.rests(self.now, id);
                    self.viewers.get_mut(&id).expect("they are there").plays = None;
                }
            }
            Deed::WaitAgain(nth) => {
                if let Some(id) = one_of(admitted, *nth) {
                    self.desk.waits_again(id);
                }
            }
            Deed::End(nth) => {
                if let Some(id) = one_of(ids, *nth) {
                    self.desk.end(self.now, id);
                    self.gone(&[id]);
                }
            }
            Deed::Weigh(share) => {
                self.desk.set_measured(WHOLE_NETWORK, *share);
                let weighed = self.desk.weigh(self.now, &[]);
                self.gone(&weighed.ended);
            }
            Deed::Wait(ms) => {
                self.now += Duration::from_millis(*ms);
                self.desk.advance(self.now);
            }
        }
        let now = self.now;
        let holds = |viewer: &Viewer| viewer.reserved.is_none_or(|until| until > now);
        self.viewers.retain(|_, viewer| holds(viewer));
    }

    /// Everything that a refusal must not change.
    fn state(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let counts = (self.desk.len(), self.desk.unplayed());
        let (following, sharing) = (&self.desk.following, &self.desk.sharing);
        let beside = (following.intervals(), sharing.neighbours());
        (self.loads(), counts, beside)
    }

    fn loads(&self) -> Vec<Vec<u64>> {
        ALL.iter().map(|resource| self.load(*resource)).collect()
    }

    fn load(&self, resource: Resource) -> Vec<u64> {
        let now = self.now.nanos() / SECOND as u64;
        let load = |second| self.desk.books().load(resource, second);
        (now..now + TO_COME).map(load).collect()
    }

    /// Checks that the books are those of the present viewers.
    fn check(&mut self) {
        self.desk.advance(self.now);
        assert_eq!(self.desk.len(), self.viewers.len());
        assert_eq!(self.desk.books().viewers(), self.viewers.len());
        self.desk.books().audit();
        assert!(self.desk.following.is_sound() && self.desk.sharing.is_sound());
        let mut fresh = self.fresh();
        fresh.desk.advance(self.now);
        fresh.now = self.now;
        for resource in ALONE {
            assert_eq!(self.load(resource), fresh.load(resource), "{resource}");
        }
    }

    /// A desk with room for all, to which only the present viewers come.
    fn fresh(&self) -> Model {
        let capacity = ALONE.iter().fold(Capacity::unlimited(), |all, of| {
            all.with(*of, 1 << 40, 1000)
        });
        let config = Config {
            capacity,
            ..Config::default()
        };
        let mut fresh = Model::new(&self.films, config);
        let mut survivors: Vec<(Monotonic, Nanos, Who)> = self
            .viewers
            .values()
            .filter_map(|viewer| Some((viewer.plays?, viewer.who.clone())))
            .map(|((since, from), who)| (since, from, who))
            .collect();
        survivors.sort_by_key(|(since, ..)| *since);
        for (since, from, who) in survivors {
            fresh.now = since;
            let id = fresh.come(&who, None).expect("there is room");
            fresh.confirm(id);
            if from > 0 {
                fresh.play(id, from, false);
            }
        }
        fresh
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]
    #[test]
    fn the_books_are_those_of_the_viewers_who_are_there(
        films in prop::collection::vec(prop::collection::vec(10_000u32..400_000, 5..80), 3),
        deeds in prop::collection::vec(deed(), 1..80),
        (net, disk, memory, pool) in (500_000u64..3_000_000, 400_000u64..2_000_000, 4u64..40, 4u64..64),
        ask_again in any::<bool>(),
        is_bounded in any::<bool>(),
    ) {
        let films: Vec<Arc<Demand>> = films.iter().map(|bytes| demand(1000, bytes)).collect();
        let capacity = Capacity::unlimited()
            .with(WHOLE_NETWORK, net, 1000)
            .with(Resource::Processor, net * 2, 1000)
            .with(Resource::Disk, disk, 1000)
            .with(Resource::Memory, memory << 18, 1000);
        let mut model = Model::new(&films, Config {
            capacity,
            ask_again,
            pool: pool << 20,
            ..Config::default()
        });
        if is_bounded {
            model.desk.set_bounds(Bounds {
                sessions: 12,
                per_address: 6,
                unplayed_per_address: 4,
                unplayed_per_connection: 2,
            });
        }
        for deed in &deeds {
            model.does(deed);
            model.check();
        }
        // When all have left, nothing is held any more.
        let ids: Vec<BookingId> = model.viewers.keys().copied().collect();
        for id in ids {
            model.desk.end(model.now, id);
        }
        model.viewers.clear();
        model.check();
        prop_assert!(model.desk.holds_nothing());
        prop_assert!(model.loads().iter().flatten().all(|load| *load == 0));
    }
}
