//! Blocks that viewers of the same film share. A viewer holds the blocks of what they are being
//! sent and of what comes next; a viewer who plays a moment behind or ahead of another holds the
//! same blocks, except for what lies between the two. So the first viewer's whole need is booked,
//! and for each later viewer no more than the bytes to the nearest viewer of the film. Viewers who
//! are near each other hold one contiguous part of the film, and the sum of the distances is never
//! less than that part.
//!
//! Five hundred viewers of a premiere who arrive within a minute are booked a minute of the film;
//! the same number of viewers at separate places are booked what each of them holds.
//!
//! Only viewers over RTP share blocks: what HTTP may pin is set aside as a whole.

use std::sync::Arc;

use reelway_demand::{BIN, Curve, Demand};
use reelway_determinism::FixedMap;
use reelway_media::Nanos;

use crate::capacity::Resource;
use crate::change::Change;
use crate::following::most_within;
use crate::verdict::BookingId;

/// Quarter seconds over which a film's densest rate is measured; shorter distances between viewers
/// are calculated from it.
const DENSE: usize = 8;

/// A nearby viewer, and the bytes of the film that lie between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Near {
    to: BookingId,
    bytes: u64,
}

#[derive(Clone)]
struct Playing {
    id: BookingId,
    /// Increases with each viewer who joins.
    number: u64,
    /// Clock time at which the film's beginning would have been played, in ns.
    origin: i64,
    to: Nanos,
    near: Option<Near>,
}

#[derive(Clone)]
struct Film {
    demand: Arc<Demand>,
    /// The most bytes in [`DENSE`] quarter seconds, in twice as many, and so on, as far as they
    /// were needed.
    densest: Vec<u64>,
    viewers: Vec<Playing>,
}

/// Which viewers share blocks with which. Cheap to clone: films are copied when they change.
#[derive(Clone, Default)]
pub(crate) struct Sharing {
    /// By the address of the film's needs, which are held, so that it stays unique.
    films: FixedMap<usize, Arc<Film>>,
    /// How many times viewers have joined.
    joined: u64,
}

fn key(demand: &Arc<Demand>) -> usize {
    Arc::as_ptr(demand) as usize
}

fn origin(now: u64, from: Nanos) -> i64 {
    (now as i64).saturating_sub(from)
}

impl Near {
    /// What a viewer holds beside the blocks of the nearby viewer. `alone`: what they would hold
    /// without that viewer.
    pub fn holds(&self, alone: &Arc<Curve>) -> Arc<Curve> {
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        match bytes < alone.peak() {
            true => Arc::new(alone.flattened(bytes)),
            false => alone.clone(),
        }
    }
}

/// What a viewer of a film holds beside the blocks of the nearby viewer, if there is one.
pub(crate) fn held_beside(demand: &Demand, near: Option<&Near>) -> Arc<Curve> {
    let alone = demand.memory();
    near.map_or_else(|| alone.clone(), |near| near.holds(&alone))
}

impl Film {
    fn new(demand: &Arc<Demand>) -> Film {
        Film {
            demand: demand.clone(),
            densest: Vec::new(),
            viewers: Vec::new(),
        }
    }

    /// The most bytes between two places of the film that are `gap` ns apart: the sum over runs
    /// whose lengths are powers of two and make up the gap.
    fn between(&mut self, gap: u64) -> u64 {
        const RUN: u64 = DENSE as u64 * BIN as u64;
        let disk = self.demand.disk();
        let (mut bytes, mut runs, mut power) = (0u64, gap / RUN, 0);
        let mut most = |power: usize| {
            while self.densest.len() <= power {
                let run = DENSE << self.densest.len();
                self.densest.push(most_within(&disk, run));
            }
            self.densest[power]
        };
        let rest = u128::from(most(0)) * u128::from(gap % RUN) / u128::from(RUN);
        while runs > 0 && DENSE << power < disk.len() {
            if runs & 1 == 1 {
                bytes = bytes.saturating_add(most(power));
            }
            runs >>= 1;
            power += 1;
        }
        // The rest of the gap is longer than the film.
        if runs > 0 {
            return disk.total();
        }
        bytes.saturating_add(rest as u64).min(disk.total())
    }

