//! Boxes (ISO/IEC 14496-12 4.2), each knowing where in the file it lies, so that every error can
//! name box and byte.

use std::ops::{Deref, Range};

use crate::index_error::{IndexError, IndexErrorKind};

/// Where a box lies in the file.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// Four-character code; `uuid` boxes are never looked into.
    pub kind: [u8; 4],
    /// First byte of the box in the file.
    pub offset: u64,
    /// Bytes of the header.
    pub header: usize,
    /// Which of its kind it is among its siblings, from 1; 0 where there is but one.
    pub number: u32,
    /// The box it lies in.
    pub parent: Option<&'p Place<'p>>,
}

/// The bytes of a box after its header; version and flags of a full box are part of them.
pub trait Body: Copy {
    /// How many there are.
    fn count(&self) -> usize;

    /// Reads from byte `at` on, all of `into` or nothing; whether it could.
    fn read(&self, at: usize, into: &mut [u8]) -> bool;

    /// Some of them, all of which must be there.
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

/// A box, and its body wherever that is.
#[derive(Clone, Copy, Debug)]
pub struct BoxOf<'p, B> {
    /// Where it lies.
    pub place: Place<'p>,
    /// What it holds.
    pub body: B,
}

/// A box wholly in memory.
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
    /// Four-character code.
    pub kind: [u8; 4],
    /// Bytes of the header: 8 or 16.
    pub len: usize,
    /// Bytes of the whole box; `None`: to the end of what holds it.
    pub size: Option<u64>,
}

impl Header {
    /// Reads a header at the start of `bytes`; `None` where there are too few.
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

/// A four-character code for people: `co64`, `\xa9nam`.
pub fn fourcc(kind: [u8; 4]) -> String {
    kind.escape_ascii().to_string()
}

impl Place<'_> {
    /// The way to the box: `moov/trak 2/mdia`.
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

    /// An error that names this box.
    pub fn error(&self, kind: IndexErrorKind, problem: impl Into<String>) -> IndexError {
        IndexError {
            path: self.path(),
            offset: self.offset,
            problem: problem.into(),
            kind,
        }
    }

    /// This box contradicts itself or another.
    pub fn damaged(&self, problem: impl Into<String>) -> IndexError {
        self.error(IndexErrorKind::Damaged, problem)
    }
}

impl<'p, 'a> Boxed<'p, 'a> {
    /// Reads the body's fields from byte `skip` on.
    pub fn fields(&'p self, skip: usize) -> Fields<'p, 'a> {
        Fields { of: self, at: skip }
    }

    /// Reads the fields of a full box: version, flags, and the rest.
    pub fn full(&'p self) -> Result<(u8, u32, Fields<'p, 'a>), IndexError> {
        let mut fields = self.fields(0);
        let word = fields.u32()?;
        Ok(((word >> 24) as u8, word & 0xff_ffff, fields))
    }
}

impl<'p, B: Body> BoxOf<'p, B> {
    /// The boxes in the body, after its first `skip` bytes.
    pub fn children(&'p self, skip: usize) -> Children<'p, B> {
        Children { of: self, at: skip }
    }

    /// The first box of this kind directly in this one.
    pub fn find(&'p self, kind: &[u8; 4]) -> Result<Option<BoxOf<'p, B>>, IndexError> {
        for child in self.children(0) {
            let child = child?;
            if child.kind == *kind {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// The first box of this kind directly in this one, which must be there.
    pub fn need(&'p self, kind: &[u8; 4]) -> Result<BoxOf<'p, B>, IndexError> {
        self.find(kind)?
            .ok_or_else(|| self.damaged(format!("has no {} box", fourcc(*kind))))
    }

    /// All boxes of this kind directly in this one, numbered.
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

/// Longest header.
const HEADER: usize = 16;

/// The boxes in a box.
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
        // QuickTime ends some lists with four zero bytes; padding of zeros is seen too.
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

/// Fields of a box, read one after the other.
#[derive(Clone, Debug)]
pub struct Fields<'p, 'a> {
    of: &'p Boxed<'p, 'a>,
    at: usize,
}

impl<'p, 'a> Fields<'p, 'a> {
    /// The next `count` bytes.
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

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, IndexError> {
        Ok(self.array::<1>()?[0])
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Result<u16, IndexError> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Result<u64, IndexError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number of 64 bits where `wide`, else of 32.
    pub fn wide(&mut self, wide: bool) -> Result<u64, IndexError> {
        if wide {
            self.u64()
        } else {
            self.u32().map(u64::from)
        }
    }

    /// Bytes of the body before those that have not been read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What has not been read.
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
