//! Prepares memory before it is used.
//!
//! The kernel allocates a region's memory when it is first written to. This takes a third of a
//! millisecond for each large page, seven if one must be freed first because the page cache fills
//! the rest of the memory, and as much on virtual machines whose host has yet to allocate it.
//! During a read, a viewer would wait for that, and all threads of the processor wait in any case:
//! the kernel is not interrupted while it clears a page, not even for a thread of real-time
//! priority. So 64 MiB are made ready before any viewer is served (`reelway_pool::Ahead`). Then a
//! thread of low priority makes the whole pool ready, before there are many viewers. A read waits
//! for its memory only if that thread was too slow.
//!
//! Low priority is not enough: the kernel lets a running thread finish its slice, some
//! milliseconds, before a thread of higher priority that wakes up. So the thread rests after each
//! large page.

use std::sync::Arc;
use std::time::Duration;

use reelway_supervise as supervise;
use reelway_sys::limits;

use crate::inner::Inner;

/// The thread's nice value: under full load it gets a tenth of the processor time of other threads.
const NICE: i32 = 10;
/// Rest after a large page, about as long as preparing it took. This leaves 2 GB/s, more than disks
/// deliver.
const REST: Duration = Duration::from_micros(500);

/// Makes more blocks ready. Returns whether enough are ready to serve viewers. `None`: all are
/// ready.
fn more(store: &Arc<Inner>) -> Option<bool> {
    let mut blocks = store.take_unready();
    if blocks.is_empty() {
        return None;
    }
    // Whatever happens, the pages return to the pool. A page without memory gets it when it is
    // used.
    let _ = supervise::guard("pool-ahead", || {
        supervise::inject("pool-ahead.touch");
        for (_, page) in &mut blocks {
            page.touch();
        }
    });
    Some(store.are_ready(blocks))
}

/// Makes the first blocks ready, and starts the thread. The thread ends with the store, or when the
/// whole pool is ready.
pub(crate) fn start(store: &Arc<Inner>) {
    while let Some(is_enough) = more(store) {
        if is_enough {
            break;
        }
    }
    let store = Arc::downgrade(store);
    let run = move || {
        // Helps even if the priority may not be lowered.
        let _ = limits::set_thread_nice(NICE);
        supervise::inject("pool-ahead");
        while store.upgrade().and_then(|store| more(&store)).is_some() {
            std::thread::sleep(REST);
        }
    };
    if let Err(error) = supervise::thread("pool-ahead", run) {
        tracing::warn!(
            "the pool's memory is prepared at first use, which may delay viewers, as no thread can be started: {error}"
        );
    }
}
