//! Downloads: they share the capacity that viewers have not booked, after everything else.
//!
//! A file being fetched belongs to a viewer: its film's rate is booked for it, and it always gets
//! that. What it is sent beyond that comes from currently unbooked capacity, shared evenly among
//! all downloads. If nothing on the way to a viewer is limited, there is nothing to share: the
//! download goes as fast as TCP allows.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use reelway_time::Monotonic;

use crate::pace::Beyond;
use crate::wire::{WIRE, on_wire};

/// A burst may be at most this fraction of one second's capacity: 1/32, which is 31 ms. The rest is
/// given out evenly, so that no second ever gets more than its capacity.
const AT_ONCE: u64 = 32;
/// Interval at which the unbooked capacity is looked up again: downloads make room for a viewer
/// within this time.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait before a download asks again: the capacity may have grown.
const AGAIN: Duration = Duration::from_millis(250);
/// Maximum number of downloads in the queue; others ask again later.
const LINE: usize = 1024;
/// Smallest piece worth sending on its own, in bytes.
const LEAST: u64 = 4096;

/// The unbooked capacity of one resource.
#[derive(Debug)]
struct Spare {
    /// Unbooked bytes per second.
    rest: u64,
    /// What may be sent now, in bytes times nanoseconds per second.
    level: u128,
    at: Monotonic,
    /// Waiting downloads and the bytes each wants, first come, first served.
    line: VecDeque<(u64, u64)>,
    /// Downloads that took something recently.
    takers: BTreeMap<u64, Monotonic>,
}

const SECOND: u128 = 1_000_000_000;

impl Spare {
    fn new(now: Monotonic) -> Spare {
        Spare {
            rest: 0,
            level: 0,
            at: now,
            line: VecDeque::new(),
            takers: BTreeMap::new(),
        }
    }

    /// Returns the largest burst in bytes.
    fn at_once(&self) -> u64 {
        self.rest / AT_ONCE
    }

    /// Returns the bytes per second that are given out evenly.
    fn given(&self) -> u64 {
        self.rest - self.at_once()
    }

    fn advance(&mut self, now: Monotonic) {
        let passed = now.since(self.at).as_nanos();
        self.at = self.at.max(now);
        let brim = u128::from(self.at_once()) * SECOND;
        self.level = (self.level + passed * u128::from(self.given())).min(brim);
    }

    /// Sets the unbooked bytes per second from now on.
    fn set(&mut self, rest: u64, now: Monotonic) {
        self.advance(now);
        self.rest = rest;
        self.advance(now);
        let lately = |at: &mut Monotonic| now.since(*at) < Duration::from_secs(1);
        self.takers.retain(|_, at| lately(at));
    }

    /// Returns how long until download `who` may take `bytes`, if those before it in the queue take
    /// theirs, and puts it in the queue. Zero means now.
    fn wait(&mut self, who: u64, bytes: u64, now: Monotonic) -> Duration {
        self.advance(now);
        if bytes > self.at_once() || self.given() == 0 {
            self.leave(who);
            return AGAIN;
        }
        let mut before = 0u64;
        let mut in_line = false;
        for (other, wants) in &mut self.line {
            if *other == who {
                *wants = bytes;
                in_line = true;
                break;
            }
            before = before.saturating_add(*wants);
        }
        if !in_line {
            if self.line.len() >= LINE {
                return AGAIN;
            }
            self.line.push_back((who, bytes));
        }
        let wanted = u128::from(before.saturating_add(bytes)) * SECOND;
        let missing = wanted.saturating_sub(self.level);
        let wait = missing.div_ceil(u128::from(self.given()));
        Duration::from_nanos(wait.min(AGAIN.as_nanos()) as u64)
    }

    /// Takes bytes that need not wait.
    fn take(&mut self, who: u64, bytes: u64, now: Monotonic) {
        self.advance(now);
        self.level = self.level.saturating_sub(u128::from(bytes) * SECOND);
        self.leave_line(who);
        self.takers.insert(who, now);
    }

