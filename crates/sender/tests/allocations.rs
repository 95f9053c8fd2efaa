//! Sender threads allocate nothing while streams play: not for packets, not for groups, not for reports.

mod common;

use std::time::Duration;

use common::*;
use reelway_sender::BackendChoice;
use reelway_sys::alloc::Counting;

/// Sender threads are called `send-0`, `send-1`, ...
#[global_allocator]
static ALLOCATOR: Counting = Counting::new("send-");

#[test]
fn a_stream_that_plays_allocates_nothing_on_its_sender_thread() {
    // All ways to send at once: most of the time is waiting.
    let backends = [
        BackendChoice::IoUring,
        BackendChoice::Gso,
        BackendChoice::Sendmmsg,
    ];
    let film = TestFilm::make(9, 4000);
    let store = store();
    let viewers: Vec<Viewer> = (0..4 * backends.len()).map(|_| Viewer::default()).collect();
    let (senders, handles): (Vec<_>, Vec<_>) = backends
        .into_iter()
        .zip(viewers.chunks(4))
        .map(|(backend, viewers)| {
            let sender = sender(&store, |config| {
                config.backend = backend;
                config.report_interval = Duration::from_millis(200);
            });
            let handles: Vec<_> = viewers
                .iter()
                .map(|viewer| sender.play(viewer.stream(&film, &store, 0, None)))
                .collect();
            (sender, handles)
        })
        .unzip();
    for handle in handles.iter().flatten() {
        block(handle.ready()).unwrap();
        handle.go();
    }
    assert!(
        ALLOCATOR.count() > 0,
        "streams begin by allocating: it counts"
    );
    let packets = || -> Vec<u64> {
        senders
            .iter()
            .map(|sender| sender.stats().packets)
            .collect()
    };
    // Lists grow to what these streams need.
    std::thread::sleep(Duration::from_secs(4));
    let (before, first) = (ALLOCATOR.count(), packets());
    std::thread::sleep(Duration::from_secs(4));
    let (after, then) = (ALLOCATOR.count(), packets());
    for (sender, (first, then)) in senders.iter().zip(first.into_iter().zip(then)) {
        let (sent, backend) = (then - first, sender.stats().backend);
        assert!(sent > 4000, "{sent} packets by {backend}");
    }
    assert_eq!(after - before, 0, "allocations on sender threads");
}
