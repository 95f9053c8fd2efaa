//! Parts of index files that are read when they are needed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reelway_media::Stored;

/// A part of an index file: a track's groups, places or packet counts, the entry points, or a text.
#[derive(Debug)]
pub(crate) struct Part {
    pub file: Arc<File>,
    pub start: u64,
}

impl Stored for Part {
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool {
        let read = self.file.read_exact_at(into, self.start + u64::from(at));
        if let Err(error) = &read
            && !SAID_UNREADABLE.swap(true, Ordering::Relaxed)
        {
            tracing::error!(
                "an index file can no longer be read ({error}): its film stops where the index is needed"
            );
        }
        read.is_ok()
    }
}

/// Logged once: a failing disk would repeat it for every group.
static SAID_UNREADABLE: AtomicBool = AtomicBool::new(false);