    /// The nearest to a viewer whose film began at `at` and who plays up to `to`, among those whom
    /// `may_be` accepts and whose range does not end earlier: when it ends, no more of the film is
    /// left than lies between the two.
    fn nearest(
        &mut self,
        (at, to): (i64, Nanos),
        now: u64,
        may_be: impl Fn(&Playing) -> bool,
    ) -> Option<Near> {
        let others = self.viewers.iter().filter(|other| {
            let plays = (now as i64).saturating_sub(other.origin) < other.to;
            plays && other.to >= to && may_be(other)
        });
        let gap = |other: &Playing| other.origin.abs_diff(at);
        let nearest = others.min_by_key(|other| (gap(other), other.number))?;
        let (to, gap) = (nearest.id, gap(nearest));
        let bytes = self.between(gap);
        Some(Near { to, bytes })
    }
}

impl Sharing {
    /// The nearest viewer to one who plays these film times from `now` on. `me`: their booking, if
    /// they have one.
    pub fn near(
        &mut self,
        me: Option<BookingId>,
        demand: Option<&Arc<Demand>>,
        now: u64,
        (from, to): (Nanos, Nanos),
    ) -> Option<Near> {
        let film = Arc::make_mut(self.films.get_mut(&key(demand?))?);
        let (at, to) = (origin(now, from), end(&film.demand, to));
        film.nearest((at, to), now, |other| Some(other.id) != me)
    }

    /// Notes that a viewer plays these film times from `now` on, near another viewer or not.
    pub fn join(
        &mut self,
        id: BookingId,
        demand: &Arc<Demand>,
        now: u64,
        (from, to): (Nanos, Nanos),
        near: Option<Near>,
    ) {
        let film = self
            .films
            .entry(key(demand))
            .or_insert_with(|| Arc::new(Film::new(demand)));
        let film = Arc::make_mut(film);
        self.joined += 1;
        film.viewers.push(Playing {
            id,
            number: self.joined,
            origin: origin(now, from),
            to: end(demand, to),
            near,
        });
    }

    /// Notes that a viewer stops playing, or plays elsewhere. Viewers who were booked by the
    /// distance to them are booked by the distance to the nearest of those who joined before, or
    /// alone if there is none.
    pub fn leave(&mut self, id: BookingId, now: u64) -> Vec<Change> {
        let mut moved = Vec::new();
        self.films.retain(|_, film| {
            let Some(at) = film.viewers.iter().position(|one| one.id == id) else {
                return true;
            };
            let film = Arc::make_mut(film);
            film.viewers.swap_remove(at);
            let demand = film.demand.clone();
            for number in 0..film.viewers.len() {
                let one = &film.viewers[number];
                if one.near.is_none_or(|near| near.to != id) {
                    continue;
                }
                // Viewers refer only to viewers who joined earlier, so references never form a
                // circle.
                let (id, place, joined) = (one.id, (one.origin, one.to), one.number);
                let near = film.nearest(place, now, |other| other.number < joined);
                moved.push(Change {
                    id,
                    resource: Resource::Memory,
                    curve: held_beside(&demand, near.as_ref()),
                });
                film.viewers[number].near = near;
            }
            !film.viewers.is_empty()
        });
        moved
    }

    /// Whether each nearby viewer is present.
    #[cfg(test)]
    pub fn is_sound(&self) -> bool {
        let neighbours = self.neighbours();
        let is_there = |near: &Near| neighbours.contains_key(&near.to);
        neighbours.values().flatten().all(is_there)
    }

