//! Where in a film's file the samples are that do not lie there as they are played.

use serde::{Deserialize, Serialize};

use crate::{Paged, Record, WORDS};

/// Bytes of a view from one [`Place`] to the next.
pub const STEP: u64 = 256 << 10;

/// What a view is made of, beside the places in [`Track::places`](crate::Track::places).
///
/// A view has all samples of a film, each whole. Offsets of samples count its bytes, not the file's. It is all samples one after the
/// other; of Matroska, the file with the bytes that frames are stored without ([`WITH_HEADS`]); or, of a transport stream that is
/// sent as it is, all packets without what lies between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Bytes of all samples.
    pub bytes: u64,
    /// Bytes of the file.
    pub file: u64,
    /// Bytes from one packet of the file to the next; 0 where packets tell their own length, 1 where there are none; or
    /// [`WITH_HEADS`].
    pub packet: u8,
}

/// [`View::packet`] of a view that is the file, with [`Track::stripped`](crate::Track::stripped) before each frame of such tracks.
pub const WITH_HEADS: u8 = 2;

/// Most bytes that frames are stored without: writers leave out a few, and each frame of the view has them.
pub(crate) const MAX_STRIPPED: usize = 255;

/// What came of an attempt to make a part of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// All bytes are there.
    Whole,
    /// More bytes of the file are wanted: [`Filling::wanted`](crate::Filling::wanted) has them.
    More,
    /// The file is another than the one that was indexed.
    Different,
}

/// The first sample of a track that ends behind a multiple of [`STEP`] bytes of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// First byte in the file of the packet in which it begins; of itself where there are no packets. In a view of packets, of the
    /// packet that lies there in the view.
    pub file: u64,
    /// Bytes that the packet carries before it.
    pub skip: u32,
    /// Its number; the number of samples where none follows.
    pub sample: u32,
}

/// From a byte of the file on, the packets of a track have another number (PID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The first byte.
    pub file: u64,
    /// The number.
    pub pid: u16,
}

/// Moves of a track that are followed.
pub const MOST_MOVES: usize = 4096;

/// A track's places, for each multiple of [`STEP`] one.
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
