//! Every `unsafe` line of Reelway.
mod identity;
pub mod tsc;

pub use identity::FileIdentity;
