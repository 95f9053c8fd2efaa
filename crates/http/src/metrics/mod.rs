//! Counters of this side, and the page of metrics, to which other crates write what they count.
//!
//! | file | what lives there |
//! |---|---|
//! | `page.rs` | the page, put together of sections |
//! | `counters.rs` | requests, connections, bytes |
//! | `answers.rs` | answers in the making, and what making them costs |

pub(crate) mod answers;
pub(crate) mod counters;
pub(crate) mod page;
