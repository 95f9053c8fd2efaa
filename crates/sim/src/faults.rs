//! Faults, and how long they explain delays.

use std::time::Duration;

use reelway_admission::Resource;
use reelway_pool::{Given, Purpose, Request};
use reelway_time::Monotonic;

use crate::client;
use crate::config::Rule;
use crate::events::Event;
use crate::film::{Film, file_of};
use crate::node::{IN_A_FILE, Node, READING};
use crate::trace::Line;
use crate::viewer::Viewer;

/// For how long after a fault streams may be behind, ns: the burst rule releases the backlog a
/// little at a time.
const CATCHING_UP: i64 = 250_000_000;

/// A full pool has fewer unused blocks than this.
const LEFT: u64 = 4;

impl Node {
    /// Injects a random fault. Refused packets, a replaced film and clients that never play explain
    /// no delay.
    pub fn fault(&mut self) {
        let mut seconds = Duration::from_millis(self.random.within(500, 6000));
        let mut until = self.now + seconds;
        let millis = seconds.as_millis();
        let what = match self.random.within(0, 11) {
            0 => {
                let times = self.random.within(2, 20) as u32;
                self.disk.slow(times, until);
                format!("reads take {times} times as long for {millis} ms")
            }
            1 => {
                let one_in = self.random.within(2, 20);
                self.disk.fail(one_in, until);
                format!("one read in {one_in} fails for {millis} ms")
            }
            2 => {
                self.disk.stall(until);
                format!("the disk stalls for {millis} ms")
            }
            3 => {
                // Half of the standstills are shorter than a second, and streams catch up; after a
                // longer one their timetables are moved.
                if self.random.once_in(2) {
                    seconds /= 6;
                    until = self.now + seconds;
                }
                self.frozen = until;
                format!("the node is stopped for {} ms", seconds.as_millis())
            }
            4 => {
                until = self.now + seconds / 4;
                self.kernel.fill(until);
                format!("the kernel accepts no packets for {} ms", millis / 4)
            }
            5 => {
                let one_in = self.random.within(2, 20);
                self.kernel.refuse(one_in, until);
                until = self.now;
                format!("the kernel refuses a packet in one send of {one_in} for {millis} ms")
            }
            6 => {
                let one_in = self.random.within(2, 20);
                self.disk.part(one_in, until);
                format!("one read in {one_in} is split in two for {millis} ms")
            }
            7 => {
                until = self.now;
                self.replace()
            }
            8 => {
                let many = self.random.within(50, 4000);
                self.crowd(many);
                until = self.now;
                format!("{many} RTSP clients connect and never play")
            }
            9 => format!("{} for {millis} ms", self.fill_pool(until)),
            _ => {
                let film = self.random.within(0, self.films.len() as u64) as usize;
                self.films[film].cut = true;
                format!("film {film} becomes unreadable: its reads fail from now on")
            }
        };
        self.counters.faults += 1;
        self.fault_until = self.fault_until.max(until);
        self.note(&Line::Fault { what });
        self.excuse();
    }

    /// Takes most of the blocks that nobody uses, and overwrites them. They are in no booking.
    fn fill_pool(&mut self, until: Monotonic) -> String {
        let census = self.pool.census();
        let unused = census.blocks - census.in_use() - census.lost;
        let left = self.random.within(0, LEFT) as usize;
        let taken = unused.saturating_sub(left);
        let mut finished = Vec::new();
        let request = Request {
            what: Purpose::Empty(taken),
            deadline: Monotonic::ZERO,
            tag: 0,
        };
        self.pool.ask(request, self.now, &mut finished);
        let Some(Ok(Given::Empty(mut blocks))) = finished.pop().map(|done| done.result) else {
            let what = format!("{unused} blocks are unused, but {taken} of them are not given");
            self.broken(Rule::RoomIsGiven, what);
            return "the pool is not filled".to_owned();
        };
        for (page, memory) in &mut blocks {
            memory.holds = None;
            if let Some((held, _)) = self.pins.get(page) {
                let what = format!("page {page} is given away, in which {held:?} is pinned");
                self.broken(Rule::PinnedStays, what);
            }
        }
        let number = self.events.number();
        self.lent.insert(number, blocks);
        self.at(until, Event::ReturnsBlocks(number));
        format!("{taken} of {unused} unused blocks of the pool are taken")
    }

    /// Returns the blocks that a fault has taken.
    pub fn returns_blocks(&mut self, number: u64) {
        let blocks = self.lent.remove(&number).unwrap_or_default();
        self.note(&Line::ReturnsBlocks {
            blocks: blocks.len(),
        });
        for (page, memory) in blocks {
            self.with_pool(|pool, now, finished| pool.give_back(page, memory, now, finished));
        }
    }

