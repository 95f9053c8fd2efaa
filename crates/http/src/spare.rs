//! Downloads: what viewers have not booked flows to them, after everything else.
//!
//! A file that is fetched is a viewer's: its film's rate is booked for it, and it always gets that. What it is sent beyond comes
//! out of what nobody has booked at the moment ([`Gate::unbooked`]), shared evenly among all downloads. Where nothing on
//! the way to a viewer is limited there is nothing to share: the download goes as fast as TCP takes it.
//!
//! | type | what it is |
//! |---|---|
//! | [`Spare`] | the rule for one resource: who may send how much when. Pure |
//! | [`Downloads`] | one such for each limited resource, told anew ten times a second what is left of it |
//! | [`Share`] | what one answer may take of them |

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_session::{Gate, Resource};

use crate::connection::WIRE;

/// What may go at once is this part of what there is for a second: 1/32, 31 ms of it. The rest is given out evenly, so that no
/// second ever gets more than there is.
const AT_ONCE: u64 = 32;
/// Time between two looks at what is booked: downloads make room for a viewer within it.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait before one asks again: what there is may have grown.
const AGAIN: Duration = Duration::from_millis(250);
/// Most who wait in line; others ask again.
const LINE: usize = 1024;
/// Less than this is not worth a piece of its own, bytes.
const LEAST: u64 = 4096;

/// One resource of which so many bytes a second are left.
#[derive(Debug)]
pub(crate) struct Spare {
    /// Bytes a second that nobody has booked.
    rest: u64,
    /// What may go now, in bytes times nanoseconds of a second.
    level: u128,
    at: Monotonic,
    /// Who waits, and for how many bytes: the first in line goes first.
    line: VecDeque<(u64, u64)>,
    /// Who took something lately.
    takers: HashMap<u64, Monotonic>,
}

const SECOND: u128 = 1_000_000_000;

impl Spare {
    pub fn new(now: Monotonic) -> Spare {
        Spare {
            rest: 0,
            level: 0,
            at: now,
            line: VecDeque::new(),
            takers: HashMap::new(),
        }
    }

    /// Most bytes that may go at once.
    pub fn at_once(&self) -> u64 {
        self.rest / AT_ONCE
    }

    /// Bytes a second that are given out.
    fn given(&self) -> u64 {
        self.rest - self.at_once()
    }

    fn advance(&mut self, now: Monotonic) {
        let passed = now.since(self.at).as_nanos();
        self.at = self.at.max(now);
        let brim = u128::from(self.at_once()) * SECOND;
        self.level = (self.level + passed * u128::from(self.given())).min(brim);
    }

    /// From now on so many bytes a second are left.
    pub fn set(&mut self, rest: u64, now: Monotonic) {
        self.advance(now);
        self.rest = rest;
        self.advance(now);
        let lately = |at: &mut Monotonic| now.since(*at) < Duration::from_secs(1);
        self.takers.retain(|_, at| lately(at));
    }

