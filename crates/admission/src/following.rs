//! Certain cache hits: a viewer who plays what another viewer played a moment before finds it in
//! memory, and needs nothing from the disks. What the viewer ahead played before the follower
//! arrived may have been evicted meanwhile: it counts as read.
//!
//! The cache policy `timetable` evicts the block whose next viewer is furthest away. So a block
//! that a viewer is going to request stays as long as all such blocks together fit the pool: the
//! blocks between each viewer and the one ahead (an interval, as in Dan and Sitaram, *Buffer
//! Management Policy for an On-Demand Video Server*, 1993), and those that each viewer is being
//! sent. This sum is kept here, and no viewer follows another beyond it. When the viewer ahead
//! leaves, pauses or seeks, the booking of the disks passes on to the followers: one of them reads,
//! as before.
//!
//! Only viewers over RTP follow others: those over HTTP request blocks when they like.

use std::sync::Arc;

use reelway_demand::{BIN, Curve};
use reelway_determinism::FixedMap;
use reelway_media::Nanos;

use crate::capacity::Resource;
use crate::change::Change;
use crate::verdict::BookingId;

/// Memory for what one viewer is sent and for read-ahead: four blocks of the usual size.
const WORKING: u64 = 1 << 20;

/// Bytes by which blocks at both ends of an interval extend beyond it.
const EDGES: u64 = 1 << 20;

/// Quarter seconds by which either of two viewers may be further into the film than calculated.
const SLACK: usize = 8;

/// The part of a film between a viewer and the one ahead, which stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    ahead: BookingId,
    bytes: u64,
    /// The bin at which the viewer ahead is; the bins before it have to be read.
    known_from: usize,
}

#[derive(Clone)]
struct Playing {
    id: BookingId,
    /// Where the film is read from, and its need for that resource.
    source: Resource,
    disk: Arc<Curve>,
    /// Clock time at which the film's beginning would have been played, in ns.
    origin: i64,
    from: Nanos,
    to: Nanos,
    interval: Option<Interval>,
}

/// Which viewers follow which. Cheap to clone: films are copied when they change.
#[derive(Clone, Default)]
pub(crate) struct Following {
    /// Size of the pool in bytes.
    pool: u64,
    /// Bytes of all intervals together.
    kept: u64,
    /// Viewers of each film, by the address of its disk curve. The curve is held, so that the
    /// address stays unique: a film that replaced another of the same name has another curve.
    films: FixedMap<usize, Arc<Vec<Playing>>>,
    viewers: u64,
}

fn key(disk: &Arc<Curve>) -> usize {
    Arc::as_ptr(disk) as usize
}

fn origin(now: u64, from: Nanos) -> i64 {
    (now as i64).saturating_sub(from)
}

/// The film's end, or `to` if that is earlier.
fn end(disk: &Arc<Curve>, to: Nanos) -> Nanos {
    to.min(disk.len() as Nanos * BIN)
}

impl Following {
    /// No viewers, and a pool of `pool` bytes.
    pub fn new(pool: u64) -> Following {
        Following {
            pool,
            ..Following::default()
        }
    }

    /// The interval of a viewer who plays these film times from `now` on, if everything they need
    /// will be in memory in time. `me`: their booking, if they already have one.
    pub fn behind(
        &self,
        me: Option<BookingId>,
        disk: &Arc<Curve>,
        now: u64,
        (from, to): (Nanos, Nanos),
    ) -> Option<Interval> {
        let (at, to) = (origin(now, from), end(disk, to));
        let ahead = self
            .films
            .get(&key(disk))?
            .iter()
            .filter(|other| Some(other.id) != me)
            .filter(|other| other.origin <= at && other.from <= from && other.to >= to)
            .max_by_key(|other| other.origin)?;
        let known_from = (now as i64).saturating_sub(ahead.origin);
        if known_from >= to {
            return None;
        }
        let gap = (at - ahead.origin) / BIN;
        let bytes = most_within(disk, gap as usize + SLACK) + EDGES;
        let fits = self.kept + bytes + (self.viewers + 1) * WORKING <= self.pool;
        fits.then_some(Interval {
            ahead: ahead.id,
            bytes,
            known_from: (known_from.max(0) / BIN) as usize + SLACK,
        })
    }

    /// Notes that a viewer plays these film times from `now` on, with this interval if they follow
    /// another viewer. Returns the viewers for whom the disks have to be booked because memory no
    /// longer suffices for all intervals.
    pub fn join(
        &mut self,
        id: BookingId,
        (source, disk): (Resource, &Arc<Curve>),
        now: u64,
        (from, to): (Nanos, Nanos),
        interval: Option<Interval>,
    ) -> Vec<Change> {
        self.viewers += 1;
        self.kept += interval.map_or(0, |interval| interval.bytes);
        let to = end(disk, to);
        let film = Arc::make_mut(self.films.entry(key(disk)).or_default());
        film.push(Playing {
            id,
            source,
            disk: disk.clone(),
            origin: origin(now, from),
            from,
            to,
            interval,
        });
        let mut reading = Vec::new();
        while self.kept + self.viewers * WORKING > self.pool {
            let Some(change) = self.give_up_widest() else {
                break;
            };
            reading.push(change);
        }
        reading
    }

