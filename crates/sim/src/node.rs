//! The node: the pool, the desk, the disk and the viewers, and the events in the order of their time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use reelway_admission::{BookingId, Capacity, Config as Admits, Curves, Desk, Resource};
use reelway_cache::{BlockId, Spec};
use reelway_demand::Reading;
use reelway_determinism::Random;
use reelway_media::{Nanos, SECOND};
use reelway_package::PackageError;
use reelway_playout::{Groups, Job, Kept, Link, Rules, Way};
use reelway_pool::{Ahead, Finished, Pin, Pool, Read};
use reelway_time::Monotonic;
use reelway_viewing::Budget;

use crate::client::{self, Client, Server};
use crate::config::{Config, Counters, Rule, Violation, Wrong};
use crate::copies::Copied;
use crate::disk::Disk;
use crate::events::{Event, Events};
use crate::fetcher::{Answering, Fetcher};
use crate::film::Film;
use crate::flows::Flows;
use crate::kernel::Kernel;
use crate::stream::{self, Lane, LetGo, Planned, Share};
use crate::trace::{Line, Trace};
use crate::viewer::{Viewer, Waiter};
use crate::wire::{QUEUE, Wire};
use crate::world::{BLOCK, LEAD, MAKERS, Making, Page, Pages};

/// Violations that are kept.
const MOST: usize = 20;

/// Blocks of a group, pinned.
pub(crate) type Held = Vec<Pin<Page>>;

/// Whom a request is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum For {
    /// Those who wait for this group of this track.
    Group(usize, usize),
    /// The block of a view that is made in the read of this number, of blocks of its film's file.
    View(u64),
    /// The answer that a viewer over HTTP is being sent.
    Answer(Answering),
}

/// A request to the pool.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub film: usize,
    pub whom: For,
    pub first: u32,
    pub blocks: u32,
    /// When it was made.
    pub at: Monotonic,
    /// When the blocks are due.
    pub due: Monotonic,
}

/// A node and its world.
pub(crate) struct Node {
    pub config: Config,
    pub now: Monotonic,
    pub events: Events,
    /// Nothing is processed before this.
    pub frozen: Monotonic,
    pub random: Random,
    pub trace: Trace,
    pub violations: Vec<Violation>,
    pub counters: Counters,

