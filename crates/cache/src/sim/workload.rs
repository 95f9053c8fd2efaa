//! Generated requests: films, and viewers who arrive at random, leave early, seek, and play fast.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use reelway_determinism::Random;

use super::{Event, Requests};

/// Maximum number of requests in a workload, which have to fit the machine's memory.
const MOST_REQUESTS: f64 = 60e6;

/// Speed of fast play.
const FAST: f64 = 8.0;

/// The workload to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Films in the catalogue.
    pub films: u32,
    /// Exponent of Zipf's law: the film of rank r is requested in proportion to 1/r^zipf.
    pub zipf: f64,
    /// Viewers who arrive per second (a Poisson process).
    pub arrivals: f64,
    /// Length of the shortest and of the longest film; lengths are evenly distributed between them.
    pub lengths: (Duration, Duration),
    /// Bytes per second of film.
    pub bytes_per_second: u64,
    /// Bytes of a block.
    pub block: u32,
    /// For how long viewers arrive.
    pub duration: Duration,
    /// The part of that at the beginning that trains the policy but is not counted.
    pub warmup: Duration,
    /// The share of viewers who leave early, at a place that is uniformly distributed over the
    /// film.
    pub leave: f64,
    /// Seeks per viewer, on average (at most 20 for any viewer), from anywhere to anywhere.
    pub seeks: f64,
    /// The share of viewers who once play a tenth of the film at eight times the speed.
    pub fast: f64,
    /// Time after which films exchange their popularity; zero for never.
    pub shuffle: Duration,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            films: 200,
            zipf: 0.9,
            arrivals: 0.05,
            lengths: (Duration::from_secs(80 * 60), Duration::from_secs(130 * 60)),
            bytes_per_second: 500_000,
            block: 4 << 20,
            duration: Duration::from_secs(48 * 3600),
            warmup: Duration::from_secs(24 * 3600),
            leave: 0.0,
            seeks: 0.0,
            fast: 0.0,
            shuffle: Duration::ZERO,
            seed: 1,
        }
    }
}

/// Why a workload cannot be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A number is out of range.
    #[error("{what} is {value}: it must be {must}")]
    Value {
        /// The number's name.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The condition that it must meet.
        must: &'static str,
    },
    /// There would be more requests than memory holds.
    #[error(
        "about {0:.0} million requests would be made, at most {most:.0} million are possible; \
         use fewer viewers, a shorter time or larger blocks",
        most = MOST_REQUESTS / 1e6
    )]
    TooMany(f64),
}

/// What a viewer still has to do.
#[derive(Clone, Debug)]
struct Viewer {
    number: u32,
    film: u32,
    /// The block that the viewer requests next.
    block: u32,
    /// The viewer leaves before this block.
    end: u32,
    /// Blocks at which the viewer seeks, and the targets; the first seek is last.
    seeks: Vec<(u32, u32)>,
    /// Blocks that are played fast.
    fast: std::ops::Range<u32>,
}

impl Workload {
    fn check(&self) -> Result<(), WorkloadError> {
        let value = |what, value: f64, good: bool, must| match good {
            true => Ok(()),
            false => Err(WorkloadError::Value { what, value, must }),
        };
        let share =
            |what, number: f64| value(what, number, (0.0..=1.0).contains(&number), "from 0 to 1");
        let films = f64::from(self.films);
        value(
            "films",
            films,
            (1..=1_000_000).contains(&self.films),
            "from 1 to 1000000",
        )?;
        value(
            "zipf",
            self.zipf,
            (0.0..=5.0).contains(&self.zipf),
            "from 0 to 5",
        )?;
        value(
            "arrivals",
            self.arrivals,
            self.arrivals > 0.0 && self.arrivals <= 1000.0,
            "above 0 and at most 1000 a second",
        )?;
        share("leave", self.leave)?;
        value(
            "seeks",
            self.seeks,
            (0.0..=20.0).contains(&self.seeks),
            "from 0 to 20",
        )?;
        share("fast-play", self.fast)?;
        value(
            "block",
            self.block.into(),
            self.block >= 4096,
            "at least 4096 bytes",
        )?;
        let rate = self.bytes_per_second;
        value(
            "bitrate",
            rate as f64,
            (1000..=1 << 30).contains(&rate),
            "from 8 kbit/s to 8 Gbit/s",
        )?;
        let (short, long) = self.lengths;
        let ordered = short >= Duration::from_secs(1) && short <= long;
        value(
            "lengths",
            short.as_secs_f64(),
            ordered,
            "at least a second, the shortest first",
        )?;
        let most = Duration::from_secs(1_000_000);
        value(
            "lengths",
            long.as_secs_f64(),
            long <= most,
            "at most 1000000 seconds",
        )?;
        let whole = self.duration.as_secs_f64();
        let duration_good = self.duration > self.warmup && self.duration.as_secs() < 1 << 30;
        value(
            "duration",
            whole,
            duration_good,
            "longer than the warm-up, and less than 34 years",
        )?;
        let blocks = long.as_secs_f64() * rate as f64 / f64::from(self.block);
        value(
            "films",
            films,
            blocks * films < 4e9,
            "fewer: there would be over 4e9 blocks",
        )?;
        let requests = self.arrivals * whole * ((short + long).as_secs_f64() / 2.0) * rate as f64
            / f64::from(self.block);
        match requests <= MOST_REQUESTS {
            true => Ok(()),
            false => Err(WorkloadError::TooMany(requests / 1e6)),
        }
    }

