//! Boxes (ISO/IEC 14496-12 4.2). Each box knows its position in the file, so that every error can
//! name the box and the byte.

use std::ops::{Deref, Range};

use crate::index_error::{IndexError, IndexErrorKind};

/// The position of a box in the file.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// The four-character code; `uuid` boxes are never parsed.
    pub kind: [u8; 4],
    /// The offset of the box in the file.
    pub offset: u64,
    /// The size of the header in bytes.
    pub header: usize,
    /// The number of the box among its siblings of the same kind, from 1; 0 if it is the only one.
    pub number: u32,
    /// The enclosing box.
    pub parent: Option<&'p Place<'p>>,
}

/// The bytes of a box after its header, including version and flags of a full box.
pub trait Body: Copy {
    /// Returns the number of bytes.
    fn count(&self) -> usize;

    /// Fills `into` from byte `at` on, completely or not at all; returns whether it succeeded.
    fn read(&self, at: usize, into: &mut [u8]) -> bool;

    /// Returns a part of the bytes, or `None` if some of them do not exist.
    fn part(&self, range: Range<usize>) -> Option<Self>;
}

impl Body for &[u8] {
    fn count(&self) -> usize {
        self.len()
    }

    fn read(&self, at: usize, into: &mut [u8]) -> bool {
        let bytes = self.get(at..at + into.len());
        bytes.inspect(|bytes| into.copy_from_slice(bytes)).is_some()
    }

    fn part(&self, range: Range<usize>) -> Option<Self> {
        self.get(range)
    }
}

/// A box, and its body wherever that is stored.
#[derive(Clone, Copy, Debug)]
pub struct BoxOf<'p, B> {
    /// The position of the box.
    pub place: Place<'p>,
    /// The contents of the box.
    pub body: B,
}

/// A box that is entirely in memory.
pub type Boxed<'p, 'a> = BoxOf<'p, &'a [u8]>;

impl<'p, B> Deref for BoxOf<'p, B> {
    type Target = Place<'p>;

    fn deref(&self) -> &Place<'p> {
        &self.place
    }
}

/// A box header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The four-character code.
    pub kind: [u8; 4],
    /// The size of the header in bytes: 8 or 16.
    pub len: usize,
    /// The size of the whole box in bytes; `None`: it extends to the end of its container.
    pub size: Option<u64>,
}

impl Header {
    /// Parses a header at the start of `bytes`; `None` if there are too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let (size, rest) = bytes.split_first_chunk::<4>()?;
        let (&kind, rest) = rest.split_first_chunk::<4>()?;
        Some(match u32::from_be_bytes(*size) {
            0 => Header {
                kind,
                len: 8,
                size: None,
            },
            1 => {
                let size = u64::from_be_bytes(*rest.first_chunk::<8>()?);
                Header {
                    kind,
                    len: 16,
                    size: Some(size),
                }
            }
            size => Header {
                kind,
                len: 8,
                size: Some(u64::from(size)),
            },
        })
    }
}

/// Formats a four-character code for people: `co64`, `\xa9nam`.
pub fn fourcc(kind: [u8; 4]) -> String {
    kind.escape_ascii().to_string()
}

impl Place<'_> {
    /// Returns the path to the box: `moov/trak 2/mdia`.
    pub fn path(&self) -> String {
        let mut path = self
            .parent
            .map_or(String::new(), |parent| parent.path() + "/");
        path += &fourcc(self.kind);
        if self.number > 0 {
            path += &format!(" {}", self.number);
        }
        path
    }

    /// Returns an error that names this box.
    pub fn error(&self, kind: IndexErrorKind, problem: impl Into<String>) -> IndexError {
        IndexError {
            path: self.path(),
            offset: self.offset,
            problem: problem.into(),
            kind,
        }
    }

    /// Returns an error for a box that contradicts itself or another one.
    pub fn damaged(&self, problem: impl Into<String>) -> IndexError {
        self.error(IndexErrorKind::Damaged, problem)
    }
}

impl<'p, 'a> Boxed<'p, 'a> {
    /// Returns a reader of the body's fields from byte `skip` on.
    pub fn fields(&'p self, skip: usize) -> Fields<'p, 'a> {
        Fields { of: self, at: skip }
    }

    /// Reads version and flags of a full box, and returns a reader of the other fields.
    pub fn full(&'p self) -> Result<(u8, u32, Fields<'p, 'a>), IndexError> {
        let mut fields = self.fields(0);
        let word = fields.u32()?;
        Ok(((word >> 24) as u8, word & 0xff_ffff, fields))
    }
}

