//! Every `unsafe` line of Reelway.
mod identity;

pub use identity::FileIdentity;
