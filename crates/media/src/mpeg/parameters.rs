//! Parameter sets of a stream of pictures, and what a sample entry takes from them: ITU-T H.264 7.3.2.1 and E.1.1, H.265 7.3.2.2,
//! 7.3.3 and E.2.1; ISO/IEC 14496-15 5.3.3.1, 8.3.3.1.

use super::nal::Family;
use crate::mp4::Bits;
use crate::sample_entry::{boxed, picture};

/// Sets beyond this are not kept: a stream has a handful.
const MAX_SETS: usize = 64;
/// No set that is needed is longer.
const MAX_SET: usize = 4096;

/// What a sequence parameter set says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    id: u32,
    /// Pixels.
    size: (u16, u16),
    /// Of a pixel.
    aspect: (u32, u32),
    /// Bits of `frame_num`, where pictures may be fields (H.264).
    pub fields: Option<usize>,
    chroma: u8,
    depth: (u8, u8),
}

/// A parameter set, and which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    /// nal_unit_type.
    kind: u8,
    id: u32,
    bytes: Vec<u8>,
}

/// The sets of a stream.
#[derive(Debug)]
pub struct Parameters {
    family: Family,
    sets: Vec<Set>,
    /// Whether a set has become another on the way.
    changes: bool,
    /// What the last sequence parameter set says.
    pub shape: Option<Shape>,
    first: Option<Shape>,
}

impl Parameters {
    pub fn new(family: Family) -> Parameters {
        Parameters {
            family,
            sets: Vec::new(),
            changes: false,
            shape: None,
            first: None,
        }
    }

    /// Takes a parameter set.
    pub fn take(&mut self, unit: &[u8]) {
        let Some((kind, id)) = self.read(unit) else {
            return;
        };
        match self
            .sets
            .iter()
            .find(|set| (set.kind, set.id) == (kind, id))
        {
            Some(set) => self.changes |= set.bytes != unit,
            None if self.sets.len() < MAX_SETS && unit.len() <= MAX_SET => self.sets.push(Set {
                kind,
                id,
                bytes: unit.to_vec(),
            }),
            None => self.changes = true,
        }
    }

    /// Its type and its number.
    fn read(&mut self, unit: &[u8]) -> Option<(u8, u32)> {
        let plain = without_escapes(unit);
        let kind = self.family.kind(unit)?;
        let shape = match (self.family, kind) {
            (Family::H264, 7) => h264(&plain)?,
            (Family::H265, 33) => h265(&plain)?,
            (Family::H264, 8) => return Some((kind, Golomb::new(plain.get(1..)?).number()?)),
            (Family::H265, 32) => return Some((kind, u32::from(plain.get(2)? >> 4))),
            (Family::H265, 34) => return Some((kind, Golomb::new(plain.get(2..)?).number()?)),
            _ => return None,
        };
        self.shape = Some(shape);
        self.first.get_or_insert(shape);
        Some((kind, shape.id))
    }

    /// Whether a picture can be decoded.
    pub fn are_known(&self) -> bool {
        let picture = match self.family {
            Family::H264 => 8,
            Family::H265 => 34,
        };
        self.first.is_some() && self.sets.iter().any(|set| set.kind == picture)
    }

    fn of(&self, kind: u8) -> Vec<&[u8]> {
        let sets = self.sets.iter().filter(|set| set.kind == kind);
        sets.map(|set| &set.bytes[..]).collect()
    }

    /// The sample entry; `None`: there are too few of them.
    pub fn entry(&self) -> Option<Vec<u8>> {
        let first = self.first.filter(|_| self.are_known())?;
        // Sets that change are in the samples only.
        let (code, config) = match (self.family, self.changes) {
            (Family::H264, false) => (b"avc1", self.avcc(&first)?),
            (Family::H264, true) => (b"avc3", self.avcc(&first)?),
            (Family::H265, false) => (b"hvc1", self.hvcc(&first)?),
            (Family::H265, true) => (b"hev1", self.hvcc(&first)?),
        };
        Some(picture(code, first.size, first.aspect, &config))
    }

