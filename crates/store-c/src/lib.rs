//! `libreelway_store`: the store for C programs, with the interface of the EXT3NS paper.
//!
//! The library creates a pool of memory of a fixed size and divides it into blocks. A program
//! allocates empty blocks, or requests a block of a file: if that block is already in the pool, the
//! program's *pointer* is moved to it, and no byte is copied. For reads into a buffer, the buffer's
//! address decides the path: a buffer in the pool is filled directly from the disk, past the page
//! cache; any other through the page cache, as by `pread`. Files are written in large blocks past
//! the cache, and appear complete or not at all.
//!
//! The functions are declared in `include/reelway_store.h` and described in `man/reelway_store.3`;
//! `examples/blocks.c` uses them. Apart from `sys`, `hint` and the preload library, this is the only
//! crate with `unsafe` code: its arguments are raw pointers from C programs.
#![allow(
    non_camel_case_types,
    reason = "the names are those of the header for C"
)]

mod empty;
mod held;

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use reelway_sys::open_direct;
use store::{Draft, ReadError, Source, Span, Store, StoreConfig};

use empty::Empty;
use held::Held;

/// A pool of blocks, and the readers that fill it. Created by rw_store_new, freed by rw_store_free.
/// Can be used by several threads at once.
pub struct rw_store {
    store: Store,
    held: Held,
    empty: Arc<Empty>,
}

/// A file opened for reading. Created by rw_open, freed by rw_close. Can be used by several threads
/// at once.
pub struct rw_file {
    store: *const rw_store,
    source: Arc<Source>,
    buffered: File,
    direct: Option<File>,
}

/// A file being written. Created by rw_create, freed by rw_publish or rw_discard. Can be used by one
/// thread at a time.
pub struct rw_draft {
    draft: Draft,
}

/// Contents and counters of a store.
#[repr(C)]
pub struct rw_stats {
    /// Total number of blocks.
    pub blocks: u64,
    /// Size of a block in bytes.
    pub block_bytes: u64,
    /// Number of blocks in use or being read.
    pub in_use: u64,
    /// Number of blocks that hold file contents.
    pub cached: u64,
    /// Number of requested blocks that were in the pool.
    pub hits: u64,
    /// Number of requested blocks that had to be read.
    pub misses: u64,
    /// Bytes read from disks into the pool by rw_read_block.
    pub bytes_read: u64,
    /// Number of failed reads.
    pub errors: u64,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Stores why a call failed.
fn fail(words: impl std::fmt::Display) {
    let words: Vec<u8> = words.to_string().into_bytes();
    let words = words
        .into_iter()
        .filter(|byte| *byte != 0)
        .collect::<Vec<_>>();
    LAST.with_borrow_mut(|last| *last = CString::new(words).unwrap_or_default());
}

/// Returns a text passed by the caller. `None` for NULL.
///
/// # Safety
/// `text` is NULL, or a string that ends in zero and lives as long as the result.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Returns why the last failed call of this thread failed, as text. The string is valid until
/// the thread's next failed call.
#[unsafe(no_mangle)]
pub extern "C" fn rw_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Creates a pool of `pool_bytes` bytes, divided into at least 8 blocks of `block_bytes` bytes (a
/// power of two from 4096 to 16 MiB). `policy` is the cache policy ("lru", "ons:threshold=5", ...;
/// NULL: the default). Returns NULL on failure.
///
/// # Safety
/// `policy` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_store_new(
    pool_bytes: u64,
    block_bytes: u32,
    policy: *const c_char,
) -> *mut rw_store {
    let mut config = StoreConfig {
        pool_bytes,
        block_bytes,
        ..StoreConfig::default()
    };
    // SAFETY: as the caller promises.
    if let Some(policy) = unsafe { text(policy) } {
        match policy.to_string_lossy().parse() {
            Ok(policy) => config.policy = policy,
            Err(error) => {
                fail(error);
                return std::ptr::null_mut();
            }
        }
    }
    match Store::new(config) {
        Ok(store) => Box::into_raw(Box::new(rw_store {
            store,
            held: Held::default(),
            empty: Arc::default(),
        })),
        Err(error) => {
            fail(error);
            std::ptr::null_mut()
        }
    }
}

/// Frees a pool and all of its blocks. Its files must have been closed. Does nothing for NULL.
///
/// # Safety
/// `store` was returned by rw_store_new, has not been freed, and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_store_free(store: *mut rw_store) {
    if !store.is_null() {
        // SAFETY: made by `Box::into_raw`, and freed once, as the caller promises.
        drop(unsafe { Box::from_raw(store) });
    }
}

