//! Where decoders can start in a transport stream that is handed out in slices as it is.

use serde::{Deserialize, Serialize};

use crate::{Paged, Record, WORDS};

/// What players need who are given slices of a transport stream: where these may begin, and which tables hold there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryPoints {
    /// In the order of the stream.
    pub points: Paged<EntryPoint>,
    /// In the order of the stream; the first hold from its beginning on.
    pub tables: Vec<StreamTables>,
    /// Programmes of which the stream has a map.
    pub programmes: u32,
    /// Whether more than a stray packet is scrambled.
    pub is_scrambled: bool,
}

/// A packet with which a picture begins that decoders can start at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryPoint {
    /// Its place: what offsets of the samples of [`Title::multiplex`](crate::Title::multiplex) count.
    pub place: u64,
    /// The picture's number among the samples of its track.
    pub sample: u32,
    /// Whether the stream's times have jumped since the entry point before.
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

/// PAT and PMT of a programme.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamTables {
    /// From where on they hold.
    pub place: u64,
    /// Packets of 188 bytes, those of the PAT first.
    pub packets: Vec<u8>,
}

impl EntryPoints {
    /// Which of the tables hold at a place.
    pub fn tables_at(&self, place: u64) -> Option<usize> {
        let after = self.tables.partition_point(|tables| tables.place <= place);
        after.checked_sub(1)
    }
}
