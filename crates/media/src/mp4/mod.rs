//! MP4 (ISO/IEC 14496-12) becomes an [`Index`].

mod error;
mod index;

pub use error::{IndexError, Trouble};
pub use index::{Index, IndexOptions, Indexer, ReadIndexError, Step, index_with};
