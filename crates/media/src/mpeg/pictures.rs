//! Pictures in a stream of NAL units (ITU-T H.264 7.4.1.2.3, H.265 7.4.2.4.4). Two fields of a frame are one picture.

use std::ops::Range;

use super::nal::{Family, LENGTH, START, Units};
use super::parameters::Parameters;
use super::sequence::{Counting, Golomb, without_escapes};

/// The number of bytes of a slice that are read.
const SLICE_HEAD: usize = 24;

/// A picture found in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The position of its beginning, which is a start code.
    pub start: usize,
    /// The size of its units, including their lengths.
    pub size: u32,
    /// Whether decoders can start here.
    pub sync: bool,
    pub counted: Counted,
}

/// The picture order count of a picture (H.264 8.2.1, H.265 8.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Whether counting restarts with it.
    pub begins: bool,
    /// The lowest bits of its count, and their number; 0: pictures are presented in decode order.
    pub low: u32,
    pub bits: u32,
    /// Whether the counts of others are based on it.
    pub referred: bool,
}

/// A field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    frame: u32,
    bottom: bool,
}

/// A picture that is not complete yet.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    start: Option<usize>,
    size: u64,
    /// Whether a slice has been found.
    pictured: bool,
    sync: bool,
    /// Whether the stream states that decoders may start at the picture if it is all intra.
    entry: bool,
    field: Option<Field>,
    counted: Counted,
}

/// The role of a unit for pictures.
enum Role {
    /// It precedes a picture.
    Ahead { entry: bool },
    /// The first slice of a picture.
    First {
        sync: bool,
        intra: bool,
        field: Option<Field>,
        counted: Counted,
    },
    /// It belongs to the current picture.
    More,
}

/// Finds pictures in consecutive bytes.
#[derive(Clone, Debug)]
pub struct Pictures {
    family: Family,
    units: Units,
    pub parameters: Parameters,
    open: Open,
    /// Units found after those of `open`, which may belong to the next picture.
    next: Open,
    /// Whether a sequence has ended (H.265).
    ended: bool,
}

impl Pictures {
    pub fn new(family: Family) -> Pictures {
        Pictures {
            family,
            units: Units::default(),
            parameters: Parameters::new(family),
            open: Open::default(),
            next: Open::default(),
            ended: false,
        }
    }

    /// Returns the next whole picture in `bytes`, which are those of the last call and more.
    /// `is_end`: nothing follows.
    pub fn next(&mut self, bytes: &[u8], is_end: bool) -> Option<Picture> {
        while let Some(unit) = self.units.next(bytes, is_end) {
            if let Some(whole) = self.take(bytes, unit) {
                return Some(whole);
            }
        }
        is_end.then(|| self.finish(Open::default())).flatten()
    }

    /// Adapts to the removal of the first `gone` bytes.
    pub fn forget(&mut self, gone: usize) {
        self.units.forget(gone);
        for open in [&mut self.open, &mut self.next] {
            open.start = open.start.map(|start| start.saturating_sub(gone));
        }
    }

    /// Returns the position from which bytes are still needed.
    pub fn needed(&self) -> Option<usize> {
        self.open.start.or_else(|| self.units.needed())
    }

    /// Completes the current picture, if any; `next` replaces it.
    fn finish(&mut self, next: Open) -> Option<Picture> {
        let whole = std::mem::replace(&mut self.open, next);
        self.next = Open::default();
        let start = whole.start.filter(|_| whole.pictured)?;
        Some(Picture {
            start,
            size: u32::try_from(whole.size)
                .ok()
                .filter(|size| *size < 1 << 31)?,
            sync: whole.sync,
            counted: whole.counted,
        })
    }

    fn take(&mut self, bytes: &[u8], range: Range<usize>) -> Option<Picture> {
        let unit = &bytes[range.clone()];
        let role = self.role(unit)?;
        let size = match self.family.keeps(unit) {
            true => (unit.len() + LENGTH) as u64,
            false => 0,
        };
        let ahead = |open: &mut Open, entry: bool| {
            open.start.get_or_insert(range.start - START);
            open.size += size;
            open.entry |= entry;
        };
        match role {
            Role::Ahead { entry } if self.open.pictured => ahead(&mut self.next, entry),
            Role::Ahead { entry } => ahead(&mut self.open, entry),
            Role::More => {
                // The units before it did not begin a new picture.
                let next = std::mem::take(&mut self.next);
                self.open.size += next.size + size;
                self.open.start = self.open.start.or(Some(range.start - START));
            }
            Role::First {
                sync,
                intra,
                field,
                counted,
            } => {
                let second = self.open.pictured
                    && field.zip(self.open.field).is_some_and(|(own, first)| {
                        own.frame == first.frame && own.bottom != first.bottom
                    });
                if second {
                    let next = std::mem::take(&mut self.next);
                    self.open.size += next.size + size;
                    self.open.field = None;
                    return None;
                }
                let mut open = match self.open.pictured {
                    true => self.next,
                    false => self.open,
                };
                ahead(&mut open, false);
                open.pictured = true;
                open.sync = sync || (intra && open.entry);
                (open.field, open.counted) = (field, counted);
                if self.open.pictured {
                    return self.finish(open);
                }
                self.open = open;
            }
        }
        None
    }

