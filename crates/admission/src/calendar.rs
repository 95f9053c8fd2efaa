//! One resource: what is booked of it in each second to come.

use reelway_demand::Play;

/// A second of the clock by which bookings are made, counted from the clock's zero.
pub type Second = u64;

/// Seconds per block; the largest load of each block is kept.
const BLOCK: usize = 64;

/// Seconds for which a new calendar has room: four and a half hours.
const FIRST: usize = 1 << 14;

/// Farthest second ahead that can be booked (three days). A longer film's rest is booked later.
pub const HORIZON: usize = 1 << 18;

/// What is booked of one resource, in whole units, second by second: a ring that begins with the
/// present second and grows with the longest booking.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// The present second.
    now: Second,
    /// Load of the second `s` at `s` modulo the length, a power of two. Past seconds hold 0.
    loads: Vec<u64>,
    /// An upper bound of the loads in each block of seconds.
    most: Vec<u64>,
    /// Excess of past seconds over the limit that is not made up for yet, and still can be.
    owed: u64,
}

/// Seconds at the beginning of a play in which less of it can have been sent ahead.
const BEGINNING: usize = 2;

/// Carries what is owed from second to second.
struct Owed {
    now: u64,
    limit: u64,
    carry: u64,
}

impl Owed {
    /// What is owed after a second with this load and need. What exceeds `carry` is owed once.
    fn after(&mut self, load: u64, need: u32) -> u64 {
        let owed = (self.now + load + u64::from(need)).saturating_sub(self.limit);
        self.now = owed.min(self.carry);
        owed
    }
}

impl Calendar {
    /// An empty calendar that begins with the second `now`.
    pub fn new(now: Second) -> Calendar {
        Calendar {
            now,
            loads: vec![0; FIRST],
            most: vec![0; FIRST / BLOCK],
            owed: 0,
        }
    }

    /// The present second.
    pub fn now(&self) -> Second {
        self.now
    }

    /// What is booked in a second; 0 in the past.
    pub fn load(&self, second: Second) -> u64 {
        match second.checked_sub(self.now) {
            Some(ahead) if ahead < self.loads.len() as u64 => self.loads[self.place(second)],
            _ => 0,
        }
    }

    fn place(&self, second: Second) -> usize {
        (second % self.loads.len() as u64) as usize
    }

    /// Advances to the second `now` and forgets earlier ones, but not their excess over `limit`, up
    /// to `carry`: beyond that it was late, or lost. A step back is ignored.
    pub fn advance(&mut self, now: Second, limit: u64, carry: u64) {
        let passed = now.saturating_sub(self.now);
        if passed >= self.loads.len() as u64 {
            self.loads.fill(0);
            self.most.fill(0);
            self.owed = 0;
        } else {
            for second in self.now..now {
                let place = self.place(second);
                let owed = (self.owed + self.loads[place]).saturating_sub(limit);
                self.owed = owed.min(carry);
                self.loads[place] = 0;
                if place % BLOCK == BLOCK - 1 {
                    // The block may already hold the ring's farthest seconds.
                    let block = &self.loads[place + 1 - BLOCK..=place];
                    self.most[place / BLOCK] = block.iter().copied().max().unwrap_or(0);
                }
            }
        }
        self.now = self.now.max(now);
    }

    /// What is owed at `start`: the excess of earlier seconds over `limit` that is not made up for
    /// by then, at most `carry`.
    fn owed_before(&self, start: Second, limit: u64, carry: u64) -> u64 {
        if carry == 0 {
            return 0;
        }
        let (limit, carry) = (i128::from(limit), i128::from(carry));
        let (mut sum, mut most) = (0, 0);
        for second in (self.now..start).rev() {
            sum += i128::from(self.load(second)) - limit;
            most = most.max(sum);
            // Everything before is made up for.
            if sum <= -carry {
                return most.min(carry) as u64;
            }
        }
        most.max(sum + i128::from(self.owed)).min(carry) as u64
    }