    pub films: Vec<Film>,
    pub desk: Desk,
    pub curves: Curves<usize>,
    /// The RTSP server, its films, and its clients by viewer.
    pub rtsp: Server,
    pub described: Vec<Arc<reelway_rtsp::film::Film<usize>>>,
    /// Which film each title is now: another one, once its file was replaced.
    pub titles: Vec<usize>,
    /// A film began elsewhere than where it was judged to begin: more may be booked than there is.
    pub is_unjudged: bool,
    /// The last who was judged again over RTSP, where from, and when.
    pub judged: Option<(u64, Nanos, Monotonic)>,
    /// Since when viewers over RTSP say nothing, whose sessions have not ended.
    pub silent: BTreeMap<u64, Monotonic>,
    pub clients: BTreeMap<u64, Client>,
    /// Who has which booking.
    pub bookings: BTreeMap<BookingId, u64>,
    /// Viewers over HTTP, and who they are by what they bring.
    pub fetchers: BTreeMap<u64, Fetcher>,
    /// Those who were given up while they paused: which film, and where.
    pub away: BTreeMap<u64, (usize, Nanos)>,
    /// Whether there are any.
    pub has_http: bool,
    pub known: reelway_viewing::Viewers<u64>,
    /// What answers over HTTP may pin together, and what is left of it.
    pub budget: Budget,
    pub leaves: usize,
    /// Copies of blocks that their connections are given.
    pub copied: Option<Copied>,
    /// Whether viewers who seek or resume are judged again.
    pub asks_again: bool,
    pub pool: Pool<Pages>,
    /// Reads of the disk, and blocks of views that are made, are in these queues of the pool.
    pub disk_queue: usize,
    pub views: usize,
    pub disk: Disk,
    /// How long the disk is taken to need for a block.
    pub each: Duration,
    /// Reads that it is given at once.
    pub depth: u32,
    pub reads: BTreeMap<u64, Read<Pages>>,
    /// Films of which a read has failed.
    pub unread: BTreeSet<usize>,
    /// Blocks of views in the making, by the numbers of their reads.
    pub making: BTreeMap<u64, Making>,
    /// What is gathered on the way, kept from block to block.
    pub room: Vec<Vec<u8>>,
    /// Which films are in files is drawn apart, so that all others are the same with and without them.
    pub files: Random,
    /// What the pool has answered, and nobody has looked at yet.
    pub answers: VecDeque<Finished<Pages>>,
    /// Requests without an answer.
    pub asked: BTreeMap<u64, Ask>,
    pub tags: u64,
    pub viewers: BTreeMap<u64, Viewer>,
    pub lane: Lane,
    pub rules: Arc<Rules<Share>>,
    pub kernel: Kernel,
    /// The limited link, as the lane has it, and as it is.
    pub way: Option<Arc<Way>>,
    pub wire: Wire,
    /// What viewers over HTTP are being sent over it.
    pub flows: Flows,
    /// Bytes that a limited link owes to the seconds before: what is booked beyond its rate leaves ahead of its time.
    pub owed: u64,
    /// Kept, so that a turn allocates nothing.
    pub jobs: Vec<Job>,
    /// Groups by film, track and number.
    pub groups: Groups<stream::Pages, Waiter>,
    /// Who waits for which group, by viewer, epoch, track and group: when it is due.
    pub waits: BTreeMap<(u64, u32, usize, usize), Monotonic>,
    /// Groups that were there, and have not been given yet.
    pub ready: VecDeque<(Waiter, Arc<Planned>)>,
    /// Plans of groups.
    pub kept: Kept,
    /// Blocks that were let go, and nobody has looked at yet.
    pub let_go: LetGo,
    pub came: u64,
    /// Pages that viewers hold: what is in them, and how many pins there are.
    pub pins: BTreeMap<u32, (BlockId, u32)>,
    /// Groups that a wrong model keeps.
    pub leaked: Vec<Arc<Planned>>,

    /// A fault is effective until then.
    pub fault_until: Monotonic,
    /// What a fault has delayed has not all been read yet.
    pub backlog: bool,
    /// The last moment at which something could explain a delay.
    pub excused: Monotonic,
    /// Whether something does now, and since when it or what did last has.
    pub is_excused: bool,
    pub excused_from: Monotonic,
    pub closing: bool,
    /// When newcomers' groups were asked for of late, and their blocks.
    pub newcomers: VecDeque<(Monotonic, u32)>,
}

/// Number of the random numbers by which films are in files.
const FILES: u64 = 1;
/// Number of those by which viewers over HTTP share a limited link.
const LINK: u64 = 2;
/// Number of those by which their connections are given copies of blocks.
const COPIES: u64 = 3;
/// In one seed of so many, a film is in a file.
pub(crate) const IN_A_FILE: u64 = 4;

/// The beginning of the run, on the clock: not at zero, where subtraction ends.
const BORN: Monotonic = Monotonic::from_nanos(1_000 * SECOND as u64);

/// How films are read.
pub(crate) const READING: Reading = Reading {
    block: BLOCK,
    ahead: LEAD,
};

/// How far ahead of its time a film may leave over a limited link, ns: `rtp.smooth_ahead` by default.
const LINK_AHEAD: u64 = SECOND as u64;
/// Of the pool's blocks, one in so many may be pinned by groups that are read again for lost packets.
const AGAIN: usize = 16;

/// One in so many by viewers over TCP who do not read.
const BEHIND: usize = 16;

/// What the server goes by if nothing is configured.
fn rules(blocks: usize) -> Rules<Share> {
    Rules {
        burst: 8,
        drop_after: 100_000_000,
        ahead: LEAD,
        link_ahead: LINK_AHEAD,
        lag_limit: 10 * SECOND as u64,
        catch_up: SECOND as u64,
        report_interval: 5 * SECOND as u64,
        behind: Share::of((blocks / BEHIND).max(1)),
        again: Share::of((blocks / AGAIN).max(1)),
    }
}

