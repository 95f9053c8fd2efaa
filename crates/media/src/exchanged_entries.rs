//! Entry points of a transport stream as one server sends them to another.

use serde::{Deserialize, Serialize};

use crate::entry_points::{EntryPoint, EntryPoints, StreamTables};
use crate::mpeg::{MOST_CHANGES, MOST_TABLES, PACKET};

/// [`EntryPoints`] as they are sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entries {
    points: Vec<EntryPoint>,
    tables: Vec<StreamTables>,
    programmes: u32,
    is_scrambled: bool,
}

impl Entries {
    pub fn of(entries: &EntryPoints) -> Entries {
        Entries {
            points: entries.points.iter().collect(),
            tables: entries.tables.clone(),
            programmes: entries.programmes,
            is_scrambled: entries.is_scrambled,
        }
    }

    pub fn whole(self) -> EntryPoints {
        EntryPoints {
            points: self.points.into_iter().collect(),
            tables: self.tables,
            programmes: self.programmes,
            is_scrambled: self.is_scrambled,
        }
    }

    /// What is wrong with them.
    pub fn problem(&self) -> Option<&'static str> {
        let is_after = |a: &EntryPoint, b: &EntryPoint| a.place < b.place && a.sample < b.sample;
        let are_possible = |tables: &StreamTables| {
            let bytes = tables.packets.len();
            bytes > 0 && bytes <= MOST_TABLES && bytes.is_multiple_of(PACKET)
        };
        if !self.points.is_sorted_by(is_after) {
            return Some("entry points out of order");
        }
        let are_sorted = self.tables.is_sorted_by(|a, b| a.place <= b.place);
        let are_possible = self.tables.iter().all(are_possible);
        (!are_sorted || !are_possible || self.tables.len() > MOST_CHANGES)
            .then_some("tables of a transport stream that cannot be")
    }
}
