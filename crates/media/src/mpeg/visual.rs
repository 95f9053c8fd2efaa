//! Pictures in an MPEG-4 Visual stream (ISO/IEC 14496-2 6.2). The view contains them unchanged,
//! with the headers before them.

use std::ops::Range;

use super::clock::RATE;
use super::nal::{START, Units};
use crate::mp4::Bits;
use crate::sample_entry::{decoder, picture};

/// Start codes (ISO/IEC 14496-2 table 6-3).
const SEQUENCE: u8 = 0xb0;
const USER_DATA: u8 = 0xb2;
const GROUP: u8 = 0xb3;
const OBJECT: u8 = 0xb5;
const PICTURE: u8 = 0xb6;
/// objectTypeIndication of MPEG-4 Visual (ISO/IEC 14496-1 table 5), and its streamType (table 6)
/// with its reserved bit.
const VISUAL: (u8, u8) = (0x20, 0x11);
/// Longer headers stay in the samples: sample entries have limited room, and encoders write less.
const MAX_HEADERS: usize = 16_000;
/// The number of bytes of a unit that are read: enough for the required header fields.
const HEAD: usize = 64;

/// A picture found in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The position of its beginning, which is a start code.
    pub start: usize,
    /// The number of bytes up to the next picture.
    pub size: u32,
    /// Whether decoders can start here.
    pub sync: bool,
    /// The presentation time by the stream's own count, in ticks of [`RATE`].
    pub shown: i64,
}

/// The contents of a video object layer header (6.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layer {
    size: (u16, u16),
    /// The pixel aspect ratio.
    aspect: (u32, u32),
    /// The ticks per second in which pictures are counted.
    resolution: u32,
}

/// Returns a unit's first bytes. Restores trailing zeros, which are not detected as part of it.
fn head(unit: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let len = unit.len().min(HEAD);
    head[..len].copy_from_slice(&unit[..len]);
    head
}

impl Layer {
    /// Parses a header; `None` if it is not one of rectangular video.
    fn parse(unit: &[u8]) -> Option<Layer> {
        let head = head(unit);
        let mut bits = Bits::new(&head[1..]);
        bits.take(1 + 8)?; // random_accessible_vol, video_object_type_indication
        if bits.flag()? {
            bits.take(4 + 3)?; // video_object_layer_verid, video_object_layer_priority
        }
        // Table 6-14.
        let aspect = match bits.take(4)? {
            2 => (12, 11),
            3 => (10, 11),
            4 => (16, 11),
            5 => (40, 33),
            15 => (bits.take(8)?, bits.take(8)?),
            _ => (1, 1),
        };
        if bits.flag()? {
            bits.take(2 + 1)?; // chroma_format, low_delay
            if bits.flag()? {
                bits.take(32)?; // vbv_parameters
                bits.take(32)?;
                bits.take(15)?;
            }
        }
        let shape = bits.take(2)?;
        bits.take(1)?;
        let resolution = bits.take(16)?;
        bits.take(1)?;
        if shape != 0 || resolution == 0 {
            return None;
        }
        if bits.flag()? {
            bits.take(increment_bits(resolution))?; // fixed_vop_time_increment
        }
        bits.take(1)?;
        let wide = bits.take(13)? as u16;
        bits.take(1)?;
        let high = bits.take(13)? as u16;
        (wide > 0 && high > 0).then_some(Layer {
            size: (wide, high),
            aspect: if aspect.0 == 0 || aspect.1 == 0 {
                (1, 1)
            } else {
                aspect
            },
            resolution,
        })
    }
}

/// Returns the number of bits for numbers below this one (6.3.5, `vop_time_increment`).
fn increment_bits(resolution: u32) -> usize {
    (resolution - 1).checked_ilog2().map_or(1, |log| log + 1) as usize
}

/// The headers that configure decoders.
#[derive(Clone, Debug, Default)]
struct Headers {
    bytes: Vec<u8>,
    /// Whether they are complete.
    closed: bool,
    layer: Option<Layer>,
}

/// The presentation times of pictures by their own count (6.3.5, `modulo_time_base`).
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// The seconds of the last reference picture, and of the one before it.
    seconds: i64,
    before: i64,
}

/// A picture that is not complete yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    start: usize,
    /// Whether the picture itself has been found, after its headers.
    pictured: bool,
    intra: bool,
    shown: i64,
}

/// Finds pictures in consecutive bytes.
#[derive(Clone, Debug, Default)]
pub struct Visual {
    units: Units,
    headers: Headers,
    count: Count,
    open: Option<Open>,
}

impl Visual {
    /// Returns the sample entry, once a layer header has been found.
    pub fn entry(&self) -> Option<Vec<u8>> {
        let layer = self.headers.layer?;
        let esds = decoder(VISUAL.0, VISUAL.1, &self.headers.bytes);
        Some(picture(b"mp4v", layer.size, layer.aspect, &esds))
    }