    /// Returns the role of a unit; `None` if it is empty.
    fn role(&mut self, unit: &[u8]) -> Option<Role> {
        let kind = self.family.kind(unit)?;
        Some(match self.family {
            Family::H264 => match kind {
                1 | 2 | 5 if unit.get(1).is_some_and(|head| head & 0x80 != 0) => {
                    let (intra, field, counted) = self.h264_slice(unit).unwrap_or_default();
                    Role::First {
                        sync: kind == 5,
                        intra,
                        field,
                        counted,
                    }
                }
                6 => Role::Ahead {
                    entry: has_recovery_point(unit),
                },
                7 | 8 => {
                    self.parameters.take(unit);
                    Role::Ahead { entry: kind == 7 }
                }
                9 | 14..=18 => Role::Ahead { entry: false },
                _ => Role::More,
            },
            Family::H265 => match kind {
                0..=31 if unit.get(2).is_some_and(|head| head & 0x80 != 0) => Role::First {
                    sync: (16..=21).contains(&kind),
                    intra: false,
                    field: None,
                    counted: self.h265_slice(unit).unwrap_or_default(),
                },
                36 | 37 => {
                    self.ended = true;
                    Role::More
                }
                32..=34 => {
                    self.parameters.take(unit);
                    Role::Ahead { entry: false }
                }
                35 | 39 | 41..=44 | 48..=55 => Role::Ahead { entry: false },
                _ => Role::More,
            },
        })
    }

    /// Returns whether the picture that begins with this slice is all intra (judged by this slice
    /// only), which field it is, and its picture order count.
    fn h264_slice(&self, unit: &[u8]) -> Option<(bool, Option<Field>, Counted)> {
        let is_first = unit[0] & 0x1f == 5;
        let mut counted = Counted {
            begins: is_first,
            referred: unit[0] & 0x60 != 0,
            ..Counted::default()
        };
        let plain = without_escapes(&unit[..unit.len().min(SLICE_HEAD)]);
        let mut bits = Golomb::new(plain.get(1..)?);
        bits.number()?;
        let kind = bits.number()?;
        let intra = kind % 5 == 2;
        bits.number()?;
        let mut field = None;
        let mut rest = |counting: Counting| {
            bits.0.take(if counting.planes { 2 } else { 0 })?;
            let frame = bits.0.take(counting.frame)?;
            if counting.fields && bits.0.flag()? {
                let bottom = bits.0.flag()?;
                field = Some(Field { frame, bottom });
            }
            if is_first {
                bits.number()?;
            }
            counted.low = bits.0.take(counting.low)?;
            counted.bits = counting.low as u32;
            Some(())
        };
        if let Some(shape) = self.parameters.shape {
            let _ = rest(shape.counting);
        }
        Some((intra, field, counted))
    }

    /// Returns the picture order count of the picture that begins with this slice.
    fn h265_slice(&mut self, unit: &[u8]) -> Option<Counted> {
        let kind = unit[0] >> 1 & 0x3f;
        let is_leading = (6..=9).contains(&kind);
        let is_alone = kind < 15 && kind.is_multiple_of(2);
        let mut counted = Counted {
            begins: std::mem::take(&mut self.ended) || (16..=20).contains(&kind),
            referred: unit[1] & 7 == 1 && !is_leading && !is_alone,
            ..Counted::default()
        };
        let plain = without_escapes(&unit[..unit.len().min(SLICE_HEAD)]);
        let mut bits = Golomb::new(plain.get(2..)?);
        let counting = self.parameters.shape?.counting;
        let (ahead, states_output) = self.parameters.slices;
        bits.0.take(if (16..=23).contains(&kind) { 2 } else { 1 })?;
        bits.number()?;
        bits.0.take(ahead)?;
        bits.number()?;
        bits.0.take(usize::from(states_output))?;
        bits.0.take(if counting.planes { 2 } else { 0 })?;
        counted.bits = counting.low as u32;
        if !matches!(kind, 19 | 20) {
            counted.low = bits.0.take(counting.low)?;
        }
        Some(counted)
    }
}

