//! One film: its viewers, its blocks in memory, and how long a block will wait for its next viewer.

use std::collections::BTreeMap;

use super::habits::{Habits, PARTS, Staying};
use crate::{Slot, ViewerId};

/// Viewers behind a block that are considered: further ones arrive too late to matter.
const LOOK_BACK: usize = 6;

/// Silence, in seconds of film beyond a block, after which a viewer counts as paused.
const SILENT: f64 = 120.0;

/// A paused viewer is assumed to go on after this many seconds.
const PAUSE: f64 = 300.0;

/// Seconds per block of a film that nobody has described.
const USUAL_BLOCK: f64 = 2.0;

/// A viewer in the film, at a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// When the viewer reached the block, in seconds.
    pub since: f64,
    pub speed: f64,
}

/// A jump is no seek if playing on would have brought the viewer there within this many seconds: readers
/// fetch ahead.
pub(super) const AHEAD: f64 = 30.0;

/// Blocks that one reader requests at the same time, in sequence, and that may arrive in any order.
const AT_ONCE: u32 = 16;

#[derive(Debug)]
pub(super) struct Film {
    pub blocks: u32,
    /// Seconds of play per block.
    pub block_seconds: f64,
    /// By position: the last block that each viewer was given.
    pub viewers: BTreeMap<(u32, ViewerId), Front>,
    /// The last unknown viewer who used a block.
    pub unknown: Option<Unknown>,
    pub resident: BTreeMap<u32, Slot>,
    pub habits: Habits,
    pub staying: Staying,
    /// How often it is begun, if that need not be learned.
    pub told: Option<f64>,
    /// Number of the newest entry in the queue for the blocks beyond the front viewer.
    pub version: u32,
}

/// A viewer of whom nothing is known but the blocks that they use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unknown {
    /// The last block they used.
    block: u32,
    /// When they used it, in seconds.
    at: f64,
    /// Whether they used another one before.
    moves: bool,
}

impl Unknown {
    /// An unknown viewer who begins with this block.
    pub fn new(block: u32, at: f64) -> Unknown {
        Unknown {
            block,
            at,
            moves: false,
        }
    }

    /// The same viewer, if they may have read on to this block: several blocks at once, or a part
    /// of one and then the rest.
    pub fn reads_on(self, block: u32, now: f64) -> Option<Unknown> {
        let apart = self.block.abs_diff(block);
        let moves = apart > 0 || self.moves;
        (moves && apart <= AT_ONCE && now - self.at <= AHEAD).then_some(Unknown {
            block,
            at: now,
            moves,
        })
    }
}

impl Film {
    pub fn new(all: &Habits, now: f64) -> Film {
        let habits = Habits::new(now);
        let staying = habits.staying(all);
        Film {
            blocks: 1,
            block_seconds: USUAL_BLOCK,
            viewers: BTreeMap::new(),
            unknown: None,
            resident: BTreeMap::new(),
            habits,
            staying,
            told: None,
            version: 0,
        }
    }

    /// The part of the film that contains a block.
    pub fn part(&self, block: u32) -> usize {
        (block as usize * PARTS / self.blocks.max(1) as usize).min(PARTS - 1)
    }

    fn place(&self, block: u32) -> f64 {
        f64::from(block) / f64::from(self.blocks.max(1))
    }

    /// The lowest viewer at `block` or beyond it, who owns the blocks up to their own.
    pub fn owner(&self, block: u32) -> Option<ViewerId> {
        self.viewers
            .range((block, 0)..)
            .next()
            .map(|((_, viewer), _)| *viewer)
    }

    /// How long until a viewer reaches what lies `film_time` seconds ahead of them.
    fn delay(&self, front: &Front, film_time: f64, now: f64) -> f64 {
        let here = now - front.since;
        // The viewer has not reached the next block on time: a player that pauses sends nothing,
        // and one with a long buffer requests in bursts.
        if front.speed <= 0.0 || here * front.speed > self.block_seconds + SILENT {
            return film_time + PAUSE;
        }
        film_time / front.speed - here
    }

