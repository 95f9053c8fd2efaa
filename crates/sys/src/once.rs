//! Memory in which every byte is written once.
//!
//! Bytes that were given to a socket without a copy ([`crate::splice`]) may leave, or leave again, at any time until the
//! connection is gone: a peer that has acknowledged them says nothing of copies of packets that still wait in a queue. So memory
//! that is given away must never hold anything else. Here it cannot: what was put into a [`Frame`] stays as it is, and when its
//! last user is gone the frame's memory goes back to the kernel, which keeps what sockets still have. A frame that takes its place
//! has memory of its own.

use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::region::ALIGNMENT;

/// Bytes of a frame.
pub const FRAME: usize = 2 << 20;

/// Addresses for a number of frames.
#[derive(Debug)]
pub struct Addresses {
    base: NonNull<u8>,
    frames: usize,
    /// Numbers of frames that are not there.
    free: Mutex<Vec<usize>>,
}

// SAFETY: addresses alone; what lies there is reached through pieces, which are written before they are shared.
unsafe impl Send for Addresses {}
// SAFETY: as above.
unsafe impl Sync for Addresses {}

impl Drop for Addresses {
    fn drop(&mut self) {
        // SAFETY: our own mapping; each frame keeps it alive, so none is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.frames * FRAME) };
    }
}

/// Maps new memory, or none (`PROT_NONE`), at an address or where the kernel likes.
fn map(at: Option<NonNull<u8>>, bytes: usize, protection: libc::c_int) -> io::Result<NonNull<u8>> {
    let (address, fixed) = match at {
        Some(at) => (at.as_ptr().cast(), libc::MAP_FIXED),
        None => (std::ptr::null_mut(), 0),
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: a new mapping; where the address is given, it is of ours, and of a frame that nobody has.
    let base = unsafe { libc::mmap(address, bytes, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap gave a null address"))
}

impl Addresses {
    /// Reserves addresses for frames; memory is taken when frames are.
    ///
    /// # Errors
    /// There are not so many addresses, or none is asked for.
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

    /// A new frame; `None`: all are there.
    ///
    /// # Errors
    /// The kernel gives no memory.
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
        // Film bytes say nothing in a core dump but make it huge. Small pages: a packet keeps the page in which its bytes lie,
        // whoever sent it, and would keep two megabytes of a large one.
        // SAFETY: the whole of our own mapping; advice changes no contents.
        unsafe {
            libc::madvise(base, FRAME, libc::MADV_DONTDUMP);
            libc::madvise(base, FRAME, libc::MADV_NOHUGEPAGE);
        }
        // Where it may not be locked, it can be swapped out; the pool says so of itself.
        // SAFETY: as above.
        unsafe { libc::mlock2(base, FRAME, libc::MLOCK_ONFAULT as libc::c_uint) };
        Ok(Some(frame))
    }

    /// Frames that are there.
    pub fn in_use(&self) -> usize {
        self.frames - self.free().len()
    }

    /// These bytes as ones that are never written again, if they lie here.
    pub fn find<'a>(&self, bytes: &'a [u8]) -> Option<Written<'a>> {
        let offset = (bytes.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        // Nobody has bytes here but of pieces.
        (offset < self.frames * FRAME).then_some(Written(bytes))
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        // Numbers: a panic cannot have left half of one.
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

/// Two megabytes of memory that are written once, piece by piece.
#[derive(Debug)]
pub struct Frame {
    number: usize,
    /// Bytes that are, or are being, written.
    used: AtomicUsize,
    addresses: Arc<Addresses>,
}

impl Frame {
    fn base(&self) -> NonNull<u8> {
        // SAFETY: within the addresses, as its number is.
        unsafe { self.addresses.base.add(self.number * FRAME) }
    }

    /// Puts a copy of these bytes behind what is there; `None`: no room is left for them.
    pub fn put(self: &Arc<Self>, bytes: &[u8]) -> Option<Piece> {
        let room = bytes.len().checked_next_multiple_of(ALIGNMENT)?;
        let start = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(room).filter(|used| *used <= FRAME)
            });
        let start = start.ok()?;
        // SAFETY: within the frame, which is mapped, and nobody else was given these bytes of it, or will be.
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
        // In one step, so that nothing else can be mapped there meanwhile.
        if map(Some(self.base()), FRAME, libc::PROT_NONE).is_ok() {
            self.addresses.free().push(self.number);
        }
    }
}

/// Bytes of a frame, which stays as long as this or a clone of it.
#[derive(Clone, Debug)]
pub struct Piece {
    frame: Arc<Frame>,
    start: usize,
    bytes: usize,
}

impl Piece {
    /// A part of it.
    ///
    /// # Panics
    /// It has no such part.
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
        // SAFETY: written by `put` before this piece was made, and never again; mapped as long as the frame.
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
