//! Reasons why a track cannot be sent over RTP, or why its samples cannot be planned.

/// Why a track cannot be sent over RTP, in words for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unsupported {
    /// A sentence for the film's list of reasons.
    pub reason: String,
}

impl Unsupported {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Unsupported {
            reason: reason.into(),
        }
    }
}

/// Why a run of samples could not be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Bytes of a sample were not in memory; the caller must provide all of them.
    #[error("byte {offset} of the film is needed and not in memory")]
    Missing {
        /// Offset in the film file.
        offset: u64,
    },
}

/// The part of a sample that is malformed and cannot be sent. The part before it is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A NAL unit reaches beyond the end of its sample.
    #[error(
        "byte {offset}: a NAL unit of {length} bytes, but only {left} are left of its sample; the film is damaged here"
    )]
    NalTooLong {
        /// Offset of the length field in the film file.
        offset: u64,
        /// The length it states, in bytes.
        length: u32,
        /// Bytes that remain in the sample after the length field.
        left: u32,
    },
    /// An access unit is longer than its payload format can express, or cannot be fragmented.
    #[error(
        "byte {offset}: an access unit of {length} bytes, the payload format carries at most {most}; the film is damaged here"
    )]
    UnitTooLong {
        /// Offset in the film file.
        offset: u64,
        /// Its length in bytes.
        length: u32,
        /// The most that the format carries, in bytes.
        most: u32,
    },
}
