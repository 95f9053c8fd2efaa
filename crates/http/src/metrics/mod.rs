//! Counters of the HTTP side, and the metrics page, to which other crates add their sections.
//!
//! | file | content |
//! |---|---|
//! | `page.rs` | the page, assembled from sections |
//! | `counters.rs` | requests, connections, bytes |
//! | `answers.rs` | answers in the making, and the cost of making them |

pub(crate) mod answers;
pub(crate) mod counters;
pub(crate) mod page;
