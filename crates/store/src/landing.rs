//! Follow-up of a read: the lane's statistics, the pool, and the waiting requests.

use std::sync::Arc;

use reelway_clock::Monotonic;
use reelway_sys::region::Page;

use crate::error::ReadError;
use crate::fill::{Asker, Fill, Read};
use crate::live;
use crate::span::{Owner, Pin};

/// The destination of blocks that have been read.
pub(crate) trait Ground: Owner {
    /// Called when a read was done with this many bytes, or failed. Returns the block if it has
    /// been read and is to be kept for another purpose.
    fn landed(
        self: Arc<Self>,
        read: live::Read,
        result: Result<usize, ReadError>,
        keep: bool,
    ) -> Option<reelway_pool::Pin<Page>>;
}

/// A read of the pool that is under way.
struct Landing {
    /// Its memory is in the [`Fill`].
    read: live::Read,
    len: usize,
    ground: Arc<dyn Ground>,
    started: Monotonic,
}

/// Creates the fill for a read of the pool.
pub(crate) fn fill(mut read: live::Read, block_bytes: u64, ground: Arc<dyn Ground>) -> Fill {
    let (page, block, deadline) = (read.memory.take(), read.id.block, read.deadline);
    let start = u64::from(block) * block_bytes;
    let end = read.source.len().min(start + block_bytes).max(start);
    let landing = Landing {
        read,
        len: (end - start) as usize,
        ground,
        started: reelway_clock::now(),
    };
    Fill::new(page, (block, start..end), deadline, Box::new(landing))
}

impl Asker for Landing {
    fn is_over(self: Box<Self>, over: Read) {
        let Landing {
            mut read,
            len,
            ground,
            started,
        } = *self;
        read.memory = over.page;
        let result = match (over.result, &read.memory) {
            // Dropped by a panic: the waiting requests are notified of that.
            (None, _) if std::thread::panicking() => Err(ReadError::Fault {
                path: read.source.path().to_path_buf(),
            }),
            (None, _) | (Some(Ok(())), None) => Err(ReadError::Closed),
            (Some(result), _) => result,
        };
        if let Err(error) = &result {
            if matches!(error, ReadError::Changed { .. }) {
                read.source.set_changed();
            }
            if !matches!(error, ReadError::Closed) {
                tracing::warn!("{error}");
            }
        }
        let lane = &read.source.lane_by(read.queue).0;
        let now = reelway_clock::now();
        if result.is_ok() {
            lane.note_wait(now.since(read.asked));
        }
        lane.note(now.since(started), result.is_ok().then_some(len));
        let result = result.map(|()| len);
        let block = Arc::clone(&ground).landed(read, result, over.keep.is_some());
        if let Some((keep, block)) = over.keep.zip(block) {
            keep(Pin::new(block, ground), len);
        }
    }
}