    fn leave_line(&mut self, who: u64) {
        self.line.retain(|(other, _)| *other != who);
    }

    /// Removes a download that wants nothing more.
    fn leave(&mut self, who: u64) {
        self.leave_line(who);
        self.takers.remove(&who);
    }

    /// Returns an even share of the given-out capacity, in bytes per second.
    fn share(&self) -> u64 {
        let waiting = self.line.iter();
        let new = waiting.filter(|(who, _)| !self.takers.contains_key(who));
        self.given() / (self.takers.len() + new.count()).max(1) as u64
    }
}

/// The unbooked capacity of each limited resource.
#[derive(Debug)]
pub struct Spares<R> {
    /// Each resource, with the time when its unbooked capacity was last set.
    all: BTreeMap<R, (Spare, Monotonic)>,
    /// The number of the last download.
    last: u64,
}

/// A download in progress: its number, and the limited resources that it needs.
#[derive(Clone, Debug)]
pub struct Download<R> {
    number: u64,
    limited_by: Vec<R>,
}

impl<R> Download<R> {
    /// Whether no resource on its way is limited.
    pub fn is_unlimited(&self) -> bool {
        self.limited_by.is_empty()
    }
}

impl<R> Default for Spares<R> {
    fn default() -> Spares<R> {
        Spares {
            all: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<R: Copy + Ord> Spares<R> {
    /// Begins a download that needs these limited resources.
    pub fn begin(&mut self, limited_by: Vec<R>) -> Download<R> {
        self.last += 1;
        Download {
            number: self.last,
            limited_by,
        }
    }

    /// Returns the download's resources whose unbooked capacity is unknown or out of date: call
    /// [`Spares::set`] for them first.
    pub fn stale(&self, download: &Download<R>, now: Monotonic) -> Vec<R> {
        let is_stale = |resource: &R| {
            let known = self.all.get(resource);
            known.is_none_or(|(_, set_at)| now.since(*set_at) >= LOOK)
        };
        let resources = download.limited_by.iter().copied();
        resources.filter(is_stale).collect()
    }

    /// Sets the unbooked bytes per second of a resource from now on.
    pub fn set(&mut self, resource: R, rest: u64, now: Monotonic) {
        let new = || (Spare::new(now), now);
        let (spare, set_at) = self.all.entry(resource).or_insert_with(new);
        spare.set(rest, now);
        *set_at = now;
    }

    /// Takes permission to send the next piece beyond the film's pace: of `asked` bytes if it has
    /// already been requested, otherwise of at most `most`.
    ///
    /// # Errors
    /// It is not this download's turn: how long to wait.
    pub fn take(
        &mut self,
        download: &Download<R>,
        asked: Option<u64>,
        most: u64,
        now: Monotonic,
    ) -> Result<u64, Duration> {
        if download.is_unlimited() {
            return Ok(u64::MAX);
        }
        let at_once = self.of(download).map(|spare| spare.at_once()).min();
        let at_once = at_once.unwrap_or(0) * 16 / WIRE;
        let bytes = asked.unwrap_or_else(|| match at_once {
            // Half of the burst or less: capacity that the download does not take in time still
            // accumulates meanwhile. A power of two, so that it never crosses the boundary of a
            // block, whose size is one too.
            LEAST.. => most.min((1 << (at_once / 2).ilog2()).max(LEAST)),
            _ => u64::MAX,
        });
        let (number, wire) = (download.number, on_wire(bytes));
        let waits = self.of(download).map(|spare| spare.wait(number, wire, now));
        match waits.max().unwrap_or(AGAIN) {
            Duration::ZERO => {
                self.of(download)
                    .for_each(|spare| spare.take(number, wire, now));
                Ok(bytes)
            }
            wait => Err(wait.max(Duration::from_millis(1))),
        }
    }

    /// Returns how much a download may be sent beyond its film's pace.
    pub fn beyond(&mut self, download: &Download<R>) -> Beyond {
        let shares = self.of(download).map(|spare| spare.share());
        shares.min().map_or(Beyond::Everything, Beyond::Share)
    }

    /// Records that the film's pace suffices for a download: those behind it in the queue need not
    /// wait for it.
    pub fn rests(&mut self, download: &Download<R>) {
        self.of(download)
            .for_each(|spare| spare.leave_line(download.number));
    }

    /// Ends a download.
    pub fn end(&mut self, download: &Download<R>) {
        self.of(download)
            .for_each(|spare| spare.leave(download.number));
    }

    /// Iterates over the capacities of a download's resources.
    fn of(&mut self, download: &Download<R>) -> impl Iterator<Item = &mut Spare> {
        let wanted = &download.limited_by;
        let all = self.all.iter_mut();
        all.filter(|(resource, _)| wanted.contains(resource))
            .map(|(_, (spare, _))| spare)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Monotonic {
        Monotonic::from_nanos(nanos)
    }

    const MILLISECOND: u64 = 1_000_000;

    /// Runs downloads that repeatedly want `pieces` of these lengths, for `millis` milliseconds;
    /// `rest` gives the unbooked capacity at each. Returns who got how many bytes when.
    fn run(pieces: &[u64], millis: u64, rest: impl Fn(u64) -> u64) -> Vec<(u64, usize, u64)> {
        let mut spare = Spare::new(at(0));
        let mut got = Vec::new();
        let mut due = vec![0; pieces.len()];
        for now in 0..millis {
            if now % 100 == 0 {
                spare.set(rest(now), at(now * MILLISECOND));
            }
            for (who, bytes) in pieces.iter().enumerate() {
                while due[who] <= now * MILLISECOND {
                    let wait = spare.wait(who as u64, *bytes, at(now * MILLISECOND));
                    if !wait.is_zero() {
                        due[who] = now * MILLISECOND + wait.as_nanos() as u64;
                        break;
                    }
                    spare.take(who as u64, *bytes, at(now * MILLISECOND));
                    got.push((now, who, *bytes));
                }
            }
        }
        got
    }

    #[test]
    fn equal_downloads_get_equal_shares_and_together_nearly_all() {
        let (rest, seconds) = (12_500_000, 10);
        for count in [1, 2, 7, 40] {
            let got = run(&vec![1 << 18; count], seconds * 1000, |_| rest);
            let all: u64 = got.iter().map(|(_, _, bytes)| bytes).sum();
            assert!(all <= rest * seconds, "{all}");
            assert!(all >= rest * seconds * 94 / 100, "{count}: {all}");
            for who in 0..count {
                let own: u64 = got
                    .iter()
                    .filter(|(_, of, _)| *of == who)
                    .map(|(_, _, bytes)| bytes)
                    .sum();
                let even = all / count as u64;
                assert!(
                    own.abs_diff(even) <= even / 10 + (1 << 18),
                    "{count}: {own} of {all}"
                );
            }
        }
    }

    #[test]
    fn downloads_make_room_at_the_next_look_and_take_it_again() {
        let rest = |now| match now {
            2000..4000 => 0,
            4000..6000 => 1_000_000,
            _ => 10_000_000,
        };
        let got = run(&[1 << 14, 1 << 14], 8000, rest);
        let between = |from, to| -> u64 {
            let in_time = got.iter().filter(|(now, ..)| (from..to).contains(now));
            in_time.map(|(_, _, bytes)| bytes).sum()
        };
        assert_eq!(between(2000, 4000), 0);
        assert!((1_800_000..=2_000_000).contains(&between(4000, 6000)));
        assert!(between(6250, 7250) >= 9_400_000);
    }

    #[test]
    fn who_leaves_holds_nobody_up() {
        let mut spare = Spare::new(at(0));
        spare.set(3_200_000, at(0));
        for who in 0..10 {
            assert!(!spare.wait(who, 100_000, at(0)).is_zero());
        }
        let last = |spare: &mut Spare| spare.wait(9, 100_000, at(40 * MILLISECOND));
        assert!(!last(&mut spare).is_zero());
        (0..9).for_each(|who| spare.leave(who));
        assert!(last(&mut spare).is_zero());
        // A request larger than any burst blocks nobody behind it.
        assert_eq!(spare.wait(3, 100_001, at(0)), AGAIN);
        assert_eq!(spare.line.len(), 1);
    }

    fn spares() -> Spares<char> {
        let mut spares = Spares::default();
        spares.set('a', 32 << 20, at(0));
        spares.set('b', 64 << 20, at(0));
        spares
    }

    #[test]
    fn a_download_gets_what_its_scarcest_resource_has_left() {
        let mut spares = spares();
        let both = spares.begin(vec!['a', 'b']);
        let given = (32 << 20) - (1 << 20);
        assert_eq!(spares.beyond(&both), Beyond::Share(given));
        assert!(
            spares.take(&both, None, 1 << 20, at(0)).is_err(),
            "nothing yet"
        );
        let bytes = spares.take(&both, None, 1 << 20, at(40 * MILLISECOND));
        assert_eq!(
            bytes,
            Ok(256 << 10),
            "a power of two of at most half of what may go at once of the scarcer one"
        );
        let free = spares.begin(vec![]);
        assert_eq!(spares.beyond(&free), Beyond::Everything);
        assert_eq!(spares.take(&free, None, 1, at(0)), Ok(u64::MAX));
    }

    #[test]
    fn it_is_asked_ten_times_a_second_how_much_is_left() {
        let mut spares = spares();
        let download = spares.begin(vec!['a', 'c']);
        assert_eq!(spares.stale(&download, at(0)), ['c']);
        spares.set('c', 1, at(0));
        assert!(spares.stale(&download, at(99 * MILLISECOND)).is_empty());
        assert_eq!(spares.stale(&download, at(100 * MILLISECOND)), ['a', 'c']);
    }

    #[test]
    fn a_download_that_rests_or_ends_keeps_nobody_waiting() {
        let mut spares = spares();
        let (first, second) = (spares.begin(vec!['a']), spares.begin(vec!['a']));
        let most = Some(900 << 10);
        let later = at(40 * MILLISECOND);
        type Leaves = fn(&mut Spares<char>, &Download<char>);
        for leaves in [Spares::rests as Leaves, Spares::end] {
            assert!(spares.take(&first, most, 0, at(0)).is_err());
            assert!(
                spares.take(&second, most, 0, later).is_err(),
                "behind the first"
            );
            leaves(&mut spares, &first);
            assert_eq!(spares.take(&second, most, 0, later), Ok(900 << 10));
            spares = self::spares();
        }
    }

    proptest! {
        #[test]
        fn no_second_gets_more_than_there_is_and_demand_takes_nearly_all(
            pieces in prop::collection::vec(4096u64..60_000, 1..6),
            rests in prop::collection::vec(0u64..20_000_000, 1..40),
        ) {
            let millis = rests.len() as u64 * 100;
            let rest = |now: u64| rests[(now / 100) as usize];
            let got = run(&pieces, millis, rest);
            for from in (0..millis).step_by(37) {
                let window = got.iter().filter(|(now, ..)| (from..from + 1000).contains(now));
                let sent: u64 = window.map(|(_, _, bytes)| bytes).sum();
                let looks = (from / 100)..=((from + 999).min(millis - 1) / 100);
                let most = looks.map(|look| rests[look as usize]).max().unwrap_or(0);
                prop_assert!(sent <= most, "{sent} of {most} in the second from {from}");
            }
            // If a burst exceeds what any of them wants, one of them can always take it.
            let steady = *rests.iter().min().unwrap();
            if steady / AT_ONCE >= 60_000 {
                let sent: u64 = got.iter().map(|(_, _, bytes)| bytes).sum();
                let there = rests.iter().sum::<u64>() / 10;
                let lost = there / 10;
                prop_assert!(sent + lost + 300_000 >= there, "{sent} of {there}");
            }
        }
    }
}
