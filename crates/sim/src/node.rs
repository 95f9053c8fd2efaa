//! The node: the pool, the desk, the disk and the viewers.

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

/// The number of violations that are kept.
const MOST: usize = 20;

/// Blocks of a group, pinned.
pub(crate) type Held = Vec<Pin<Page>>;

/// The purpose of a request to the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum For {
    /// The viewers who wait for this group of this track.
    Group(usize, usize),
    /// The block of a view that the read with this number makes from blocks of the film's file.
    View(u64),
    /// The answer that an HTTP viewer is being sent.
    Answer(Answering),
}

/// A request to the pool.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub film: usize,
    pub whom: For,
    pub first: u32,
    pub blocks: u32,
    /// When the request was made.
    pub at: Monotonic,
    /// When the blocks are due.
    pub due: Monotonic,
}

/// A node and its environment.
pub(crate) struct Node {
    pub config: Config,
    pub now: Monotonic,
    pub events: Events,
    /// Nothing is handled before this time.
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
    /// The current film of each title; it changes when the file is replaced.
    pub titles: Vec<usize>,
    /// Whether a film began elsewhere than where it was judged: more than the limit may be booked.
    pub is_unjudged: bool,
    /// The last viewer judged again over RTSP, with the position and the time.
    pub judged: Option<(u64, Nanos, Monotonic)>,
    /// RTSP viewers who have become silent and whose sessions have not ended, with the time.
    pub silent: BTreeMap<u64, Monotonic>,
    pub clients: BTreeMap<u64, Client>,
    /// The viewers, by booking.
    pub bookings: BTreeMap<BookingId, u64>,
    /// HTTP viewers.
    pub fetchers: BTreeMap<u64, Fetcher>,
    /// HTTP viewers who were given up while they paused, with the film and the position.
    pub away: BTreeMap<u64, (usize, Nanos)>,
    /// Whether there are HTTP viewers.
    pub has_http: bool,
    pub known: reelway_viewing::Viewers<u64>,
    /// How many blocks answers over HTTP may pin together, and how many of these are left.
    pub budget: Budget,
    pub leaves: usize,
    /// Copies of blocks that HTTP connections are given.
    pub copied: Option<Copied>,
    /// Whether viewers who seek or resume are judged again.
    pub asks_again: bool,
    pub pool: Pool<Pages>,
    /// The pool's queues for reads of the disk, and for blocks of views.
    pub disk_queue: usize,
    pub views: usize,
    pub disk: Disk,
    /// How long the disk is assumed to take for a block.
    pub each: Duration,
    /// How many reads the disk is given at a time.
    pub depth: u32,
    pub reads: BTreeMap<u64, Read<Pages>>,
    /// Films of which a read has failed.
    pub unread: BTreeSet<usize>,
    /// Blocks of views that are being made, by the numbers of their reads.
    pub making: BTreeMap<u64, Making>,
    /// Buffers reused from block to block.
    pub room: Vec<Vec<u8>>,
    /// Random numbers for films in files, drawn separately so that all other films are the same
    /// with and without these.
    pub files: Random,
    /// Answers of the pool that have not been handled yet.
    pub answers: VecDeque<Finished<Pages>>,
    /// Requests without an answer.
    pub asked: BTreeMap<u64, Ask>,
    pub tags: u64,
    pub viewers: BTreeMap<u64, Viewer>,
    pub lane: Lane,
    pub rules: Arc<Rules<Share>>,
    pub kernel: Kernel,
    /// The limited link, as the lane sees it, and as it really is.
    pub way: Option<Arc<Way>>,
    pub wire: Wire,
    /// What HTTP viewers are being sent over it.
    pub flows: Flows,
    /// Bytes that the limited link owes from earlier seconds: what is booked beyond its rate leaves
    /// ahead of its time.
    pub owed: u64,
    /// Kept so that a turn allocates nothing.
    pub jobs: Vec<Job>,
    /// Groups by film, track and number.
    pub groups: Groups<stream::Pages, Waiter>,
    /// Waiting viewers by viewer, epoch, track and group, with the deadline.
    pub waits: BTreeMap<(u64, u32, usize, usize), Monotonic>,
    /// Groups that were in memory, and have not been handed over yet.
    pub ready: VecDeque<(Waiter, Arc<Planned>)>,
    /// Plans of groups.
    pub kept: Kept,
    /// Blocks that were released, and have not been handled yet.
    pub let_go: LetGo,
    pub came: u64,
    /// Pages that viewers hold, with their blocks and the number of pins.
    pub pins: BTreeMap<u32, (BlockId, u32)>,
    /// Groups that a wrong model keeps.
    pub leaked: Vec<Arc<Planned>>,

    /// Blocks of the pool that faults have taken, by the number of their return.
    pub lent: BTreeMap<u64, Vec<(u32, Page)>>,
    /// When the effect of the last fault ends.
    pub fault_until: Monotonic,
    /// Whether reads that a fault has delayed are still waiting.
    pub backlog: bool,
    /// The last moment at which something could explain a delay.
    pub excused: Monotonic,
    /// Whether something does now, and the beginning of the current or last cause.
    pub is_excused: bool,
    pub excused_from: Monotonic,
    pub closing: bool,
    /// When blocks for newcomers' groups were recently requested, and how many.
    pub newcomers: VecDeque<(Monotonic, u32)>,
}

/// Number of the random sequence that decides about films in files.
const FILES: u64 = 1;
/// Number of the one that decides whether HTTP viewers share a limited link.
const LINK: u64 = 2;
/// Number of the one that decides whether their connections are given copies of blocks.
const COPIES: u64 = 3;
/// One seed in this many has a film in a file.
pub(crate) const IN_A_FILE: u64 = 4;

/// The beginning of the run on the clock: not zero, as subtraction saturates there.
const BORN: Monotonic = Monotonic::from_nanos(1_000 * SECOND as u64);

/// How films are read.
pub(crate) const READING: Reading = Reading {
    block: BLOCK,
    ahead: LEAD,
};

/// How far ahead of its time film may leave over a limited link, ns: the
/// default of `rtp.smooth_ahead`.
const LINK_AHEAD: u64 = SECOND as u64;
/// One in this many of the pool's blocks may be pinned by groups that are read again
/// for lost packets.
const AGAIN: usize = 16;

/// One in this many may be pinned by TCP viewers who do not read.
const BEHIND: usize = 16;

/// The server's default rules.
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
    /// Creates the node of a seed, without viewers.
    ///
    /// # Errors
    /// Fails if a film cannot be created.
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
        // Whether HTTP viewers share a limited link is drawn separately, so that all other seeds
        // stay the same.
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
        // Memory for HTTP, lost packets and viewers who do not read is set aside. The headroom is
        // for what no timetable knows: reads for viewers who have left, and blocks that are read
        // before their first byte is due.
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
            lent: BTreeMap::new(),
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

    /// Schedules the events that are certain.
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
            // Half of them arrive near the beginning.
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

    /// Returns the time since the beginning.
    pub fn time(&self) -> Duration {
        self.time_of(self.now)
    }

    /// Returns a moment relative to the beginning.
    pub fn time_of(&self, moment: Monotonic) -> Duration {
        moment.since(BORN)
    }

    pub fn note(&mut self, line: &Line) {
        self.trace.note(self.now.since(BORN), line);
    }

    /// Records a violation.
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
