//! Resources of a process before and after many sessions. A separate program, as other tests would
//! allocate memory meanwhile.

mod common;

use std::sync::{Arc, Mutex};

use common::*;

/// Resident memory of this process in bytes, and the number of its open descriptors.
fn held() -> (usize, usize) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    (
        resident * 4096,
        std::fs::read_dir("/proc/self/fd").unwrap().count(),
    )
}

#[test]
fn a_thousand_sessions_a_second_leave_nothing_behind() {
    let film = TestFilm::make(2, 500);
    let store = store();
    let sender = sender(&store, |config| config.threads = 2);
    let sink = sink();
    let out = || reelway_sender::Out::Udp {
        from: None,
        rtp: sink.local_addr(),
        rtcp: sink.local_addr(),
    };
    let round = |sessions: u32| {
        for _ in 0..sessions {
            let events = Arc::new(Mutex::new(Vec::new()));
            let handle = sender.play(stream(&film, &store, 0, None, out(), out(), &events));
            block(handle.ready()).unwrap();
            handle.go();
        }
    };
    round(500);
    let before = held();
    let began = reelway_clock::now();
    round(3000);
    let took = reelway_clock::now().since(began);
    wait_until("all to be gone", || sender.stats().playing == 0);
    wait_until("all plans to be gone", || sender.stats().plans == 0);
    let after = held();
    assert_eq!(sender.stats().streams, 0);
    assert_eq!(store.stats().in_use, 0, "no film bytes are held");
    assert!(after.1 <= before.1, "descriptors: {before:?} {after:?}");
    assert!(
        after.0 <= before.0 + (24 << 20),
        "memory: {before:?} {after:?}"
    );
    println!("3000 sessions in {took:?}: {before:?} {after:?}");
}
