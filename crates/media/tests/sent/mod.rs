//! Transfers an index from one server to another.

use reelway_media::exchange::{self, Incoming};
use reelway_media::{Index, IndexOptions};

/// Returns the index as another server receives it.
pub fn sent(index: &Index, len: u64, change: impl FnOnce(&mut Index)) -> Result<Index, String> {
    let mut index = index.clone();
    change(&mut index);
    let mut bytes = exchange::head(&index.title, len);
    for table in &index.tables {
        bytes.extend(table.iter().flat_map(|sample| sample.to_record()));
    }
    let mut incoming = Incoming::new(len, IndexOptions::default());
    incoming.feed(&bytes).map_err(|error| error.to_string())?;
    incoming.finish().map_err(|error| error.to_string())
}
