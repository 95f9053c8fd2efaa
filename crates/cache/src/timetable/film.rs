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

#[derive(Debug)]
pub(super) struct Film {
    pub blocks: u32,
    /// Seconds a block plays.
    pub block_seconds: f64,
    /// By place; the last block each has been given.
    pub viewers: BTreeMap<(u32, ViewerId), Front>,
    pub resident: BTreeMap<u32, Slot>,
    pub habits: Habits,
    pub staying: Staying,
    /// How often it is begun, if that need not be learned.
    pub told: Option<f64>,
    /// Number of the newest entry in the queue for the blocks beyond the front viewer.
    pub version: u32,
}

impl Film {
    pub fn new(all: &Habits, now: f64) -> Film {
        let habits = Habits::new(now);
        let staying = habits.staying(all);
        Film {
            blocks: 1,
            block_seconds: USUAL_BLOCK,
            viewers: BTreeMap::new(),
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