impl Node {
    /// The machine of a seed, without viewers.
    ///
    /// # Errors
    /// A film cannot be made.
    pub fn new(seed: u64, config: &Config) -> Result<Node, PackageError> {
        let mut random = Random::new(seed);
        let policy = *random.one_of(Spec::NAMES);
        let blocks = random.within(24, 100) as u32;
        let rate = random.within(5_000_000, 16_000_000);
        let depth = random.within(1, 6) as u32;
        let net = random.within(3_000_000, 12_000_000);
        let asks_again = !random.once_in(3);
        let wait = *random.one_of(&[0, 0, 10]);
        let has_http = random.once_in(2);
        // Whether viewers over HTTP share a limited link is drawn apart, so that all other seeds are as they were.
        let limited = match has_http {
            true => Random::nth(seed, LINK).once_in(2),
            false => random.once_in(2),
        };
        let mut copies = Random::nth(seed, COPIES);
        let copied = (has_http && copies.once_in(2))
            .then(|| Copied::new(copies, config.wrong == Some(Wrong::FilledAgain)));
        let one_in = *random.one_of(&[0, 50, 400]);
        let way = limited.then(|| {
            let link = Arc::new(Link::new(net, QUEUE, 1));
            Arc::new(Way {
                number: 0,
                links: vec![link],
            })
        });
        let pages = |number| Page {
            number,
            holds: None,
            made: Vec::new(),
        };
        let mut pool = Pool::new(
            (0..blocks).map(pages).collect(),
            policy
                .parse::<Spec>()
                .unwrap_or_default()
                .build(blocks.into(), blocks as usize),
            None::<Ahead>,
            BORN,
        );
        let disk_queue = pool.add_queue(depth as usize, false);
        let views = pool.add_queue(MAKERS, true);
        let mut files = Random::nth(seed, FILES);
        let (mut films, mut differs) = (Vec::new(), None);
        for nth in 0..random.within(2, 5) as usize {
            let seconds = random.within(20, 20 + config.seconds);
            let mut film = Film::make(&mut random, (nth, nth), seconds, READING)?;
            if nth == 0 && files.once_in(IN_A_FILE) {
                match Film::in_a_file(&mut files, (nth, nth), READING) {
                    Ok(one) => film = one,
                    Err(what) => differs = Some(what),
                }
            }
            film.is_opened(nth, |file| pool.open(file, BORN));
            films.push(film);
        }
        let titles = (0..films.len()).collect();
        let films_over_rtsp = films.iter().enumerate();
        let described = films_over_rtsp
            .filter_map(|(number, film)| client::described(film, number))
            .collect();
        // What HTTP, lost packets and viewers who do not read may pin is set aside. Headroom for what no timetable knows: reads for viewers who have left, blocks that
        // are read before their first byte is due.
        let budget = Budget::of(blocks.into(), BLOCK);
        let aside = [AGAIN, BEHIND].map(|part| u64::from(blocks / part as u32).max(1));
        let others = u64::from(blocks) - budget.blocks as u64 - aside.iter().sum::<u64>();
        let capacity = Capacity::unlimited()
            .with(Resource::Network(0), net, 980)
            .with(Resource::Disk, rate, 700)
            .with(Resource::Memory, others * BLOCK, 800);
        let admits = Admits {
            capacity,
            wait,
            ask_again: asks_again,
            reading: READING,
            link_ahead: match limited {
                true => Duration::from_nanos(LINK_AHEAD),
                false => Duration::ZERO,
            },
            ..Admits::default()
        };
        let carries = match config.wrong {
            Some(Wrong::SlowLink) => net / 2,
            _ => net,
        };
        let slower = match config.wrong {
            Some(Wrong::SlowDisk) => 8,
            _ => 1,
        };
        let mut node = Node {
            config: config.clone(),
            now: BORN,
            events: Events::default(),
            frozen: BORN,
            trace: Trace::new(config.trace),
            violations: Vec::new(),
            counters: Counters::default(),
            films,
            curves: Curves::new(&admits),
            desk: Desk::new(admits),
            rtsp: client::server(),
            described,
            titles,
            is_unjudged: false,
            judged: None,
            silent: BTreeMap::new(),
            clients: BTreeMap::new(),
            bookings: BTreeMap::new(),
            fetchers: BTreeMap::new(),
            away: BTreeMap::new(),
            has_http,
            known: reelway_viewing::Viewers::new(false),
            leaves: budget.blocks,
            copied,
            budget,
            asks_again,
            pool,
            disk_queue,
            views,
            making: BTreeMap::new(),
            room: Vec::new(),
            files,
            disk: Disk::new(rate / slower, BLOCK),
            each: Duration::from_nanos(BLOCK * SECOND as u64 / rate),
            depth,
            reads: BTreeMap::new(),
            unread: BTreeSet::new(),
            answers: VecDeque::new(),
            asked: BTreeMap::new(),
            tags: 0,
            viewers: BTreeMap::new(),
            lane: Lane::new(0, BORN.nanos()),
            rules: Arc::new(rules(blocks as usize)),
            way,
            wire: Wire::new(limited.then_some(carries), one_in),
            flows: Flows::default(),
            owed: 0,
            kernel: Kernel::new(),
            jobs: Vec::new(),
            groups: Groups::default(),
            waits: BTreeMap::new(),
            ready: VecDeque::new(),
            kept: Kept::default(),
            let_go: LetGo::default(),
            came: 0,
            pins: BTreeMap::new(),
            leaked: Vec::new(),
            fault_until: Monotonic::ZERO,
            backlog: false,
            excused: Monotonic::ZERO,
            is_excused: false,
            excused_from: Monotonic::ZERO,
            closing: false,
            newcomers: VecDeque::new(),
            random,
        };
        node.note(&Line::Machine {
            blocks,
            disk: rate,
            depth: depth as usize,
            net,
            asks_again,
            policy,
        });
        if let Some(what) = differs {
            node.broken(Rule::AsPutIn, what);
        }
        node.desk.advance(BORN);
        node.arrange_all();
        Ok(node)
    }

