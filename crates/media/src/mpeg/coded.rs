//! Pictures in an MPEG-1 or MPEG-2 video stream (ISO/IEC 11172-2 2.4, 13818-2 6.2). Two fields of a
//! frame are one picture. The view contains them unchanged.

use std::ops::Range;

use super::clock::RATE;
use super::nal::{START, Units};
use crate::mp4::Bits;
use crate::sample_entry::{decoder, picture};

/// Start codes (ISO/IEC 13818-2 table 6-1).
const PICTURE: u8 = 0;
const SEQUENCE: u8 = 0xb3;
const EXTENSION: u8 = 0xb5;
const GROUP: u8 = 0xb8;
/// Bytes of a sequence header without matrices and of its extension, from the start code value on.
const SEQUENCE_BYTES: usize = 9;
const EXTENSION_BYTES: usize = 7;
/// The maximum length of a sequence header with its extension.
const MAX_SEQUENCE: usize = 90;
/// objectTypeIndication of MPEG-1 video and of MPEG-2 video in the simple profile (ISO/IEC 14496-1
/// table 5), and the streamType of both (table 6) with its reserved bit.
const MPEG1: u8 = 0x6a;
const SIMPLE: u8 = 0x60;
const VISUAL: u8 = 0x11;

/// The duration of a picture in ticks, by frame_rate_code.
const PERIODS: [u32; 8] = [3754, 3750, 3600, 3003, 3000, 1800, 1502, 1500];
/// The height of a pixel in 1/10,000 of its width, by MPEG-1's pel_aspect_ratio (11172-2 2.4.3.2).
const HEIGHTS: [u32; 14] = [
    10_000, 6735, 7031, 7615, 8055, 8437, 8935, 9157, 9815, 10_255, 10_695, 10_950, 11_575, 12_015,
];

/// The presentation order of a picture according to the stream itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its position in presentation order since the group began.
    pub number: u16,
    /// Whether it begins a group of pictures.
    pub begins: bool,
    /// The nominal duration of a picture in ticks.
    pub period: u32,
    /// The actual duration of this picture: longer if a field is repeated.
    pub ticks: u32,
}

/// A group of pictures of which not all have stamps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    /// The presentation time of its first picture.
    pub shown: i64,
    /// The number of its pictures so far, and their duration in ticks.
    count: u32,
    ticks: u32,
    /// The mean duration of a picture in the previous group: longer if fields are repeated.
    mean: u32,
}

impl Group {
    /// Takes the next picture and returns its presentation time relative to the group's first.
    pub fn take(&mut self, order: Order) -> i64 {
        if order.begins && self.count > 0 {
            self.shown += i64::from(self.ticks);
            self.mean = self.ticks / self.count;
            (self.count, self.ticks) = (0, 0);
        }
        self.count = self.count.saturating_add(1);
        self.ticks = self.ticks.saturating_add(order.ticks);
        let mean = if self.mean > 0 {
            self.mean
        } else {
            order.period
        };
        i64::from(order.number) * i64::from(mean)
    }
}

/// A picture found in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The position of its beginning, which is a start code.
    pub start: usize,
    /// The number of bytes up to the next picture.
    pub size: u32,
    /// Whether decoders can start here.
    pub sync: bool,
    pub order: Order,
}

/// Appends a unit with its start code to `before`. Restores trailing zeros, which are not detected
/// as part of the unit, up to `least` bytes.
fn with_zeros(before: &[u8], unit: &[u8], least: usize) -> Vec<u8> {
    let mut bytes = [before, &[0, 0, 1], unit].concat();
    bytes.resize(bytes.len().max(before.len() + 3 + least), 0);
    bytes
}

/// Returns whether this unit is a sequence header with which a film may begin.
pub fn is_sequence(unit: &[u8]) -> bool {
    unit.first() == Some(&SEQUENCE) && Sequence::parse(unit).is_some()
}

/// The contents of a sequence header.
#[derive(Clone, Debug, Default)]
struct Sequence {
    bytes: Vec<u8>,
    size: (u16, u16),
    /// aspect_ratio_information.
    aspect: u8,
    /// The duration of a picture in ticks.
    period: u32,
    /// The profile of MPEG-2.
    profile: Option<u8>,
}

impl Sequence {
    /// Parses a whole sequence header.
    fn parse(unit: &[u8]) -> Option<Sequence> {
        let mut bits = Bits::new(unit.get(1..)?);
        let size = (bits.take(12)? as u16, bits.take(12)? as u16);
        let (aspect, rate) = (bits.take(4)? as u8, bits.take(4)? as usize);
        let period = *PERIODS.get(rate.checked_sub(1)?)?;
        (size.0 > 0 && size.1 > 0).then(|| Sequence {
            bytes: with_zeros(&[], unit, SEQUENCE_BYTES),
            size,
            aspect,
            period,
            profile: None,
        })
    }

