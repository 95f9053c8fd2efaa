//! File reads into a region's pages through an io_uring: many at once, issued by one thread.
//!
//! A [`Reads`] belongs to the thread that made it. The kernel owns a page from the call until the
//! read is done; the page comes back with the result. Each piece of the region is registered with
//! the ring when it is first read into (`IORING_REGISTER_BUFFERS_UPDATE`), so that the kernel need
//! not look up its pages at every read. If the limit on locked memory forbids this, ordinary reads
//! are used.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::check;
use crate::region::{LARGE, Mapping, Page};
use crate::uring;

/// Marks the completion that only wakes the thread.
const WAKE: u64 = u64::MAX;

/// A read that is done, or that was not accepted.
#[derive(Debug)]
pub struct Done<T> {
    /// The page that was read into; it belongs to the caller again.
    pub page: Page,
    /// The caller's tag.
    pub tag: T,
    /// Bytes read, or the kernel's error.
    pub result: io::Result<usize>,
}

struct UnderWay<T> {
    /// Kept open while the kernel reads from it.
    _file: Arc<File>,
    page: Page,
    tag: T,
}

/// Ends a wait of the ring's thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Makes [`Reads::wait`] return, now or at its next call.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: writes 8 bytes of a local to an eventfd. This fails only if its count is at its
        // maximum, and then the ring's thread wakes anyway.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

/// The registered pieces of one mapping.
struct Fixed {
    mapping: Arc<Mapping>,
    registered: Vec<bool>,
}

/// A ring and its reads in flight.
pub struct Reads<T> {
    ring: IoUring,
    slots: Vec<Option<UnderWay<T>>>,
    free: Vec<u32>,
    waker: Waker,
    /// The target of reads from the eventfd; boxed, so that its address stays the same for the
    /// kernel.
    count: Box<u64>,
    wake_armed: bool,
    fixed: Option<Fixed>,
    fixed_refused: Option<io::Error>,
}

impl<T> std::fmt::Debug for Reads<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reads({} of {})", self.under_way(), self.slots.len())
    }
}

