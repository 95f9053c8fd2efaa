//! Where a film's samples lie in its file, for films whose samples do not lie there contiguously.

use serde::{Deserialize, Serialize};

use crate::{Paged, Record, WORDS};

/// Bytes of a view from one [`Place`] to the next.
pub const STEP: u64 = 256 << 10;

/// The layout of a view, apart from the places in [`Track::places`](crate::Track::places).
///
/// A view contains every sample of a film as contiguous bytes, and sample offsets refer to it
/// instead of the file. It is one of three things: all samples one after the other; for Matroska,
/// the file with the stripped frame headers put back ([`WITH_HEADS`]); or, for a transport stream
/// that is sent unmodified, all packets without the bytes between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The size of the view in bytes.
    pub bytes: u64,
    /// The size of the file in bytes.
    pub file: u64,
    /// Bytes from one packet of the file to the next; 0 if packets state their own length, 1 if
    /// there are no packets; or [`WITH_HEADS`].
    pub packet: u8,
}

/// [`View::packet`] of a view that is the file with [`Track::stripped`](crate::Track::stripped) put
/// back before each frame of such tracks.
pub const WITH_HEADS: u8 = 2;

/// The maximum bytes stripped per frame: writers strip a few, and the view has them in each frame.
pub(crate) const MAX_STRIPPED: usize = 255;

/// The result of an attempt to make a part of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// All bytes are there.
    Whole,
    /// More bytes of the file are needed; [`Filling::wanted`](crate::Filling::wanted) returns them.
    More,
    /// The file is not the one that was indexed.
    Different,
}

/// The first sample of a track that ends after a multiple of [`STEP`] bytes of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The offset in the file of the packet in which the sample begins, or of the sample itself if
    /// there are no packets. In a view of packets, of the packet at this position of the view.
    pub file: u64,
    /// Bytes that the packet carries before the sample.
    pub skip: u32,
    /// The sample's number, or the number of samples if there is no further sample.
    pub sample: u32,
}

/// A change of the packet identifier (PID) of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The offset in the file from which it applies.
    pub file: u64,
    /// The new PID.
    pub pid: u16,
}

/// The maximum number of moves per track.
pub const MOST_MOVES: usize = 4096;

/// A track's places, one for each multiple of [`STEP`].
pub type Places = Paged<Place>;

impl Record for Place {
    const USED: usize = 3;

    fn words(&self) -> [i64; WORDS] {
        let mut words = [0; WORDS];
        words[..3].copy_from_slice(&[self.file as i64, self.skip.into(), self.sample.into()]);
        words
    }

    fn of(words: &[i64; WORDS]) -> Place {
        Place {
            file: words[0] as u64,
            skip: words[1] as u32,
            sample: words[2] as u32,
        }
    }
}