    fn avcc(&self, shape: &Shape) -> Option<Vec<u8>> {
        let (sps, pps) = (self.of(7), self.of(8));
        let profile = sps.first()?.get(1..4)?;
        let mut body = vec![1];
        body.extend(profile);
        body.push(0xff); // lengths take four bytes
        for (sets, most, mark) in [(&sps, 31, 0xe0), (&pps, 255, 0)] {
            let sets = &sets[..sets.len().min(most)];
            body.push(mark | sets.len() as u8);
            put(&mut body, sets);
        }
        if matches!(profile[0], 100 | 110 | 122 | 144) {
            body.extend([
                0xfc | shape.chroma,
                0xf8 | shape.depth.0,
                0xf8 | shape.depth.1,
                0,
            ]);
        }
        Some(boxed(b"avcC", &[&body]))
    }

    fn hvcc(&self, shape: &Shape) -> Option<Vec<u8>> {
        let sps = self.of(33);
        let plain = without_escapes(sps.first()?);
        let layers = plain.get(2)? >> 1 & 7;
        let nested = plain.get(2)? & 1;
        let mut body = vec![1];
        body.extend(plain.get(3..15)?);
        body.extend([0xf0, 0, 0xfc, 0xfc | shape.chroma]);
        body.extend([0xf8 | shape.depth.0, 0xf8 | shape.depth.1, 0, 0]);
        body.push((layers + 1) << 3 | nested << 2 | 3);
        body.push(3);
        for kind in [32, 33, 34] {
            let sets = self.of(kind);
            // Not complete where later ones are in the samples.
            let complete = if self.changes { 0 } else { 0x80 };
            body.push(complete | kind);
            body.extend((sets.len() as u16).to_be_bytes());
            put(&mut body, &sets);
        }
        Some(boxed(b"hvcC", &[&body]))
    }
}

fn put(body: &mut Vec<u8>, sets: &[&[u8]]) {
    for set in sets {
        body.extend((set.len() as u16).to_be_bytes());
        body.extend(*set);
    }
}

impl Family {
    /// nal_unit_type.
    pub fn kind(self, unit: &[u8]) -> Option<u8> {
        let head = *unit.first()?;
        Some(match self {
            Family::H264 => head & 0x1f,
            Family::H265 => head >> 1 & 0x3f,
        })
    }
}

/// The first bytes of a unit without the bytes that keep start codes out of it (H.264 7.4.1.1).
pub fn without_escapes(unit: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(unit.len().min(MAX_SET));
    let mut zeros = 0;
    for byte in unit.iter().take(MAX_SET) {
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        plain.push(*byte);
    }
    plain
}

/// Numbers of as many bits as they need (H.264 9.1).
pub struct Golomb<'a>(pub Bits<'a>);

impl<'a> Golomb<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Golomb(Bits::new(bytes))
    }

    /// ue(v).
    pub fn number(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.0.flag()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let rest = self.0.take(zeros)?;
        Some(((1u64 << zeros) - 1) as u32 + rest)
    }

    /// se(v).
    fn signed(&mut self) -> Option<i32> {
        let number = i64::from(self.number()?);
        let half = (number + 1) / 2;
        Some(if number % 2 == 0 { -half } else { half } as i32)
    }

    fn flag(&mut self) -> Option<bool> {
        self.0.flag()
    }

    fn skip(&mut self, bits: usize) -> Option<()> {
        self.0.take(bits).map(|_| ())
    }
}

/// Aspect ratios by their numbers (H.264 table E-1).
const ASPECTS: [(u32, u32); 17] = [
    (1, 1),
    (1, 1),
    (12, 11),
    (10, 11),
    (16, 11),
    (40, 33),
    (24, 11),
    (20, 11),
    (32, 11),
    (80, 33),
    (18, 11),
    (15, 11),
    (64, 33),
    (160, 99),
    (4, 3),
    (3, 2),
    (2, 1),
];

