//! Why a track does not go over RTP, or a run of its samples cannot be planned.

/// Why a track does not go over RTP, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unsupported {
    /// A sentence fit for the film's list of reasons.
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
    /// The bytes of a sample were not in memory: the caller must have them all.
    #[error("byte {offset} of the film is needed and not in memory")]
    Missing {
        /// Where in the film file.
        offset: u64,
    },
}

/// What of a sample cannot be sent, since it is not what it should be. What comes before it in the sample is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A NAL unit reaches beyond the end of its sample.
    #[error(
        "byte {offset}: a NAL unit of {length} bytes, but only {left} are left of its sample; the film is damaged here"
    )]
    NalTooLong {
        /// Where in the film file the length stands.
        offset: u64,
        /// The length it says, in bytes.
        length: u32,
        /// Bytes left of the sample after the length.
        left: u32,
    },
    /// An access unit is longer than its payload format can say, or one that cannot be divided.
    #[error(
        "byte {offset}: an access unit of {length} bytes, the payload format carries at most {most}; the film is damaged here"
    )]
    UnitTooLong {
        /// Where in the film file.
        offset: u64,
        /// Its length in bytes.
        length: u32,
        /// The most the format carries.
        most: u32,
    },
}
