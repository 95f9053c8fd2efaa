//! Memory in which every byte is written only once.
//!
//! Bytes that were handed to a socket without a copy ([`crate::splice`]) may be sent, or sent
//! again, at any time until the connection is gone: even if the peer has acknowledged them, copies
//! of their packets may still wait in a queue. So memory that is given away must never hold
//! anything else. This module guarantees that: the contents of a [`Frame`] never change, and when
//! its last user is gone, the frame's memory returns to the kernel, which keeps what sockets still
//! hold. A new frame at the same address has memory of its own.

use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::region::ALIGNMENT;

/// Size of a frame in bytes.
pub const FRAME: usize = 2 << 20;

/// A range of addresses for a number of frames.
#[derive(Debug)]
pub struct Addresses {
    base: NonNull<u8>,
    frames: usize,
    /// Indices of unused frames.
    free: Mutex<Vec<usize>>,
}

// SAFETY: only addresses; the memory is reached through pieces, which are written before they are
// shared.
unsafe impl Send for Addresses {}
// SAFETY: as above.
unsafe impl Sync for Addresses {}

impl Drop for Addresses {
    fn drop(&mut self) {
        // SAFETY: our own mapping; each frame keeps it alive, so none is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.frames * FRAME) };
    }
}

/// Maps new memory, or reserves addresses (`PROT_NONE`), at a given address or where the kernel
/// chooses.
fn map(at: Option<NonNull<u8>>, bytes: usize, protection: libc::c_int) -> io::Result<NonNull<u8>> {
    let (address, fixed) = match at {
        Some(at) => (at.as_ptr().cast(), libc::MAP_FIXED),
        None => (std::ptr::null_mut(), 0),
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: a new mapping; a given address is ours, and belongs to a frame that is not in use.
    let base = unsafe { libc::mmap(address, bytes, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap gave a null address"))
}

impl Addresses {
    /// Reserves addresses for frames; memory is taken only by frames in use.
    ///
    /// # Errors
    /// There are not enough addresses, or `frames` is 0.
    pub fn reserve(frames: usize) -> io::Result<Arc<Addresses>> {
        let bytes = frames
            .checked_mul(FRAME)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Addresses {
            base: map(None, bytes, libc::PROT_NONE)?,
            frames,
            free: Mutex::new((0..frames).rev().collect()),
        }))
    }

    /// Returns a new frame; `None` if all are in use.
    ///
    /// # Errors
    /// The kernel provides no memory.
    pub fn frame(self: &Arc<Self>) -> io::Result<Option<Frame>> {
        let Some(number) = self.free().pop() else {
            return Ok(None);
        };
        let frame = Frame {
            number,
            used: AtomicUsize::new(0),
            addresses: Arc::clone(self),
        };
        map(
            Some(frame.base()),
            FRAME,
            libc::PROT_READ | libc::PROT_WRITE,
        )?;
        let base = frame.base().as_ptr().cast();
        // Film data is of no use in a core dump and makes it huge. Small pages: a queued packet
        // keeps the page in which its bytes lie, and would keep 2 MiB of a large one.
        // SAFETY: the whole of our own mapping; advice changes no contents.
        unsafe {
            libc::madvise(base, FRAME, libc::MADV_DONTDUMP);
            libc::madvise(base, FRAME, libc::MADV_NOHUGEPAGE);
        }
        // If it cannot be locked, it may be swapped out; the pool reports that for its own memory.
        // SAFETY: as above.
        unsafe { libc::mlock2(base, FRAME, libc::MLOCK_ONFAULT as libc::c_uint) };
        Ok(Some(frame))
    }

    /// The number of frames in use.
    pub fn in_use(&self) -> usize {
        self.frames - self.free().len()
    }

    /// Returns these bytes as `Written` if they lie in this range.
    pub fn find<'a>(&self, bytes: &'a [u8]) -> Option<Written<'a>> {
        let offset = (bytes.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        // Only pieces give out bytes in this range.
        (offset < self.frames * FRAME).then_some(Written(bytes))
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        // Plain numbers: a panic cannot leave one half-written.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are never written again.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a>(&'a [u8]);

impl Deref for Written<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

/// 2 MiB of memory that is written once, piece by piece.
#[derive(Debug)]
pub struct Frame {
    number: usize,
    /// Bytes that have been, or are being, written.
    used: AtomicUsize,
    addresses: Arc<Addresses>,
}

impl Frame {
    fn base(&self) -> NonNull<u8> {
        // SAFETY: the frame's index lies within the range.
        unsafe { self.addresses.base.add(self.number * FRAME) }
    }

    /// Appends a copy of these bytes; `None` if no room is left for them.
    pub fn put(self: &Arc<Self>, bytes: &[u8]) -> Option<Piece> {
        let room = bytes.len().checked_next_multiple_of(ALIGNMENT)?;
        let start = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(room).filter(|used| *used <= FRAME)
            });
        let start = start.ok()?;
        // SAFETY: within the frame, which is mapped; no other piece has these bytes, or will have
        // them.
        unsafe {
            let to = self.base().add(start);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len());
        }
        Some(Piece {
            start,
            bytes: bytes.len(),
            frame: Arc::clone(self),
        })
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // In one step, so that nothing else can be mapped there in between.
        if map(Some(self.base()), FRAME, libc::PROT_NONE).is_ok() {
            self.addresses.free().push(self.number);
        }
    }
}

/// Bytes of a frame, which lives as long as this or a clone of it.
#[derive(Clone, Debug)]
pub struct Piece {
    frame: Arc<Frame>,
    start: usize,
    bytes: usize,
}

impl Piece {
    /// Returns a part of it.
    ///
    /// # Panics
    /// The range is not within the piece.
    pub fn part(&self, range: Range<usize>) -> Piece {
        assert!(
            range.start <= range.end && range.end <= self.bytes,
            "{range:?} of {}",
            self.bytes
        );
        Piece {
            start: self.start + range.start,
            bytes: range.len(),
            frame: Arc::clone(&self.frame),
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: written by `put` before this piece was made, and never again; mapped as long as
        // the frame lives.
        unsafe {
            std::slice::from_raw_parts(self.frame.base().add(self.start).as_ptr(), self.bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_what_was_put_and_their_frame_goes_with_the_last() {
        let addresses = Addresses::reserve(1).unwrap();
        let frame = Arc::new(addresses.frame().unwrap().unwrap());
        assert!(addresses.frame().unwrap().is_none());
        let first = frame.put(&[1; 5000]).unwrap();
        let second = frame.put(&[2; FRAME - 8192]).unwrap();
        assert!(frame.put(b"x").is_none(), "it is full");
        assert_eq!(first.as_ref(), [1; 5000]);
        assert_eq!(second.part(7..9).as_ref(), [2; 2]);
        drop((frame, first));
        assert_eq!(addresses.in_use(), 1);
        drop(second);
        assert_eq!(addresses.in_use(), 0);
        let frame = Arc::new(addresses.frame().unwrap().unwrap());
        assert_eq!(frame.put(b"new").unwrap().as_ref(), b"new");
    }

    #[test]
    fn bytes_elsewhere_are_not_found() {
        let addresses = Addresses::reserve(2).unwrap();
        let frame = Arc::new(addresses.frame().unwrap().unwrap());
        let piece = frame.put(b"film").unwrap();
        assert_eq!(&*addresses.find(&piece.as_ref()[1..]).unwrap(), b"ilm");
        assert!(addresses.find(b"elsewhere").is_none());
        let heap: Box<[u8]> = Box::from([0; 10]);
        assert!(addresses.find(&heap).is_none());
    }
}
