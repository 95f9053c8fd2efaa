//! Bytes of an index, held in memory or read from storage.

use std::fmt;
use std::sync::Arc;

/// Bytes copied at once.
const PIECE: u32 = 32 << 10;

/// The error for stored bytes that cannot be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of the index cannot be read back from where it was kept")]
pub struct Lost;

/// Bytes that are stored elsewhere.
pub trait Stored: fmt::Debug + Send + Sync {
    /// Fills `into` from byte `at` on, completely or not at all; returns whether it succeeded.
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool;

    /// Returns the bytes of memory that they nevertheless take.
    fn memory(&self) -> usize {
        0
    }
}

/// The location of bytes.
#[derive(Clone)]
pub enum Home {
    /// In memory.
    Here(Vec<u8>),
    /// Elsewhere.
    There(Arc<dyn Stored>),
}

impl Home {
    /// Takes the bytes, `len` of them, and frees their memory. Empty if they cannot be read.
    pub fn take(&mut self, len: u32) -> Vec<u8> {
        match self {
            Home::Here(bytes) => std::mem::take(bytes),
            Home::There(stored) => read(&**stored, len).unwrap_or_default(),
        }
    }

    /// Returns a copy of the bytes, `len` of them, or `None` if they cannot be read.
    pub fn copy(&self, len: u32) -> Option<Vec<u8>> {
        match self {
            Home::Here(bytes) => Some(bytes.clone()),
            Home::There(stored) => read(&**stored, len),
        }
    }

    /// Returns the bytes, `len` of them, piece by piece.
    pub fn pieces(&self, len: u32) -> impl Iterator<Item = Result<Vec<u8>, Lost>> + '_ {
        let starts = (0..len).step_by(PIECE as usize);
        starts.map(move |start| {
            let count = PIECE.min(len - start) as usize;
            match self {
                Home::Here(bytes) => {
                    let bytes = bytes.get(start as usize..start as usize + count);
                    bytes.map(<[u8]>::to_vec).ok_or(Lost)
                }
                Home::There(stored) => {
                    let mut bytes = vec![0; count];
                    let is_read = stored.read_at(start, &mut bytes);
                    is_read.then_some(bytes).ok_or(Lost)
                }
            }
        })
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        match self {
            Home::Here(bytes) => bytes.capacity(),
            Home::There(stored) => stored.memory(),
        }
    }
}

fn read(stored: &dyn Stored, len: u32) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    stored.read_at(0, &mut bytes).then_some(bytes)
}
