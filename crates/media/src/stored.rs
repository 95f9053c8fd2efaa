//! Bytes of an index that are in memory, or are read from where they are kept.

use std::fmt;
use std::sync::Arc;

/// Bytes that are copied at once.
const PIECE: u32 = 32 << 10;

/// Bytes that cannot be read where they were put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of the index cannot be read back from where it was kept")]
pub struct Lost;

/// Bytes that are kept somewhere else.
pub trait Stored: fmt::Debug + Send + Sync {
    /// Reads from byte `at` on, all of `into` or nothing; whether it could.
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool;

    /// Bytes of memory that they take all the same.
    fn memory(&self) -> usize {
        0
    }
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

    /// The bytes, `len` of them, some at a time.
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

    /// Bytes of memory that they take.
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