    /// Returns the next whole picture in `bytes`, which are those of the last call and more.
    /// `is_end`: nothing follows.
    pub fn next(&mut self, bytes: &[u8], is_end: bool) -> Option<Picture> {
        while let Some(unit) = self.units.next(bytes, is_end) {
            if let Some(whole) = self.take(bytes, unit) {
                return Some(whole);
            }
        }
        let open = self.open.take_if(|open| is_end && open.pictured)?;
        self.whole(open, bytes.len())
    }

    /// Adapts to the removal of the first `gone` bytes.
    pub fn forget(&mut self, gone: usize) {
        self.units.forget(gone);
        if let Some(open) = &mut self.open {
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
        Some(Picture {
            start: open.start,
            size: u32::try_from(end - open.start)
                .ok()
                .filter(|size| *size < 1 << 31)?,
            sync: open.intra && self.headers.layer.is_some(),
            shown: open.shown,
        })
    }

    fn take(&mut self, bytes: &[u8], range: Range<usize>) -> Option<Picture> {
        let unit = &bytes[range.clone()];
        let start = range.start - START;
        // A header may consist of zeros, which look like trailing zeros of the previous unit.
        let code = *bytes.get(range.start)?;
        let begins = matches!(
            code,
            ..0x30 | SEQUENCE | USER_DATA | GROUP | OBJECT | PICTURE
        );
        if !begins {
            debug_assert!(code >= 0x30, "{code:02x} begins a picture");
            return None;
        }
        let fresh = Open {
            start,
            pictured: false,
            intra: false,
            shown: 0,
        };
        let ended = self.open.take_if(|open| open.pictured);
        let open = self.open.get_or_insert(fresh);
        if matches!(code, GROUP | PICTURE) && !open.pictured {
            self.headers.close(&bytes[open.start..start]);
        }
        match code {
            0x20..0x30 => self.headers.take_layer(unit),
            GROUP => self.count.begin(unit),
            PICTURE => {
                let resolution = self.headers.layer.map(|layer| layer.resolution);
                let (intra, shown) = self.count.take(unit, resolution).unwrap_or_default();
                (open.pictured, open.intra, open.shown) = (true, intra, shown);
            }
            _ => {}
        }
        self.whole(ended?, start)
    }
}

impl Headers {
    fn take_layer(&mut self, unit: &[u8]) {
        if self.layer.is_none() {
            self.layer = Layer::parse(unit);
        }
    }

    /// Takes the units before a picture or a group: the first ones with a layer are the headers.
    fn close(&mut self, before: &[u8]) {
        if self.layer.is_none() || self.closed {
            return;
        }
        self.closed = true;
        // Headers that are too long are in the samples, too.
        if before.len() <= MAX_HEADERS {
            self.bytes = before.to_vec();
        }
    }
}

impl Count {
    /// Takes a group header (6.2.5), which states the time from which its pictures count.
    fn begin(&mut self, unit: &[u8]) {
        let head = head(unit);
        let mut bits = Bits::new(&head[1..]);
        let mut next = |count| bits.take(count).map_or(0, i64::from);
        let (hours, minutes, _, seconds) = (next(5), next(6), next(1), next(6));
        self.seconds = (hours * 60 + minutes) * 60 + seconds;
    }