/// What `vui_parameters` begins with.
fn aspect(bits: &mut Golomb) -> Option<(u32, u32)> {
    if !bits.flag()? {
        return Some((1, 1));
    }
    let number = bits.0.take(8)?;
    let (wide, high) = match number {
        255 => (bits.0.take(16)?, bits.0.take(16)?),
        number => *ASPECTS.get(number as usize)?,
    };
    Some(if wide == 0 || high == 0 {
        (1, 1)
    } else {
        (wide, high)
    })
}

/// Pixels of a side less what is cropped.
fn side(whole: u32, cropped: u32) -> Option<u16> {
    u16::try_from(whole.checked_sub(cropped)?)
        .ok()
        .filter(|side| *side > 0)
}

fn h264(sps: &[u8]) -> Option<Shape> {
    let profile = *sps.get(1)?;
    let mut bits = Golomb::new(sps.get(4..)?);
    let id = bits.number()?;
    let (mut chroma, mut depth, mut planes) = (1, (0, 0), false);
    if matches!(
        profile,
        100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135
    ) {
        chroma = bits.number()?;
        if chroma == 3 {
            planes = bits.flag()?;
        }
        depth = (bits.number()?, bits.number()?);
        bits.skip(1)?;
        if bits.flag()? {
            for list in 0..if chroma == 3 { 12 } else { 8 } {
                if bits.flag()? {
                    scaling_list(&mut bits, if list < 6 { 16 } else { 64 })?;
                }
            }
        }
    }
    let frame_bits = bits.number()?.checked_add(4)?;
    match bits.number()? {
        0 => {
            bits.number()?;
        }
        1 => {
            bits.skip(1)?;
            bits.signed()?;
            bits.signed()?;
            for _ in 0..bits.number()?.min(255) {
                bits.signed()?;
            }
        }
        _ => {}
    }
    bits.number()?;
    bits.skip(1)?;
    let (wide, high) = (
        bits.number()?.checked_add(1)?,
        bits.number()?.checked_add(1)?,
    );
    let frames_only = bits.flag()?;
    if !frames_only {
        bits.skip(1)?;
    }
    bits.skip(1)?;
    let rows = if frames_only { 1 } else { 2 };
    // Chroma samples are cropped whole.
    let (unit_x, unit_y) = match chroma {
        1 => (2, 2 * rows),
        2 => (2, rows),
        _ => (1, rows),
    };
    let (mut cut_x, mut cut_y) = (0, 0);
    if bits.flag()? {
        cut_x = unit_x * bits.number()?.saturating_add(bits.number()?).min(0xffff);
        cut_y = unit_y * bits.number()?.saturating_add(bits.number()?).min(0xffff);
    }
    let has_vui = bits.flag()?;
    let aspect = has_vui.then(|| aspect(&mut bits)).flatten();
    Some(Shape {
        id,
        size: (
            side(wide.checked_mul(16)?, cut_x)?,
            side(high.checked_mul(16 * rows)?, cut_y)?,
        ),
        aspect: aspect.unwrap_or((1, 1)),
        fields: (!frames_only && !planes).then_some(frame_bits.min(16) as usize),
        chroma: chroma.min(3) as u8,
        depth: (depth.0.min(7) as u8, depth.1.min(7) as u8),
    })
}

fn scaling_list(bits: &mut Golomb, size: usize) -> Option<()> {
    let (mut last, mut next) = (8, 8);
    for _ in 0..size {
        if next != 0 {
            next = (last + (bits.signed()? & 0xff)) & 0xff;
        }
        last = if next == 0 { last } else { next };
    }
    Some(())
}