    /// Makes the viewer with the widest interval follow nobody.
    fn give_up_widest(&mut self) -> Option<Change> {
        let widest = |film: &Vec<Playing>| {
            let intervals = film.iter().enumerate();
            let bytes = intervals.filter_map(|(at, one)| Some((one.interval?.bytes, at)));
            bytes.max()
        };
        let films = self.films.values_mut();
        let found = films.filter_map(|film| Some((widest(film)?, film)));
        let ((bytes, at), film) = found.max_by_key(|(widest, _)| *widest)?;
        let playing = &mut Arc::make_mut(film)[at];
        playing.interval = None;
        self.kept -= bytes;
        Some(playing.reads())
    }

    /// Notes that a viewer stops playing, or plays elsewhere. Returns the followers for whom the
    /// disks have to be booked now.
    pub fn leave(&mut self, id: BookingId) -> Vec<Change> {
        let mut reading = Vec::new();
        let (kept, viewers) = (&mut self.kept, &mut self.viewers);
        self.films.retain(|_, all| {
            let Some(at) = all.iter().position(|playing| playing.id == id) else {
                return true;
            };
            let all = Arc::make_mut(all);
            let gone = all.swap_remove(at);
            *viewers -= 1;
            *kept -= gone.interval.map_or(0, |interval| interval.bytes);
            for playing in all.iter_mut() {
                if playing
                    .interval
                    .is_some_and(|interval| interval.ahead == id)
                {
                    *kept -= playing.interval.take().map_or(0, |interval| interval.bytes);
                    reading.push(playing.reads());
                }
            }
            !all.is_empty()
        });
        reading
    }

    /// Whether nobody plays, and no interval is kept.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.films.is_empty() && (self.kept, self.viewers) == (0, 0)
    }

    /// Whether each follower follows a present viewer, and each interval is counted.
    #[cfg(test)]
    pub fn is_sound(&self) -> bool {
        let intervals = self.intervals();
        let kept = || intervals.values().flatten();
        let is_there = |interval: &Interval| intervals.contains_key(&interval.ahead);
        kept().all(is_there)
            && kept().map(|interval| interval.bytes).sum::<u64>() == self.kept
            && intervals.len() as u64 == self.viewers
    }

    /// Each viewer, with their interval.
    #[cfg(test)]
    pub fn intervals(&self) -> std::collections::BTreeMap<BookingId, Option<Interval>> {
        let all = self.films.values().flat_map(|film| film.iter());
        all.map(|playing| (playing.id, playing.interval)).collect()
    }

    /// The number of viewers who use what others have read.
    #[cfg(test)]
    pub fn followers(&self) -> usize {
        let all = self.films.values().flat_map(|film| film.iter());
        all.filter(|playing| playing.interval.is_some()).count()
    }
}

impl Interval {
    /// The part of `disk` that is read for a follower.
    pub fn read(&self, disk: &Curve) -> Curve {
        let mut bins = disk.bins();
        if let Some(known) = bins.get_mut(self.known_from..) {
            known.fill(0);
        }
        disk.like(bins)
    }
}

impl Playing {
    /// The change that books the disks for the whole film.
    fn reads(&self) -> Change {
        Change {
            id: self.id,
            resource: self.source,
            curve: self.disk.clone(),
        }
    }
}

