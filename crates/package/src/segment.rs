//! A segment as the pieces it is sent in.

use std::ops::Range;

use bytes::Bytes;

/// A piece of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes that we made: headers.
    Inline(Bytes),
    /// Bytes of the film file, sent as they lie there.
    Film(Range<u64>),
}

impl Part {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Part::Inline(bytes) => bytes.len() as u64,
            Part::Film(range) => range.end - range.start,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of it that lies in `range`, counted from its own beginning.
    fn slice(&self, range: Range<u64>) -> Part {
        match self {
            Part::Inline(bytes) => {
                Part::Inline(bytes.slice(range.start as usize..range.end as usize))
            }
            Part::Film(film) => Part::Film(film.start + range.start..film.start + range.end),
        }
    }
}

/// A segment, or a byte range of one: what to send, and how long it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Pieces in the order they are sent; none is empty.
    pub parts: Vec<Part>,
    /// Bytes of all of them.
    pub len: u64,
}

impl Segment {
    /// Puts a piece at the end.
    pub(crate) fn push(&mut self, part: Part) {
        if !part.is_empty() {
            self.len += part.len();
            self.parts.push(part);
        }
    }

    /// The bytes `range` of it. What lies past the end is left out.
    pub fn slice(&self, range: Range<u64>) -> Segment {
        let mut out = Segment::default();
        let mut at = 0;
        for part in &self.parts {
            let (start, end) = (at, at + part.len());
            at = end;
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                out.push(part.slice(from - start..to - start));
            }
        }
        out
    }
}