fn h265(sps: &[u8]) -> Option<Shape> {
    let layers = sps.get(2)? >> 1 & 7;
    let mut bits = Golomb::new(sps.get(15..)?);
    // profile_tier_level of the sub-layers.
    if layers > 0 {
        let stated: Vec<(bool, bool)> = (0..8)
            .map(|_| Some((bits.flag()?, bits.flag()?)))
            .collect::<Option<_>>()?;
        for (profile, level) in stated.into_iter().take(layers.into()) {
            for _ in 0..if profile { 11 } else { 0 } + u8::from(level) {
                bits.skip(8)?;
            }
        }
    }
    let id = bits.number()?;
    let chroma = bits.number()?;
    if chroma == 3 {
        bits.skip(1)?;
    }
    let (wide, high) = (bits.number()?, bits.number()?);
    let (mut cut_x, mut cut_y) = (0, 0);
    if bits.flag()? {
        let (unit_x, unit_y) = match chroma {
            1 => (2, 2),
            2 => (2, 1),
            _ => (1, 1),
        };
        cut_x = unit_x * bits.number()?.saturating_add(bits.number()?).min(0xffff);
        cut_y = unit_y * bits.number()?.saturating_add(bits.number()?).min(0xffff);
    }
    let depth = (bits.number()?, bits.number()?);
    Some(Shape {
        id,
        size: (side(wide, cut_x)?, side(high, cut_y)?),
        // It stands behind lists of reference pictures.
        aspect: h265_aspect(&mut bits, layers).unwrap_or((1, 1)),
        fields: None,
        chroma: chroma.min(3) as u8,
        depth: (depth.0.min(7) as u8, depth.1.min(7) as u8),
    })
}

/// The aspect ratio, of what follows the bit depths.
fn h265_aspect(bits: &mut Golomb, layers: u8) -> Option<(u32, u32)> {
    let order_bits = bits.number()?.checked_add(4)?;
    let each = bits.flag()?;
    for _ in 0..if each { layers + 1 } else { 1 } {
        for _ in 0..3 {
            bits.number()?;
        }
    }
    for _ in 0..6 {
        bits.number()?;
    }
    if bits.flag()? && bits.flag()? {
        h265_scaling_lists(bits)?;
    }
    bits.skip(2)?;
    if bits.flag()? {
        bits.skip(8)?;
        bits.number()?;
        bits.number()?;
        bits.skip(1)?;
    }
    let sets = bits.number()?.min(64);
    let mut pictures = 0;
    for set in 0..sets {
        pictures = reference_set(bits, set, pictures)?;
    }
    if bits.flag()? {
        for _ in 0..bits.number()?.min(32) {
            bits.skip(order_bits.min(16) as usize + 1)?;
        }
    }
    bits.skip(2)?;
    if !bits.flag()? {
        return None;
    }
    aspect(bits)
}

fn h265_scaling_lists(bits: &mut Golomb) -> Option<()> {
    for size in 0..4 {
        for _ in 0..if size == 3 { 2 } else { 6 } {
            if !bits.flag()? {
                bits.number()?;
                continue;
            }
            if size > 1 {
                bits.signed()?;
            }
            for _ in 0..(1usize << (4 + 2 * size)).min(64) {
                bits.signed()?;
            }
        }
    }
    Some(())
}

/// `st_ref_pic_set` number `set` (7.3.7), of which the one before has so many pictures; how many it has.
fn reference_set(bits: &mut Golomb, set: u32, before: u32) -> Option<u32> {
    if set > 0 && bits.flag()? {
        bits.skip(1)?;
        bits.number()?;
        let mut pictures = 0;
        for _ in 0..=before {
            let used = bits.flag()?;
            let delta = used || bits.flag()?;
            pictures += u32::from(delta);
        }
        return Some(pictures);
    }
    let pictures = bits.number()?.checked_add(bits.number()?)?;
    if pictures > 32 {
        return None;
    }
    for _ in 0..pictures {
        bits.number()?;
        bits.skip(1)?;
    }
    Some(pictures)
}