    /// Applies the extension that distinguishes MPEG-2.
    fn extend(&mut self, unit: &[u8]) -> Option<()> {
        let mut bits = Bits::new(unit.get(1..)?);
        bits.take(4)?;
        let profile = bits.take(8)? >> 4 & 7;
        bits.take(1 + 2)?;
        let (wide, high) = (bits.take(2)? as u16, bits.take(2)? as u16);
        self.size.0 |= wide << 12;
        self.size.1 |= high << 12;
        self.profile = Some(profile as u8);
        self.bytes = with_zeros(&self.bytes, unit, EXTENSION_BYTES);
        Some(())
    }

    fn pixel(&self) -> (u32, u32) {
        let (wide, high) = (u32::from(self.size.0), u32::from(self.size.1));
        let shown = match (self.profile, self.aspect) {
            (None, aspect) => {
                let height = HEIGHTS.get(usize::from(aspect.max(1)) - 1);
                return (10_000, height.copied().unwrap_or(10_000));
            }
            (Some(_), 2) => (4, 3),
            (Some(_), 3) => (16, 9),
            (Some(_), 4) => (221, 100),
            _ => return (1, 1),
        };
        (shown.0 * high, shown.1 * wide)
    }

    fn entry(&self) -> Vec<u8> {
        let object_type = match self.profile {
            None => MPEG1,
            // Profiles count down from high (1) to simple (5), object types up.
            Some(profile) => SIMPLE + 5u8.saturating_sub(profile).min(5),
        };
        let config = match self.bytes.len() <= MAX_SEQUENCE {
            true => &self.bytes[..],
            false => &[],
        };
        let (wide, high) = self.pixel();
        let common = (1..=wide.min(high))
            .rev()
            .find(|by| wide % by == 0 && high % by == 0);
        let common = common.unwrap_or(1);
        let aspect = (wide / common, high / common);
        picture(
            b"mp4v",
            self.size,
            aspect,
            &decoder(object_type, VISUAL, config),
        )
    }
}

/// A picture that is not complete yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    start: usize,
    /// Whether a slice has been found.
    pictured: bool,
    /// Whether a sequence or group header precedes it.
    entry: bool,
    group: bool,
    intra: bool,
    number: u16,
    /// picture_structure: 1 top field, 2 bottom field, 3 frame.
    structure: u8,
    /// The number of fields shown.
    fields: u32,
}

/// Finds pictures in consecutive bytes.
#[derive(Clone, Debug, Default)]
pub struct Coded {
    units: Units,
    sequence: Option<Sequence>,
    /// Whether the previous unit was a sequence header, so that its extension may follow.
    extends: bool,
    open: Option<Open>,
    next: Option<Open>,
}

impl Coded {
    /// Returns the sample entry, once a sequence header has been found.
    pub fn entry(&self) -> Option<Vec<u8>> {
        self.sequence.as_ref().map(Sequence::entry)
    }

    /// Returns the next whole picture in `bytes`, which are those of the last call and more.
    /// `is_end`: nothing follows.
    pub fn next(&mut self, bytes: &[u8], is_end: bool) -> Option<Picture> {
        while let Some(unit) = self.units.next(bytes, is_end) {
            if let Some(whole) = self.take(bytes, unit) {
                return Some(whole);
            }
        }
        // Trailing units belong to the last picture.
        let open = self.open.take_if(|open| is_end && open.pictured)?;
        self.whole(open, bytes.len())
    }

    /// Adapts to the removal of the first `gone` bytes.
    pub fn forget(&mut self, gone: usize) {
        self.units.forget(gone);
        for open in [&mut self.open, &mut self.next].into_iter().flatten() {
            open.start = open.start.saturating_sub(gone);
        }
    }

    /// Returns the position from which bytes are still needed.
    pub fn needed(&self) -> Option<usize> {
        let open = self.open.map(|open| open.start);
        open.or_else(|| self.units.needed())
    }

    /// Returns a picture that ends where the next one begins.
    fn whole(&self, open: Open, end: usize) -> Option<Picture> {
        let period = self
            .sequence
            .as_ref()
            .map_or(RATE / 25, |sequence| sequence.period);
        Some(Picture {
            start: open.start,
            size: u32::try_from(end - open.start)
                .ok()
                .filter(|size| *size < 1 << 31)?,
            sync: open.intra && open.entry && self.sequence.is_some(),
            order: Order {
                number: open.number,
                begins: open.group,
                period,
                ticks: period * open.fields / 2,
            },
        })
    }

