//! EBML (RFC 8794): elements that consist of an ID, a size and a body.

/// The maximum size of an element header in bytes.
pub const LONGEST_HEAD: usize = 12;

/// The header of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The element ID, including the marker bits.
    pub id: u32,
    /// The size of the body in bytes; `None` if unknown: it ends at the first element that cannot
    /// be a child.
    pub size: Option<u64>,
    /// The size of the header in bytes.
    pub len: usize,
}

/// The reason why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// More bytes are needed.
    Short,
    /// The bytes are not a header.
    Wrong,
}

/// Reads a variable-size integer at the beginning of `bytes`; returns its value without the marker,
/// and its length. `None` if it is truncated or invalid.
pub fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = first.leading_zeros() as usize + 1;
    if len > 8 {
        return None;
    }
    let rest = bytes.get(1..len)?;
    let start = u64::from(first) & ((1 << (8 - len)) - 1);
    let value = rest
        .iter()
        .fold(start, |value, byte| value << 8 | u64::from(*byte));
    Some((value, len))
}

/// Returns whether a size of this many bytes means "unknown": all its bits are ones.
fn is_unknown(value: u64, len: usize) -> bool {
    value == (1 << (7 * len)) - 1
}

impl Head {
    /// Parses the header at the beginning of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Head, HeadError> {
        let first = *bytes.first().ok_or(HeadError::Short)?;
        let id_len = first.leading_zeros() as usize + 1;
        if id_len > 4 {
            return Err(HeadError::Wrong);
        }
        let id = bytes.get(..id_len).ok_or(HeadError::Short)?;
        let id = id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
        let after = &bytes[id_len..];
        if after.first() == Some(&0) {
            return Err(HeadError::Wrong);
        }
        let (size, size_len) = number(after).ok_or(HeadError::Short)?;
        Ok(Head {
            id,
            size: (!is_unknown(size, size_len)).then_some(size),
            len: id_len + size_len,
        })
    }
}

/// An element in memory.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The element ID.
    pub id: u32,
    /// The body.
    pub body: &'a [u8],
}

impl Element<'_> {
    /// Returns the body as an unsigned integer of at most eight bytes, 0 if it is longer.
    pub fn unsigned(&self) -> u64 {
        match self.body.len() {
            0..=8 => self
                .body
                .iter()
                .fold(0, |value, byte| value << 8 | u64::from(*byte)),
            _ => 0,
        }
    }

    /// Returns the body as a floating-point number of 4 or 8 bytes, 0 if it has another size.
    pub fn float(&self) -> f64 {
        if let Some(&bytes) = self.body.as_array::<4>() {
            return f32::from_be_bytes(bytes).into();
        }
        self.body
            .as_array()
            .map_or(0.0, |bytes| f64::from_be_bytes(*bytes))
    }

    /// Returns the body as text, up to its first NUL; `None` if nothing is left.
    pub fn text(&self) -> Option<String> {
        let end = self.body.iter().position(|byte| *byte == 0);
        let text = String::from_utf8_lossy(&self.body[..end.unwrap_or(self.body.len())]);
        let text = text.trim();
        (!text.is_empty()).then(|| text.chars().take(1000).collect())
    }

    /// Iterates over the child elements.
    pub fn children(&self) -> Children<'_> {
        children(self.body)
    }
}

/// Iterates over the elements in a body; ends at the first incomplete one.
pub fn children(body: &[u8]) -> Children<'_> {
    Children { body, at: 0 }
}

/// The iterator of [`children`].
#[derive(Clone, Debug)]
pub struct Children<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Children<'a> {
    /// Returns the first element with this ID.
    pub fn first(mut self, id: u32) -> Option<Element<'a>> {
        self.find(|element| element.id == id)
    }
}

impl<'a> Iterator for Children<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let left = &self.body[self.at..];
        let head = Head::parse(left).ok()?;
        let size = usize::try_from(head.size?).ok()?;
        let body = left.get(head.len..)?.get(..size)?;
        self.at += head.len + size;
        Some(Element { id: head.id, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_to_eight_bytes() {
        assert_eq!(number(&[0x81]), Some((1, 1)));
        assert_eq!(number(&[0x40, 0x7f, 9]), Some((0x7f, 2)));
        assert_eq!(number(&[1, 0, 0, 0, 0, 0, 0, 5]), Some((5, 8)));
        assert_eq!(number(&[1, 0, 0]), None);
        assert_eq!(number(&[0, 1]), None);
        assert_eq!(number(&[]), None);
    }

    #[test]
    fn heads_are_read_or_need_more_or_are_none() {
        let cluster = Head::parse(&[0x1f, 0x43, 0xb6, 0x75, 0x41, 0x00, 7]);
        let expected = Head {
            id: 0x1f43_b675,
            size: Some(0x100),
            len: 6,
        };
        assert_eq!(cluster, Ok(expected));
        let unknown = Head::parse(&[0xa3, 0xff]).unwrap();
        assert_eq!((unknown.id, unknown.size, unknown.len), (0xa3, None, 2));
        assert_eq!(Head::parse(&[0x1f, 0x43]), Err(HeadError::Short));
        assert_eq!(Head::parse(&[0xa3, 0x41]), Err(HeadError::Short));
        assert_eq!(Head::parse(&[0x00, 0x81]), Err(HeadError::Wrong));
        assert_eq!(Head::parse(&[0xa3, 0x00]), Err(HeadError::Wrong));
    }

    #[test]
    fn children_end_where_one_is_cut_off() {
        let body = [0xd7, 0x81, 3, 0x83, 0x81, 2, 0x86, 0x85, b'A'];
        let all: Vec<(u32, u64)> = children(&body)
            .map(|child| (child.id, child.unsigned()))
            .collect();
        assert_eq!(all, [(0xd7, 3), (0x83, 2)]);
        assert_eq!(
            children(&body).first(0x83).map(|child| child.body),
            Some(&[2][..])
        );
        assert!(children(&body).first(0x86).is_none());
    }

    #[test]
    fn bodies_are_numbers_and_texts() {
        fn element(body: &[u8]) -> Element<'_> {
            Element { id: 1, body }
        }
        assert_eq!(element(&[1, 2]).unsigned(), 258);
        assert_eq!(element(&[0; 9]).unsigned(), 0);
        assert_eq!(element(&48_000f64.to_be_bytes()).float(), 48_000.0);
        assert_eq!(element(&44_100f32.to_be_bytes()).float(), 44_100.0);
        assert_eq!(element(&[1]).float(), 0.0);
        assert_eq!(element(b"eng\0x").text().as_deref(), Some("eng"));
        assert_eq!(element(b" \0").text(), None);
    }
}
