//! How access units are compared with the film.

use crate::reference::access_unit_hash;

/// How a track's access units are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// H.264 NAL units, each after its length in this many bytes (ISO/IEC 14496-15).
    H264(u8),
    /// H.265 NAL units in the same form.
    H265(u8),
    /// The whole access unit.
    Whole,
}

impl Coding {
    /// Returns the hash of an access unit; parameter sets and delimiters are left out.
    pub fn hash(self, unit: &[u8]) -> u64 {
        let (length, aside): (u8, fn(u8) -> bool) = match self {
            Coding::Whole => return access_unit_hash([unit]),
            Coding::H264(length) => (length, |first| matches!(first & 31, 7..=9)),
            Coding::H265(length) => (length, |first| matches!(first >> 1 & 63, 32..=35)),
        };
        let mut nals = Vec::new();
        let mut rest = unit;
        while let Some((size, after)) = rest.split_at_checked(length.into()) {
            let size = size
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let Some((nal, next)) = after.split_at_checked(size) else {
                break;
            };
            if nal.first().is_some_and(|first| !aside(*first)) {
                nals.push(nal);
            }
            rest = next;
        }
        access_unit_hash(nals)
    }
}
