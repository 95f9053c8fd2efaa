//! How much of a film's file has been read to index it.

use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a film's file has been read to index it.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    of: AtomicU64,
}

impl Progress {
    /// Records that `read` of `of` bytes have been read.
    pub fn report(&self, read: u64, of: u64) {
        self.of.store(of, Ordering::Relaxed);
        self.read.store(read, Ordering::Relaxed);
    }

    /// Returns the share that has been read, 0 to 1. `None`: nothing has been read yet.
    pub fn share(&self) -> Option<f64> {
        let (read, of) = (
            self.read.load(Ordering::Relaxed),
            self.of.load(Ordering::Relaxed),
        );
        (of > 0).then(|| (read as f64 / of as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_known_once_something_was_read() {
        let progress = Progress::default();
        assert_eq!(progress.share(), None);
        progress.report(1, 4);
        assert_eq!(progress.share(), Some(0.25));
        // The file was truncated meanwhile.
        progress.report(9, 4);
        assert_eq!(progress.share(), Some(1.0));
    }
}