    /// How long until `who` may take so many bytes, if those before him in line take theirs; from then on he is in line.
    /// Zero: now.
    pub fn wait(&mut self, who: u64, bytes: u64, now: Monotonic) -> Duration {
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

    /// He takes what he had not to wait for.
    pub fn take(&mut self, who: u64, bytes: u64, now: Monotonic) {
        self.advance(now);
        self.level = self.level.saturating_sub(u128::from(bytes) * SECOND);
        self.leave_line(who);
        self.takers.insert(who, now);
    }

    fn leave_line(&mut self, who: u64) {
        self.line.retain(|(other, _)| *other != who);
    }

    /// He wants nothing any more.
    pub fn leave(&mut self, who: u64) {
        self.leave_line(who);
        self.takers.remove(&who);
    }

    /// An even share of what is given out, bytes a second.
    pub fn share(&self) -> u64 {
        let waiting = self.line.iter();
        let new = waiting.filter(|(who, _)| !self.takers.contains_key(who));
        self.given() / (self.takers.len() + new.count()).max(1) as u64
    }
}

/// What is left for downloads, of each limited resource.
pub(crate) struct Downloads {
    gate: Gate,
    /// Whether downloads get more than their film's pace at all.
    are_eager: bool,
    /// What packets of theirs are marked with.
    dscp: u8,
    spare: Mutex<HashMap<Resource, (Spare, Monotonic)>>,
    next: AtomicU64,
}

impl Downloads {
    pub fn new(gate: Gate, are_eager: bool, dscp: u8) -> Arc<Downloads> {
        Arc::new(Downloads {
            gate,
            are_eager,
            dscp,
            spare: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// The code point of their packets.
    pub fn dscp(&self) -> u8 {
        self.dscp
    }

    /// The share of an answer to this address; `None`: it gets its film's pace and no more.
    pub fn share(self: &Arc<Self>, peer: IpAddr) -> Option<Share> {
        self.are_eager.then(|| Share {
            downloads: self.clone(),
            limited_by: self.gate.on_the_way_to(peer),
            number: self.next.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Does something with each of these resources, of which it is known what is left.
    fn each<T>(
        &self,
        resources: &[Resource],
        now: Monotonic,
        mut work: impl FnMut(&mut Spare) -> T,
    ) -> Vec<T> {
        let mut all = lock(&self.spare);
        let of = |resource: &Resource| {
            let rest = || self.gate.unbooked(*resource);
            let (spare, looked) = all.entry(*resource).or_insert_with(|| {
                let mut spare = Spare::new(now);
                spare.set(rest(), now);
                (spare, now)
            });
            if now.since(*looked) >= LOOK {
                spare.set(rest(), now);
                *looked = now;
            }
            work(spare)
        };
        resources.iter().map(of).collect()
    }
}

/// What one answer may take of what is left.
pub(crate) struct Share {
    downloads: Arc<Downloads>,
    limited_by: Vec<Resource>,
    number: u64,
}

impl Share {
    /// Whether nothing is limited on its way.
    pub fn is_all(&self) -> bool {
        self.limited_by.is_empty()
    }

    /// Takes leave to send the next piece beyond the film's pace: of `asked` bytes, where it has been asked for, else of at
    /// most `most`. An error: how long to wait.
    pub fn take(&self, asked: Option<u64>, most: u64, now: Monotonic) -> Result<u64, Duration> {
        if self.is_all() {
            return Ok(u64::MAX);
        }
        let of = &self.limited_by;
        let at_once = self.downloads.each(of, now, |spare| spare.at_once());
        let at_once = at_once.into_iter().min().unwrap_or(0) * 16 / WIRE;
        let bytes = asked.unwrap_or_else(|| match at_once {
            // Half of it or less: what a download does not take in time still gathers meanwhile. A power of two: never
            // across a block that is one, too.
            LEAST.. => most.min((1 << (at_once / 2).ilog2()).max(LEAST)),
            _ => u64::MAX,
        });
        let wire = (bytes / 16).saturating_mul(WIRE).saturating_add(bytes % 16);
        let waits = self
            .downloads
            .each(of, now, |spare| spare.wait(self.number, wire, now));
        match waits.into_iter().max().unwrap_or(AGAIN) {
            Duration::ZERO => {
                self.downloads
                    .each(of, now, |spare| spare.take(self.number, wire, now));
                Ok(bytes)
            }
            wait => Err(wait.max(Duration::from_millis(1))),
        }
    }

    /// How fast it may go beyond its film's pace, bytes a second; `None`: nothing limits it.
    pub fn speed(&self, now: Monotonic) -> Option<u64> {
        let shares = self
            .downloads
            .each(&self.limited_by, now, |spare| spare.share());
        shares.into_iter().min()
    }

    /// The film's pace carries it on: whoever waits behind it need not.
    pub fn rests(&self) {
        self.each_known(|spare| spare.leave_line(self.number));
    }

    fn each_known(&self, work: impl Fn(&mut Spare)) {
        if self.is_all() {
            return;
        }
        let mut all = lock(&self.downloads.spare);
        for resource in &self.limited_by {
            if let Some((spare, _)) = all.get_mut(resource) {
                work(spare);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.each_known(|spare| spare.leave(self.number));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Monotonic {
        Monotonic::from_nanos(nanos)
    }

    const MILLISECOND: u64 = 1_000_000;

    /// Downloads that want `pieces` of these lengths, each again and again, over so many milliseconds; `rest` says what is left
    /// at each. Who got how many bytes when.
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
        // More than may ever go at once keeps nobody waiting behind it.
        assert_eq!(spare.wait(3, 100_001, at(0)), AGAIN);
        assert_eq!(spare.line.len(), 1);
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
            // What may go at once is more than any of them wants: then there is always one who takes it.
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
