//! The building blocks of films, written for tests and simulated films: boxes of MP4 ([`boxes`]),
//! elements of Matroska ([`ebml`]), packets of MPEG streams ([`mpeg`]). Writers of whole films are
//! where they are needed, as each user needs different films.
//!
//! This crate shares no code with the readers in `media`, so that the same error cannot be made on
//! both sides and missed.

#![forbid(unsafe_code)]

pub mod boxes;
pub mod ebml;
pub mod mpeg;

/// Converts bits, written as zeros and ones with optional spaces, to bytes; the last byte is padded
/// with zeros.
pub fn bits(text: &str) -> Vec<u8> {
    let bits: Vec<u8> = text.bytes().filter(|bit| *bit != b' ').collect();
    let byte = |bits: &[u8]| {
        let value = bits.iter().fold(0, |value, bit| value << 1 | (bit & 1));
        value << (8 - bits.len())
    };
    bits.chunks(8).map(byte).collect()
}
