//! A network path with too little capacity. Needs root to create a network namespace.

mod common;

use std::process::Command;
use std::time::Duration;

use common::*;
use nix::sched::{CloneFlags, unshare};

#[track_caller]
fn run(command: &str) {
    let mut words = command.split(' ');
    let output = Command::new(words.next().expect("a command"))
        .args(words)
        .output()
        .expect("iproute2");
    assert!(
        output.status.success(),
        "{command}: {} (this test needs root and iproute2)",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs `what` in a network namespace that only has a loopback of this many Mbit/s; threads it
/// starts are in it, too.
fn on_a_narrow_way(rate: u32, what: impl FnOnce() + Send) {
    let inside = || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network of its own: this test needs root");
        run("ip link set lo up");
        run("tc qdisc add dev lo root handle 1: htb default 1");
        run(&format!(
            "tc class add dev lo parent 1: classid 1:1 htb rate {rate}mbit burst 15k"
        ));
        what();
    };
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(inside).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn what_finds_the_send_buffer_full_waits_in_its_order_and_nothing_is_lost_by_any_backend() {
    let film = TestFilm::make(2, 3000);
    let store = store();
    // Slightly more than all streams need together, so that buffers fill even if turns are late and
    // few.
    on_a_narrow_way(14, || {
        let mut plays = Vec::new();
        for backend in BACKENDS {
            let sender = sender_by(backend, &store, |config| {
                // Room for a few packets, including the kernel's overhead.
                config.send_buffer = 8 << 10;
                config.catch_up = Duration::from_secs(30);
            });
            let viewer = Viewer::default();
            let handle = viewer.plays(&sender, &film, &store);
            plays.push((sender, viewer, handle));
        }
        for (sender, viewer, handle) in &plays {
            viewer.gets_everything(handle);
            let (video, audio) = (viewer.video.packets(), viewer.audio.packets());
            assert_whole(&video, VIDEO_SEQ);
            assert_whole(&audio, 7);
            assert_whole_film(&film, &video, &audio);
            let stats = sender.stats();
            assert!(
                stats.retried > 20 && stats.refused == 0,
                "the buffer was full at times: {stats:?}"
            );
        }
    });
}

#[test]
fn what_the_ways_queue_throws_away_is_missing_to_that_viewer_alone_and_ends_nothing() {
    let film = TestFilm::make(2, 3000);
    let store = store();
    on_a_narrow_way(1000, || {
        // Packets to one viewer wait in a queue of 2 packets at 2 Mbit/s. The kernel reports
        // dropped packets as ENOBUFS to sockets that ask for it (IP_RECVERR). The sender's do not,
        // and the packets count as sent.
        run("tc class add dev lo parent 1: classid 1:2 htb rate 2mbit burst 3k");
        run("tc qdisc add dev lo parent 1:2 handle 2: pfifo limit 2");
        run("tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.2/32 flowid 1:2");
        let mut plays = Vec::new();
        for backend in BACKENDS {
            let sender = sender_by(backend, &store, |_| {});
            let narrow = Viewer {
                video: Receiver::at("127.0.0.2:0"),
                ..Viewer::default()
            };
            let wide = Viewer::default();
            let handles = [&narrow, &wide].map(|viewer| viewer.plays(&sender, &film, &store));
            plays.push((backend, sender, narrow, wide, handles));
        }
        for (backend, sender, narrow, wide, handles) in &plays {
            narrow.wait_for_the_end();
            wide.gets_everything(&handles[1]);
            let sent = handles[1].progress().packets as usize;
            // On a loopback, a queue that several processors drain does not keep the order.
            let (mut video, mut audio) = (wide.video.packets(), wide.audio.packets());
            video.sort_by_key(|packet| packet.seq.wrapping_sub(VIDEO_SEQ));
            audio.sort_by_key(|packet| packet.seq.wrapping_sub(7));
            assert_whole(&video, VIDEO_SEQ);
            assert_whole(&audio, 7);
            assert_whole_film(&film, &video, &audio);
            let got = narrow.video.packets();
            assert!(
                !got.is_empty() && got.len() + 50 < video.len(),
                "{backend}: {} of {} packets came",
                got.len(),
                video.len()
            );
            let (stats, progress) = (sender.stats(), handles[0].progress());
            assert_eq!(progress.packets as usize, sent, "nobody is told");
            assert_eq!((stats.refused, stats.retried, stats.shifts), (0, 0, 0));
        }
    });
}