/// Returns whether an SEI unit has a recovery point: decoders may start here (H.264 D.1.8).
fn has_recovery_point(unit: &[u8]) -> bool {
    let plain = without_escapes(unit);
    let mut rest = plain.get(1..).unwrap_or_default();
    let number = |rest: &mut &[u8]| {
        let mut sum = 0;
        while let Some((byte, more)) = rest.split_first() {
            *rest = more;
            sum += usize::from(*byte);
            if *byte != 255 {
                break;
            }
        }
        sum
    };
    while rest.len() > 2 {
        let kind = number(&mut rest);
        let size = number(&mut rest);
        if kind == 6 {
            return true;
        }
        rest = rest.get(size..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits, most significant first.
    #[derive(Default)]
    struct Bits(Vec<bool>);

    impl Bits {
        fn put(mut self, value: u32, count: u32) -> Bits {
            self.0
                .extend((0..count).rev().map(|bit| value >> bit & 1 == 1));
            self
        }

        /// ue(v).
        fn number(self, value: u32) -> Bits {
            let length = (value + 1).ilog2();
            self.put(value + 1, 2 * length + 1)
        }

        fn bytes(self, head: &[u8]) -> Vec<u8> {
            let bits = self.put(1, 1).0;
            let bytes = bits.chunks(8).map(|bits| {
                (0..8).fold(0, |byte, at| {
                    byte << 1 | u8::from(bits.get(at) == Some(&true))
                })
            });
            head.iter().copied().chain(bytes).collect()
        }
    }

    /// A sequence that allows field pictures, with four bits of frame_num.
    fn sps() -> Vec<u8> {
        let bits = Bits::default()
            .number(0)
            .number(0)
            .number(2)
            .number(1)
            .put(0, 1);
        let size = bits.number(3).number(1).put(0, 1).put(0, 1).put(1, 1);
        size.put(0, 2).bytes(&[0x67, 77, 0, 30])
    }

    /// The first slice of a field of frame `frame`.
    fn field(head: u8, kind: u32, frame: u32, bottom: bool) -> Vec<u8> {
        let bits = Bits::default()
            .number(0)
            .number(kind)
            .number(0)
            .put(frame, 4);
        bits.put(1, 1)
            .put(bottom.into(), 1)
            .put(0x5a5a, 16)
            .bytes(&[head])
    }

    fn stream(units: &[Vec<u8>]) -> Vec<u8> {
        units
            .iter()
            .flat_map(|unit| [&[0, 0, 1][..], unit].concat())
            .collect()
    }

    fn found(bytes: &[u8]) -> Vec<Picture> {
        let mut pictures = Pictures::new(Family::H264);
        std::iter::from_fn(|| pictures.next(bytes, true)).collect()
    }

    #[test]
    fn two_fields_are_one_picture_also_with_delimiters_between_them() {
        let delimiter = || vec![9, 0x10];
        let pps = vec![0x68, 0xce, 0x38, 0x80];
        let mut units = vec![delimiter(), sps(), pps.clone()];
        for frame in 0..3 {
            if frame > 0 {
                units.push(delimiter());
            }
            let key = frame == 0;
            units.push(field(
                if key { 0x65 } else { 0x41 },
                if key { 7 } else { 5 },
                frame,
                false,
            ));
            units.push(delimiter());
            units.push(field(0x41, 5, frame, true));
        }
        let pictures = found(&stream(&units));
        let size = |units: &[&Vec<u8>]| units.iter().map(|unit| unit.len() as u32 + 4).sum::<u32>();
        assert_eq!(pictures.len(), 3);
        assert!(pictures[0].sync && !pictures[1].sync);
        assert_eq!(
            pictures[0].size,
            size(&[&units[1], &units[2], &units[3], &units[5]])
        );
        assert_eq!(pictures[1].size, size(&[&units[7], &units[9]]));
        // Two top fields of the same frame number are not one frame.
        let apart = [
            sps(),
            pps,
            field(0x65, 7, 0, false),
            field(0x41, 5, 0, false),
        ];
        assert_eq!(found(&stream(&apart)).len(), 2);
    }

    #[test]
    fn decoders_start_at_intra_pictures_that_are_marked() {
        let pps = vec![0x68, 0xce, 0x38, 0x80];
        let point = vec![6, 6, 1, 0x80, 0x80];
        let intra = |frame| field(0x41, 7, frame, false);
        let units = [
            sps(),
            pps,
            intra(0),
            intra(1),
            point,
            intra(2),
            field(0x41, 5, 3, false),
        ];
        let sync: Vec<bool> = found(&stream(&units))
            .iter()
            .map(|picture| picture.sync)
            .collect();
        // Parameter sets before it; nothing; a recovery point; not an intra picture.
        assert_eq!(sync, [true, false, true, false]);
    }
}
