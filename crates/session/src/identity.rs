//! Session names: a short public one for people, and a secret one that identifies the viewer.

use std::sync::atomic::{AtomicU64, Ordering};

const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Returns `length` random characters of an alphabet without look-alikes, 5 bits each.
pub(crate) fn random_name(length: usize) -> String {
    let mut bytes = vec![0; length];
    // The kernel's generator cannot fail once it is seeded, which it is before any daemon starts.
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    bytes
        .iter()
        .map(|byte| ALPHABET[usize::from(byte % 32)] as char)
        .collect()
}

/// Returns a 40-bit identifier for pages and logs.
pub(crate) fn public_id() -> String {
    random_name(8)
}

/// Returns a 120-bit secret: its holder counts as that viewer, or that operator.
pub fn new_token() -> String {
    random_name(24)
}

/// Returns a number for a connection of any protocol; no number is used twice.
pub fn new_connection() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
