//! What the film itself holds, to compare with what came.

use xxhash_rust::xxh3::Xxh3Default;

/// The access units of a film's tracks.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// One for each track of the film.
    pub tracks: Vec<ReferenceTrack>,
}

impl Reference {
    /// The track of a kind that is number `nth` of its kind.
    pub fn track(&self, is_video: bool, nth: usize) -> Option<&ReferenceTrack> {
        let mut alike = self
            .tracks
            .iter()
            .filter(|track| track.is_video == is_video);
        alike.nth(nth)
    }
}

/// The access units of one track in order of presentation.
#[derive(Clone, Debug, Default)]
pub struct ReferenceTrack {
    /// Whether it is picture.
    pub is_video: bool,
    /// Presentation time in ns, and [`access_unit_hash`] of what is there.
    pub units: Vec<(i64, u64)>,
}

/// What the film says of an access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is the one of this time.
    Same,
    /// It is one of a time so many ns later.
    Elsewhere(i64),
    /// The film has another one here.
    Different,
    /// The film has nothing here, and it nowhere.
    Unknown,
}

impl ReferenceTrack {
    /// Compares an access unit that is said to be of `nanos`.
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

    /// How many access units the film has from one time to another, both included, beyond those that came at these times, ns.
    pub fn missing(&self, from: i64, to: i64, came: &[i64]) -> u64 {
        let times = from - NEAR..=to + NEAR;
        let before = self.units.partition_point(|unit| unit.0 < *times.start());
        let after = self.units.partition_point(|unit| unit.0 <= *times.end());
        let came = came.iter().filter(|at| times.contains(at)).count();
        after.saturating_sub(before).saturating_sub(came) as u64
    }

    /// Whether it ends with what is presented then.
    pub fn ends_at(&self, nanos: i64) -> bool {
        self.units.last().is_none_or(|unit| unit.0 <= nanos + NEAR)
    }

    /// The hash of the access unit presented within half a millisecond of `nanos`.
    pub fn at(&self, nanos: i64) -> Option<u64> {
        let after = self.units.partition_point(|unit| unit.0 < nanos - NEAR);
        let unit = self.units.get(after)?;
        (unit.0 <= nanos + NEAR).then_some(unit.1)
    }
}

/// Times closer than this are the same: every time scale's rounding is finer.
const NEAR: i64 = 500_000;

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
