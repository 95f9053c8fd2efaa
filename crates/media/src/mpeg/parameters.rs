//! Parameter sets of a video stream, and its sample entry (ISO/IEC 14496-15 5.3.3.1, 8.3.3.1).

use super::nal::Family;
use super::sequence::{Golomb, MAX_SET, Shape, h264, h265, without_escapes};
use crate::sample_entry::{boxed, picture};

/// The maximum number of sets kept: a stream has a handful.
const MAX_SETS: usize = 64;

/// A parameter set with its type and id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    /// nal_unit_type.
    kind: u8,
    id: u32,
    bytes: Vec<u8>,
}

/// The parameter sets of a stream.
#[derive(Clone, Debug)]
pub struct Parameters {
    family: Family,
    sets: Vec<Set>,
    /// Whether a set has changed within the stream.
    changes: bool,
    /// The contents of the last sequence parameter set.
    pub shape: Option<Shape>,
    /// From the last picture parameter set (H.265): the number of slice header bits before the
    /// slice type, and whether slices state if they are output.
    pub slices: (usize, bool),
    first: Option<Shape>,
}

impl Parameters {
    pub fn new(family: Family) -> Parameters {
        Parameters {
            family,
            sets: Vec::new(),
            changes: false,
            shape: None,
            slices: (0, false),
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

    /// Returns the type and the id of a set.
    fn read(&mut self, unit: &[u8]) -> Option<(u8, u32)> {
        let plain = without_escapes(unit);
        let kind = self.family.kind(unit)?;
        let shape = match (self.family, kind) {
            (Family::H264, 7) => h264(&plain)?,
            (Family::H265, 33) => h265(&plain)?,
            (Family::H264, 8) => return Some((kind, Golomb::new(plain.get(1..)?).number()?)),
            (Family::H265, 32) => return Some((kind, u32::from(plain.get(2)? >> 4))),
            (Family::H265, 34) => {
                let mut bits = Golomb::new(plain.get(2..)?);
                let id = bits.number()?;
                bits.number()?;
                bits.skip(1)?;
                let states_output = bits.flag()?;
                self.slices = (bits.0.take(3)? as usize, states_output);
                return Some((kind, id));
            }
            _ => return None,
        };
        self.shape = Some(shape);
        self.first.get_or_insert(shape);
        Some((kind, shape.id))
    }

    /// Returns whether enough sets are known to decode a picture.
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

    /// Returns the sample entry; `None` if sets are missing.
    pub fn entry(&self) -> Option<Vec<u8>> {
        let first = self.first.filter(|_| self.are_known())?;
        // Sets that change are only in the samples.
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
            // Marked as incomplete if later ones are in the samples.
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
