//! Boxes in scratch space: `moov` and `moof`, whose tables are as long as the film. Small fields
//! are loaded into memory, and tables are read piece by piece.

use std::cell::RefCell;
use std::ops::Range;

use super::boxes::{Body, BoxOf, Boxed, Place};
use crate::index_error::{IndexError, IndexErrorKind};
use crate::spool::Spool;
use crate::stored::Lost;

/// Table bytes in memory at once: several tables are read side by side. Fewer for the fuzzer.
const PIECE: usize = if cfg!(fuzzing) { 64 } else { 32 << 10 };
/// Bytes read at once when searching for box headers.
const WINDOW: usize = if cfg!(fuzzing) { 48 } else { 4 << 10 };
/// Bytes of a box that [`KeptBox::head`] loads: more than the fields of any box read that way.
const HEAD: usize = 4 << 10;

/// The body of a box in scratch space.
#[derive(Debug)]
pub struct Kept {
    bytes: Spool<1>,
    /// A cached piece and its position: boxes are visited in storage order.
    window: RefCell<(usize, Vec<u8>)>,
}

/// A part of such a body.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    of: &'a Kept,
    at: usize,
    count: usize,
}

/// A box in scratch space.
pub type KeptBox<'p, 'a> = BoxOf<'p, Part<'a>>;

impl Kept {
    /// Creates a body from these bytes.
    pub fn new(bytes: Spool<1>) -> Kept {
        Kept {
            bytes,
            window: RefCell::default(),
        }
    }

    /// Creates a body in memory.
    #[cfg(test)]
    pub fn of(bytes: &[u8]) -> Kept {
        let mut kept = Spool::new(&crate::Scratch::default());
        kept.append(bytes);
        Kept::new(kept)
    }

    /// Returns the box with this body.
    pub fn boxed<'p>(&self, place: Place<'p>) -> KeptBox<'p, '_> {
        let body = Part {
            of: self,
            at: 0,
            count: self.bytes.bytes(),
        };
        BoxOf { place, body }
    }

    /// Fills `into` from byte `at` on, completely or not at all; returns whether it succeeded.
    fn read(&self, at: usize, into: &mut [u8]) -> bool {
        let (begin, window) = &mut *self.window.borrow_mut();
        let is_there = *begin <= at && at + into.len() <= *begin + window.len();
        if !is_there {
            if into.len() > WINDOW {
                return self.bytes.read_at(at, into);
            }
            let count = self.bytes.bytes().saturating_sub(at).min(WINDOW);
            window.clear();
            window.resize(count, 0);
            *begin = at;
            if !self.bytes.read_at(at, window) {
                window.clear();
                return false;
            }
        }
        let bytes = window.get(at - *begin..at - *begin + into.len());
        bytes.inspect(|bytes| into.copy_from_slice(bytes)).is_some()
    }
}

impl Body for Part<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn read(&self, at: usize, into: &mut [u8]) -> bool {
        at + into.len() <= self.count && self.of.read(self.at + at, into)
    }

    fn part(&self, range: Range<usize>) -> Option<Self> {
        let is_there = range.start <= range.end && range.end <= self.count;
        is_there.then(|| Part {
            of: self.of,
            at: self.at + range.start,
            count: range.end - range.start,
        })
    }
}

impl<'p, 'a> KeptBox<'p, 'a> {
    /// Loads the first bytes of the body into memory: enough for its fields, but not for tables.
    pub fn head<'b>(&self, into: &'b mut Vec<u8>) -> Result<Boxed<'p, 'b>, IndexError> {
        self.first(HEAD, into)
    }

    /// Loads at most `most` bytes of the body into memory.
    pub fn first<'b>(
        &self,
        most: usize,
        into: &'b mut Vec<u8>,
    ) -> Result<Boxed<'p, 'b>, IndexError> {
        into.clear();
        into.resize(self.body.count.min(most), 0);
        if !self.body.read(0, into) {
            return Err(self.error(IndexErrorKind::Scratch, Lost.to_string()));
        }
        Ok(BoxOf {
            place: self.place,
            body: into,
        })
    }

    /// Returns the table of `count` entries of `N` bytes each from byte `skip` of the body on.
    pub fn table<const N: usize>(
        &self,
        skip: usize,
        count: u32,
    ) -> Result<Table<'a, N>, IndexError> {
        self.entries(skip, count, N)
    }

    /// Returns a table of `count` entries of `entry` bytes each, as records of `N` bytes. Its size
    /// is checked against the body before anything is allocated for it.
    pub fn entries<const N: usize>(
        &self,
        skip: usize,
        count: u32,
        entry: usize,
    ) -> Result<Table<'a, N>, IndexError> {
        let wanted = u64::from(count) * entry as u64;
        let left = self.body.count.saturating_sub(skip);
        if wanted > left as u64 {
            let problem =
                format!("says {count} entries, which take {wanted} bytes; {left} are there");
            return Err(self.damaged(problem));
        }
        let at = self.body.at + skip;
        Ok(Table::new(self.body.of, at..at + wanted as usize))
    }

    /// Returns the bytes of the body from byte `skip` on.
    pub fn rest(&self, skip: usize) -> Table<'a, 1> {
        let Part { of, at, count } = self.body;
        Table::new(of, at + skip.min(count)..at + count)
    }

    /// Returns the table of a full box that begins with its entry count.
    pub fn counted<const N: usize>(&self) -> Result<Table<'a, N>, IndexError> {
        let mut head = Vec::new();
        let head = self.head(&mut head)?;
        let (_, _, mut fields) = head.full()?;
        let count = fields.u32()?;
        self.table(fields.at(), count)
    }
}

/// Records of `N` bytes in storage order. Iteration ends early if they cannot be read back; code
/// that builds an index from them must check [`crate::Scratch`] afterwards.
#[derive(Clone, Debug)]
pub struct Table<'a, const N: usize> {
    of: &'a Kept,
    /// The bytes that are not in memory yet.
    left: Range<usize>,
    /// The bytes in memory, and the next position in them.
    piece: Vec<u8>,
    next: usize,
}

impl<'a, const N: usize> Table<'a, N> {
    fn new(of: &'a Kept, left: Range<usize>) -> Self {
        Table {
            of,
            left,
            piece: Vec::new(),
            next: 0,
        }
    }

    /// Returns the number of records that have not been read.
    pub fn len(&self) -> usize {
        (self.left.len() + self.piece.len() - self.next) / N
    }

    #[cold]
    fn fill(&mut self) {
        let count = self.left.len().min(PIECE / N * N);
        self.piece.resize(count, 0);
        self.next = 0;
        if !self.of.bytes.read_at(self.left.start, &mut self.piece) {
            (self.left, self.piece) = (0..0, Vec::new());
        }
        self.left.start += self.piece.len();
    }
}

impl<const N: usize> Iterator for Table<'_, N> {
    type Item = [u8; N];

    #[inline]
    fn next(&mut self) -> Option<[u8; N]> {
        if self.next == self.piece.len() {
            if self.left.is_empty() {
                return None;
            }
            self.fill();
        }
        let record = *self.piece.get(self.next..)?.first_chunk()?;
        self.next += N;
        Some(record)
    }
}