    /// Generates the requests.
    ///
    /// # Errors
    ///
    /// A number is out of range, or there would be too many requests.
    pub fn make(&self) -> Result<Requests, WorkloadError> {
        self.check()?;
        let mut random = Random::new(self.seed);
        let mut requests = Requests::default();
        let block_seconds = f64::from(self.block) / self.bytes_per_second as f64;
        let (short, long) = (self.lengths.0.as_secs_f64(), self.lengths.1.as_secs_f64());
        for _ in 0..self.films {
            let blocks = (random.between(short, long) / block_seconds)
                .ceil()
                .max(1.0);
            requests.add(
                blocks as u32,
                Duration::from_secs_f64(blocks * block_seconds),
            );
        }
        requests.catalogue = requests.objects() as u64 * u64::from(self.block);

        let mut sum = 0.0;
        let cumulated: Vec<f64> = (1..=self.films)
            .map(|rank| {
                sum += f64::from(rank).powf(-self.zipf);
                sum
            })
            .collect();
        if self.shuffle.is_zero() {
            let rate = |rank: u32| self.arrivals * f64::from(rank).powf(-self.zipf) / sum;
            requests.rates = (1..=self.films).map(rate).collect();
        }
        // Which film has which rank: lengths and ranks are independent to begin with.
        let mut ranked: Vec<u32> = (0..self.films).collect();

        let end = self.duration.as_secs_f64();
        let mut shuffle_at = match self.shuffle.is_zero() {
            true => f64::INFINITY,
            false => self.shuffle.as_secs_f64(),
        };
        // In microseconds, so that they can be ordered.
        let micros = |seconds: f64| (seconds * 1e6) as u64;
        let mut present: Vec<Viewer> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        let mut queue: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut arrival = random.exponential(1.0 / self.arrivals);
        let mut number = 0;
        loop {
            let next = queue.peek().map(|Reverse((at, _))| *at);
            if arrival < end && next.is_none_or(|next| micros(arrival) <= next) {
                if arrival >= shuffle_at {
                    shuffle_at += self.shuffle.as_secs_f64();
                    for at in (1..ranked.len()).rev() {
                        ranked.swap(at, place(&mut random, at as u32 + 1) as usize);
                    }
                }
                let drawn = random.unit() * sum;
                let rank = cumulated.partition_point(|so_far| *so_far < drawn);
                number += 1;
                let film = ranked[rank.min(ranked.len() - 1)];
                let viewer = self.viewer(number, film, &requests, &mut random);
                let at = free.pop().unwrap_or(present.len());
                match at < present.len() {
                    true => present[at] = viewer,
                    false => present.push(viewer),
                }
                queue.push(Reverse((micros(arrival), at)));
                arrival += random.exponential(1.0 / self.arrivals);
                continue;
            }
            let Some(Reverse((now, at))) = queue.pop() else {
                break;
            };
            if now >= micros(end) {
                break;
            }
            let viewer = &mut present[at];
            if viewer.block >= viewer.end {
                requests.events.push(Event::Left {
                    at: now / 1000,
                    viewer: viewer.number,
                });
                free.push(at);
                continue;
            }
            let speed = match viewer.fast.contains(&viewer.block) {
                true => FAST,
                false => 1.0,
            };
            if requests.warm == 0 && now >= micros(self.warmup.as_secs_f64()) {
                requests.warm = requests.events.len();
            }
            requests.events.push(Event::Use {
                at: now / 1000,
                object: requests.first[viewer.film as usize] + viewer.block,
                bytes: self.block,
                viewer: viewer.number,
                speed: (speed * 100.0) as i16,
            });
            viewer.block += 1;
            if let Some((_, to)) = viewer.seeks.pop_if(|(from, _)| *from <= viewer.block) {
                viewer.block = to;
            }
            queue.push(Reverse((now + micros(block_seconds / speed), at)));
        }
        Ok(requests)
    }

    fn viewer(&self, number: u32, film: u32, requests: &Requests, random: &mut Random) -> Viewer {
        let blocks = requests.films[film as usize].blocks;
        let end = match random.happens(self.leave) {
            true => 1 + place(random, blocks),
            false => blocks,
        };
        let mut seeks = Vec::new();
        let mut count = self.seeks.floor() as usize;
        count += usize::from(random.happens(self.seeks.fract()));
        for _ in 0..count {
            seeks.push((place(random, end), place(random, end)));
        }
        seeks.sort_unstable_by(|a, b| b.cmp(a));
        let fast = match random.happens(self.fast) {
            true => {
                let from = place(random, end);
                from..from + blocks / 10
            }
            false => 0..0,
        };
        Viewer {
            number,
            film,
            block: 0,
            end,
            seeks,
            fast,
        }
    }
}

/// A random block of a film, or of its beginning, that has this many blocks.
fn place(random: &mut Random, blocks: u32) -> u32 {
    (random.unit() * f64::from(blocks)) as u32
}