impl<'p, B: Body> BoxOf<'p, B> {
    /// Iterates over the boxes in the body after its first `skip` bytes.
    pub fn children(&'p self, skip: usize) -> Children<'p, B> {
        Children { of: self, at: skip }
    }

    /// Returns the first direct child of this kind.
    pub fn find(&'p self, kind: &[u8; 4]) -> Result<Option<BoxOf<'p, B>>, IndexError> {
        for child in self.children(0) {
            let child = child?;
            if child.kind == *kind {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// Returns the first direct child of this kind, or an error if there is none.
    pub fn need(&'p self, kind: &[u8; 4]) -> Result<BoxOf<'p, B>, IndexError> {
        self.find(kind)?
            .ok_or_else(|| self.damaged(format!("has no {} box", fourcc(*kind))))
    }

    /// Iterates over all direct children of this kind and numbers them.
    pub fn each(&'p self, kind: [u8; 4]) -> impl Iterator<Item = Result<BoxOf<'p, B>, IndexError>> {
        let mut number = 0;
        self.children(0).filter_map(move |child| match child {
            Ok(child) if child.kind != kind => None,
            Ok(mut child) => {
                number += 1;
                child.place.number = number;
                Some(Ok(child))
            }
            Err(error) => Some(Err(error)),
        })
    }
}

/// The size of the longest header.
const HEADER: usize = 16;

/// An iterator over the boxes in a box.
#[derive(Clone, Debug)]
pub struct Children<'p, B> {
    of: &'p BoxOf<'p, B>,
    at: usize,
}

impl<'p, B: Body> Iterator for Children<'p, B> {
    type Item = Result<BoxOf<'p, B>, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        let of = self.of;
        let left = of.body.count().checked_sub(self.at)?;
        // QuickTime ends some lists with four zero bytes, and some files have zero padding.
        let mut head = [0; HEADER];
        let head = &mut head[..left.min(HEADER)];
        let header = of.body.read(self.at, head).then(|| Header::parse(head));
        let header = header?.filter(|header| header.kind != [0; 4])?;
        let place = Place {
            kind: header.kind,
            offset: of.offset + (of.header + self.at) as u64,
            header: header.len,
            number: 0,
            parent: Some(&of.place),
        };
        let size = header.size.unwrap_or(left as u64);
        let inside = usize::try_from(size)
            .ok()
            .filter(|size| *size <= left)
            .and_then(|size| of.body.part(self.at + header.len..self.at + size));
        let Some(body) = inside else {
            self.at = of.body.count();
            let problem = format!(
                "says it is {size} bytes long; {left} are left in its {}",
                fourcc(of.kind)
            );
            return Some(Err(place.damaged(problem)));
        };
        self.at += header.len + body.count();
        Some(Ok(BoxOf { place, body }))
    }
}

/// A reader of the fields of a box.
#[derive(Clone, Debug)]
pub struct Fields<'p, 'a> {
    of: &'p Boxed<'p, 'a>,
    at: usize,
}

impl<'p, 'a> Fields<'p, 'a> {
    /// Takes the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], IndexError> {
        let taken = self
            .at
            .checked_add(count)
            .and_then(|end| self.of.body.get(self.at..end));
        let taken = taken.ok_or_else(|| {
            let wanted = self.at.saturating_add(count);
            self.of.damaged(format!(
                "is truncated: it needs {wanted} bytes and has {}",
                self.of.body.len()
            ))
        })?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Takes the next byte.
    pub fn u8(&mut self) -> Result<u8, IndexError> {
        Ok(self.array::<1>()?[0])
    }

    /// Takes the next two bytes.
    pub fn u16(&mut self) -> Result<u16, IndexError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes the next four bytes.
    pub fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes the next eight bytes.
    pub fn u64(&mut self) -> Result<u64, IndexError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes a number of 64 bits if `wide`, otherwise of 32.
    pub fn wide(&mut self, wide: bool) -> Result<u64, IndexError> {
        if wide {
            self.u64()
        } else {
            self.u32().map(u64::from)
        }
    }

    /// Returns the number of body bytes already read or skipped.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the bytes that have not been read.
    pub fn left(&self) -> &'a [u8] {
        self.of.body.get(self.at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moov(body: &[u8]) -> Boxed<'_, '_> {
        let place = Place {
            kind: *b"moov",
            offset: 1000,
            header: 8,
            number: 0,
            parent: None,
        };
        BoxOf { place, body }
    }

    #[test]
    fn an_error_names_the_way_to_the_box_and_its_byte() {
        let bytes = [
            b"\0\0\0\x08free\0\0\0\x18trak".as_slice(),
            b"\0\0\0\x10mdhd\0\0\0\0\0\0\0\0",
        ]
        .concat();
        let moov = moov(&bytes);
        let trak = moov.each(*b"trak").next().unwrap().unwrap();
        let mdhd = trak.need(b"mdhd").unwrap();
        let (_, _, mut fields) = mdhd.full().unwrap();
        let error = fields.take(5).unwrap_err();
        assert_eq!(
            (error.path.as_str(), error.offset),
            ("moov/trak 1/mdhd", 1024)
        );
    }

    #[test]
    fn a_box_longer_than_its_parent_is_an_error() {
        let moov = moov(b"\0\0\0\x09trak");
        let error = moov.need(b"trak").unwrap_err();
        assert_eq!(error.path, "moov/trak");
        assert!(
            error.problem.contains("9 bytes long; 8 are left"),
            "{error}"
        );
    }

    #[test]
    fn wide_and_open_ended_boxes_are_read() {
        let bytes = b"\0\0\0\x01wide\0\0\0\0\0\0\0\x12ab\0\0\0\0rest!";
        let moov = moov(bytes);
        let found: Vec<_> = moov.children(0).map(|child| child.unwrap().body).collect();
        assert_eq!(found, [&b"ab"[..], b"!"]);
    }

    #[test]
    fn zeros_at_the_end_of_a_list_are_passed_over() {
        assert!(moov(&[0; 4]).children(0).next().is_none());
        assert!(moov(&[0; 40]).children(0).next().is_none());
    }
}