    /// How long `block` waits for its next use, in seconds of memory per resulting use.
    ///
    /// The next use is uncertain: the viewers behind may leave before they arrive, and future
    /// viewers come at random. Keeping the block until some moment costs the time until it is used
    /// or that moment, whichever is first, and yields a use with the probability that one comes by
    /// then. The wait is the best such ratio over all moments; if a viewer is sure to come, it is
    /// the time until they arrive.
    pub fn wait(&self, all: &Habits, films: usize, block: u32, now: f64) -> f64 {
        let place = self.place(block);
        let mut sum = Outlook::new();
        let mut coming = [(f64::INFINITY, 0.0); LOOK_BACK];
        let mut count = 0;
        for ((behind, _), front) in self.viewers.range(..(block, 0)).rev().take(LOOK_BACK) {
            let film_time = f64::from(block - behind) * self.block_seconds;
            let delay = self.delay(front, film_time, now);
            let comes = self.staying.share(self.place(*behind), place);
            // In the order of arrival; a fast viewer may come before a nearer one.
            let mut at = count;
            while at > 0 && coming[at - 1].0 > delay {
                coming[at] = coming[at - 1];
                at -= 1;
            }
            coming[at] = (delay.max(0.0), comes);
            count += 1;
        }
        // A viewer who rewinds from beyond the block reaches it from there.
        if let Some(((beyond, _), front)) = self.viewers.range((block + 1, 0)..).next()
            && front.speed < 0.0
        {
            let film_time = f64::from(beyond - block) * self.block_seconds;
            sum.chance(
                0.5,
                (film_time / -front.speed - (now - front.since)).max(0.0),
            );
        }
        let landings = self.habits.landings(all, films, now);
        let mut next = coming[..count].iter().copied().peekable();
        if landings > 0.0 {
            // Viewers who land at random behind the block, the nearest first.
            let part_seconds = f64::from(self.blocks) * self.block_seconds / PARTS as f64;
            let here = place * PARTS as f64;
            let mut reached = here;
            for part in (0..=self.part(block)).rev() {
                let from = part as f64;
                let until = (here - from) * part_seconds;
                while let Some((delay, comes)) = next.next_if(|(delay, _)| *delay <= until) {
                    sum.pass(delay);
                    sum.chance(comes, delay);
                }
                sum.pass(until);
                let share = self.staying.share(from / PARTS as f64, place);
                sum.rate += landings * all.landing_share(part) * share * (reached - from).min(1.0);
                reached = from;
            }
        }
        for (delay, comes) in next {
            sum.pass(delay);
            sum.chance(comes, delay);
        }
        // Viewers who begin after now arrive after the whole way at the earliest.
        sum.pass(f64::from(block) * self.block_seconds);
        let starts = self
            .told
            .unwrap_or_else(|| self.habits.starts(all, films, now));
        sum.rate += starts * self.staying.share(0.0, place);
        sum.end()
    }
}

/// Sums over the time ahead.
struct Outlook {
    /// Seconds from now.
    at: f64,
    /// Random uses per second from here on.
    rate: f64,
    /// Probability that no use has come yet.
    open: f64,
    /// Expected seconds in memory so far.
    spent: f64,
    best: f64,
}

impl Outlook {
    fn new() -> Outlook {
        Outlook {
            at: 0.0,
            rate: 0.0,
            open: 1.0,
            spent: 0.0,
            best: f64::INFINITY,
        }
    }

    /// Advances to `to`, with uses at the present rate.
    fn pass(&mut self, to: f64) {
        let seconds = to - self.at;
        if seconds <= 0.0 {
            return;
        }
        if self.rate > 0.0 {
            let stays = (-self.rate * seconds).exp();
            self.spent += self.open * (1.0 - stays) / self.rate;
            self.open *= stays;
        } else {
            self.spent += self.open * seconds;
        }
        self.at = to;
    }

    /// Adds a use at `delay` that comes with the probability `comes`.
    fn chance(&mut self, comes: f64, delay: f64) {
        self.pass(delay);
        self.open *= 1.0 - comes;
        if self.open < 1.0 {
            self.best = self.best.min(self.spent / (1.0 - self.open));
        }
    }

