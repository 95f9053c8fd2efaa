//! Hashes that are the same in every process: the order of a table depends on nothing
//! but its contents.
//!
//! For small keys made of integers that this program assigns itself. An attacker who can choose the
//! keys could fill a table with keys of the same hash: use `BTreeMap` for names and
//! addresses from outside.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash table that behaves the same in every process.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<FixedHasher>>;

/// The initial state, the fraction of π, so that a key of zeros is no special case.
const START: u64 = 0x243f_6a88_85a3_08d3;
/// 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Folds in each word by a multiplication whose upper half is combined with the lower one.
#[derive(Clone, Copy, Debug)]
pub struct FixedHasher(u64);

impl Default for FixedHasher {
    fn default() -> FixedHasher {
        FixedHasher(START)
    }
}

impl Hasher for FixedHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * u128::from(FACTOR);
        // Not the product alone: if the two were equal, nothing would be left of it.
        self.0 = (wide as u64 ^ (wide >> 64) as u64).wrapping_add(START);
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::*;

    fn hash(film: u32, block: u32) -> u64 {
        BuildHasherDefault::<FixedHasher>::default().hash_one((film, block))
    }

    #[test]
    fn a_hash_is_the_same_in_every_process() {
        assert_eq!(hash(0, 0), 0x12f5_aaf3_8218_6fe0);
        assert_eq!(hash(7, 123), 0x7af9_10fd_cdf7_d98f);
    }

    #[test]
    fn the_blocks_of_some_films_spread_evenly() {
        // The lower bits choose the place, and the upper seven are compared first.
        for shift in [0, 57] {
            let mut places = vec![0u32; 128];
            for (film, block) in (0..64).flat_map(|film| (0..64).map(move |block| (film, block))) {
                places[(hash(film, block) >> shift) as usize & 127] += 1;
            }
            let most = places.iter().max().unwrap();
            assert!(*most < 64, "32 a place, and {most} in one");
        }
    }
}