    /// The first second of `play`, begun in the second `start`, in which more would be owed than
    /// can be made up for: its number within the play. `None` if the play fits.
    ///
    /// A second's excess over `limit` is owed, and made up for by later ones. With `carry` 0, no
    /// second may exceed `limit`. In a play's first two seconds, only a part of `carry` counts.
    pub fn overfull(&self, start: Second, play: &Play, limit: u64, carry: u64) -> Option<usize> {
        let len = play.len();
        if len == 0 {
            return None;
        }
        let mut owed = Owed {
            now: self.owed_before(start, limit, carry),
            limit,
            carry,
        };
        for nth in 0..len.min(BEGINNING) {
            let load = self.load(start + nth as u64);
            let ahead = u128::from(carry) * u128::from(load.min(limit)) / u128::from(limit.max(1));
            let may = carry / 2 + ahead as u64 / 2;
            if owed.after(load, play.need(nth)) > may {
                return Some(nth);
            }
        }
        let most = u64::from(play.most());
        let (mut needs, mut nth) = ([0; BLOCK], BEGINNING);
        while nth + 1 < len {
            let second = start + nth as u64;
            if second < self.now {
                nth += 1;
                continue;
            }
            let left = len - 1 - nth;
            // Nothing is booked beyond what the calendar holds.
            if second >= self.now + self.loads.len() as u64 {
                if most > limit || owed.now > 0 {
                    let mut rest = nth..nth + left;
                    if let Some(at) = rest.find(|nth| owed.after(0, play.need(*nth)) > carry) {
                        return Some(at);
                    }
                }
                break;
            }
            let place = self.place(second);
            // In the ring, its first second follows its last.
            let held = (self.now + self.loads.len() as u64 - second) as usize;
            let count = (BLOCK - place % BLOCK).min(left).min(held);
            if owed.now > 0 || self.most[place / BLOCK] + most > limit {
                let (loads, needs) = (&self.loads[place..place + count], &mut needs[..count]);
                play.inner(nth, needs);
                let both = || loads.iter().zip(&*needs);
                // Without an early exit, several seconds are compared at once.
                let beyond =
                    |any, (load, need): (&u64, &u32)| any | (load + u64::from(*need) > limit);
                if owed.now > 0 || both().fold(false, beyond) {
                    let mut both = both();
                    if let Some(at) = both.position(|(load, need)| owed.after(*load, *need) > carry)
                    {
                        return Some(nth + at);
                    }
                }
            }
            nth += count;
        }
        let last = len - 1;
        if last >= BEGINNING && owed.after(self.load(start + last as u64), play.need(last)) > carry
        {
            return Some(last);
        }
        // Seconds of other plays have to make up for what is owed at its end.
        let mut second = start + len as u64;
        while owed.now > 0 && second < self.now + self.loads.len() as u64 {
            if owed.after(self.load(second), 0) > carry {
                return Some(last);
            }
            second += 1;
        }
        None
    }

    /// Those of the next `seconds` in which more is owed than `carry`, and how much more.
    pub fn over(&self, now: Second, seconds: u64, limit: u64, carry: u64) -> Vec<(Second, u64)> {
        let mut owed = Owed {
            now: self.owed_before(now, limit, carry),
            limit,
            carry,
        };
        let over = |second| {
            let excess = owed.after(self.load(second), 0).saturating_sub(carry);
            (excess > 0).then_some((second, excess))
        };
        (now..now + seconds).filter_map(over).collect()
    }

    /// The last second of `start..start + len` whose load is more than `load`.
    pub fn last_above(&self, start: Second, len: usize, load: u64) -> Option<Second> {
        let start = start.max(self.now);
        let mut end = (start + len as u64).min(self.now + self.loads.len() as u64);
        while end > start {
            let place = self.place(end - 1);
            let count = (place % BLOCK + 1).min((end - start) as usize);
            if self.most[place / BLOCK] > load {
                let loads = &self.loads[place + 1 - count..=place];
                if let Some(at) = loads.iter().rposition(|of| *of > load) {
                    return Some(end - (count - at) as u64);
                }
            }
            end -= count as u64;
        }
        None
    }

    /// Books a play that begins in the second `start`, whether there is room or not.
    pub fn add(&mut self, start: Second, play: &Play) {
        let end = start.saturating_add(play.len() as u64);
        self.reach(end);
        self.change(start, play, |load, need| *load += u64::from(need));
    }

    /// Removes a play that was booked at `start`, as far as it is still to come.
    pub fn remove(&mut self, start: Second, play: &Play) {
        self.change(start, play, |load, need| *load -= u64::from(need));
    }

