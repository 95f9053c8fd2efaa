//! Sessions that have not asked for media yet. Their number is bounded for each address and
//! connection, and they are the first to end when room is short.
//!
//! An attacker can create thousands of them for nothing, while honest newcomers have one each, for
//! the moment between SETUP and PLAY or between the playlist and the first segment. So the session
//! to end is chosen by how many its address has: first from addresses that have many (or had many
//! recently that never played), among those from the connection with the most, the oldest first. If
//! no address has many, only sessions end that have waited for longer than a player takes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use reelway_time::Monotonic;

use crate::crowd::household;

/// How long a newcomer is safe, unless the address or the connection has many: a player takes three
/// or four round trips.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// Unplayed sessions that an address may have without standing out: a household whose viewers press
/// play at the same time.
const HOUSEHOLD: usize = 4;
/// Unplayed sessions that a connection may have without standing out: players use two when they change to TCP.
const PLAYER: usize = 2;
/// Half-life of the count of sessions that ended unplayed.
const HALF: Duration = Duration::from_secs(30);
/// Maximum number of addresses that are remembered only for unplayed sessions that they had.
const MOST_REMEMBERED: usize = 4096;

/// The owner of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// The address; for IPv6 its /64, as that is what a subscriber has (RFC 6177).
    pub home: IpAddr,
    /// The connection's number.
    pub connection: u64,
}

impl Owner {
    pub fn new(address: IpAddr, connection: u64) -> Owner {
        let home = household(address);
        Owner { home, connection }
    }
}

/// On whose behalf sessions may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A newcomer.
    Newcomer,
    /// A viewer who asks for media, and has priority over all who have not done so.
    Player,
}

/// Number of an unplayed session; increases with each newcomer.
pub(crate) type Seat = u64;

/// Sessions that have not asked for media yet.
pub(crate) struct Unplayed<T> {
    next: Seat,
    by_age: BTreeMap<Seat, Waiting<T>>,
    homes: BTreeMap<IpAddr, Home>,
}

struct Waiting<T> {
    owner: Owner,
    since: Monotonic,
    /// Time until which it does not end, unless an address stands out.
    safe_until: Monotonic,
    of: T,
}

#[derive(Default)]
struct Home {
    present: usize,
    by_connection: BTreeMap<u64, VecDeque<Seat>>,
    /// Count of sessions that ended unplayed, as it was at `wasted_at`.
    wasted: f64,
    wasted_at: Option<Monotonic>,
}

impl Home {
    fn wasted(&self, now: Monotonic) -> f64 {
        let since = self.wasted_at.map_or(Duration::ZERO, |at| now.since(at));
        self.wasted * (-since.as_secs_f64() / HALF.as_secs_f64()).exp2()
    }

    /// How much the address stands out with `more` sessions than it has; 0 if it does not.
    fn rank(&self, now: Monotonic, more: usize) -> usize {
        (self.present + more).saturating_sub(HOUSEHOLD) + self.wasted(now).round() as usize
    }

    fn of_connection(&self, connection: u64) -> usize {
        self.by_connection.get(&connection).map_or(0, VecDeque::len)
    }

    /// The sessions that connections have beyond `rank`, in the order in which they end: from the
    /// connection that has the most at that point, the oldest first.
    fn heaviest_first(&self, rank: usize) -> Vec<Seat> {
        let mut seats: Vec<(Reverse<usize>, Seat)> = Vec::new();
        for of_one in self.by_connection.values() {
            let weights = (1..=of_one.len()).rev().map(Reverse);
            let heavy = weights.zip(of_one.iter().copied());
            seats.extend(heavy.take_while(|(weight, _)| weight.0 > rank));
        }
        seats.sort_unstable();
        seats.into_iter().map(|(_, seat)| seat).collect()
    }
}

impl<T> Default for Unplayed<T> {
    fn default() -> Unplayed<T> {
        Unplayed {
            next: 0,
            by_age: BTreeMap::new(),
            homes: BTreeMap::new(),
        }
    }
}