    fn take(&mut self, bytes: &[u8], range: Range<usize>) -> Option<Picture> {
        let unit = &bytes[range.clone()];
        // A picture header may consist of zeros, which look like zeros after the previous unit.
        let code = *bytes.get(range.start)?;
        let extends = std::mem::take(&mut self.extends);
        let begins = matches!(code, PICTURE | SEQUENCE | GROUP);
        if (1..=0xaf).contains(&code) {
            return self.slice();
        }
        let is_pictured = self.open.is_some_and(|open| open.pictured);
        let place = match is_pictured {
            true => &mut self.next,
            false => &mut self.open,
        };
        let fresh = Open {
            start: range.start - START,
            pictured: false,
            entry: false,
            group: false,
            intra: false,
            number: 0,
            structure: 3,
            fields: 2,
        };
        let open = match (place, begins) {
            (Some(open), _) => open,
            (place @ None, true) => place.insert(fresh),
            (None, false) => return None,
        };
        match code {
            PICTURE => {
                let head = bytes.get(range.start + 1..range.start + 3)?;
                open.number = u16::from(head[0]) << 2 | u16::from(head[1] >> 6);
                open.intra = head[1] >> 3 & 7 == 1;
            }
            SEQUENCE => {
                open.entry = true;
                if self.sequence.is_none() {
                    self.sequence = Sequence::parse(unit);
                    self.extends = self.sequence.is_some();
                }
            }
            GROUP => (open.entry, open.group) = (true, true),
            EXTENSION => match unit.get(1)? >> 4 {
                1 if extends => {
                    self.sequence.as_mut()?.extend(unit)?;
                }
                8 => {
                    // Trailing zeros are not detected as part of a unit.
                    let (structure, flags) = (unit.get(3)? & 3, unit.get(4).unwrap_or(&0));
                    open.structure = structure;
                    open.fields = if flags & 2 != 0 { 3 } else { 2 };
                }
                _ => {}
            },
            _ => {}
        }
        None
    }

    fn slice(&mut self) -> Option<Picture> {
        let Some(next) = self.next.take() else {
            if let Some(open) = &mut self.open {
                open.pictured = true;
            }
            return None;
        };
        let open = self.open.as_mut()?;
        let is_second = open.structure + next.structure == 3 && open.structure != 3 && !next.entry;
        if is_second {
            open.structure = 3;
            return None;
        }
        let (open, end) = (*open, next.start);
        self.open = Some(Open {
            pictured: true,
            ..next
        });
        self.whole(open, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Vec<u8> {
        let mut bytes = vec![
            0, 0, 1, SEQUENCE, 0x16, 0x01, 0x20, 0x13, 0xff, 0xff, 0xe0, 0x80,
        ];
        // I, P, B, B: numbers 2, 5, 3, 4 of the presentation order.
        for (number, kind) in [(2u8, 1u8), (5, 2), (3, 3), (4, 3)] {
            if kind == 1 {
                bytes.extend([0, 0, 1, GROUP, 0, 8, 0, 0x40]);
            }
            bytes.extend([0, 0, 1, PICTURE, 0, number << 6 | kind << 3, 0xff, 0xf8]);
            for slice in 1..4 {
                bytes.extend([0, 0, 1, slice, 0x12, 0x34, 0x80]);
            }
        }
        bytes
    }

    #[test]
    fn pictures_have_their_place_in_the_order_of_showing() {
        let bytes = stream();
        let mut coded = Coded::default();
        let found: Vec<Picture> = std::iter::from_fn(|| coded.next(&bytes, true)).collect();
        assert_eq!(found.len(), 4);
        let starts: usize = found.iter().map(|picture| picture.size as usize).sum();
        assert_eq!((found[0].start, starts), (0, bytes.len()));
        assert!(found[0].sync && found[0].order.begins && !found[1].sync);
        assert_eq!(found[0].order.period, 3600);
        let entry = coded.entry().unwrap();
        assert!(entry.windows(4).any(|kind| kind == b"esds"));
    }

    #[test]
    fn two_fields_are_one_picture() {
        let mut bytes = stream();
        bytes.truncate(20);
        let mut picture = |kind: u8, structure: u8| {
            bytes.extend([0, 0, 1, PICTURE, 0, 0x40 | kind << 3, 0xff, 0xf8]);
            bytes.extend([0, 0, 1, EXTENSION, 0x8f, 0xff, 0xf0 | structure, 0x42, 0x80]);
            bytes.extend([0, 0, 1, 1, 0x12, 0x34, 0x80]);
        };
        for (kind, structure) in [(1, 1), (2, 2), (2, 2), (2, 1), (2, 3), (3, 1), (3, 1)] {
            picture(kind, structure);
        }
        let mut coded = Coded::default();
        let found: Vec<Picture> = std::iter::from_fn(|| coded.next(&bytes, true)).collect();
        // Top and bottom, bottom and top, a frame, and two fields that do not belong together.
        let sizes: Vec<u32> = found.iter().map(|picture| picture.size).collect();
        assert_eq!(sizes, [20 + 48, 48, 24, 24, 24]);
        let ticks: Vec<u32> = found.iter().map(|picture| picture.order.ticks).collect();
        assert!(
            ticks.iter().all(|ticks| *ticks == 5400),
            "a field is shown again: {ticks:?}"
        );
    }
}
