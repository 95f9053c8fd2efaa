//! Making blocks of views: by the server's own code, from the file's blocks, which are requested
//! with the same deadline.

use reelway_cache::BlockId;
use reelway_media::Filled;
use reelway_pool::Read;

use crate::config::{Rule, Wrong};
use crate::node::{Ask, For, Held, Node};
use crate::trace::Line;
use crate::world::{BLOCK, Broken, Making, Pages};

impl Node {
    /// Begins to make a block of a view, in the read with this number.
    pub fn begin_to_make(&mut self, number: u64, read: Read<Pages>) {
        let film = read.source.of;
        let Some(filling) = self.films[film].filling(read.id.block) else {
            let what = format!(
                "block {} of film {film} is not a block of a view",
                read.id.block
            );
            self.broken(Rule::AsPutIn, what);
            return self.done(read, Err(Broken));
        };
        self.making.insert(number, Making { read, filling });
        self.wants_of_file(number);
    }

    /// Requests the blocks of the file that are needed.
    fn wants_of_file(&mut self, number: u64) {
        let Some(Making { read, filling }) = self.making.get(&number) else {
            return;
        };
        let wanted = filling.wanted();
        let first = (wanted.start / BLOCK) as u32;
        let blocks = wanted.end.div_ceil(BLOCK) as u32 - first;
        let ask = Ask {
            film: read.source.of,
            whom: For::View(number),
            first,
            blocks,
            at: self.now,
            due: read.deadline,
        };
        self.note(&Line::Makes {
            film: ask.film,
            block: read.id.block,
            of: (first, first + blocks),
        });
        self.ask(ask);
    }

    /// Handles blocks of the file that were read, or that cannot be read.
    pub fn file_read(&mut self, ask: &Ask, number: u64, held: Option<Held>) {
        let Some(Making {
            mut read,
            mut filling,
        }) = self.making.remove(&number)
        else {
            return;
        };
        let (Some(held), Some(page)) = (held, read.memory.as_mut()) else {
            return self.done(read, Err(Broken));
        };
        let of = self.films[ask.film].file_number;
        let (mut file, mut others) = (Vec::new(), Vec::new());
        for (block, pin) in (ask.first..).zip(&held) {
            let id = BlockId { film: of, block };
            let holds = pin.memory().holds;
            if holds != Some(id) {
                others.push(format!(
                    "page {} is handed out as {id:?}, but holds {holds:?}",
                    pin.number()
                ));
            }
            let block = holds.map_or(block, |holds| holds.block);
            file.extend_from_slice(self.films[ask.film].file_block(block));
        }
        let (wanted, begins) = (filling.wanted(), u64::from(ask.first) * BLOCK);
        let wanted = (wanted.start - begins) as usize..(wanted.end - begins) as usize;
        let range = self.films[ask.film].block_bytes(read.id.block);
        let len = (range.end - range.start) as usize;
        page.made.resize(len, 0);
        let filled = match file.get(wanted) {
            Some(file) => filling.fill(file, &mut page.made, &mut self.room),
            None => Filled::Different,
        };
        let is_right = self.films[ask.film].played(range) == Some(&page.made[..]);
        if self.config.wrong == Some(Wrong::OtherByte) {
            let middle = page.made.len() / 2;
            page.made
                .iter_mut()
                .skip(middle)
                .take(1)
                .for_each(|byte| *byte ^= 1);
        }
        page.holds = Some(read.id);
        drop(held);
        for what in others {
            self.broken(Rule::RightBlock, what);
        }
        match filled {
            Filled::More => {
                self.making.insert(number, Making { read, filling });
                self.wants_of_file(number);
            }
            Filled::Whole | Filled::Different => {
                self.counters.made += 1;
                if filled == Filled::Different || !is_right {
                    let what = format!(
                        "block {} of film {} was made incorrectly: {filled:?}",
                        read.id.block, ask.film
                    );
                    self.broken(Rule::AsPutIn, what);
                }
                self.done(read, Ok(len));
            }
        }
        if self.pool.waiting() > 0 {
            self.with_pool(|pool, now, finished| pool.dispatch(now, finished));
        }
    }
}
