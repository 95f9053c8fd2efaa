//! The contents of the film itself, for comparison with what arrives.

use xxhash_rust::xxh3::Xxh3Default;

/// The access units of a film's tracks.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// One for each track of the film.
    pub tracks: Vec<ReferenceTrack>,
}

impl Reference {
    /// Returns the `nth` track of a kind, counted from 0.
    pub fn track(&self, is_video: bool, nth: usize) -> Option<&ReferenceTrack> {
        let mut alike = self
            .tracks
            .iter()
            .filter(|track| track.is_video == is_video);
        alike.nth(nth)
    }
}

/// The access units of one track in presentation order.
#[derive(Clone, Debug, Default)]
pub struct ReferenceTrack {
    /// Whether it is video.
    pub is_video: bool,
    /// Presentation time in nanoseconds, and [`access_unit_hash`].
    pub units: Vec<(i64, u64)>,
}

/// Result of comparing an access unit with the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is the film's unit of this time.
    Same,
    /// It is the film's unit of a time this many nanoseconds later.
    Elsewhere(i64),
    /// The film has a different unit at this time.
    Different,
    /// The film has no unit at this time, and this one nowhere.
    Unknown,
}

impl ReferenceTrack {
    /// Compares an access unit that is supposed to have the time `nanos`.
    pub fn judge(&self, nanos: i64, hash: u64) -> Match {
        match self.at(nanos) {
            Some(same) if same == hash => return Match::Same,
            _ => {}
        }
        let elsewhere = self
            .units
            .iter()
            .filter(|unit| unit.1 == hash)
            .map(|unit| unit.0 - nanos)
            .min_by_key(|by| by.abs());
        match (elsewhere, self.at(nanos)) {
            (Some(by), _) => Match::Elsewhere(by),
            (None, Some(_)) => Match::Different,
            (None, None) => Match::Unknown,
        }
    }

    /// Returns how many access units the film has from one time to another, both inclusive, in
    /// addition to those that came at these times (ns).
    pub fn missing(&self, from: i64, to: i64, came: &[i64]) -> u64 {
        let times = from - NEAR..=to + NEAR;
        let before = self.units.partition_point(|unit| unit.0 < *times.start());
        let after = self.units.partition_point(|unit| unit.0 <= *times.end());
        let came = came.iter().filter(|at| times.contains(at)).count();
        after.saturating_sub(before).saturating_sub(came) as u64
    }

    /// Whether the track ends with the access unit presented at this time.
    pub fn ends_at(&self, nanos: i64) -> bool {
        self.units.last().is_none_or(|unit| unit.0 <= nanos + NEAR)
    }

    /// Returns the hash of the access unit presented within half a millisecond of `nanos`.
    pub fn at(&self, nanos: i64) -> Option<u64> {
        let after = self.units.partition_point(|unit| unit.0 < nanos - NEAR);
        let unit = self.units.get(after)?;
        (unit.0 <= nanos + NEAR).then_some(unit.1)
    }
}

/// Times closer than this are equal; the rounding of any timescale is finer.
const NEAR: i64 = 500_000;

/// Hashes an access unit given as its parts: for H.264 and H.265, its NAL units without access unit
/// delimiters and parameter sets (which a server may drop and add); for others, the whole unit.
pub fn access_unit_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Xxh3Default::new();
    for part in parts {
        hash.update(&(part.len() as u32).to_le_bytes());
        hash.update(part);
    }
    hash.digest()
}