    /// What is certain to happen.
    fn arrange_all(&mut self) {
        for film in 0..self.films.len() {
            let of = &self.films[film];
            let line = Line::Film {
                film,
                blocks: of
                    .parts
                    .iter()
                    .flatten()
                    .map(|part| part.blocks.end)
                    .max()
                    .unwrap_or(0),
                groups: of.parts.iter().map(Vec::len).sum(),
                ms: (of.length() / 1_000_000) as u64,
            };
            self.note(&line);
        }
        let millis = self.config.seconds * 1000;
        for _ in 0..self.config.viewers {
            // Half of them in the beginning.
            let by = if self.random.once_in(2) {
                millis / 10
            } else {
                millis * 3 / 4
            };
            let after = self.random.within(0, by);
            self.after(Duration::from_millis(after), Event::Come);
        }
        if self.config.faults && self.random.once_in(2) {
            for _ in 0..self.random.within(1, 4) {
                let after = self.random.within(millis / 20, millis);
                self.after(Duration::from_millis(after), Event::Fault);
            }
        }
        for second in 1..=self.config.seconds {
            self.after(Duration::from_secs(second), Event::Second);
        }
        self.after(Duration::from_secs(self.config.seconds), Event::Close);
    }

    /// Since the beginning.
    pub fn time(&self) -> Duration {
        self.time_of(self.now)
    }

    /// A moment, since the beginning.
    pub fn time_of(&self, moment: Monotonic) -> Duration {
        moment.since(BORN)
    }

    pub fn note(&mut self, line: &Line) {
        self.trace.note(self.now.since(BORN), line);
    }

    /// Something must not have happened.
    pub fn broken(&mut self, rule: Rule, what: String) {
        self.note(&Line::Broken {
            rule: rule.name(),
            what: what.clone(),
        });
        if self.violations.len() < MOST {
            let at = self.time();
            self.violations.push(Violation { at, rule, what });
        }
    }
}
