//! Copies of blocks that connections are given by reference, and the pages of memory under them,
//! which must keep their contents until the readers have read them.
//!
//! The bookkeeping is the server's. Memory is a model: pages have users, which are the process and
//! the sockets that were given them, and an unused page may be reused.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use reelway_determinism::Random;
use reelway_viewing::{Copies, Sent};

use crate::world::BLOCK;

/// The number of blocks in a frame of memory, which has 2 MiB in the server.
const IN_A_FRAME: usize = (2 << 20) / BLOCK as usize;

/// A block: the film, and the block's number.
pub(crate) type Block = (usize, u32);

/// Copies of blocks, and the sockets that have been given them.
pub(crate) struct Copied {
    books: Copies<Block, Rc<Frame>, Piece>,
    memory: Rc<RefCell<Memory>>,
    /// Pages that sockets were given, by the numbers of windows, with the expected blocks.
    given: BTreeMap<u64, Vec<(usize, Block)>>,
    windows: u64,
    /// Random numbers for readers' times, drawn separately so that all other seeds stay the same.
    random: Random,
}

/// The part of the machine's memory that holds copies.
struct Memory {
    /// The contents and the number of users of each page.
    pages: Vec<(Block, u32)>,
    /// Unused pages.
    free: Vec<usize>,
    /// The number of frames in use, and the permitted number.
    frames: usize,
    most: usize,
    /// Whether a frame that is dropped frees its pages for the next one, even if they
    /// have other users.
    fills_again: bool,
}

impl Memory {
    /// Takes a page for a frame, and puts a block into it.
    fn take(&mut self, block: Block) -> usize {
        let page = self.free.pop().unwrap_or(self.pages.len());
        match self.pages.get_mut(page) {
            Some((holds, users)) => (*holds, *users) = (block, *users + 1),
            None => self.pages.push((block, 1)),
        }
        page
    }

    /// Removes a user from a page.
    fn let_go(&mut self, page: usize, is_frame: bool) {
        let users = &mut self.pages[page].1;
        *users -= 1;
        if *users == 0 || (is_frame && self.fills_again) {
            self.free.retain(|free| *free != page);
            self.free.push(page);
        }
    }

    /// Returns the number of pages in use.
    fn in_use(&self) -> usize {
        self.pages.iter().filter(|(_, users)| *users > 0).count()
    }
}

/// Memory for some copies, which is freed with its last user.
pub(crate) struct Frame {
    pages: RefCell<Vec<usize>>,
    memory: Rc<RefCell<Memory>>,
}

impl Frame {
    /// Creates a frame, if one more is permitted.
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

    /// Appends a block, if there is room.
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
    /// Creates the state without copies, with memory for some frames. If `fills_again`, frames are
    /// reused while sockets still have their pages.
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

    /// Returns the copy of a block that is about to be sent, if it is sent often.
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

    /// Gives copies of a window's blocks to a socket, which has their pages from now on. Returns
    /// the window's number.
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

    /// Lets the reader read what its socket was given of a window. Returns descriptions of pages
    /// with other contents than expected.
    pub fn read(&mut self, number: u64) -> Vec<String> {
        let mut memory = self.memory.borrow_mut();
        let mut others = Vec::new();
        for (page, block) in self.given.remove(&number).unwrap_or_default() {
            let holds = memory.pages[page].0;
            if holds != block {
                others.push(format!(
                    "page {page} was handed to a connection as block {} of film {}, but holds block {} of film {} when it is read",
                    block.1, block.0, holds.1, holds.0
                ));
            }
            memory.let_go(page, false);
        }
        others
    }

    /// Returns after which time a reader reads what its socket has: soon, or when the machine or
    /// the network allows it.
    pub fn reads_after(&mut self) -> Duration {
        let most = *self.random.one_of(&[1, 50, 1_000, 30_000]);
        Duration::from_millis(self.random.within(0, most))
    }

    /// Checks at the end of the run for frames and pages in use that the bookkeeping does not know.
    pub fn left(&self) -> Option<String> {
        let memory = self.memory.borrow();
        let (frames, known) = (memory.frames, self.books.frames());
        let (pages, given) = (memory.in_use(), self.given.len());
        let is_well = frames == known && given == 0 && pages <= known * IN_A_FRAME;
        (!is_well).then(|| {
            format!("{frames} frames of copies with {pages} pages remain, of which {known} are known; {given} windows were not read")
        })
    }
}