impl<T: Clone> Unplayed<T> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// The number of unplayed sessions.
    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Adds a session that has to wait for `wait` until it can play.
    pub fn enter(&mut self, owner: Owner, since: Monotonic, wait: Duration, of: T) -> Seat {
        self.next += 1;
        let seat = self.next;
        let waiting = Waiting {
            owner,
            since,
            safe_until: since + wait + GRACE,
            of,
        };
        self.by_age.insert(seat, waiting);
        let home = self.homes.entry(owner.home).or_default();
        home.present += 1;
        let of_one = home.by_connection.entry(owner.connection).or_default();
        of_one.push_back(seat);
        seat
    }

    /// Removes a session that has asked for media, or has `wasted` its place. `None` if it was
    /// removed before.
    pub fn leave(&mut self, seat: Seat, now: Monotonic, wasted: bool) -> Option<T> {
        let Waiting { owner, of, .. } = self.by_age.remove(&seat)?;
        if let Some(home) = self.homes.get_mut(&owner.home) {
            home.present -= 1;
            if let Some(of_one) = home.by_connection.get_mut(&owner.connection) {
                of_one.retain(|other| *other != seat);
                if of_one.is_empty() {
                    home.by_connection.remove(&owner.connection);
                }
            }
            if wasted {
                home.wasted = home.wasted(now) + 1.0;
                home.wasted_at = Some(now);
            }
            if home.present == 0 && home.wasted(now) < 0.5 {
                self.homes.remove(&owner.home);
            }
        }
        if self.homes.len() > self.by_age.len() + MOST_REMEMBERED {
            // Addresses that wasted at most one are forgotten first.
            self.homes
                .retain(|_, home| home.present > 0 || home.wasted(now) > 1.5);
            if self.homes.len() > self.by_age.len() + MOST_REMEMBERED {
                self.homes.retain(|_, home| home.present > 0);
            }
        }
        Some(of)
    }

    /// The number of sessions of an address and of a connection.
    pub fn of(&self, owner: Owner) -> (usize, usize) {
        let home = self.homes.get(&owner.home);
        home.map_or((0, 0), |home| {
            (home.present, home.of_connection(owner.connection))
        })
    }

    /// The oldest session of a connection.
    pub fn oldest_of(&self, owner: Owner) -> Option<T> {
        let home = self.homes.get(&owner.home)?;
        let of_one = home.by_connection.get(&owner.connection)?;
        of_one.front().map(|seat| self.by_age[seat].of.clone())
    }

    /// The session of the newcomer's own address that may end for them.
    pub fn of_home(&self, owner: Owner, now: Monotonic) -> Option<T> {
        let home = self.homes.get(&owner.home)?;
        let own = home.of_connection(owner.connection) + 1;
        let heavy = home.heaviest_first(own.max(PLAYER)).first().copied();
        let oldest = home.by_connection.values().filter_map(VecDeque::front);
        let stale = |seat: &Seat| now >= self.by_age[seat].safe_until;
        let seat = heavy.or_else(|| oldest.min().copied().filter(stale))?;
        Some(self.by_age[&seat].of.clone())
    }

    /// The sessions that may end for a newcomer, the first one first: at most `most`, and only
    /// those that `wanted` accepts.
    pub fn candidates(
        &self,
        owner: Owner,
        now: Monotonic,
        claim: Claim,
        most: usize,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Vec<T> {
        let mut picked: Vec<(Seat, T)> = Vec::new();
        let own = self.homes.get(&owner.home);
        let own_rank = own.map_or(0, |home| home.rank(now, 1));
        let own_connection = own.map_or(0, |home| home.of_connection(owner.connection)) + 1;
        let mut heavy: Vec<(usize, IpAddr)> = self
            .homes
            .iter()
            .filter(|(_, home)| home.present > 0)
            .map(|(address, home)| (home.rank(now, 0), *address))
            .filter(|(rank, address)| *rank > own_rank || *address == owner.home)
            .collect();
        heavy.sort_unstable_by_key(|(rank, _)| Reverse(*rank));
        let heavy = heavy.into_iter().flat_map(|(_, address)| {
            let least = match address == owner.home {
                true => own_connection.max(PLAYER),
                false => 0,
            };
            self.homes[&address].heaviest_first(least)
        });
        let is_player = claim == Claim::Player;
        let stale = self
            .by_age
            .iter()
            .take_while(|(_, waiting)| is_player || now.since(waiting.since) >= GRACE)
            .filter(|(_, waiting)| is_player || now >= waiting.safe_until);
        // A connection may replace a session that it had before.
        let own = own.and_then(|home| home.by_connection.get(&owner.connection));
        let own = own.into_iter().flatten().copied();
        for seat in heavy.chain(stale.map(|(seat, _)| *seat)).chain(own) {
            if picked.len() >= most {
                break;
            }
            let of = &self.by_age[&seat].of;
            if !picked.iter().any(|(other, _)| *other == seat) && wanted(of) {
                picked.push((seat, of.clone()));
            }
        }
        picked.into_iter().map(|(_, of)| of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

    fn owner(address: u8, connection: u64) -> Owner {
        Owner::new(IpAddr::from([10, 0, 0, address]), connection)
    }

    fn first(unplayed: &Unplayed<u32>, newcomer: Owner, now: Monotonic) -> Option<u32> {
        let picked = unplayed.candidates(newcomer, now, Claim::Newcomer, 1, |_| true);
        picked.first().copied()
    }

    #[test]
    fn the_address_that_has_many_makes_room_and_its_own_newcomers_push_out_nobody_else() {
        let mut unplayed = Unplayed::default();
        unplayed.enter(owner(2, 1), NOW, Duration::ZERO, 1);
        for number in 100..120 {
            unplayed.enter(owner(1, 7), NOW, Duration::ZERO, number);
        }
        assert_eq!(first(&unplayed, owner(3, 9), NOW), Some(100), "honest");
        assert_eq!(
            first(&unplayed, owner(1, 7), NOW),
            Some(100),
            "the same connection"
        );
        assert_eq!(
            first(&unplayed, owner(1, 8), NOW),
            Some(100),
            "its neighbour"
        );
        let all = unplayed.candidates(owner(3, 9), NOW, Claim::Newcomer, 99, |_| true);
        assert_eq!(all.len(), 20, "the honest one between SETUP and PLAY stays");
    }

    #[test]
    fn of_an_address_the_connection_with_the_most_goes_first_and_the_oldest_of_it() {
        let mut unplayed = Unplayed::default();
        for (connection, number) in [
            (1, 10),
            (2, 20),
            (2, 21),
            (2, 22),
            (3, 30),
            (2, 23),
            (1, 11),
        ] {
            unplayed.enter(owner(1, connection), NOW, Duration::ZERO, number);
        }
        for number in 40..43u32 {
            unplayed.enter(owner(1, u64::from(number)), NOW, Duration::ZERO, number);
        }
        let order = unplayed.candidates(owner(9, 9), NOW, Claim::Newcomer, 5, |_| true);
        assert_eq!(order, [20, 21, 10, 22, 30]);
    }

    #[test]
    fn where_nobody_has_many_only_those_go_who_waited_longer_than_a_player_takes() {
        let mut unplayed = Unplayed::default();
        for address in 1..30 {
            unplayed.enter(owner(address, 1), NOW, Duration::ZERO, address.into());
        }
        assert_eq!(first(&unplayed, owner(99, 1), NOW), None);
        assert_eq!(first(&unplayed, owner(99, 1), NOW + GRACE), Some(1));
        let mut waits = Unplayed::default();
        waits.enter(owner(1, 1), NOW, GRACE, 1);
        assert_eq!(
            first(&waits, owner(99, 1), NOW + GRACE),
            None,
            "their turn comes"
        );
        assert_eq!(first(&waits, owner(99, 1), NOW + 2 * GRACE), Some(1));
        let of_player = unplayed.candidates(owner(99, 1), NOW, Claim::Player, 2, |of| *of > 5);
        assert_eq!(of_player, [6, 7]);
    }

    #[test]
    fn an_address_that_comes_again_and_again_is_known_by_what_it_wasted_and_that_is_forgotten() {
        let mut unplayed = Unplayed::default();
        for _ in 0..40 {
            let seat = unplayed.enter(owner(1, 1), NOW, Duration::ZERO, 1);
            unplayed.leave(seat, NOW, true);
        }
        unplayed.enter(owner(1, 1), NOW, Duration::ZERO, 1);
        assert_eq!(first(&unplayed, owner(2, 1), NOW), Some(1));
        let later = NOW + 10 * HALF;
        assert_eq!(unplayed.homes[&owner(1, 1).home].rank(later, 0), 0);
        for _ in 0..40 {
            let seat = unplayed.enter(owner(3, 1), NOW, Duration::ZERO, 3);
            unplayed.leave(seat, NOW, false);
        }
        unplayed.enter(owner(3, 1), NOW, Duration::ZERO, 3);
        let picked = unplayed.candidates(owner(2, 1), NOW, Claim::Newcomer, 9, |of| *of == 3);
        assert!(picked.is_empty(), "those who played wasted nothing");
    }

    #[test]
    fn what_a_million_addresses_wasted_takes_bounded_memory() {
        let mut unplayed = Unplayed::default();
        for number in 0..1_000_000u32 {
            let address = IpAddr::from(std::net::Ipv4Addr::from_bits(number));
            let seat = unplayed.enter(Owner::new(address, 1), NOW, Duration::ZERO, ());
            unplayed.leave(seat, NOW, true);
        }
        assert!(unplayed.homes.len() <= MOST_REMEMBERED + 1);
        assert!(unplayed.is_empty());
    }

    #[test]
    fn who_left_is_no_candidate_and_a_place_is_left_once() {
        let mut unplayed = Unplayed::default();
        let seat = unplayed.enter(owner(1, 1), NOW, Duration::ZERO, 5);
        assert_eq!(unplayed.of(owner(1, 1)), (1, 1));
        assert_eq!(unplayed.leave(seat, NOW, false), Some(5));
        assert_eq!(unplayed.leave(seat, NOW, false), None);
        assert_eq!(unplayed.of(owner(1, 1)), (0, 0));
        assert!(unplayed.homes.is_empty());
        assert_eq!(first(&unplayed, owner(2, 1), NOW + GRACE), None);
    }

    #[test]
    fn of_the_newcomer_s_own_address_a_connection_with_more_than_a_player_goes_or_one_who_waited_long()
     {
        let mut unplayed = Unplayed::default();
        unplayed.enter(owner(1, 1), NOW, Duration::ZERO, 10);
        unplayed.enter(owner(1, 1), NOW, Duration::ZERO, 11);
        assert_eq!(unplayed.of_home(owner(2, 1), NOW), None, "nobody is there");
        assert_eq!(unplayed.of_home(owner(1, 2), NOW), None, "a player has two");
        assert_eq!(unplayed.of_home(owner(1, 2), NOW + GRACE), Some(10));
        unplayed.enter(owner(1, 1), NOW, Duration::ZERO, 12);
        assert_eq!(
            unplayed.of_home(owner(1, 2), NOW),
            Some(10),
            "three are more"
        );
        assert_eq!(
            unplayed.of_home(owner(1, 1), NOW),
            None,
            "its own are not more"
        );
    }
}