impl<T> Reads<T> {
    /// Makes a ring for this thread with at most `depth` reads in flight (1 to 1024).
    ///
    /// # Errors
    ///
    /// The kernel's error; [`crate::uring::why_not`] describes it.
    pub fn new(depth: usize) -> io::Result<Reads<T>> {
        let depth = depth.clamp(1, 1024);
        let ring = uring::new((depth as u32 + 1).next_power_of_two())?;
        // SAFETY: makes a descriptor.
        let event = check(i64::from(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }))?;
        // SAFETY: a new descriptor, which nothing else owns.
        let event = unsafe { OwnedFd::from_raw_fd(event as i32) };
        Ok(Reads {
            ring,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth as u32).rev().collect(),
            waker: Waker(Arc::new(event)),
            count: Box::new(0),
            wake_armed: false,
            fixed: None,
            fixed_refused: None,
        })
    }

    /// Returns a handle that ends [`Reads::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Reads in flight.
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether it can accept another read.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Why the region could not be registered, returned once; `None` if it is registered, or was
    /// not yet read into.
    pub fn take_fixed_refused(&mut self) -> Option<io::Error> {
        self.fixed_refused.take()
    }

    /// The index of the registered buffer that holds the `len` bytes at `offset` of `mapping`.
    fn buffer(&mut self, mapping: &Arc<Mapping>, offset: usize, len: usize) -> Option<u16> {
        let piece = mapping.piece;
        let chunk = offset / piece;
        if (offset + len - 1) / piece != chunk {
            return None;
        }
        if self.fixed.is_none() {
            // One mapping per ring, once: a refused registration is not retried.
            let chunks = mapping.bytes.div_ceil(piece);
            let chunks = match self.ring.submitter().register_buffers_sparse(chunks as u32) {
                Ok(()) => chunks,
                Err(error) => {
                    self.fixed_refused = Some(error);
                    0
                }
            };
            self.fixed = Some(Fixed {
                mapping: Arc::clone(mapping),
                registered: vec![false; chunks],
            });
        }
        let fixed = self.fixed.as_mut()?;
        let registered = fixed.registered.get_mut(chunk)?;
        if !Arc::ptr_eq(&fixed.mapping, mapping) {
            return None;
        }
        if !*registered {
            let start = chunk * piece;
            let bytes = piece.min(mapping.bytes - start);
            // Pages that have no memory yet get it here. Registration would do so too, but for a
            // large piece that takes long and holds the lock of the process's memory map: a thread
            // that maps memory meanwhile waits, and so does every thread that waits for its
            // allocator's lock.
            for at in (start..start + bytes).step_by(LARGE) {
                // SAFETY: within the mapping; populating changes no contents. If it is refused,
                // registration does it.
                unsafe {
                    let from = mapping.base.as_ptr().add(at).cast();
                    libc::madvise(
                        from,
                        LARGE.min(start + bytes - at),
                        libc::MADV_POPULATE_WRITE,
                    );
                }
            }
            let vector = libc::iovec {
                // SAFETY: `chunk` begins within the mapping.
                iov_base: unsafe { mapping.base.as_ptr().add(start) }.cast(),
                iov_len: bytes,
            };
            // SAFETY: the memory is mapped as long as `fixed` holds the mapping, which is as long
            // as the ring; registering only pins it. Each read says which part of it the kernel may
            // write.
            let result = unsafe {
                self.ring
                    .submitter()
                    .register_buffers_update(chunk as u32, &[vector], None)
            };
            if let Err(error) = result {
                self.fixed_refused = Some(error);
                fixed.registered.clear();
                return None;
            }
            *registered = true;
        }
        Some(chunk as u16)
    }

    /// Reads from `offset` of `file` on into `page`, from its byte `from` to its end;
    /// [`Reads::wait`] returns the page. If there is no room, it comes back at once.
    ///
    /// # Errors
    ///
    /// There is no room, or `from` is not within the page.
    pub fn read(
        &mut self,
        file: &Arc<File>,
        offset: u64,
        mut page: Page,
        from: usize,
        tag: T,
    ) -> Result<(), Done<T>> {
        let all = page.len();
        let slot = match self.free.pop() {
            Some(slot) if from < all => slot,
            other => {
                self.free.extend(other);
                let result = Err(io::ErrorKind::WouldBlock.into());
                return Err(Done { page, tag, result });
            }
        };
        let len = (all - from) as u32;
        let (address, within, mapping) = page.parts();
        let mapping = Arc::clone(mapping);
        // SAFETY: `from` lies within the page.
        let address = unsafe { address.add(from) };
        let descriptor = types::Fd(file.as_raw_fd());
        let entry = match self.buffer(&mapping, within + from, len as usize) {
            Some(buffer) => opcode::ReadFixed::new(descriptor, address, len, buffer)
                .offset(offset)
                .build(),
            None => opcode::Read::new(descriptor, address, len)
                .offset(offset)
                .build(),
        };
        self.slots[slot as usize] = Some(UnderWay {
            _file: Arc::clone(file),
            page,
            tag,
        });
        // The page is exclusively ours, in the slot, until the kernel reports that the read is
        // done; `drop` waits for that too.
        self.push(entry.user_data(u64::from(slot)));
        Ok(())
    }

    /// Queues an entry; the queue has room for all slots and the wake-up.
    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: the targets of the entries live until the reads are done: pages in their slots,
        // the count in its box.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            // Entries of the last turn have not been submitted yet.
            if let Err(error) = self.ring.submit() {
                give_up_if_broken(&error);
            }
        }
    }

    /// Submits the queued reads, and waits until one is done or the waker is used.
    pub fn wait(&mut self, done: &mut Vec<Done<T>>) {
        if !self.wake_armed {
            self.wake_armed = true;
            let event = types::Fd(self.waker.0.as_raw_fd());
            let read = opcode::Read::new(event, (&raw mut *self.count).cast(), 8).build();
            self.push(read.user_data(WAKE));
        }
        if let Err(error) = self.ring.submit_and_wait(1) {
            give_up_if_broken(&error);
        }
        self.reap(done);
    }

    fn reap(&mut self, done: &mut Vec<Done<T>>) {
        for completion in self.ring.completion() {
            let number = cqueue::Entry::user_data(&completion);
            if number == WAKE {
                self.wake_armed = false;
                continue;
            }
            let Some(UnderWay { page, tag, .. }) =
                self.slots.get_mut(number as usize).and_then(Option::take)
            else {
                continue;
            };
            self.free.push(number as u32);
            let result = match completion.result() {
                bytes if bytes >= 0 => Ok(bytes as usize),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
            done.push(Done { page, tag, result });
        }
    }
}

