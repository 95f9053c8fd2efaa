//! Blocks, which contain one or several frames of a track (RFC 9559 section 10).

use std::ops::Range;

use super::ebml::number;

/// The header of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The track number.
    pub track: u64,
    /// The time relative to the cluster's, in ticks.
    pub time: i16,
    /// SimpleBlock's keyframe flag: a decoder may start here.
    pub keyframe: bool,
    /// The positions of the frames, relative to the beginning of the block's body.
    pub frames: Vec<Range<u64>>,
}

/// The reason why a block's header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// More bytes are needed.
    Short,
    /// The header contradicts itself.
    Wrong(&'static str),
}

/// The types of lacing.
const XIPH: u8 = 1;
const FIXED: u8 = 2;
const EBML: u8 = 3;

impl Block {
    /// Parses the header of a block whose body has `size` bytes, of which `bytes` are available.
    pub fn parse(bytes: &[u8], size: u64) -> Result<Block, BlockError> {
        // More bytes can be requested, unless the block has no more.
        let lacks = if bytes.len() as u64 >= size {
            BlockError::Wrong("ends in its own head")
        } else {
            BlockError::Short
        };
        let (track, at) = match (number(bytes), bytes.first()) {
            (Some(track), _) => track,
            (None, Some(0)) => return Err(BlockError::Wrong("has no track number")),
            (None, _) => return Err(lacks),
        };
        let &[high, low, flags] = bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .ok_or(lacks)?;
        let mut reading = Reading {
            bytes,
            at: at + 3,
            lacks,
        };
        let sizes = match flags >> 1 & 3 {
            0 => Vec::new(),
            lacing => {
                let more = usize::from(reading.byte()?);
                match lacing {
                    XIPH => reading.xiph(more)?,
                    EBML => reading.ebml(more)?,
                    FIXED => {
                        let left = size.saturating_sub(reading.at as u64);
                        let each = left / (more as u64 + 1);
                        if each * (more as u64 + 1) != left {
                            return Err(BlockError::Wrong("does not divide into its frames"));
                        }
                        // 256 empty frames would take just five bytes.
                        if each == 0 && more > 0 {
                            return Err(BlockError::Wrong("has frames without bytes"));
                        }
                        vec![each; more]
                    }
                    _ => Vec::new(),
                }
            }
        };
        let mut frames = Vec::with_capacity(sizes.len() + 1);
        let mut from = reading.at as u64;
        for len in sizes {
            let to = from.checked_add(len).filter(|to| *to <= size);
            let to = to.ok_or(BlockError::Wrong("is shorter than its frames"))?;
            frames.push(from..to);
            from = to;
        }
        // The last frame takes the rest.
        if from > size {
            return Err(BlockError::Wrong("ends in its own head"));
        }
        frames.push(from..size);
        Ok(Block {
            track,
            time: i16::from_be_bytes([high, low]),
            keyframe: flags & 0x80 != 0,
            frames,
        })
    }
}

/// A reader of frame sizes.
struct Reading<'a> {
    bytes: &'a [u8],
    at: usize,
    lacks: BlockError,
}

