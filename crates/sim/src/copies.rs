//! Copies of blocks that connections are given as they are, and the pages of memory under them, which hold what they hold until
//! their readers have read it.
//!
//! The books are the server's. Memory is a model: pages have users, the process and the sockets that were given them, and one
//! that nobody has may be any page next.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use reelway_determinism::Random;
use reelway_viewing::{Copies, Sent};

use crate::world::BLOCK;

/// Blocks that a frame of memory has room for: its 2 MiB in the server.
const IN_A_FRAME: usize = (2 << 20) / BLOCK as usize;

/// A block: of which film, and its number.
pub(crate) type Block = (usize, u32);

/// Copies of blocks, and who has been given them.
pub(crate) struct Copied {
    books: Copies<Block, Rc<Frame>, Piece>,
    memory: Rc<RefCell<Memory>>,
    /// Pages that sockets were given, by the numbers of windows, and what is to be read from them.
    given: BTreeMap<u64, Vec<(usize, Block)>>,
    windows: u64,
    /// Readers' times are drawn apart, so that all other seeds are as they were.
    random: Random,
}

/// The machine's memory, as far as copies lie in it.
struct Memory {
    /// What each page holds, and how many have it.
    pages: Vec<(Block, u32)>,
    /// Those that nobody has.
    free: Vec<usize>,
    /// Frames that are there, and that may be.
    frames: usize,
    most: usize,
    /// A frame that goes leaves its pages to the next one, whoever else has them.
    fills_again: bool,
}

impl Memory {
    /// A page for a frame, with a block in it.
    fn take(&mut self, block: Block) -> usize {
        let page = self.free.pop().unwrap_or(self.pages.len());
        match self.pages.get_mut(page) {
            Some((holds, users)) => (*holds, *users) = (block, *users + 1),
            None => self.pages.push((block, 1)),
        }
        page
    }

    /// Someone who has a page has it no more.
    fn let_go(&mut self, page: usize, is_frame: bool) {
        let users = &mut self.pages[page].1;
        *users -= 1;
        if *users == 0 || (is_frame && self.fills_again) {
            self.free.retain(|free| *free != page);
            self.free.push(page);
        }
    }

    /// Pages that somebody has.
    fn in_use(&self) -> usize {
        self.pages.iter().filter(|(_, users)| *users > 0).count()
    }
}

/// Memory for some copies, which goes with the last who has it.
pub(crate) struct Frame {
    pages: RefCell<Vec<usize>>,
    memory: Rc<RefCell<Memory>>,
}

impl Frame {
    /// A new one, if there may be.
    fn new(memory: &Rc<RefCell<Memory>>) -> Option<Rc<Frame>> {
        let mut of = memory.borrow_mut();
        if of.frames >= of.most {
            return None;
        }
        of.frames += 1;
        Some(Rc::new(Frame {
            pages: RefCell::default(),
            memory: Rc::clone(memory),
        }))
    }

    /// Puts a block behind what is there, if there is room.
    fn put(self: &Rc<Self>, block: Block) -> Option<Piece> {
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= IN_A_FRAME {
            return None;
        }
        let page = self.memory.borrow_mut().take(block);
        pages.push(page);
        Some(Piece {
            page,
            _frame: Rc::clone(self),
        })
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut memory = self.memory.borrow_mut();
        memory.frames -= 1;
        for page in self.pages.take() {
            memory.let_go(page, true);
        }
    }
}

/// A copy of a block.
#[derive(Clone)]
pub(crate) struct Piece {
    page: usize,
    _frame: Rc<Frame>,
}

impl Copied {
    /// No copies, and memory for some frames of them, which are filled again while sockets have their pages if that is wanted.
    pub fn new(mut random: Random, fills_again: bool) -> Copied {
        let frames = random.within(1, 4) as usize;
        let memory = Memory {
            pages: Vec::new(),
            free: Vec::new(),
            frames: 0,
            most: frames,
            fills_again,
        };
        Copied {
            books: Copies::new(frames * IN_A_FRAME),
            memory: Rc::new(RefCell::new(memory)),
            given: BTreeMap::new(),
            windows: 0,
            random,
        }
    }

    /// Of a block that is about to be sent: its copy, if it is sent often.
    pub fn copy(&mut self, block: Block) -> Option<Piece> {
        match self.books.sent(block) {
            Sent::Kept(piece) => return Some(piece),
            Sent::Seldom => return None,
            Sent::Again => {}
        }
        let newest = self.books.newest();
        let newest = newest.and_then(|(number, frame)| Some((frame.put(block)?, number)));
        let (piece, number) = match newest {
            Some(there) => there,
            None => {
                let frame = self.frame()?;
                let piece = frame.put(block)?;
                (piece, self.books.add(frame))
            }
        };
        let asked = self.books.asked();
        self.books.keep(block, piece.clone(), number, asked);
        Some(piece)
    }

    fn frame(&mut self) -> Option<Rc<Frame>> {
        Frame::new(&self.memory).or_else(|| {
            drop(self.books.give_up());
            Frame::new(&self.memory)
        })
    }

    /// A socket is given copies of a window's blocks, and has their pages from now on. The window's number.
    pub fn give(&mut self, copies: &[(Block, Piece)]) -> u64 {
        self.windows += 1;
        let mut memory = self.memory.borrow_mut();
        for (_, piece) in copies {
            memory.pages[piece.page].1 += 1;
        }
        let pages = copies.iter().map(|(block, piece)| (piece.page, *block));
        self.given.insert(self.windows, pages.collect());
        self.windows
    }

    /// The reader has what its socket was given of a window. What was something else than it should be.
    pub fn read(&mut self, number: u64) -> Vec<String> {
        let mut memory = self.memory.borrow_mut();
        let mut others = Vec::new();
        for (page, block) in self.given.remove(&number).unwrap_or_default() {
            let holds = memory.pages[page].0;
            if holds != block {
                others.push(format!(
                    "page {page} was given to a connection for block {} of film {}, and has block {} of film {} when it is read",
                    block.1, block.0, holds.1, holds.0
                ));
            }
            memory.let_go(page, false);
        }
        others
    }

    /// After which a reader reads what its socket has: soon, or when the machine or the network lets it.
    pub fn reads_after(&mut self) -> Duration {
        let most = *self.random.one_of(&[1, 50, 1_000, 30_000]);
        Duration::from_millis(self.random.within(0, most))
    }

    /// When all have left: frames and pages that somebody has beside the books.
    pub fn left(&self) -> Option<String> {
        let memory = self.memory.borrow();
        let (frames, known) = (memory.frames, self.books.frames());
        let (pages, given) = (memory.in_use(), self.given.len());
        let is_well = frames == known && given == 0 && pages <= known * IN_A_FRAME;
        (!is_well).then(|| {
            format!("{frames} frames of copies are there, with {pages} pages, and {known} are known; {given} windows were not read")
        })
    }
}