impl<T> Drop for Reads<T> {
    fn drop(&mut self) {
        self.waker.wake();
        let mut done = Vec::new();
        while self.under_way() > 0 || self.wake_armed {
            if let Err(error) = self.ring.submit_and_wait(1) {
                give_up_if_broken(&error);
            }
            self.reap(&mut done);
        }
    }
}

/// Aborts if the ring is broken. A ring that fails with reads in flight leaves memory with the
/// kernel for good, which could then overwrite memory that has been reused.
fn give_up_if_broken(error: &io::Error) {
    match error.raw_os_error() {
        Some(libc::EINTR) => {}
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => std::thread::yield_now(),
        _ => {
            tracing::error!("io_uring failed with reads under way: {error}");
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{ALIGNMENT, Region};
    use crate::uring::why_not;
    use std::os::unix::fs::FileExt;

    fn file(bytes: &[u8]) -> (Arc<File>, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!(
            "reelway-reads-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        file.write_all_at(bytes, 0).unwrap();
        (Arc::new(file), path)
    }

    #[test]
    fn many_reads_come_back_with_their_pages_and_what_was_given_along() {
        let content: Vec<u8> = (0..8 * ALIGNMENT)
            .map(|at| (at / ALIGNMENT) as u8 + 1)
            .collect();
        let (file, path) = file(&content);
        std::fs::remove_file(path).unwrap();
        let mut reads = match Reads::new(4) {
            Ok(reads) => reads,
            Err(error) => return reelway_skip::skipped!("io_uring: {}", why_not(&error)),
        };
        let mut pages = Region::map(9, ALIGNMENT).unwrap().pages;
        let mut seen = Vec::new();
        let mut next = 0u64;
        let mut done = Vec::new();
        while seen.len() < 9 {
            while next < 9 && reads.has_room() {
                let page = pages.pop().unwrap();
                reads
                    .read(&file, next * ALIGNMENT as u64, page, 0, next)
                    .unwrap();
                next += 1;
            }
            reads.wait(&mut done);
            for Done { page, tag, result } in done.drain(..) {
                let bytes = result.unwrap();
                assert_eq!(bytes, if tag == 8 { 0 } else { ALIGNMENT });
                assert!(page[..bytes].iter().all(|byte| u64::from(*byte) == tag + 1));
                seen.push(tag);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..9).collect::<Vec<_>>());
    }

    #[test]
    fn a_read_may_fill_the_rest_of_a_page() {
        let (file, path) = file(&[7; 100]);
        std::fs::remove_file(path).unwrap();
        let mut reads = match Reads::new(1) {
            Ok(reads) => reads,
            Err(error) => return reelway_skip::skipped!("io_uring: {}", why_not(&error)),
        };
        let mut page = Region::map(1, ALIGNMENT).unwrap().pages.pop().unwrap();
        page.fill(1);
        reads.read(&file, 40, page, 10, ()).unwrap();
        let other = Region::map(1, ALIGNMENT).unwrap().pages.pop().unwrap();
        assert!(reads.read(&file, 0, other, 0, ()).is_err(), "no room");
        let mut done = Vec::new();
        while done.is_empty() {
            reads.wait(&mut done);
        }
        let done = done.pop().unwrap();
        assert_eq!(done.result.unwrap(), 60);
        assert!(done.page[..10].iter().all(|byte| *byte == 1));
        assert!(done.page[10..70].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_wait_is_ended_from_another_thread_and_a_ring_is_dropped_with_reads_under_way() {
        let (file, path) = file(&[3; ALIGNMENT]);
        std::fs::remove_file(path).unwrap();
        let mut reads: Reads<()> = match Reads::new(2) {
            Ok(reads) => reads,
            Err(error) => return reelway_skip::skipped!("io_uring: {}", why_not(&error)),
        };
        let waker = reads.waker();
        let other = std::thread::spawn(move || waker.wake());
        let mut done = Vec::new();
        reads.wait(&mut done);
        assert!(done.is_empty());
        other.join().unwrap();
        let page = Region::map(1, ALIGNMENT).unwrap().pages.pop().unwrap();
        reads.read(&file, 0, page, 0, ()).unwrap();
        drop(reads);
    }
}
