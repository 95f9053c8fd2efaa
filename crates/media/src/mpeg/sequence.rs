//! Parses sequence parameter sets and the codes that they and slices consist of: ITU-T H.264
//! 7.3.2.1 and E.1.1, H.265 7.3.2.2, 7.3.3 and E.2.1.

use super::nal::Family;
use crate::mp4::Bits;

/// The maximum number of bytes of a unit that are read: the required sets are shorter.
pub const MAX_SET: usize = 4096;

/// How slices identify their picture and its presentation order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// Whether slices name a colour plane.
    pub planes: bool,
    /// Bits of `frame_num` (H.264).
    pub frame: usize,
    /// Whether pictures may be fields (H.264).
    pub fields: bool,
    /// Bits of `pic_order_cnt_lsb` or `slice_pic_order_cnt_lsb`; 0 if it is not stated.
    pub low: usize,
}

/// The contents of a sequence parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub id: u32,
    /// Width and height in pixels.
    pub size: (u16, u16),
    /// The pixel aspect ratio.
    pub aspect: (u32, u32),
    pub counting: Counting,
    /// Pictures per second, as a fraction.
    pub rate: Option<(u32, u32)>,
    pub chroma: u8,
    pub depth: (u8, u8),
}

/// Returns the first bytes of a unit without emulation prevention bytes (H.264 7.4.1.1).
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

/// A reader of Exp-Golomb codes (H.264 9.1).
pub struct Golomb<'a>(pub Bits<'a>);

impl<'a> Golomb<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Golomb(Bits::new(bytes))
    }

    /// Reads ue(v).
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

    /// Reads se(v).
    fn signed(&mut self) -> Option<i32> {
        let number = i64::from(self.number()?);
        let half = (number + 1) / 2;
        Some(if number % 2 == 0 { -half } else { half } as i32)
    }

    pub fn flag(&mut self) -> Option<bool> {
        self.0.flag()
    }

    pub fn skip(&mut self, bits: usize) -> Option<()> {
        self.0.take(bits).map(|_| ())
    }
}

/// Pixel aspect ratios by aspect_ratio_idc (H.264 table E-1).
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

/// Reads `num_units_in_tick` and `time_scale` in `vui_parameters`, after the aspect ratio.
fn timing(bits: &mut Golomb, family: Family) -> Option<(u32, u32)> {
    if bits.flag()? {
        bits.skip(1)?;
    }
    if bits.flag()? {
        bits.skip(4)?;
        if bits.flag()? {
            bits.skip(24)?;
        }
    }
    if bits.flag()? {
        bits.number()?;
        bits.number()?;
    }
    if family == Family::H265 {
        bits.skip(3)?;
        if bits.flag()? {
            for _ in 0..4 {
                bits.number()?;
            }
        }
    }
    if !bits.flag()? {
        return None;
    }
    Some((bits.0.take(32)?, bits.0.take(32)?))
}

/// Reads the aspect ratio at the beginning of `vui_parameters`.
fn aspect(bits: &mut Golomb) -> Option<(u32, u32)> {
    if !bits.flag()? {
        return Some((1, 1));
    }
    let number = bits.0.take(8)?;
    let (wide, high) = match number {
        255 => (bits.0.take(16)?, bits.0.take(16)?),
        number => *ASPECTS.get(number as usize).unwrap_or(&(1, 1)),
    };
    Some(if wide == 0 || high == 0 {
        (1, 1)
    } else {
        (wide, high)
    })
}

/// Returns the pixels of a side after cropping.
fn side(whole: u32, cropped: u32) -> Option<u16> {
    u16::try_from(whole.checked_sub(cropped)?)
        .ok()
        .filter(|side| *side > 0)
}

/// Parses a set of H.264.
pub fn h264(sps: &[u8]) -> Option<Shape> {
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
    let mut low = 0;
    match bits.number()? {
        0 => low = bits.number()?.checked_add(4)?,
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
    // Cropping applies to whole chroma samples.
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
    let timing = aspect.and_then(|_| timing(&mut bits, Family::H264));
    Some(Shape {
        id,
        size: (
            side(wide.checked_mul(16)?, cut_x)?,
            side(high.checked_mul(16 * rows)?, cut_y)?,
        ),
        aspect: aspect.unwrap_or((1, 1)),
        counting: Counting {
            planes,
            frame: frame_bits.min(16) as usize,
            fields: !frames_only,
            low: low.min(16) as usize,
        },
        // A tick lasts as long as a field.
        rate: timing.and_then(|(units, scale)| Some((scale, units.checked_mul(2)?))),
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

/// Parses a set of H.265.
pub fn h265(sps: &[u8]) -> Option<Shape> {
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
    let planes = chroma == 3 && bits.flag()?;
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
    let low = bits.number()?.checked_add(4)?.min(16) as usize;
    // The aspect ratio follows lists of reference pictures.
    let aspect = h265_aspect(&mut bits, layers, low);
    let timing = aspect.and_then(|_| timing(&mut bits, Family::H265));
    Some(Shape {
        id,
        size: (side(wide, cut_x)?, side(high, cut_y)?),
        aspect: aspect.unwrap_or((1, 1)),
        counting: Counting {
            planes,
            low,
            ..Counting::default()
        },
        rate: timing.map(|(units, scale)| (scale, units)),
        chroma: chroma.min(3) as u8,
        depth: (depth.0.min(7) as u8, depth.1.min(7) as u8),
    })
}

/// Reads on from the number of picture order count bits, and returns the aspect ratio.
fn h265_aspect(bits: &mut Golomb, layers: u8, order_bits: usize) -> Option<(u32, u32)> {
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
            bits.skip(order_bits + 1)?;
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

/// Reads `st_ref_pic_set` number `set` (7.3.7) and returns its number of pictures; the previous set
/// has `before`.
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