    /// Makes room up to the second `end`, within the horizon.
    fn reach(&mut self, end: Second) {
        let wanted = end.saturating_sub(self.now).min(HORIZON as u64) as usize;
        if wanted <= self.loads.len() {
            return;
        }
        let mut longer = Calendar {
            now: self.now,
            loads: vec![0; wanted.next_power_of_two()],
            most: vec![0; wanted.next_power_of_two() / BLOCK],
            owed: self.owed,
        };
        for second in self.now..self.now + self.loads.len() as u64 {
            let place = longer.place(second);
            longer.loads[place] = self.load(second);
        }
        for (most, loads) in longer.most.iter_mut().zip(longer.loads.chunks(BLOCK)) {
            *most = loads.iter().copied().max().unwrap_or(0);
        }
        *self = longer;
    }

    fn change(&mut self, start: Second, play: &Play, by: impl Fn(&mut u64, u32)) {
        // The ring does not hold what is past or beyond the horizon.
        let end = (start + play.len() as u64).min(self.now + self.loads.len() as u64);
        let mut second = start.max(self.now);
        let mut needs = [0; BLOCK];
        while second < end {
            let place = self.place(second);
            let count = (BLOCK - place % BLOCK).min((end - second) as usize);
            let number = (second - start) as usize;
            let loads = &mut self.loads[place..place + count];
            // Neither the play's first second nor its last: a plain run of numbers.
            if number > 0 && number + count < play.len() {
                let needs = &mut needs[..count];
                play.inner(number, needs);
                for (load, need) in loads.iter_mut().zip(needs) {
                    by(load, *need);
                }
            } else {
                for (nth, load) in loads.iter_mut().enumerate() {
                    by(load, play.need(number + nth));
                }
            }
            let block = place / BLOCK;
            let whole = &self.loads[block * BLOCK..(block + 1) * BLOCK];
            self.most[block] = whole.iter().fold(0, |most, load| most.max(*load));
            second += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use proptest::prelude::*;
    use reelway_demand::Curve;

    use super::*;

    /// The model of a calendar: a number for each second.
    #[derive(Default)]
    struct Naive(HashMap<Second, u64>);

    impl Naive {
        fn load(&self, second: Second) -> u64 {
            self.0.get(&second).copied().unwrap_or(0)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Advance(u64),
        Book {
            wait: u64,
            from: usize,
            len: usize,
            quarter: usize,
        },
        Leave(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0u64..400).prop_map(Step::Advance),
            (0u64..300, 0usize..300, 0usize..2400, 0usize..4).prop_map(
                |(wait, from, len, quarter)| Step::Book {
                    wait,
                    from,
                    len,
                    quarter
                }
            ),
            (0usize..50).prop_map(Step::Leave),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_to_the_byte_what_a_list_of_seconds_would_be(
            steps in steps(), bins in prop::collection::vec(0u32..1000, 2400), limit in 0u64..9000,
        ) {
            let curve = Arc::new(Curve::new(bins));
            let (mut calendar, mut naive) = (Calendar::new(5), Naive::default());
            let mut present: Vec<(Second, Play)> = Vec::new();
            for step in steps {
                match step {
                    Step::Advance(by) => {
                        calendar.advance(calendar.now() + by, u64::MAX, 0);
                        calendar.advance(calendar.now() - by.min(3), u64::MAX, 0);
                        naive.0.retain(|second, _| *second >= calendar.now());
                    }
                    Step::Book { wait, from, len, quarter } => {
                        let start = calendar.now() + wait;
                        let play = Play::new(curve.clone(), from, from + len, quarter);
                        let over = (0..play.len())
                            .find(|nth| naive.load(start + *nth as u64) + u64::from(play.need(*nth)) > limit);
                        prop_assert_eq!(calendar.overfull(start, &play, limit, 0), over);
                        if over.is_none() {
                            for nth in 0..play.len() {
                                *naive.0.entry(start + nth as u64).or_default() += u64::from(play.need(nth));
                            }
                            calendar.add(start, &play);
                            present.push((start, play));
                        }
                    }
                    Step::Leave(which) if which < present.len() => {
                        let (start, play) = present.swap_remove(which);
                        for nth in 0..play.len() {
                            if let Some(load) = naive.0.get_mut(&(start + nth as u64)) {
                                *load -= u64::from(play.need(nth));
                            }
                        }
                        calendar.remove(start, &play);
                    }
                    Step::Leave(_) => {}
                }
                let now = calendar.now();
                for second in now.saturating_sub(10)..now + 900 {
                    prop_assert_eq!(calendar.load(second), if second < now { 0 } else { naive.load(second) });
                }
                let last = (now..now + 500).rev().find(|second| naive.load(*second) > limit / 2);
                prop_assert_eq!(calendar.last_above(now, 500, limit / 2), last);
            }
        }
    }

    #[test]
    fn a_film_longer_than_the_calendar_makes_it_grow_and_nothing_is_forgotten() {
        let mut calendar = Calendar::new(1000);
        let short = Play::new(Arc::new(Curve::new(vec![10; 4 * 3600])), 0, usize::MAX, 0);
        calendar.add(1000, &short);
        let long = Play::new(Arc::new(Curve::new(vec![1; 4 * 30_000])), 0, usize::MAX, 0);
        assert_eq!(calendar.overfull(2000, &long, 44, 0), None);
        assert_eq!(calendar.overfull(2000, &long, 43, 0), Some(0));
        calendar.add(2000, &long);
        assert_eq!(
            (
                calendar.load(1999),
                calendar.load(2000),
                calendar.load(31_999)
            ),
            (40, 44, 4)
        );
        calendar.remove(1000, &short);
        calendar.remove(2000, &long);
        assert_eq!((calendar.load(2000), calendar.load(31_999)), (0, 0));
    }

    #[test]
    fn a_clock_that_jumps_by_a_year_leaves_an_empty_calendar() {
        let mut calendar = Calendar::new(0);
        let play = Play::new(Arc::new(Curve::new(vec![1; 400])), 0, usize::MAX, 0);
        calendar.add(0, &play);
        calendar.advance(31_536_000, u64::MAX, 0);
        calendar.remove(0, &play);
        assert_eq!(calendar.load(31_536_000), 0);
        calendar.add(31_536_000, &play);
        assert_eq!(calendar.load(31_536_000 + 99), 4);
    }

    #[test]
    fn a_booking_that_fills_the_whole_ring_is_seen_to_its_end() {
        let play = |bins: Vec<u32>| Play::new(Arc::new(Curve::new(bins)), 0, usize::MAX, 0);
        // Its last seconds are in the block that holds its first.
        let (first, len) = (BLOCK as u64 / 2, FIRST as u64);
        let mut calendar = Calendar::new(first);
        calendar.add(first, &play(vec![25; 4 * FIRST]));
        calendar.advance(BLOCK as u64, u64::MAX, 0);
        assert_eq!(
            calendar.last_above(len - 100, 200, 50),
            Some(len + first - 1)
        );
        let mut late = vec![0; 4 * BEGINNING];
        late.resize(4 * (BEGINNING + 20), 25);
        let start = len - BEGINNING as u64;
        assert_eq!(
            calendar.overfull(start, &play(late), 150, 0),
            Some(BEGINNING)
        );
    }

    #[test]
    fn seconds_behind_the_last_one_of_the_ring_are_not_those_of_the_present() {
        let play = |seconds: usize| {
            Play::new(
                Arc::new(Curve::new(vec![25; 4 * seconds])),
                0,
                usize::MAX,
                0,
            )
        };
        // What is booked lies behind the ring's last seconds, in the same block.
        let first = BLOCK as u64 / 2;
        let mut calendar = Calendar::new(first);
        calendar.add(first, &play(BLOCK / 2));
        let start = first + BLOCK as u64;
        assert_eq!(calendar.overfull(start, &play(FIRST + BLOCK), 150, 0), None);
        assert_eq!(
            calendar.overfull(first, &play(FIRST + BLOCK), 150, 0),
            Some(0)
        );
    }

    #[test]
    fn the_last_second_is_not_looked_for_before_the_first() {
        let mut calendar = Calendar::new(0);
        let play = Play::new(Arc::new(Curve::new(vec![25; 4])), 0, usize::MAX, 0);
        calendar.add(0, &play);
        assert_eq!(calendar.last_above(0, 2, 50), Some(0));
        assert_eq!(calendar.last_above(1, 1, 50), None);
    }

    #[test]
    fn of_a_play_that_began_before_now_only_the_rest_is_judged() {
        let mut calendar = Calendar::new(0);
        let play = Play::new(Arc::new(Curve::new(vec![25; 4 * 20])), 0, usize::MAX, 0);
        calendar.add(14, &play);
        calendar.advance(10, u64::MAX, 0);
        // Second 12 of the play is the first that both plays need.
        assert_eq!(calendar.overfull(2, &play, 199, 0), Some(12));
        assert_eq!(calendar.overfull(2, &play, 200, 0), None);
    }
}
