//! A bit reader for codec configurations.

/// The bits of a byte string, most significant first.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    /// Starts at the first bit.
    pub fn new(bytes: &'a [u8]) -> Self {
        Bits { bytes, at: 0 }
    }

    /// Takes the next `count` (at most 32) bits; `None` if there are too few.
    pub fn take(&mut self, count: usize) -> Option<u32> {
        let value = self.peek(count)?;
        self.at += count;
        Some(value)
    }

    /// Takes the next bit as a flag.
    pub fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|bit| bit == 1)
    }

    /// Returns what [`Bits::take`] would, without taking it.
    pub fn peek(&self, count: usize) -> Option<u32> {
        debug_assert!(count <= 32);
        if count > self.left() {
            return None;
        }
        let bit = |at: usize| u32::from(self.bytes[at / 8] >> (7 - at % 8) & 1);
        Some((self.at..self.at + count).fold(0, |value, at| value << 1 | bit(at)))
    }

    /// Returns the number of bits left.
    pub fn left(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.at)
    }
}
