//! One film: its viewers, its blocks in memory, and how long a block will wait for its next viewer.

use std::collections::BTreeMap;

use super::habits::{Habits, PARTS, Staying};
use crate::{Slot, ViewerId};

/// Viewers behind a block that are looked at: whoever comes after them is too late to matter.
const LOOK_BACK: usize = 6;

/// A viewer from whom nothing is heard for this long, in seconds of film beyond a block, pauses.
const SILENT: f64 = 120.0;

/// A viewer who pauses is taken to go on after this many seconds.
const PAUSE: f64 = 300.0;

/// A film no one has described: seconds a block.
const USUAL_BLOCK: f64 = 2.0;

/// A viewer in the film, at a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// When the viewer came to the block, in seconds.
    pub since: f64,
    pub speed: f64,
}

/// A jump is no seek if playing on would have brought the viewer there within this many seconds: readers
/// fetch ahead.
pub(super) const AHEAD: f64 = 30.0;

/// Blocks that someone reads at once, one behind the other, and that may come in any order.
const AT_ONCE: u32 = 16;

#[derive(Debug)]
pub(super) struct Film {
    pub blocks: u32,
    /// Seconds a block plays.
    pub block_seconds: f64,
    /// By place; the last block each has been given.
    pub viewers: BTreeMap<(u32, ViewerId), Front>,
    /// The last one unknown who used a block.
    pub unknown: Option<Unknown>,
    pub resident: BTreeMap<u32, Slot>,
    pub habits: Habits,
    pub staying: Staying,
    /// How often it is begun, if that need not be learned.
    pub told: Option<f64>,
    /// Number of the newest entry in the queue for the blocks beyond the front viewer.
    pub version: u32,
}

/// Someone of whom nothing is known but the blocks that they use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unknown {
    /// The last block they used.
    block: u32,
    /// When, in seconds.
    at: f64,
    /// They have used another one before.
    moves: bool,
}

impl Unknown {
    /// Someone uses a block, who comes with it as far as is known.
    pub fn new(block: u32, at: f64) -> Unknown {
        Unknown {
            block,
            at,
            moves: false,
        }
    }

    /// The same one, if they may have read on to this block: several blocks at once, or a part of one and then the rest.
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

    /// The part of the film a block lies in.
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

    /// How long until a viewer comes to what lies `film_time` seconds ahead of them.
    fn delay(&self, front: &Front, film_time: f64, now: f64) -> f64 {
        let here = now - front.since;
        // The viewer has not come to the next block on time: a player that pauses says nothing, and
        // one with a long buffer asks in bursts.
        if front.speed <= 0.0 || here * front.speed > self.block_seconds + SILENT {
            return film_time + PAUSE;
        }
        film_time / front.speed - here
    }

    /// How long `block` waits for its next use, in seconds of memory spent for each use that comes of it.
    ///
    /// The next use is uncertain: the viewers behind may leave before they are here, and those who have
    /// not come yet come at random. To keep the block until some moment costs the time until it is used
    /// or that moment, whichever is first, and brings a use with the chance that one comes by then. The
    /// wait is the best such ratio over all moments; where a viewer is sure to come it is the time until
    /// they are here.
    pub fn wait(&self, all: &Habits, films: usize, block: u32, now: f64) -> f64 {
        let place = self.place(block);
        let mut sum = Outlook::new();
        let mut coming = [(f64::INFINITY, 0.0); LOOK_BACK];
        let mut count = 0;
        for ((behind, _), front) in self.viewers.range(..(block, 0)).rev().take(LOOK_BACK) {
            let film_time = f64::from(block - behind) * self.block_seconds;
            let delay = self.delay(front, film_time, now);
            let comes = self.staying.share(self.place(*behind), place);
            // In the order of coming; a fast one may come before one that is nearer.
            let mut at = count;
            while at > 0 && coming[at - 1].0 > delay {
                coming[at] = coming[at - 1];
                at -= 1;
            }
            coming[at] = (delay.max(0.0), comes);
            count += 1;
        }
        // Who rewinds from beyond comes to it from there.
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
            // Those who land at random behind the block, the nearest first.
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
        // Those who begin after now are here after the whole way at the earliest.
        sum.pass(f64::from(block) * self.block_seconds);
        let starts = self
            .told
            .unwrap_or_else(|| self.habits.starts(all, films, now));
        sum.rate += starts * self.staying.share(0.0, place);
        sum.end()
    }
}

/// What has been summed up of the time ahead.
struct Outlook {
    /// Seconds from now.
    at: f64,
    /// Random uses a second from here on.
    rate: f64,
    /// Chance that no use has come yet.
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

    /// Time goes on to `to`, uses coming at the present rate.
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

    /// A use comes with the chance `comes`, at `delay`.
    fn chance(&mut self, comes: f64, delay: f64) {
        self.pass(delay);
        self.open *= 1.0 - comes;
        if self.open < 1.0 {
            self.best = self.best.min(self.spent / (1.0 - self.open));
        }
    }

    /// For ever at the present rate.
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

    /// A film of 64 blocks of 10 s that is begun `starts` times a second, with viewers at these blocks, each since a
    /// moment at a speed.
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
        // Some leave on their way of 20 blocks.
        let comes = film.staying.share(0.0, 20.0 / 64.0);
        assert!(near(wait(&film, 20, 0.0), 200.0 + 100.0 / comes));
        let forgotten = self::film(0.0, &[]);
        assert_eq!(wait(&forgotten, 5, 0.0), f64::INFINITY);
    }

    #[test]
    fn a_block_waits_for_the_viewer_behind_it_as_long_as_their_speed_says() {
        // Four seconds ago the viewer came to block 10; block 14 is 40 s of film from there.
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
        // The block itself lasts 10 s, and 120 s may pass beyond it; then the viewer is due.
        let silent = film(0.0, &[(10, 100.0, 1.0)]);
        assert_eq!(wait(&silent, 14, 230.0), 0.0);
        assert!(near(wait(&silent, 14, 230.5), 340.0 / comes(&silent)));
        // At twice the speed as much film passes in half the time.
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
        // 100 s of film at eight times the speed are 12.5 s; 20 s at a quarter are 80 s.
        let both = film(0.0, &[(4, 0.0, 8.0), (12, 0.0, 0.25)]);
        let comes = both.staying.share(4.0 / 64.0, 14.0 / 64.0);
        assert!(near(wait(&both, 14, 0.0), 12.5 / comes));
    }

    #[test]
    fn six_viewers_behind_a_block_are_looked_at() {
        // Five who pause, then one or two further back; the last is the first to come.
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
        // Half of the chance at 10 s: 20 s of memory for each use. A second one soon after makes it cheaper: 10 s,
        // and half of 4 s, for three uses in four.
        let mut sum = Outlook::new();
        sum.chance(0.5, 10.0);
        sum.chance(0.5, 14.0);
        assert!(near(sum.end(), 16.0));
        // One that comes late does not: what goes on after the best moment does not count.
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
        // A certain one at 10 s besides: (1 - 1/e) of that.
        let mut sum = Outlook::new();
        sum.rate = 0.1;
        sum.chance(1.0, 10.0);
        assert!(near(sum.end(), 6.321_205_588));
        // None for 5 s, and then at random.
        let mut sum = Outlook::new();
        sum.pass(5.0);
        sum.rate = 0.1;
        assert!(near(sum.end(), 15.0));
        // Half of the chance at 10 s, then at random: 10 s and half of 10 s.
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
        // A hundred a second land there, and are on their way for half of the part, which lasts 20 s, at most.
        assert!((10.0..10.1).contains(&at), "{at}");
    }
}
