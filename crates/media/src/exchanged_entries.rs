//! The entry points of a transport stream in the form in which servers exchange them.

use serde::{Deserialize, Serialize};

use crate::entry_points::{EntryPoint, EntryPoints, StreamTables};
use crate::mpeg::{MOST_CHANGES, MOST_TABLES, PACKET};

/// [`EntryPoints`] in the exchanged form.
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

    pub fn whole(self) -> Box<EntryPoints> {
        Box::new(EntryPoints {
            points: self.points.into_iter().collect(),
            tables: self.tables,
            programmes: self.programmes,
            is_scrambled: self.is_scrambled,
        })
    }

    /// Returns what is wrong with a stream's entry points, or with the size of its first tables.
    pub fn problem(entries: Option<&Entries>, tables: Option<usize>) -> Option<&'static str> {
        if tables.is_some_and(|tables| tables > MOST_TABLES) {
            return Some("a PAT or PMT that is too long");
        }
        let entries = entries?;
        let is_after = |a: &EntryPoint, b: &EntryPoint| a.place < b.place && a.sample < b.sample;
        let are_possible = |tables: &StreamTables| {
            let bytes = tables.packets.len();
            bytes > 0 && bytes <= MOST_TABLES && bytes.is_multiple_of(PACKET)
        };
        if !entries.points.is_sorted_by(is_after) {
            return Some("entry points out of order");
        }
        let are_sorted = entries.tables.is_sorted_by(|a, b| a.place <= b.place);
        let are_possible = entries.tables.iter().all(are_possible);
        (!are_sorted || !are_possible || entries.tables.len() > MOST_CHANGES)
            .then_some("tables that cannot be")
    }
}