    /// The best ratio, with the present rate for ever after.
    fn end(mut self) -> f64 {
        if self.open < 1.0 {
            self.best = self.best.min(self.spent / (1.0 - self.open));
        }
        if self.rate > 0.0 {
            self.best = self.best.min(self.spent + self.open / self.rate);
        }
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A film of 64 blocks of 10 s that is begun `starts` times per second, with viewers: each at a
    /// block, since a time, at a speed.
    fn film(starts: f64, viewers: &[(u32, f64, f64)]) -> Film {
        let mut film = Film::new(&Habits::new(0.0), 0.0);
        (film.blocks, film.block_seconds, film.told) = (64, 10.0, Some(starts));
        for (number, (block, since, speed)) in (0..).zip(viewers) {
            let (since, speed) = (*since, *speed);
            film.viewers
                .insert((*block, number), Front { since, speed });
        }
        film
    }

    fn wait(film: &Film, block: u32, now: f64) -> f64 {
        film.wait(&Habits::new(0.0), 1, block, now)
    }

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-6 * right.abs()
    }

    #[test]
    fn a_block_is_in_one_of_32_parts() {
        let film = film(0.0, &[]);
        for (block, part) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 1),
            (32, 16),
            (63, 31),
            (64, 31),
            (900, 31),
        ] {
            assert_eq!(film.part(block), part, "block {block}");
        }
    }

    #[test]
    fn a_block_belongs_to_the_lowest_viewer_at_it_or_beyond() {
        let film = film(0.0, &[(30, 0.0, 1.0), (10, 0.0, 1.0)]);
        for (block, owner) in [
            (0, Some(1)),
            (10, Some(1)),
            (11, Some(0)),
            (30, Some(0)),
            (31, None),
        ] {
            assert_eq!(film.owner(block), owner, "block {block}");
        }
    }

    #[test]
    fn a_block_without_viewers_waits_for_the_next_who_begins_and_for_their_way() {
        let film = film(0.01, &[]);
        assert!(near(wait(&film, 0, 0.0), 100.0));
        // Some leave on the way over 20 blocks.
        let comes = film.staying.share(0.0, 20.0 / 64.0);
        assert!(near(wait(&film, 20, 0.0), 200.0 + 100.0 / comes));
        let forgotten = self::film(0.0, &[]);
        assert_eq!(wait(&forgotten, 5, 0.0), f64::INFINITY);
    }

    #[test]
    fn a_block_waits_for_the_viewer_behind_it_as_long_as_their_speed_says() {
        // The viewer reached block 10 four seconds ago; block 14 is 40 s of film from there.
        for (speed, seconds) in [(1.0, 36.0), (2.0, 16.0), (0.5, 76.0)] {
            let film = film(0.0, &[(10, 100.0, speed)]);
            let comes = film.staying.share(10.0 / 64.0, 14.0 / 64.0);
            assert!(comes < 1.0);
            assert!(
                near(wait(&film, 14, 104.0), seconds / comes),
                "speed {speed}"
            );
            assert_eq!(wait(&film, 10, 104.0), f64::INFINITY, "the viewer has it");
        }
    }

    #[test]
    fn a_viewer_who_pauses_or_is_silent_for_two_minutes_goes_on_in_five() {
        let comes = |film: &Film| film.staying.share(10.0 / 64.0, 14.0 / 64.0);
        let paused = film(0.0, &[(10, 100.0, 0.0)]);
        assert!(near(wait(&paused, 14, 104.0), 340.0 / comes(&paused)));
        // The block itself lasts 10 s, and 120 s may pass beyond it; until then, the viewer is due.
        let silent = film(0.0, &[(10, 100.0, 1.0)]);
        assert_eq!(wait(&silent, 14, 230.0), 0.0);
        assert!(near(wait(&silent, 14, 230.5), 340.0 / comes(&silent)));
        // At twice the speed, the same film passes in half the time.
        let fast = film(0.0, &[(10, 100.0, 2.0)]);
        assert_eq!(wait(&fast, 14, 165.0), 0.0);
        assert!(near(wait(&fast, 14, 165.5), 340.0 / comes(&fast)));
    }

    #[test]
    fn a_viewer_who_rewinds_comes_from_beyond_every_other_time() {
        // 40 s of film at four times the speed, of which 2 s have passed.
        let film = film(0.0, &[(18, 100.0, -4.0)]);
        assert!(near(wait(&film, 14, 102.0), 2.0 * (10.0 - 2.0)));
        let playing = self::film(0.0, &[(18, 100.0, 1.0)]);
        assert_eq!(wait(&playing, 14, 102.0), f64::INFINITY);
    }

    #[test]
    fn a_fast_viewer_from_behind_comes_before_a_slow_one_that_is_nearer() {
        // 100 s of film take 12.5 s at eight times the speed; 20 s take 80 s at a quarter of it.
        let both = film(0.0, &[(4, 0.0, 8.0), (12, 0.0, 0.25)]);
        let comes = both.staying.share(4.0 / 64.0, 14.0 / 64.0);
        assert!(near(wait(&both, 14, 0.0), 12.5 / comes));
    }

    #[test]
    fn six_viewers_behind_a_block_are_looked_at() {
        // Five who pause, then one or two further back; the last is the first to arrive.
        let paused = [
            (13, 0.0, 0.0),
            (12, 0.0, 0.0),
            (11, 0.0, 0.0),
            (10, 0.0, 0.0),
            (9, 0.0, 0.0),
        ];
        let near_one = film(0.0, &[&paused[..], &[(4, 0.0, 8.0)]].concat());
        let comes = near_one.staying.share(4.0 / 64.0, 14.0 / 64.0);
        assert!(near(wait(&near_one, 14, 0.0), 12.5 / comes));
        let hidden = film(
            0.0,
            &[&paused[..], &[(8, 0.0, 0.0), (4, 0.0, 8.0)]].concat(),
        );
        assert!(wait(&hidden, 14, 0.0) > 300.0);
    }

    #[test]
    fn a_use_that_is_not_certain_is_weighed_against_what_it_costs() {
        // A probability of one half at 10 s: 20 s of memory per use. A second one soon after makes
        // it cheaper: 10 s, and half of 4 s, for three uses in four.
        let mut sum = Outlook::new();
        sum.chance(0.5, 10.0);
        sum.chance(0.5, 14.0);
        assert!(near(sum.end(), 16.0));
        // One that comes late does not: what follows the best moment does not count.
        let mut sum = Outlook::new();
        sum.chance(0.5, 10.0);
        sum.chance(0.5, 100.0);
        assert!(near(sum.end(), 20.0));
    }

    #[test]
    fn uses_at_random_come_after_one_over_their_rate() {
        let mut sum = Outlook::new();
        sum.rate = 0.1;
        assert!(near(sum.end(), 10.0));
        // A certain use at 10 s as well: (1 - 1/e) of that.
        let mut sum = Outlook::new();
        sum.rate = 0.1;
        sum.chance(1.0, 10.0);
        assert!(near(sum.end(), 6.321_205_588));
        // None for 5 s, then random uses.
        let mut sum = Outlook::new();
        sum.pass(5.0);
        sum.rate = 0.1;
        assert!(near(sum.end(), 15.0));
        // A probability of one half at 10 s, then random uses: 10 s and half of 10 s.
        let mut sum = Outlook::new();
        sum.chance(0.5, 10.0);
        sum.rate = 0.1;
        assert!(near(sum.end(), 15.0));
    }

    #[test]
    fn those_who_land_by_chance_come_the_sooner_the_nearer_their_part_is() {
        // Landings in the part of blocks 20 and 21 only.
        let mut all = Habits::new(0.0);
        (0..100_000).for_each(|_| all.came(Some(10), 0.0));
        let mut film = film(0.0, &[]);
        film.habits = all.clone();
        let wait = |block| film.wait(&all, 1, block, 1000.0);
        let (before, at, behind) = (wait(18), wait(21), wait(40));
        assert!(at < before && at < behind, "{before} {at} {behind}");
        // A hundred per second land there, and are on their way for at most half of the part, which
        // lasts 20 s.
        assert!((10.0..10.1).contains(&at), "{at}");
    }
}
