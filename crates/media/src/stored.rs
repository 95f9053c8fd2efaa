//! Bytes of an index that are in memory, or are read from where they are kept.

use std::fmt;
use std::sync::Arc;

/// Bytes that are kept somewhere else.
pub trait Stored: fmt::Debug + Send + Sync {
    /// Reads from byte `at` on, all of `into` or nothing; whether it could.
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool;
}

/// Where bytes are.
#[derive(Clone)]
pub enum Home {
    /// In memory.
    Here(Vec<u8>),
    /// Elsewhere.
    There(Arc<dyn Stored>),
}

impl Home {
    /// The bytes, `len` of them, which memory then holds no more; none where they cannot be read.
    pub fn take(&mut self, len: u32) -> Vec<u8> {
        match self {
            Home::Here(bytes) => std::mem::take(bytes),
            Home::There(stored) => read(&**stored, len).unwrap_or_default(),
        }
    }

    /// A copy of the bytes, `len` of them; `None`: they cannot be read.
    pub fn copy(&self, len: u32) -> Option<Vec<u8>> {
        match self {
            Home::Here(bytes) => Some(bytes.clone()),
            Home::There(stored) => read(&**stored, len),
        }
    }

    /// Bytes of memory that they take.
    pub fn memory(&self) -> usize {
        match self {
            Home::Here(bytes) => bytes.capacity(),
            Home::There(_) => 0,
        }
    }
}

fn read(stored: &dyn Stored, len: u32) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    stored.read_at(0, &mut bytes).then_some(bytes)
}