    /// Each viewer, with the nearby viewer.
    #[cfg(test)]
    pub fn neighbours(&self) -> std::collections::BTreeMap<BookingId, Option<Near>> {
        let all = self.films.values().flat_map(|film| film.viewers.iter());
        all.map(|playing| (playing.id, playing.near)).collect()
    }

    /// Whether nobody plays.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.films.is_empty()
    }
}

/// The film's end, or `to` if that is earlier.
fn end(demand: &Arc<Demand>, to: Nanos) -> Nanos {
    let bins = to.saturating_add(BIN - 1) / BIN;
    bins.min(demand.memory().len() as Nanos) * BIN
}

#[cfg(test)]
mod tests {
    use reelway_media::SECOND;

    use super::*;
    use crate::capacity::Capacity;
    use crate::crowd::Limits;
    use crate::films::demand;
    use crate::judge::Admission;
    use crate::policy::Policy;
    use crate::verdict::Newcomer;

    const BLOCK: u64 = 256 << 10;

    /// Ten minutes with half a block per half second: 256 KiB per second.
    fn film() -> Arc<Demand> {
        demand(500, &[BLOCK as u32 / 2; 1200])
    }

    fn second(number: f64) -> u64 {
        ((1_000.0 + number) * SECOND as f64) as u64
    }

    /// Admits viewers as the desk does, with memory for a number of blocks.
    struct Door {
        judge: Admission,
        sharing: Sharing,
    }

    impl Door {
        fn new(blocks: u64) -> Door {
            let capacity = Capacity::unlimited().with(Resource::Memory, blocks * BLOCK, 1000);
            Door {
                judge: Admission::new(Policy::Exact, capacity, Limits::default()),
                sharing: Sharing::default(),
            }
        }

        fn come(&mut self, demand: &Arc<Demand>, at: f64, from: Nanos) -> Option<BookingId> {
            let (now, range) = (second(at), (from, Nanos::MAX));
            let near = self.sharing.near(None, Some(demand), now, range);
            let alone = demand.memory();
            let holds = near.map_or_else(|| alone.clone(), |near| near.holds(&alone));
            let newcomer = Newcomer {
                title: "film",
                address: [10, 0, 0, 1].into(),
                user: None,
                class: 0,
                fast: false,
                fetches: false,
                needs: &[(Resource::Memory, holds)],
                later: None,
                from: alone.bin_at(from),
                to: alone.len(),
            };
            let id = self.judge.decide(now, &newcomer, 0).ok()?.id;
            self.sharing.join(id, demand, now, range, near);
            Some(id)
        }

        fn go(&mut self, id: BookingId, at: f64) {
            let now = second(at);
            self.judge.end(now, id);
            let moved = self.sharing.leave(id, now);
            for change in moved {
                let Change {
                    id,
                    resource,
                    curve,
                } = change;
                self.judge.change(now, id, resource, &curve);
            }
        }

        fn booked(&self, at: f64) -> u64 {
            self.judge
                .load(Resource::Memory, second(at) / SECOND as u64)
        }
    }

    #[test]
    fn a_premiere_is_booked_as_one_run_of_the_film_and_places_of_ones_own_each() {
        let film = film();
        let mut door = Door::new(36);
        for number in 0..200 {
            let came = door.come(&film, f64::from(number) * 0.01, 0);
            assert!(came.is_some(), "viewer {number} of a premiere");
        }
        // Two seconds between the first and the last viewer, and what the last one holds.
        let blocks = door.booked(10.0).div_ceil(BLOCK);
        assert!((3..=6).contains(&blocks), "{blocks} blocks");

        let mut door = Door::new(36);
        let let_in = (0..45)
            .filter(|number| {
                door.come(&film, 0.0, i64::from(*number) * 10 * SECOND)
                    .is_some()
            })
            .count();
        assert!(
            (15..=24).contains(&let_in),
            "{let_in} of 45 at places of their own"
        );
        assert!(door.booked(5.0) <= 36 * BLOCK);
    }