    /// Takes a picture (6.2.5) and returns whether it is intra, and its presentation time.
    fn take(&mut self, unit: &[u8], resolution: Option<u32>) -> Option<(bool, i64)> {
        let head = head(unit);
        let mut bits = Bits::new(&head[1..]);
        let kind = bits.take(2)?;
        let mut passed = 0;
        while bits.flag()? {
            passed += 1;
        }
        bits.take(1)?;
        let resolution = resolution?;
        let increment = bits.take(increment_bits(resolution))?;
        // Pictures between two others count from the first of these.
        let seconds = match kind {
            2 => self.before + passed,
            _ => {
                self.before = self.seconds;
                self.seconds += passed;
                self.seconds
            }
        };
        let part = u64::from(increment) * u64::from(RATE) / u64::from(resolution);
        Some((kind == 0, seconds * i64::from(RATE) + part as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::entry_of;
    use crate::title::Kind;
    use crate::{Codec, Mpeg4Visual};

    /// Bits as text, those of each byte one after the other.
    fn bits(text: &str) -> Vec<u8> {
        let bits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
        let byte = |bits: &[u8]| {
            let value = bits.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0'));
            value << (8 - bits.len())
        };
        bits.chunks(8).map(byte).collect()
    }

    /// Headers of pictures of 320 × 180, 25 ticks per second, with pixels of 12:11.
    fn headers() -> Vec<u8> {
        let layer = format!(
            "0 00000001 1 0001 001 0010 0 00 1 {:016b} 1 0 1 {:013b} 1 {:013b} 1",
            25, 320, 180
        );
        [
            &[
                0, 0, 1, SEQUENCE, 0xf5, 0, 0, 1, OBJECT, 0x09, 0, 0, 1, 0, 0, 0, 1, 0x20,
            ][..],
            &bits(&layer),
        ]
        .concat()
    }

    /// A picture of this coding type, `seconds` and `part` ticks later.
    fn picture(kind: &str, seconds: usize, part: u32) -> Vec<u8> {
        let head = format!("{kind} {}0 1 {part:05b} 1", "1".repeat(seconds));
        [&[0, 0, 1, PICTURE][..], &bits(&head), &[0x5a, 0xa5, 0x80]].concat()
    }

    fn found(bytes: &[u8]) -> (Visual, Vec<Picture>) {
        let mut visual = Visual::default();
        let found = std::iter::from_fn(|| visual.next(bytes, true)).collect();
        (visual, found)
    }

    #[test]
    fn pictures_begin_with_their_headers_and_are_shown_as_they_count() {
        let group = [&[0, 0, 1, GROUP][..], &bits("00000 000000 1 000000 1 0")].concat();
        let pieces = [
            [headers(), group.clone(), picture("00", 0, 0)].concat(),
            picture("01", 1, 1),
            picture("10", 0, 23),
            picture("10", 0, 24),
            [vec![0, 0, 1, USER_DATA, 7], picture("00", 0, 4)].concat(),
            picture("10", 1, 2),
        ];
        let (visual, found) =
            found(&[&b"\x12\x34"[..], &pieces.concat(), &[0, 0, 1, 0xb1]].concat());
        let sizes: Vec<usize> = found.iter().map(|picture| picture.size as usize).collect();
        let mut expected: Vec<usize> = pieces.iter().map(Vec::len).collect();
        // The code that ends the sequence belongs to the last picture.
        *expected.last_mut().unwrap() += 4;
        assert_eq!((found[0].start, sizes), (2, expected));
        let shown: Vec<i64> = found.iter().map(|picture| picture.shown / 3600).collect();
        assert_eq!(shown, [0, 26, 23, 24, 29, 52]);
        let syncs: Vec<bool> = found.iter().map(|picture| picture.sync).collect();
        assert_eq!(syncs, [true, false, false, false, true, false]);
        let entry = entry_of(&visual.entry().unwrap(), Kind::Video).unwrap();
        assert_eq!((entry.size, entry.pixel_aspect), ((320, 180), (12, 11)));
        let headers = headers();
        assert_eq!(entry.codec, Codec::Mpeg4Visual(Mpeg4Visual { headers }));
    }

    #[test]
    fn what_is_cut_off_at_the_beginning_is_no_header() {
        let stream = [
            &[0, 0, 1, USER_DATA, 1, 2, 3][..],
            &picture("01", 0, 3),
            &headers(),
            &picture("00", 0, 5),
        ];
        let (visual, found) = found(&stream.concat());
        assert_eq!(found.len(), 2);
        assert!(!found[0].sync && found[1].sync);
        assert_eq!(visual.headers.bytes, headers());
    }

    #[test]
    fn how_bytes_come_changes_nothing() {
        let stream = [
            headers(),
            picture("00", 0, 0),
            picture("01", 0, 2),
            vec![0; 5],
            headers(),
            picture("00", 1, 0),
        ]
        .concat();
        let (_, expected) = found(&stream);
        for step in 1..stream.len() {
            let (mut visual, mut all, mut have) = (Visual::default(), Vec::new(), 0);
            while have < stream.len() {
                have = (have + step).min(stream.len());
                let is_end = have == stream.len();
                all.extend(std::iter::from_fn(|| visual.next(&stream[..have], is_end)));
            }
            assert_eq!(all, expected, "{step} bytes at once");
        }
    }

    #[test]
    fn layers_of_other_shapes_and_without_a_size_are_none() {
        let layer = |shape: &str, wide: u16| {
            let text = format!(
                "0 00000001 0 0001 0 {shape} 1 {:016b} 1 0 1 {wide:013b} 1 {:013b} 1",
                1, 16
            );
            Layer::parse(&[&[0x20][..], &bits(&text)].concat())
        };
        assert!(layer("00", 16).is_some());
        assert_eq!((layer("01", 16), layer("00", 0)), (None, None));
        assert_eq!(increment_bits(1), 1);
        assert_eq!(
            (
                increment_bits(2),
                increment_bits(25),
                increment_bits(32),
                increment_bits(33)
            ),
            (1, 5, 5, 6)
        );
    }
}