impl Reading<'_> {
    fn byte(&mut self) -> Result<u8, BlockError> {
        let byte = *self.bytes.get(self.at).ok_or(self.lacks)?;
        self.at += 1;
        Ok(byte)
    }

    /// Returns the sizes of all frames but the last, each the sum of its bytes up to the first
    /// below 255.
    fn xiph(&mut self, count: usize) -> Result<Vec<u64>, BlockError> {
        let mut sizes = Vec::with_capacity(count);
        for _ in 0..count {
            let mut size = 0;
            loop {
                let byte = self.byte()?;
                size += u64::from(byte);
                if byte < 255 {
                    break;
                }
            }
            sizes.push(size);
        }
        Ok(sizes)
    }

    /// Returns the sizes of all frames but the last: the first absolute, the others as
    /// differences.
    fn ebml(&mut self, count: usize) -> Result<Vec<u64>, BlockError> {
        let mut sizes: Vec<u64> = Vec::with_capacity(count);
        for _ in 0..count {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let (value, len) = match (number(rest), rest.first()) {
                (Some(number), _) => number,
                (None, Some(0)) => return Err(BlockError::Wrong("has a frame without a size")),
                (None, _) => return Err(self.lacks),
            };
            self.at += len;
            let size = match sizes.last() {
                None => Some(value),
                Some(last) => {
                    let middle = (1i64 << (7 * len - 1)) - 1;
                    last.checked_add_signed(value as i64 - middle)
                }
            };
            sizes.push(size.ok_or(BlockError::Wrong("has a frame of negative size"))?);
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(bytes: &[u8]) -> Result<Vec<Range<u64>>, BlockError> {
        Block::parse(bytes, bytes.len() as u64).map(|block| block.frames)
    }

    #[test]
    fn a_block_without_lacing_is_one_frame() {
        let block = Block::parse(&[0x82, 0xff, 0xfe, 0x80], 1004).unwrap();
        let expected = Block {
            track: 2,
            time: -2,
            keyframe: true,
            frames: std::iter::once(4..1004).collect(),
        };
        assert_eq!(block, expected);
        let all: Vec<_> = (0..4)
            .map(|len| Block::parse(&[0x82, 0, 0, 0][..len], 9))
            .collect();
        assert!(all.iter().all(|short| *short == Err(BlockError::Short)));
        assert!(matches!(frames(&[0x82, 0, 0]), Err(BlockError::Wrong(_))));
        assert!(matches!(frames(&[0, 0, 0, 0]), Err(BlockError::Wrong(_))));
    }

    #[test]
    fn frames_that_share_a_block_are_found_in_each_kind_of_lacing() {
        // RFC 9559 section 10.3: frames of 800, 500 and 1000 bytes.
        let sizes = [
            (4, [0x02, 0xff, 0xff, 0xff, 0x23, 0xff, 0xf5].as_slice()),
            (4, &[0x02, 0x43, 0x20, 0x5e, 0xd3]),
        ];
        for ((at, lace), flags) in sizes.into_iter().zip([0x02, 0x06]) {
            let head = [&[0x81, 0, 0, flags][..], lace].concat();
            let from = (at + lace.len()) as u64;
            let block = Block::parse(&head, from + 2300).unwrap();
            assert_eq!(
                block.frames,
                [
                    from..from + 800,
                    from + 800..from + 1300,
                    from + 1300..from + 2300
                ]
            );
        }
        let fixed = Block::parse(&[0x81, 0, 0, 0x04, 0x02], 5 + 2400).unwrap();
        assert_eq!(fixed.frames, [5..805, 805..1605, 1605..2405]);
        let odd = Block::parse(&[0x81, 0, 0, 0x04, 0x02], 5 + 2401);
        assert!(matches!(odd, Err(BlockError::Wrong(_))));
        let none = Block::parse(&[0x81, 0, 0, 0x04, 0xff], 5);
        assert!(matches!(none, Err(BlockError::Wrong(_))));
    }

    proptest! {
        #[test]
        fn whatever_stands_in_a_block_its_frames_follow_each_other_and_fill_it(
            bytes in proptest::collection::vec(any::<u8>(), 0..64), more in 0u64..100_000,
        ) {
            let size = bytes.len() as u64 + more;
            if let Ok(block) = Block::parse(&bytes, size) {
                for pair in block.frames.windows(2) {
                    prop_assert_eq!(pair[0].end, pair[1].start);
                }
                prop_assert!(block.frames[0].start <= block.frames[0].end);
                prop_assert_eq!(block.frames.last().map(|last| last.end), Some(size));
                prop_assert!(block.frames.len() <= 256);
            }
        }
    }
}
