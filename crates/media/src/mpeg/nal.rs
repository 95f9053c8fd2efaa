//! NAL units in a byte stream (ITU-T H.264 and H.265, annex B), each after a start code.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The codec family, which determines the meaning of unit types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    H264,
    H265,
}

/// The size of a start code in bytes.
pub const START: usize = 3;
/// The size of the length field that replaces it, in bytes.
pub const LENGTH: usize = 4;

static CODE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(&[0, 0, 1]));

impl Family {
    /// Returns whether a unit is part of samples: delimiters and filler data are dropped.
    pub fn keeps(self, unit: &[u8]) -> bool {
        match (self, unit.first()) {
            (_, None) => false,
            (Family::H264, Some(head)) => !matches!(head & 0x1f, 9 | 12),
            (Family::H265, Some(head)) => !matches!(head >> 1 & 0x3f, 35 | 38),
        }
    }
}

/// Finds units in consecutive bytes.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// The position before which all start codes have been found.
    seen: usize,
    /// The position of the unit that has not ended.
    open: Option<usize>,
}

impl Units {
    /// Returns the next whole unit in `bytes`, which are those of the last call and more.
    /// `is_end`: nothing follows.
    pub fn next(&mut self, bytes: &[u8], is_end: bool) -> Option<Range<usize>> {
        loop {
            let found = bytes.get(self.seen..).and_then(|rest| CODE.find(rest));
            let Some(found) = found.map(|at| self.seen + at) else {
                self.seen = self.seen.max(bytes.len().saturating_sub(START - 1));
                let open = self.open.take_if(|_| is_end)?;
                self.seen = bytes.len();
                return Some(open..open + trimmed(&bytes[open..]));
            };
            self.seen = found + START;
            if let Some(open) = self.open.replace(self.seen) {
                return Some(open..open + trimmed(&bytes[open..found]));
            }
        }
    }

    /// Returns the position from which bytes are still needed: the start code of the open unit.
    pub fn needed(&self) -> Option<usize> {
        self.open.map(|open| open - START)
    }

    /// Adapts to the removal of the first `gone` bytes.
    pub fn forget(&mut self, gone: usize) {
        self.seen = self.seen.saturating_sub(gone);
        self.open = self.open.map(|open| open.saturating_sub(gone));
    }
}

/// Returns the length of a unit without trailing zeros.
fn trimmed(unit: &[u8]) -> usize {
    unit.iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_end_where_the_next_begins_without_zeros_between() {
        let bytes = [
            7, 0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 2, 0, 0, 0, 1, 0x65, 0, 3,
        ];
        let mut units = Units::default();
        assert_eq!(units.next(&bytes, false), Some(5..7));
        assert_eq!(units.next(&bytes, false), Some(10..12));
        assert_eq!(units.next(&bytes, false), None);
        assert_eq!(units.next(&bytes, true), Some(16..19));
        assert_eq!(units.next(&bytes, true), None);
    }

    proptest! {
        #[test]
        fn how_bytes_come_changes_nothing(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..200),
            steps in proptest::collection::vec(1usize..20, 1..50),
        ) {
            let mut whole = Units::default();
            let expected: Vec<_> = std::iter::from_fn(|| whole.next(&bytes, true)).collect();
            let (mut units, mut found, mut have) = (Units::default(), Vec::new(), 0);
            for step in steps.iter().cycle() {
                have = (have + step).min(bytes.len());
                let is_end = have == bytes.len();
                found.extend(std::iter::from_fn(|| units.next(&bytes[..have], is_end)));
                if is_end {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
