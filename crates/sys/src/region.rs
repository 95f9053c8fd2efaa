//! A mapped memory region, divided into pages.
//!
//! The region is reserved as a whole and takes memory page by page as it is written to. So a large
//! pool costs nothing until it is used, and never more than was asked for. The first write to a
//! page may take milliseconds, if the kernel has to find memory for it: [`Page::touch`] does this
//! ahead of use. A [`Page`] is owned and borrowed like a `Box<[u8]>`: its sole owner may write,
//! those who share it (in an `Arc`) read.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::check;

/// Alignment of every page's address, in bytes: enough for direct I/O on any block device.
pub const ALIGNMENT: usize = 4096;

/// Alignment of a region, in bytes: the size of the processor's large pages, so that they can back
/// it.
pub(crate) const LARGE: usize = 2 << 20;

/// The mapping; it is unmapped when its last page is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The address of the first page.
    pub(crate) base: NonNull<u8>,
    /// Total bytes of all pages.
    pub(crate) bytes: usize,
    /// Bytes of a piece that is registered with a ring at once: a power of two, at least a large
    /// page.
    pub(crate) piece: usize,
    /// The whole mapping: the pages, and the padding that aligns them.
    whole: (NonNull<u8>, usize),
}

// SAFETY: only an address and a length; the memory is reached through pages alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (base, bytes) = self.whole;
        // SAFETY: base and length are of a mapping made by `Region::map`; no page is left that points
        // into it, since each holds this mapping alive.
        unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
    }
}

/// A page of a region: a fixed number of bytes at an address aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub struct Page {
    base: NonNull<u8>,
    bytes: usize,
    /// Keeps the address valid.
    mapping: Arc<Mapping>,
}

impl Page {
    /// Its address and its offset in the region, for code in this crate that hands it to the
    /// kernel.
    pub(crate) fn parts(&mut self) -> (*mut u8, usize, &Arc<Mapping>) {
        let offset = self.base.as_ptr() as usize - self.mapping.base.as_ptr() as usize;
        (self.base.as_ptr(), offset, &self.mapping)
    }

    /// Makes the kernel back the page with memory now. This writes to it, which holds up no other
    /// thread that maps or allocates memory; an explicit request to populate would.
    pub fn touch(&mut self) {
        for byte in self.iter_mut().step_by(ALIGNMENT) {
            *byte = 0;
        }
    }
}

// SAFETY: like a Box<[u8]>, a page is the only way to its bytes.
unsafe impl Send for Page {}
// SAFETY: as above; through a shared reference the bytes can only be read.
unsafe impl Sync for Page {}

impl Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: base points to `bytes` mapped bytes (zero or written), which no other page covers
        // and which live as long as `mapping`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; the exclusive reference to the page is one to its bytes.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

/// The kind of memory that backs a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    /// Large pages of 2 MiB that the administrator reserved (`vm.nr_hugepages`): taken at once.
    Reserved,
    /// Large pages where the kernel finds some (`transparent_hugepage` is `madvise` or `always`).
    Transparent,
    /// Pages of 4 KiB.
    Small,
}

/// A region's pages, and what the kernel granted.
#[derive(Debug)]
pub struct Region {
    /// All pages, in the order of their addresses.
    pub pages: Vec<Page>,
    /// Why the region could not be locked, so that it may be swapped out. `None` if it is locked.
    pub not_locked: Option<io::Error>,
    /// The kind of memory that backs it.
    pub paging: Paging,
}

/// Maps `bytes` of new memory, with the given extra flags.
fn map_anonymous(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: a new anonymous mapping at an address the kernel chooses; nothing is overlaid.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mmap gave a null address"))
}

/// The maximum number of pieces in which a ring registers a region: the kernel's limit
/// (`IORING_MAX_REG_BUFFERS`).
const MOST_PIECES: usize = 1 << 14;

