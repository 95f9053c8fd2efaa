//! Names of sessions: a short public one for people, and a secret one that stands for the viewer.

use std::sync::atomic::{AtomicU64, Ordering};

const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// `length` random characters of an alphabet without look-alikes, 5 bits each.
pub(crate) fn random_name(length: usize) -> String {
    let mut bytes = vec![0; length];
    // The kernel's generator cannot fail once it is seeded, which it is before any daemon starts.
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    bytes
        .iter()
        .map(|byte| ALPHABET[usize::from(byte % 32)] as char)
        .collect()
}

/// 40 bits: shown on pages and in logs.
pub(crate) fn public_id() -> String {
    random_name(8)
}

/// A secret of 120 bits: knowing it is being that viewer, or that operator.
pub fn new_token() -> String {
    random_name(24)
}

/// A number for a connection of any protocol, never given twice.
pub fn new_connection() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