/// Returns an empty block of the pool to write into, with undefined contents, or NULL if none
/// becomes free within `wait_ms` milliseconds: memory outside the pool is not allocated. Give the
/// block back with rw_release.
///
/// # Safety
/// `store` was returned by rw_store_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_alloc(store: *const rw_store, wait_ms: u32) -> *mut u8 {
    // SAFETY: as the caller promises.
    let Some(store) = (unsafe { store.as_ref() }) else {
        fail("no store");
        return std::ptr::null_mut();
    };
    let most = Duration::from_millis(wait_ms.into());
    match store.empty.wait(&store.store, most) {
        Some(Ok(buffer)) => store.held.lend(buffer),
        Some(Err(error)) => {
            fail(error);
            std::ptr::null_mut()
        }
        None => {
            fail("all blocks of the pool are in use");
            std::ptr::null_mut()
        }
    }
}

/// Releases a block of rw_alloc or rw_read_block. Blocks of files stay in the pool until their
/// space is needed. Returns 0, or -1 if the caller does not hold the block.
///
/// # Safety
/// `store` was returned by rw_store_new; the memory at `block` is no longer used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_release(store: *const rw_store, block: *const u8) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { store.as_ref() } {
        Some(store) if store.held.release(block) => 0,
        _ => {
            fail("this is no block that was given out");
            -1
        }
    }
}

/// Opens a file for reading. Returns NULL on failure.
///
/// # Safety
/// `store` was returned by rw_store_new and is freed after the file is closed; `path` is a
/// NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_open(store: *const rw_store, path: *const c_char) -> *mut rw_file {
    // SAFETY: as the caller promises.
    let (Some(its), Some(path)) = (unsafe { store.as_ref() }, unsafe { text(path) }) else {
        fail("no store or no path");
        return std::ptr::null_mut();
    };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let opened = its.store.open(path).and_then(|source| {
        Ok(rw_file {
            store,
            source,
            buffered: File::open(path)?,
            direct: open_direct(path).ok(),
        })
    });
    match opened {
        Ok(file) => Box::into_raw(Box::new(file)),
        Err(error) => {
            fail(format_args!("{}: {error}", path.display()));
            std::ptr::null_mut()
        }
    }
}

/// Closes a file. Its blocks that the caller holds stay valid until they are released. Does
/// nothing for NULL.
///
/// # Safety
/// `file` was returned by rw_open, has not been closed, and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_close(file: *mut rw_file) {
    if !file.is_null() {
        // SAFETY: made by `Box::into_raw`, and freed once, as the caller promises.
        drop(unsafe { Box::from_raw(file) });
    }
}

/// Returns the size of a file in bytes; 0 for NULL.
///
/// # Safety
/// `file` is NULL or was returned by rw_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_size(file: *const rw_file) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { file.as_ref() }.map_or(0, |file| file.source.len())
}

/// Sets `*block` to the block with this number of the file. The block is read past the page cache,
/// unless it is in the pool already; its bytes are not copied, and must not be changed. The block
/// to which `*block` pointed before is released (NULL: none), unless the read fails. Returns the
/// number of bytes in the block, or -1 on failure. The last block of a file may be shorter than
/// the others; past the file's end, the result is 0 and `*block` becomes NULL.
///
/// # Safety
/// `file` was returned by rw_open; `block` points to NULL, or to a block that the caller holds and
/// no longer uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_read_block(
    file: *const rw_file,
    number: u64,
    block: *mut *const u8,
) -> i64 {
    // SAFETY: as the caller promises; the store lives longer than the file.
    let (Some(file), false) = (unsafe { file.as_ref() }, block.is_null()) else {
        fail("no file, or nowhere to put the block");
        return -1;
    };
    // SAFETY: as above.
    let store = unsafe { &*file.store };
    let bytes = u64::from(store.store.block_bytes());
    let start = number.saturating_mul(bytes);
    let end = start.saturating_add(bytes).min(file.source.len());
    // SAFETY: a place of the caller's, as the caller promises.
    let before = unsafe { *block };
    let now = if start >= end {
        std::ptr::null()
    } else {
        match read(&store.store, &file.source, start..end) {
            Ok(span) => store.held.show(span),
            Err(error) => {
                fail(error);
                return -1;
            }
        }
    };
    if !before.is_null() && !store.held.release(before) {
        if !now.is_null() {
            store.held.release(now);
        }
        fail("*block is no block that was given out");
        return -1;
    }
    // SAFETY: as above.
    unsafe { *block = now };
    end.saturating_sub(start) as i64
}

fn read(
    store: &Store,
    source: &Arc<Source>,
    range: std::ops::Range<u64>,
) -> Result<Span, ReadError> {
    let (sender, receiver) = sync_channel(1);
    store.fetch(source, range, reelway_clock::now(), move |result| {
        let _ = sender.send(result);
    });
    receiver.recv().unwrap_or(Err(ReadError::Closed))
}

