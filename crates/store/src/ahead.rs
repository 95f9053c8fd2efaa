//! Memory made ready ahead of its use.
//!
//! The kernel gives a region its memory when it is first written to: a third of a millisecond for each
//! large page, and seven where it must free one first, since the rest of the memory is page cache. In the
//! path of a read a viewer would wait for that. So a thread of low priority keeps as much of the pool ready
//! as is used already, and 64 MiB at least (`reelway_pool::Ahead`). Only where the thread was too slow does
//! a read wait for its memory.
//!
//! Low priority is not enough: the kernel lets a thread that runs finish its slice, some milliseconds, before one of higher
//! priority that wakes up. So the thread rests after each large page.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use reelway_supervise as supervise;
use reelway_sys::limits;

use crate::inner::Inner;

/// The thread's nice value: a tenth of what others have where all want the processor.
const NICE: i32 = 10;
/// Rest after a large page, about as long as it took: 2 GB/s are left, more than disks give.
const REST: Duration = Duration::from_micros(500);

/// Makes some more ready, if that is wanted; whether all is now.
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

/// Makes the first of it ready before anybody is served (the kernel is not interrupted while it empties a page, not even for
/// who has real-time priority), and starts the thread. It ends with the store, or when all of the pool is ready.
pub(crate) fn start(store: &Arc<Inner>, woken: Receiver<()>) {
    while let Some(all) = more(store) {
        if all {
            return;
        }
    }
    let store = Arc::downgrade(store);
    let run = move || {
        // Where it may not be lowered it helps all the same.
        let _ = limits::set_thread_nice(NICE);
        while woken.recv().is_ok() {
            supervise::inject("pool-ahead");
            while let Some(all) = store.upgrade().and_then(|store| more(&store)) {
                if all {
                    return;
                }
                // Whoever wakes it wants what it does anyway.
                if woken.recv_timeout(REST) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        }
    };
    if let Err(error) = supervise::thread("pool-ahead", run) {
        tracing::warn!(
            "the pool's memory is prepared at first use, which may delay viewers, as no thread can be started: {error}"
        );
    }
}
