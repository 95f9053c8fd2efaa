//! An allocator that counts, for tests that assert that a path allocates nothing, or how much is held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The system's allocator; it counts what threads allocate whose names begin with a given text. A test
/// makes it its `#[global_allocator]`.
pub struct Counting {
    prefix: &'static str,
    count: AtomicU64,
    bytes: AtomicI64,
}

impl Counting {
    /// Counts for threads whose names (the first 15 bytes) begin with `prefix`.
    pub const fn new(prefix: &'static str) -> Counting {
        Counting {
            prefix,
            count: AtomicU64::new(0),
            bytes: AtomicI64::new(0),
        }
    }

    /// Allocations and reallocations so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes allocated by these threads less those they freed.
    pub fn bytes(&self) -> i64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn note(&self, count: u64, bytes: i64) {
        let mut name = [0u8; 16];
        // SAFETY: the kernel writes a name of at most 16 bytes, with its zero. Nothing is allocated,
        // and no thread-local state touched, which may be gone when a thread ends.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        if name.starts_with(self.prefix.as_bytes()) {
            self.count.fetch_add(count, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

// SAFETY: everything is the system allocator's doing; counting touches none of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note(1, layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.note(0, -(layout.size() as i64));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.note(1, bytes as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