/// Reads `len` bytes of the file from `offset` on into `buffer`. Returns the number of bytes read
/// (fewer at the file's end), or -1 on failure. A buffer inside a block of rw_alloc is filled
/// directly from the disk, past the page cache: its address, `offset` and `len` must then be
/// multiples of 4096, and it must not extend beyond the block. Any other buffer is filled through
/// the page cache.
///
/// # Safety
/// `file` was returned by rw_open; `buffer` has room for `len` bytes, which nothing else uses
/// during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_pread(
    file: *const rw_file,
    buffer: *mut c_void,
    len: usize,
    offset: u64,
) -> i64 {
    // SAFETY: as the caller promises; the store lives longer than the file.
    let (Some(file), false) = (unsafe { file.as_ref() }, buffer.is_null()) else {
        fail("no file or no buffer");
        return -1;
    };
    // SAFETY: as above.
    let store = unsafe { &*file.store };
    let direct = |into: &mut [u8]| match &file.direct {
        Some(direct) => direct.read_at(into, offset),
        // If direct reads are refused, this is the only way.
        None => file.buffered.read_at(into, offset),
    };
    let read = match store.held.with(buffer as usize, len, direct) {
        Some(read) => read,
        None => {
            // SAFETY: room for `len` bytes that nothing else uses, as the caller guarantees.
            let into = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
            file.buffered.read_at(into, offset)
        }
    };
    match read {
        Ok(bytes) => bytes as i64,
        Err(error) => {
            fail(format_args!(
                "{}: reading {len} bytes at byte {offset}: {error}",
                file.source.path().display()
            ));
            -1
        }
    }
}

/// Begins to write a file of `len` bytes, for which it reserves disk space in whole blocks. Until
/// rw_publish gives it the name `path`, it has a hidden name in the same directory. Returns NULL on
/// failure.
///
/// # Safety
/// `store` was returned by rw_store_new; `path` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_create(
    store: *const rw_store,
    path: *const c_char,
    len: u64,
) -> *mut rw_draft {
    // SAFETY: as the caller promises.
    let (Some(store), Some(path)) = (unsafe { store.as_ref() }, unsafe { text(path) }) else {
        fail("no store or no path");
        return std::ptr::null_mut();
    };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    match Draft::create(path, len, store.store.block_bytes()) {
        Ok(draft) => Box::into_raw(Box::new(rw_draft { draft })),
        Err(error) => {
            fail(format_args!("{}: {error}", path.display()));
            std::ptr::null_mut()
        }
    }
}

/// Writes the next bytes of a file, in blocks past the page cache. Returns 0, or -1 on failure.
///
/// # Safety
/// `draft` was returned by rw_create; `bytes` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_write(draft: *mut rw_draft, bytes: *const c_void, len: usize) -> c_int {
    // SAFETY: as the caller promises.
    let (Some(draft), false) = (unsafe { draft.as_mut() }, bytes.is_null()) else {
        fail("no file or no bytes");
        return -1;
    };
    // SAFETY: as above.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
    match draft.draft.write(bytes) {
        Ok(()) => 0,
        Err(error) => {
            fail(error);
            -1
        }
    }
}

/// Completes a file whose bytes have all been written: flushes it to the disk and gives it its
/// name. If `replace` is not 0, an existing file of this name is replaced. Returns 0, or -1 on
/// failure; the new file is then deleted. Frees the draft in any case.
///
/// # Safety
/// `draft` was returned by rw_create and is no longer used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_publish(draft: *mut rw_draft, replace: c_int) -> c_int {
    if draft.is_null() {
        fail("no file");
        return -1;
    }
    // SAFETY: made by `Box::into_raw`, and ended once, as the caller promises.
    let mut draft = unsafe { Box::from_raw(draft) }.draft;
    let done = draft.complete().map(drop);
    match done.and_then(|()| draft.publish(replace != 0)) {
        Ok(()) => 0,
        Err(error) => {
            fail(error);
            -1
        }
    }
}

/// Deletes a file being written, and frees the draft. Does nothing for NULL.
///
/// # Safety
/// `draft` was returned by rw_create and is no longer used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_discard(draft: *mut rw_draft) {
    if !draft.is_null() {
        // SAFETY: made by `Box::into_raw`, and ended once, as the caller promises.
        drop(unsafe { Box::from_raw(draft) });
    }
}

/// Stores the contents and counters of the store in `stats`. Returns 0, or -1 on failure.
///
/// # Safety
/// `store` was returned by rw_store_new; `stats` points to writable memory for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_store_stats(store: *const rw_store, stats: *mut rw_stats) -> c_int {
    // SAFETY: as the caller promises.
    let (Some(store), Some(into)) = (unsafe { store.as_ref() }, unsafe { stats.as_mut() }) else {
        fail("no store, or nowhere to put its figures");
        return -1;
    };
    let stats = store.store.stats();
    *into = rw_stats {
        blocks: stats.blocks,
        block_bytes: stats.block_bytes.into(),
        in_use: stats.in_use,
        cached: stats.cached,
        hits: stats.hits,
        misses: stats.misses,
        bytes_read: stats.bytes_read,
        errors: stats.errors,
    };
    0
}