    #[test]
    fn whoever_leaves_leaves_enough_booked_for_those_who_stay_and_nothing_when_all_are_gone() {
        let film = film();
        let mut door = Door::new(100);
        let mut come = |at, from| door.come(&film, at, from).unwrap();
        // Two at the same moment, one half a second behind, one ahead, one far away.
        let ids = [
            come(0.0, 10 * SECOND),
            come(0.0, 10 * SECOND),
            come(0.5, 10 * SECOND),
            come(0.5, 11 * SECOND),
            come(20.0, 0),
        ];
        let alone = film.memory();
        let (peak, least) = (u64::from(alone.peak()), u64::from(alone.least()));
        let together = door.booked(30.0);
        assert!(together <= 2 * peak + 5 * BLOCK / 4, "{together}");
        // The viewer to whom the others refer leaves first, and the rest refer to another.
        for (nth, id) in ids.into_iter().enumerate() {
            door.go(id, 31.0 + nth as f64);
            let booked = door.booked(40.0 + nth as f64);
            let places = match nth {
                0..=2 => 2,
                3 => 1,
                _ => 0,
            };
            assert!(
                (places * least..=together).contains(&booked),
                "{booked} after {nth}"
            );
        }
        assert!(door.sharing.is_empty());
    }

    #[test]
    fn viewers_who_come_and_go_all_the_time_are_booked_as_the_few_who_stay() {
        let film = film();
        let mut door = Door::new(36);
        let mut there = std::collections::VecDeque::new();
        // A hundred per second: three of four leave a moment later, the others after two seconds.
        for number in 0..1000 {
            let at = f64::from(number) * 0.01;
            let id = door.come(&film, at, 0).expect("room");
            there.push_back((at + if number % 4 == 0 { 2.0 } else { 0.05 }, id));
            let gone: Vec<_> = there
                .iter()
                .filter(|(end, _)| *end <= at)
                .copied()
                .collect();
            there.retain(|(end, _)| *end > at);
            gone.into_iter().for_each(|(_, id)| door.go(id, at));
        }
        let blocks = door.booked(10.0).div_ceil(BLOCK);
        assert!(
            (3..=8).contains(&blocks),
            "{blocks} blocks for two seconds of the film"
        );
    }

    #[test]
    fn what_lies_between_two_viewers_is_no_more_than_the_film() {
        let demand = film();
        let mut film = Film::new(&demand);
        let between = [1, 2, 10, 100, 3600].map(|seconds| film.between(seconds * SECOND as u64));
        assert_eq!(between, [1, 2, 10, 100, 600].map(|blocks| blocks * BLOCK));
    }

    #[test]
    fn viewers_at_all_places_of_a_film_hold_no_more_than_the_film() {
        let film = film();
        let mut door = Door::new(700);
        for number in 0..1000 {
            let from = i64::from(number * 7 % 300) * SECOND;
            assert!(door.come(&film, 0.0, from).is_some(), "viewer {number}");
        }
        let blocks = door.booked(10.0).div_ceil(BLOCK);
        // At the places where the first ones began, each of them is booked alone.
        assert!((300..=450).contains(&blocks), "{blocks} blocks for 300 s");
    }

    #[test]
    fn a_film_that_ends_before_ones_own_end_is_nobody_to_share_with() {
        let film = film();
        let mut sharing = Sharing::default();
        let mut door = Door::new(100);
        let first = door.come(&film, 0.0, 0).unwrap();
        sharing.join(first, &film, second(0.0), (0, 60 * SECOND), None);
        let mut near = |at, to| sharing.near(None, Some(&film), second(at), (0, to));
        assert!(near(1.0, 60 * SECOND).is_some());
        assert!(near(1.0, Nanos::MAX).is_none());
        assert!(
            near(61.0, 60 * SECOND).is_none(),
            "the first one is at the end"
        );
        let behind = near(-1.0, 60 * SECOND).map(|near| near.bytes);
        assert_eq!(behind, Some(BLOCK), "a second is a block");
    }
}