fn mapping(bytes: usize, page_bytes: usize) -> io::Result<(Mapping, Paging)> {
    let piece = bytes
        .div_ceil(MOST_PIECES)
        .max(page_bytes)
        .next_power_of_two()
        .max(LARGE);
    // Succeeds only if enough large pages are reserved for the whole region.
    if bytes.is_multiple_of(LARGE)
        && let Ok(base) = map_anonymous(bytes, libc::MAP_HUGETLB)
    {
        let whole = (base, bytes);
        let mapping = Mapping {
            base,
            bytes,
            piece,
            whole,
        };
        return Ok((mapping, Paging::Reserved));
    }
    let room = bytes.checked_add(LARGE).ok_or(io::ErrorKind::OutOfMemory)?;
    let start = map_anonymous(room, libc::MAP_NORESERVE)?;
    // SAFETY: less than LARGE bytes up, and LARGE more than needed were mapped.
    let base = unsafe { start.add(start.as_ptr().align_offset(LARGE)) };
    // SAFETY: within our own mapping; advice changes no contents.
    let advised = unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let paging = match setting {
        Ok(setting) if advised == 0 && bytes >= LARGE && !setting.contains("[never]") => {
            Paging::Transparent
        }
        _ => Paging::Small,
    };
    let whole = (start, room);
    let mapping = Mapping {
        base,
        bytes,
        piece,
        whole,
    };
    Ok((mapping, paging))
}

impl Region {
    /// Maps `count` pages of `page_bytes` each, a multiple of [`ALIGNMENT`].
    pub fn map(count: usize, page_bytes: usize) -> io::Result<Region> {
        if count == 0 || page_bytes == 0 || !page_bytes.is_multiple_of(ALIGNMENT) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "pages must be some, and whole multiples of 4096 bytes",
            ));
        }
        let bytes = count
            .checked_mul(page_bytes)
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a pool larger than the address space",
                )
            })?;
        let (mapping, paging) = mapping(bytes, page_bytes)?;
        let (base, mapping) = (mapping.base, Arc::new(mapping));
        // Film data is of no use in a core dump and makes it huge.
        // SAFETY: the whole of our own mapping; advice changes no contents.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_DONTDUMP) };
        // SAFETY: as above. ONFAULT locks pages when they are first used, so nothing is populated now.
        let locked = unsafe {
            libc::mlock2(
                base.as_ptr().cast(),
                bytes,
                libc::MLOCK_ONFAULT as libc::c_uint,
            )
        };
        let not_locked = check(i64::from(locked)).err();
        let pages = (0..count)
            .map(|index| Page {
                // SAFETY: index * page_bytes lies within the mapping of count * page_bytes bytes.
                base: unsafe { base.add(index * page_bytes) },
                bytes: page_bytes,
                mapping: Arc::clone(&mapping),
            })
            .collect();
        Ok(Region {
            pages,
            not_locked,
            paging,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_apart_and_outlive_each_other() {
        let mut pages = Region::map(3, ALIGNMENT).expect("three pages").pages;
        for (value, page) in pages.iter_mut().enumerate() {
            page.fill(value as u8 + 1);
        }
        let last = pages.pop().unwrap();
        drop(pages);
        assert_eq!(last.as_ptr() as usize % ALIGNMENT, 0);
        assert!(last.len() == ALIGNMENT && last.iter().all(|byte| *byte == 3));
    }

    #[test]
    fn a_shared_page_is_read_by_many_threads() {
        let mut page = Region::map(1, ALIGNMENT).unwrap().pages.pop().unwrap();
        page[17] = 42;
        let page = Arc::new(page);
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let page = Arc::clone(&page);
                std::thread::spawn(move || page[17])
            })
            .collect();
        assert!(
            readers
                .into_iter()
                .all(|reader| reader.join().unwrap() == 42)
        );
    }

    #[test]
    fn odd_sizes_are_refused() {
        assert!(Region::map(0, ALIGNMENT).is_err());
        assert!(Region::map(1, 1000).is_err());
        assert!(Region::map(usize::MAX / 2, ALIGNMENT).is_err());
    }

    #[test]
    fn a_reserved_region_takes_no_memory_until_it_is_used() {
        // 64 GiB: more than test machines have.
        let region = Region::map(1 << 14, 4 << 20);
        match region {
            Ok(mut region) => {
                region.pages[1000][5] = 1;
                assert_eq!(region.pages[1000][5], 1);
            }
            Err(error) => reelway_skip::skipped!("64 GiB of addresses cannot be had: {error}"),
        }
    }
}
