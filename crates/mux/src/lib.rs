//! The pieces that films consist of, written for tests and simulated films: boxes of MP4 ([`boxes`]), elements of Matroska
//! ([`ebml`]), packets of MPEG streams ([`mpeg`]). Writers of whole films are where they are needed, as each needs other ones.
//!
//! It shares no code with the readers in `media`, so that an error is not made twice and missed.

#![forbid(unsafe_code)]

pub mod boxes;
pub mod ebml;
pub mod mpeg;
