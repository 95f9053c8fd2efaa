//! Netlink attributes: length, type and value, padded to a multiple of four bytes
//! (`include/uapi/linux/netlink.h`).

/// Length of an attribute's header in bytes.
const HEAD: usize = 4;
/// Flag: the value consists of attributes itself.
const NESTED: u16 = 1 << 15;
/// The bits of the type field that hold the attribute's number.
const NUMBER: u16 = 0x3fff;

/// Writes attributes.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub fn bytes(mut self, number: u16, value: &[u8]) -> Writer {
        // No value here is longer than a few hundred bytes.
        let length = (HEAD + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(number.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn u8(self, number: u16, value: u8) -> Writer {
        self.bytes(number, &[value])
    }

    pub fn u16(self, number: u16, value: u16) -> Writer {
        self.bytes(number, &value.to_ne_bytes())
    }

    /// Appends a number in network byte order.
    pub fn be16(self, number: u16, value: u16) -> Writer {
        self.bytes(number, &value.to_be_bytes())
    }

    pub fn u32(self, number: u16, value: u32) -> Writer {
        self.bytes(number, &value.to_ne_bytes())
    }

    pub fn text(self, number: u16, value: &str) -> Writer {
        self.bytes(number, &[value.as_bytes(), &[0]].concat())
    }

    pub fn nested(self, number: u16, inner: Writer) -> Writer {
        self.bytes(number | NESTED, &inner.0)
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads attributes. The first truncated one ends the iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Returns the value of the first attribute with this number.
    pub fn bytes(self, number: u16) -> Option<&'a [u8]> {
        self.into_iter()
            .find(|(found, _)| *found == number)
            .map(|(_, value)| value)
    }

    pub fn nested(self, number: u16) -> Option<Reader<'a>> {
        self.bytes(number).map(Reader)
    }

    fn array<const N: usize>(self, number: u16) -> Option<[u8; N]> {
        self.bytes(number)?.get(..N)?.try_into().ok()
    }

    pub fn u8(self, number: u16) -> Option<u8> {
        self.array(number).map(|[value]| value)
    }

    pub fn u16(self, number: u16) -> Option<u16> {
        self.array(number).map(u16::from_ne_bytes)
    }

    pub fn be16(self, number: u16) -> Option<u16> {
        self.array(number).map(u16::from_be_bytes)
    }

    pub fn u32(self, number: u16) -> Option<u32> {
        self.array(number).map(u32::from_ne_bytes)
    }

    pub fn u64(self, number: u16) -> Option<u64> {
        self.array(number).map(u64::from_ne_bytes)
    }

    /// Returns a zero-terminated string.
    pub fn text(self, number: u16) -> Option<String> {
        let bytes = self.bytes(number)?;
        let end = bytes.iter().position(|byte| *byte == 0);
        let text = &bytes[..end.unwrap_or(bytes.len())];
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let (head, _) = self.0.split_first_chunk::<HEAD>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let number = u16::from_ne_bytes([head[2], head[3]]) & NUMBER;
        let value = self.0.get(HEAD..length)?;
        let next = length.next_multiple_of(4).min(self.0.len());
        self.0 = &self.0[next..];
        Some((number, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Writer::default().u32(1, 7).text(2, "wlc");
        let bytes = Writer::default()
            .u16(3, 258)
            .be16(4, 258)
            .nested(5, inner)
            .u8(6, 9)
            .into_bytes();
        assert_eq!(bytes.len() % 4, 0);
        let reader = Reader::new(&bytes);
        assert_eq!((reader.u16(3), reader.be16(4)), (Some(258), Some(258)));
        assert_eq!(reader.bytes(4), Some(&[1, 2][..]));
        let nested = reader.nested(5).expect("it was written");
        assert_eq!(
            (nested.u32(1), nested.text(2)),
            (Some(7), Some("wlc".into()))
        );
        assert_eq!((reader.u8(6), reader.u8(7)), (Some(9), None));
        // A number is not read from a value that is shorter than it.
        assert_eq!(reader.u64(3), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let count = Reader::new(&bytes).count();
            prop_assert!(count <= bytes.len() / HEAD);
        }
    }
}