/// The most bytes in any `count` consecutive quarter seconds.
pub(crate) fn most_within(curve: &Curve, count: usize) -> u64 {
    let bins = curve.bins();
    let count = count.min(bins.len());
    let mut sum: u64 = bins[..count].iter().map(|bin| u64::from(*bin)).sum();
    let mut most = sum;
    for (gone, come) in bins.iter().zip(&bins[count..]) {
        sum = sum + u64::from(*come) - u64::from(*gone);
        most = most.max(sum);
    }
    most
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use reelway_media::SECOND;

    use super::*;
    use crate::capacity::Capacity;
    use crate::crowd::Limits;
    use crate::judge::Admission;
    use crate::policy::Policy;
    use crate::verdict::Newcomer;

    const END: Nanos = Nanos::MAX;

    /// Ids of bookings.
    fn ids(count: usize) -> Vec<BookingId> {
        let mut judge = Admission::new(Policy::Exact, Capacity::unlimited(), Limits::default());
        let newcomer = Newcomer {
            title: "film",
            address: IpAddr::from([10, 0, 0, 1]),
            user: None,
            class: 0,
            fast: false,
            fetches: false,
            needs: &[],
            later: None,
            from: 0,
            to: 0,
        };
        let mut come = || judge.decide(0, &newcomer, 0).unwrap().id;
        (0..count).map(|_| come()).collect()
    }

    /// Ten minutes with 100 kB per second.
    fn film() -> Arc<Curve> {
        Arc::new(Curve::new(vec![25_000; 2400]))
    }

    fn second(number: i64) -> u64 {
        (1_000_000 + number) as u64 * SECOND as u64
    }

    #[test]
    fn a_viewer_a_minute_behind_reads_a_minute_and_finds_the_rest_until_the_one_ahead_leaves() {
        let (ids, disk) = (ids(3), film());
        let mut following = Following::new(64 << 20);
        let all = (0, END);
        assert_eq!(
            following.behind(None, &disk, second(0), all),
            None,
            "the first viewer"
        );
        following.join(ids[0], (Resource::Disk, &disk), second(0), all, None);
        let interval = following.behind(None, &disk, second(60), all).unwrap();
        let read = interval.read(&disk);
        assert_eq!(
            read.total(),
            62 * 100_000,
            "what was played before they came, and a little"
        );
        assert!(
            following
                .join(
                    ids[1],
                    (Resource::Disk, &disk),
                    second(60),
                    all,
                    Some(interval)
                )
                .is_empty()
        );
        // The third follows the second, who is nearer.
        let third = following.behind(None, &disk, second(90), all).unwrap();
        assert_eq!(third.ahead, ids[1]);
        assert_eq!(third.read(&disk).total(), 32 * 100_000);
        following.join(
            ids[2],
            (Resource::Disk, &disk),
            second(90),
            all,
            Some(third),
        );
        assert_eq!(following.followers(), 2);
        let left: Vec<BookingId> = following
            .leave(ids[0])
            .iter()
            .map(|change| change.id)
            .collect();
        assert_eq!(left, [ids[1]], "they read for those behind them");
        assert!(following.leave(ids[2]).is_empty());
        assert!(following.leave(ids[1]).is_empty());
        assert!(following.is_empty());
    }

    #[test]
    fn nobody_follows_a_viewer_who_is_behind_or_began_later_in_the_film_or_is_at_its_end() {
        let (ids, disk) = (ids(2), film());
        let mut following = Following::new(1 << 30);
        following.join(
            ids[0],
            (Resource::Disk, &disk),
            second(0),
            (100 * SECOND, END),
            None,
        );
        let behind = |at, from| following.behind(None, &disk, second(at), (from * SECOND, END));
        assert_eq!(behind(10, 0), None, "the beginning was read by nobody");
        assert_eq!(behind(10, 300), None, "they are ahead");
        assert!(behind(10, 105).is_some());
        assert_eq!(behind(501, 105), None, "the first is at the end");
        assert_eq!(
            following.behind(Some(ids[0]), &disk, second(10), (105 * SECOND, END)),
            None
        );
        // Another film of the same name.
        assert_eq!(
            following.behind(None, &film(), second(10), (105 * SECOND, END)),
            None
        );
    }

    #[test]
    fn beyond_what_the_pool_holds_nobody_follows_and_the_widest_interval_is_given_up_first() {
        let (ids, disk) = (ids(20), film());
        let mut following = Following::new(20 << 20);
        let all = (0, END);
        following.join(ids[0], (Resource::Disk, &disk), second(0), all, None);
        let wide = following.behind(None, &disk, second(100), all).unwrap();
        assert!(
            following
                .join(
                    ids[1],
                    (Resource::Disk, &disk),
                    second(100),
                    all,
                    Some(wide)
                )
                .is_empty()
        );
        let near = following.behind(None, &disk, second(110), all).unwrap();
        assert!(
            following
                .join(
                    ids[2],
                    (Resource::Disk, &disk),
                    second(110),
                    all,
                    Some(near)
                )
                .is_empty()
        );
        assert_eq!(
            following.behind(None, &disk, second(220), all),
            None,
            "no memory is left"
        );
        // Others watch other films, and each needs memory: the interval of 100 s is given up first.
        let mut given_up = Vec::new();
        for id in &ids[3..] {
            let other = film();
            given_up.extend(following.join(*id, (Resource::Disk, &other), second(120), all, None));
            assert!(
                following.kept + following.viewers * WORKING <= following.pool
                    || following.followers() == 0
            );
        }
        let given_up: Vec<BookingId> = given_up.iter().map(|change| change.id).collect();
        assert_eq!(given_up, [ids[1], ids[2]]);
    }

    #[test]
    fn the_pool_is_filled_to_the_last_byte() {
        let (ids, disk) = (ids(2), film());
        let all = (0, END);
        let behind = |pool| {
            let mut following = Following::new(pool);
            following.join(ids[0], (Resource::Disk, &disk), second(0), all, None);
            let interval = following.behind(None, &disk, second(60), all);
            (following, interval)
        };
        let (_, interval) = behind(1 << 30);
        let exact = interval.expect("room").bytes + 2 * WORKING;
        assert_eq!(behind(exact - 1).1, None);
        let (mut following, interval) = behind(exact);
        assert!(interval.is_some());
        let given_up = following.join(ids[1], (Resource::Disk, &disk), second(60), all, interval);
        assert!(given_up.is_empty());
    }
}
