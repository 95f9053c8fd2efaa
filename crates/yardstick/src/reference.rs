//! What the film itself holds, to compare with what came.

use xxhash_rust::xxh3::Xxh3Default;

/// The access units of a film's tracks.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// One for each track of the film.
    pub tracks: Vec<ReferenceTrack>,
}

/// The access units of one track in order of presentation.
#[derive(Clone, Debug, Default)]
pub struct ReferenceTrack {
    /// Whether it is picture.
    pub is_video: bool,
    /// Presentation time in ns, and [`access_unit_hash`] of what is there.
    pub units: Vec<(i64, u64)>,
}

impl ReferenceTrack {
    /// The hash of the access unit presented within half a millisecond of `nanos`.
    pub fn at(&self, nanos: i64) -> Option<u64> {
        const NEAR: i64 = 500_000;
        let after = self.units.partition_point(|unit| unit.0 < nanos - NEAR);
        let unit = self.units.get(after)?;
        (unit.0 <= nanos + NEAR).then_some(unit.1)
    }
}

/// The hash of an access unit given as its parts: NAL units for H.264 and H.265 without access unit
/// delimiters and parameter sets (which a server may drop and add), the whole unit for others.
pub fn access_unit_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Xxh3Default::new();
    for part in parts {
        hash.update(&(part.len() as u32).to_le_bytes());
        hash.update(part);
    }
    hash.digest()
}
