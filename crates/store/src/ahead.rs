//! Memory made ready ahead of its use.
//!
//! The kernel gives a region its memory when it is first written to: a third of a millisecond for each large page, seven where
//! it must free one first, since the rest of the memory is page cache, and as much on virtual machines whose host has yet to give
//! it. In the path of a read a viewer would wait for that, and all threads of the processor wait in any case: the kernel is not
//! interrupted while it empties a page, not even for a thread of real-time priority. So 64 MiB are made ready before anybody is
//! served (`reelway_pool::Ahead`), and then a thread of low priority makes all of the pool ready, before there are many viewers.
//! Only where the thread was too slow does a read wait for its memory.
//!
//! Low priority is not enough: the kernel lets a thread that runs finish its slice, some milliseconds, before one of higher
//! priority that wakes up. So the thread rests after each large page.

use std::sync::Arc;
use std::time::Duration;

use reelway_supervise as supervise;
use reelway_sys::limits;

use crate::inner::Inner;

/// The thread's nice value: a tenth of what others have where all want the processor.
const NICE: i32 = 10;
/// Rest after a large page, about as long as it took: 2 GB/s are left, more than disks give.
const REST: Duration = Duration::from_micros(500);

/// Makes some more ready; whether enough is ready for viewers to be served. `None`: all is.
fn more(store: &Arc<Inner>) -> Option<bool> {
    let mut blocks = store.take_unready();
    if blocks.is_empty() {
        return None;
    }
    // Whatever happens, the pages go back to the pool: one that has no memory yet gets it when it is used.
    let _ = supervise::guard("pool-ahead", || {
        supervise::inject("pool-ahead.touch");
        for (_, page) in &mut blocks {
            page.touch();
        }
    });
    Some(store.are_ready(blocks))
}

/// Makes the first of it ready, and starts the thread. It ends with the store, or when all of the pool is ready.
pub(crate) fn start(store: &Arc<Inner>) {
    while let Some(is_enough) = more(store) {
        if is_enough {
            break;
        }
    }
    let store = Arc::downgrade(store);
    let run = move || {
        // Where it may not be lowered it helps all the same.
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
