//! The system's allocator: how much freed memory it retains, and a counting variant for tests that
//! assert that a path allocates nothing, or how much is held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Makes the system's allocator return freed memory, for a process with many threads and bounded
/// memory: threads share few arenas, large pieces are mapped one by one, and free memory at an
/// arena's end is returned. To be called at startup. Has no effect if the C library is not glibc.
pub fn hold_little() {
    /// The first is the number of arenas, each of which retains what was freed in it. glibc makes
    /// eight per processor.
    #[cfg(target_env = "gnu")]
    const SETTINGS: [(libc::c_int, libc::c_int); 3] = [
        (libc::M_ARENA_MAX, 4),
        // From this size in bytes, pieces are mapped. Once set, the threshold does not grow with
        // what is freed.
        (libc::M_MMAP_THRESHOLD, 128 << 10),
        (libc::M_TRIM_THRESHOLD, 256 << 10),
    ];
    #[cfg(target_env = "gnu")]
    for (setting, value) in SETTINGS {
        // SAFETY: takes numbers only. A refused setting stays unchanged.
        unsafe { libc::mallopt(setting, value) };
    }
}

/// The system's allocator, which counts the allocations of threads whose names begin with a given
/// prefix. A test makes it its `#[global_allocator]`.
pub struct Counting {
    prefix: &'static str,
    count: AtomicU64,
    bytes: AtomicI64,
    most: AtomicI64,
}

impl Counting {
    /// Counts for threads whose names (the first 15 bytes) begin with `prefix`.
    pub const fn new(prefix: &'static str) -> Counting {
        Counting {
            prefix,
            count: AtomicU64::new(0),
            bytes: AtomicI64::new(0),
            most: AtomicI64::new(0),
        }
    }

    /// Allocations and reallocations so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes that these threads have allocated, minus those that they have freed.
    pub fn bytes(&self) -> i64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The maximum that [`Counting::bytes`] has reached.
    pub fn most(&self) -> i64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Restarts the maximum at the current value.
    pub fn forget_most(&self) {
        self.most.store(self.bytes(), Ordering::Relaxed);
    }

    fn note(&self, count: u64, bytes: i64) {
        let mut name = [0u8; 16];
        // SAFETY: the kernel writes a name of at most 16 bytes, including its terminating NUL.
        // Nothing is allocated, and no thread-local state is touched, which may be gone when a
        // thread ends.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        if name.starts_with(self.prefix.as_bytes()) {
            self.count.fetch_add(count, Ordering::Relaxed);
            let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.most.fetch_max(before + bytes, Ordering::Relaxed);
        }
    }
}

// SAFETY: the system allocator does all the work; counting does not interfere with it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note(1, layout.size() as i64);
        // SAFETY: the caller's guarantee is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.note(0, -(layout.size() as i64));
        // SAFETY: the caller's guarantee is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.note(1, bytes as i64 - layout.size() as i64);
        // SAFETY: the caller's guarantee is passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
