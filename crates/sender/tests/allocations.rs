//! Sender threads do not allocate while streams play: not for packets, groups or reports.

mod common;

use std::time::Duration;

use common::*;
use reelway_sys::alloc::Counting;

/// Sender threads are named `send-0`, `send-1`, ...
#[global_allocator]
static ALLOCATOR: Counting = Counting::new("send-");

#[test]
fn a_stream_that_plays_allocates_nothing_on_its_sender_thread() {
    for backend in BACKENDS {
        let film = TestFilm::make(9, 4000);
        let store = store();
        let reports = Duration::from_millis(200);
        let sender = sender_by(backend, &store, |config| config.report_interval = reports);
        let viewers: Vec<Viewer> = (0..4).map(|_| Viewer::default()).collect();
        let handles: Vec<_> = viewers
            .iter()
            .map(|viewer| sender.play(viewer.stream(&film, &store, 0, None)))
            .collect();
        for handle in &handles {
            block(handle.ready()).unwrap();
            handle.go();
        }
        assert!(
            ALLOCATOR.count() > 0,
            "streams begin by allocating: it counts"
        );
        let play_until = |second: i64| {
            wait_until("more of the film", || {
                handles[0].progress().position > second * 1_000_000_000
            });
        };
        // Lists grow to the size that these streams need.
        play_until(4);
        let (before, packets) = (ALLOCATOR.count(), sender.stats().packets);
        play_until(8);
        let (after, sent) = (ALLOCATOR.count(), sender.stats().packets - packets);
        assert!(sent > 4000, "{sent} packets");
        assert_eq!(
            after - before,
            0,
            "allocations for {sent} packets by {}",
            sender.stats().backend
        );
    }
}