    /// Replaces the file of a title by another film. Viewers of the previous film go on with it, as
    /// the file stays open; blocks of it that nobody uses are forgotten.
    fn replace(&mut self) -> String {
        let title = self.random.within(0, self.titles.len() as u64) as usize;
        let (before, next) = (self.titles[title], self.films.len());
        let seconds = self.random.within(20, 20 + self.config.seconds);
        let mut made = Film::make(&mut self.random, (title, next), seconds, READING);
        if self.files.once_in(IN_A_FILE) {
            match Film::in_a_file(&mut self.files, (title, next), READING) {
                Ok(film) => made = Ok(film),
                Err(what) => self.broken(Rule::AsPutIn, what),
            }
        }
        let made = made
            .ok()
            .and_then(|film| Some((client::described(&film, next)?, film)));
        let Some((described, mut film)) = made else {
            return format!("film {before} is not replaced: no other film could be made");
        };
        self.with_pool(|pool, now, _| {
            pool.forget(before as u32, now);
            pool.forget(file_of(before), now);
            film.is_opened(next, |file| pool.open(file, now));
        });
        self.films.push(film);
        self.described.push(described);
        self.titles[title] = next;
        format!("the file of film {before} is replaced by film {next}")
    }

    /// Returns the film that has a film's title now.
    pub fn is_now(&self, film: usize) -> usize {
        let title = self.films[film].name.strip_prefix("film ");
        let title = title.and_then(|number| number.parse::<usize>().ok());
        title.map_or(film, |title| self.titles[title])
    }

    /// Records whether something explains a delay at this moment: a fault, reads that it has
    /// delayed, a viewer whom it has moved beyond their booking, or viewers who resumed or sought
    /// without being judged.
    pub fn excuse(&mut self) {
        if self.now <= self.fault_until {
            self.backlog = true;
        } else if self.is_idle() {
            self.backlog = false;
        }
        let moved = self.viewers.values().any(Viewer::is_late);
        if self.backlog
            || moved
            || ((!self.asks_again || self.is_unjudged) && self.is_overbooked().is_some())
        {
            // Streams over TCP connections need as long to catch up as the cause lasted.
            let took = self.excused.since(self.excused_from).as_nanos() as i64;
            if !self.is_excused && self.now > self.excused.offset(took + CATCHING_UP) {
                self.excused_from = self.now;
            }
            (self.excused, self.is_excused) = (self.now, true);
        } else {
            self.is_excused = false;
        }
    }

    /// Returns whether something that happened up to a moment explains that a stream is behind now.
    pub fn explains(&self, at: Monotonic) -> bool {
        self.excused.offset(CATCHING_UP) >= at
    }

    /// Returns whether a viewer's stream over TCP, which now sends packets due at a moment, is
    /// still catching up after the last cause: at twice the film's speed, from its position when
    /// that began.
    pub fn catches_up(&self, id: u64, due: Monotonic) -> bool {
        let viewer = self.viewers.get(&id);
        let is_over_tcp = viewer.is_some_and(|viewer| viewer.connection.is_some());
        let film = due.since(self.excused_from).as_nanos() as i64;
        is_over_tcp && self.now <= self.excused.offset(film / 2 + CATCHING_UP)
    }

    /// Returns the resource of which more than its limit is booked in this second or the next, with
    /// the excess and the second.
    pub fn is_overbooked(&self) -> Option<(Resource, u64, u64)> {
        let second = self.now.nanos() / 1_000_000_000;
        let resources = [Resource::Network(0), Resource::Disk, Resource::Memory];
        resources.into_iter().find_map(|resource| {
            let books = self.desk.books();
            let limit = books.limit(resource, 0)?;
            // A limited link sends the excess of a second in earlier ones, up to half of what may
            // leave ahead.
            let (mut owed, carry) = match (resource, &self.way) {
                (Resource::Network(_), Some(_)) => (self.owed, limit / 2),
                _ => (0, 0),
            };
            [second, second + 1].into_iter().find_map(|second| {
                owed = (owed + books.load(resource, second)).saturating_sub(limit);
                (owed > carry).then(|| (resource, owed - carry, second))
            })
        })
    }

    /// Updates what the link owes when a second begins.
    pub fn owes(&mut self) {
        let (books, network) = (self.desk.books(), Resource::Network(0));
        let load = books.load(network, books.second());
        let limit = books.limit(network, 0).unwrap_or(u64::MAX);
        self.owed = (self.owed + load).saturating_sub(limit);
    }
}
