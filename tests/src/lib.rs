//! What the end-to-end tests share: films made to order ([`films`], [`boxes`]), what others'
//! tools see in them ([`probe`]), a server of our own under test, and real players.
//!
//! Nothing here shares code with the server: a mistake in both would go unseen.
#![forbid(unsafe_code)]

pub mod boxes;
pub mod films;
