//! Requests to the pool, their answers, and the reads that follow.

use reelway_cache::BlockId;
use reelway_pool::{Failure, Finished, Given, Pool, Purpose, Read, Request};
use reelway_time::Monotonic;

use crate::config::{Rule, Wrong};
use crate::events::Event;
use crate::node::{Ask, For, Held, Node};
use crate::trace::Line;
use crate::world::{BLOCK, Broken, FilmOnDisk, Pages};

impl Node {
    /// Changes the pool; the resulting reads begin, and answers are queued.
    pub fn with_pool<T>(
        &mut self,
        change: impl FnOnce(&mut Pool<Pages>, Monotonic, &mut Vec<Finished<Pages>>) -> T,
    ) -> T {
        let (mut finished, mut reads) = (Vec::new(), Vec::new());
        let result = change(&mut self.pool, self.now, &mut finished);
        self.pool.starts(&mut reads);
        for read in reads {
            self.begin(read);
        }
        self.answers.extend(finished);
        result
    }

    fn begin(&mut self, mut read: Read<Pages>) {
        let page = read.memory.as_mut().map_or(u32::MAX, |page| {
            page.holds = None;
            page.number
        });
        if let Some((held, _)) = self.pins.get(&page) {
            let what = format!(
                "{:?} is read into page {page}, in which {held:?} is pinned",
                read.id
            );
            self.broken(Rule::PinnedStays, what);
        }
        let number = self.events.number();
        if read.source.queue == self.views {
            return self.begin_to_make(number, read);
        }
        let (done, mut well) = self.disk.read(self.now, &mut self.random);
        well &= !self.films[read.source.of].cut;
        self.note(&Line::Reads {
            film: read.id.film,
            block: read.id.block,
            page,
            until_ms: self.time_of(done).as_millis() as u64,
        });
        self.reads.insert(number, read);
        self.at(done, Event::Read(number, well));
    }

    /// Handles a completed read.
    pub fn read(&mut self, number: u64, well: bool) {
        let Some(mut read) = self.reads.remove(&number) else {
            return;
        };
        self.note(&Line::Read {
            film: read.id.film,
            block: read.id.block,
            ok: well,
        });
        if !well {
            self.unread.insert(read.source.of);
        }
        let mixed_up = self.config.wrong == Some(Wrong::OtherBlock) && self.random.once_in(50);
        if let (true, Some(page)) = (well, &mut read.memory) {
            let film = read.id.film + u32::from(mixed_up);
            page.holds = Some(BlockId { film, ..read.id });
        }
        self.done(
            read,
            if well {
                Ok(BLOCK as usize)
            } else {
                Err(Broken)
            },
        );
    }

    /// Reports to the pool that it has a block, or that the read failed.
    pub fn done(&mut self, read: Read<Pages>, result: Result<usize, Broken>) {
        self.with_pool(|pool, now, finished| pool.read_done(read, result, false, now, finished));
    }

    /// Asks the pool for blocks.
    pub fn ask(&mut self, ask: Ask) {
        self.tags += 1;
        let tag = self.tags;
        let film = &self.films[ask.film];
        let is_of_view = film.has_view() && !matches!(ask.whom, For::View(_));
        let source = FilmOnDisk {
            film: match ask.whom {
                For::View(_) => film.file_number,
                _ => film.number,
            },
            queue: if is_of_view {
                self.views
            } else {
                self.disk_queue
            },
            of: ask.film,
        };
        let (first, end, deadline) = (ask.first, ask.first + ask.blocks, ask.due);
        self.asked.insert(tag, ask);
        let waiting = self.pool.waiting();
        self.with_pool(|pool, now, finished| {
            let request = Request {
                what: Purpose::Blocks(source, first..end),
                deadline,
                tag,
            };
            pool.ask(request, now, finished);
        });
        self.counters.waited_for_room += u64::from(self.pool.waiting() > waiting);
    }

    /// Returns the next answer of the pool, with its request.
    pub fn next_answer(&mut self) -> Option<(Ask, Option<Held>)> {
        loop {
            let Finished { tag, result } = self.answers.pop_front()?;
            if self.config.wrong == Some(Wrong::AnsweredTwice) && self.random.once_in(50) {
                let result = Err(Failure::Closed);
                self.answers.push_back(Finished { tag, result });
            }
            let Some(ask) = self.asked.remove(&tag) else {
                self.note(&Line::Nobody { tag });
                let what =
                    format!("request {tag} is answered, but was answered before or never made");
                self.broken(Rule::AnsweredOnce, what);
                continue;
            };
            self.counters.requests += 1;
            let held = match result {
                Ok(Given::Blocks(pins)) => Some(pins),
                _ => None,
            };
            if held.is_none() && !self.unread.contains(&ask.film) {
                let what = format!(
                    "the blocks from {} on of film {} cannot be read, but no read of it has failed",
                    ask.first, ask.film
                );
                self.broken(Rule::Readable, what);
            }
            return Some((ask, held));
        }
    }

    /// Returns whether the disk is idle, and no request waits for room.
    pub fn is_idle(&self) -> bool {
        let queues = [self.disk_queue, self.views];
        let rests = |queue| self.pool.queue(queue) == (0, 0);
        queues.into_iter().all(rests) && self.pool.waiting() == 0
    }
}
