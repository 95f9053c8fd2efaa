//! Points at which decoders can start in a transport stream that is served in unmodified slices.

use serde::{Deserialize, Serialize};

use crate::{Paged, Record, WORDS};

/// Where slices of a transport stream may begin, and which tables apply there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryPoints {
    /// The entry points, in stream order.
    pub points: Paged<EntryPoint>,
    /// The tables, in stream order; the first ones apply from the beginning of the stream.
    pub tables: Vec<StreamTables>,
    /// The number of programmes for which the stream has a map.
    pub programmes: u32,
    /// Whether more than an occasional packet is scrambled.
    pub is_scrambled: bool,
}

/// A packet that begins a picture at which decoders can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryPoint {
    /// The position, counted like the sample offsets of
    /// [`Title::multiplex`](crate::Title::multiplex).
    pub place: u64,
    /// The picture's sample number in its track.
    pub sample: u32,
    /// Whether the stream's clock has jumped since the previous entry point.
    pub jumps: bool,
}

impl Record for EntryPoint {
    const USED: usize = 3;

    fn words(&self) -> [i64; WORDS] {
        [
            self.place as i64,
            self.sample.into(),
            self.jumps.into(),
            0,
            0,
            0,
            0,
            0,
        ]
    }

    fn of(words: &[i64; WORDS]) -> EntryPoint {
        EntryPoint {
            place: words[0] as u64,
            sample: words[1] as u32,
            jumps: words[2] != 0,
        }
    }
}

/// The PAT and PMT of a programme.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamTables {
    /// The position from which they apply.
    pub place: u64,
    /// Packets of 188 bytes, those of the PAT first.
    pub packets: Vec<u8>,
}

impl EntryPoints {
    /// Returns the index of the tables that apply at a position.
    pub fn tables_at(&self, place: u64) -> Option<usize> {
        let after = self.tables.partition_point(|tables| tables.place <= place);
        after.checked_sub(1)
    }
}
