//! A page of atomic words that reads as zeros in a forked child (`MADV_WIPEONFORK`).
//!
//! It holds the clock's state: a child of `fork`, or of a bare `clone` that no `pthread_atfork`
//! sees, starts with nothing, instead of a lock that a thread of the parent held at that moment, or
//! the clocks of a time namespace that it has left.

use std::sync::atomic::{AtomicU64, Ordering};

use super::raw;

/// Number of words in a [`ForkPage`].
pub const WORDS: usize = 512;

/// 4096 bytes of words, alone in their page; to be put into a `static`. Each eight words from a
/// multiple of eight share a cache line.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct ForkPage(pub [AtomicU64; WORDS]);

impl ForkPage {
    /// A page of zeros.
    pub const fn new() -> ForkPage {
        ForkPage([const { AtomicU64::new(0) }; WORDS])
    }

    /// Asks the kernel to give every child process zeros in place of this page. Returns false if it
    /// cannot (before Linux 4.14, or with pages larger than this one): the child then sees the
    /// parent's words, as with any memory.
    pub fn wipe_on_fork(&'static self) -> bool {
        const MADV_WIPEONFORK: usize = 18;
        // SAFETY: reads the auxiliary vector.
        let page_size = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
        let length = size_of::<ForkPage>();
        if page_size != length {
            return false;
        }
        let address = &raw const *self as usize;
        // SAFETY: exactly one whole page is named, which contains only the atomic words of this
        // value, and all zeros is a valid value whenever the kernel puts it there.
        unsafe {
            raw::syscall6(
                libc::SYS_madvise,
                [address, length, MADV_WIPEONFORK, 0, 0, 0],
            ) == 0
        }
    }

    /// Sets all words to zero, as the kernel does in a child: for a child in which it did not.
    pub fn clear(&self) {
        for word in &self.0 {
            word.store(0, Ordering::SeqCst);
        }
    }
}

impl Default for ForkPage {
    fn default() -> ForkPage {
        ForkPage::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PAGE: ForkPage = ForkPage::new();

    #[test]
    fn a_child_sees_zeros_and_the_parent_keeps_its_words() {
        assert!(PAGE.wipe_on_fork(), "Linux 4.14 or later, 4 KiB pages");
        let word = &PAGE.0[511];
        word.store(7, Ordering::SeqCst);
        // SAFETY: the child only loads a word and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let seen = word.load(Ordering::SeqCst);
            // SAFETY: ends the child without running the test harness's handlers.
            unsafe { libc::_exit(i32::from(seen != 0)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child saw the parent's word");
        assert_eq!(word.load(Ordering::SeqCst), 7);
    }
}
