//! Many viewers who come and go: threads are balanced and nobody is disturbed; also faults.

mod common;

use std::time::Duration;

use common::*;
use reelway_sender::{
    FileStream, LinkConfig, SenderConfig, State, Stream, StreamEvent, StreamKind, TrackOut,
};
use reelway_sys::udp::UdpSocket;

/// A stream that sends a packet of a file every half second.
fn trickle(film: &TestFilm, store: &reelway_store::Store, sink: &UdpSocket, number: u32) -> Stream {
    let source = store.open(&film.film.path).unwrap();
    Stream {
        what: StreamKind::File(FileStream {
            source,
            position: 0,
            packet_bytes: 32,
            interval: Duration::from_millis(500),
            packets: None,
            timestamp_step: 1,
            out: TrackOut {
                track: 0,
                payload_type: 96,
                ssrc: number,
                seq: 0,
                rtp_base: 0,
                again: None,
                out: reelway_sender::Out::Udp {
                    from: None,
                    rtp: sink.local_addr(),
                    rtcp: sink.local_addr(),
                },
            },
        }),
        events: Box::new(|_| {}),
    }
}

#[test]
fn threads_are_evened_out_when_viewers_of_one_leave_and_nobody_misses_a_packet() {
    let film = TestFilm::make(8, 300);
    let store = store();
    let sender = sender(&store, |config| config.threads = 2);
    let viewers: Vec<Viewer> = (0..6).map(|_| Viewer::default()).collect();
    let sink = sink();
    // Streams are distributed in turn: the even ones of each kind are on the first thread.
    let mut trickles: Vec<_> = (0..80)
        .map(|number| sender.play(trickle(&film, &store, &sink, number)))
        .collect();
    let handles: Vec<_> = viewers
        .iter()
        .map(|viewer| sender.play(viewer.stream(&film, &store, 0, None)))
        .collect();
    for handle in trickles.iter().chain(&handles) {
        block(handle.ready()).unwrap();
        handle.go();
    }
    assert_eq!(sender.stats().streams_of_threads, [43, 43]);
    let mut even = true;
    trickles.retain(|_| {
        std::mem::replace(&mut even, false) || {
            even = true;
            false
        }
    });
    wait_until("even threads", || {
        let loads = sender.stats().streams_of_threads;
        loads.iter().sum::<usize>() == 46 && loads[0].abs_diff(loads[1]) <= 17
    });
    // Streams that moved still obey their handles.
    for handle in &trickles {
        block(handle.pause());
        assert_eq!(handle.progress().state, State::Paused);
    }
    for (viewer, handle) in viewers.iter().zip(&handles) {
        viewer.gets_everything(handle);
        let video = viewer.video.packets();
        assert_whole(&video, VIDEO_SEQ);
        assert_whole(&viewer.audio.packets(), 7);
        assert_eq!(nals(&video).len() - 2, film.pictures.len());
    }
    drop((trickles, handles));
    assert_eq!(sender.stats().streams, 0);
}

#[test]
fn five_thousand_who_leave_within_a_second_do_not_disturb_one_who_stays() {
    let film = TestFilm::make(6, 1000);
    let store = store();
    let sender = sender(&store, |_| {});
    let sink = sink();
    let crowd: Vec<_> = (0..5000)
        .map(|number| sender.play(trickle(&film, &store, &sink, number)))
        .collect();
    for handle in &crowd {
        block(handle.ready()).unwrap();
        handle.go();
    }
    let viewer = Viewer::default();
    let handle = viewer.plays(&sender, &film, &store);
    wait_until("all to play", || sender.stats().playing == 5001);
    let began = reelway_clock::now();
    drop(crowd);
    wait_until("all to be gone", || sender.stats().playing == 1);
    let took = reelway_clock::now().since(began);
    assert!(took < Duration::from_secs(1), "{took:?}");
    viewer.gets_everything(&handle);
    assert_whole(&viewer.video.packets(), VIDEO_SEQ);
    let progress = handle.progress();
    assert_eq!((progress.refused, progress.shifts), (0, 0));
    println!(
        "5000 left in {took:?}, the one who stayed: {:?}",
        progress.late
    );
}

#[test]
fn a_fault_ends_the_streams_of_its_thread_with_a_word_and_new_ones_play() {
    let film = TestFilm::make(1, 500);
    let store = store();
    let sender = sender(&store, |_| {});
    let (viewer, other) = (Viewer::default(), Viewer::default());
    let mut faulty = viewer.stream(&film, &store, 0, None);
    faulty.events = Box::new(|event| {
        if event == StreamEvent::Ended {
            panic!("a fault on purpose");
        }
    });
    let first = sender.play(faulty);
    let second = sender.play(other.stream(&film, &store, 0, None));
    block(first.ready()).unwrap();
    block(second.ready()).unwrap();
    first.go();
    wait_until("half of the film", || {
        first.progress().position > 500_000_000
    });
    second.go();
    wait_until("the other to be told", || {
        other.has(|event| matches!(event, StreamEvent::Failed(why) if why.contains("fault")))
    });
    assert_eq!(second.progress().state, State::Failed);
    let third = Viewer::default();
    let _handle = third.plays(&sender, &film, &store);
    third.wait_for_the_end();
    assert_eq!(sender.stats().playing, 0);
}

/// Waits for a whole film, checks it, and returns its pictures' NAL units with their timestamps.
fn received(
    viewer: &Viewer,
    handle: &reelway_sender::StreamHandle,
    film: &TestFilm,
) -> Vec<(u32, Vec<u8>)> {
    viewer.gets_everything(handle);
    let (video, audio) = (viewer.video.packets(), viewer.audio.packets());
    assert_whole(&video, VIDEO_SEQ);
    assert_whole(&audio, 7);
    let sounds = units(&audio).len();
    assert_eq!(sounds, film.sounds.len(), "sound is never left out");
    nals(&video)
}

#[test]
fn a_thread_that_is_held_up_while_it_works_leaves_nothing_out() {
    let film = TestFilm::make_with(3, 2000, |picture| picture % 2 == 1);
    let store = store();
    let sender = sender(&store, |_| {});
    let short = TestFilm::make(1, 100);
    let (viewer, other) = (Viewer::default(), Viewer::default());
    let mut slow = other.stream(&short, &store, 0, None);
    // Owners should not do that. The delay is too short to shift the timetable.
    slow.events = Box::new(|_| std::thread::sleep(Duration::from_millis(600)));
    let slow = sender.play(slow);
    let handle = sender.play(viewer.stream(&film, &store, 0, None));
    block(handle.ready()).unwrap();
    block(slow.ready()).unwrap();
    handle.go();
    slow.go();
    let nals = received(&viewer, &handle, &film);
    assert_eq!(nals.len() - 2, film.pictures.len());
    let progress = handle.progress();
    assert!(
        progress.late.max > Duration::from_millis(300),
        "{progress:?}"
    );
    assert_eq!((progress.dropped, progress.shifts), (0, 0));
}

/// Plays a film over a link with this percentage of its rate. Returns the stream, and the received
/// NAL units with their timestamps.
fn over_a_narrow_link(
    film: &TestFilm,
    percent: u64,
    change: impl FnOnce(&mut SenderConfig),
) -> (
    reelway_sender::Sender,
    reelway_sender::StreamHandle,
    Vec<(u32, Vec<u8>)>,
) {
    let store = store();
    let units = film.pictures.iter().chain(&film.sounds);
    let bytes: usize = units.map(Vec::len).sum();
    let seconds = film.pictures.len() as u64 / u64::from(PICTURES_A_SECOND);
    let sender = sender(&store, |config| {
        config.links = vec![LinkConfig {
            number: 3,
            rate: bytes as u64 * percent / 100 / seconds,
            queue: Duration::from_millis(20),
        }];
        change(config);
    });
    let viewer = Viewer::default();
    let mut stream = viewer.stream(film, &store, 0, None);
    if let StreamKind::Film(film) = &mut stream.what {
        film.links = vec![3];
    }
    let handle = sender.play(stream);
    block(handle.ready()).unwrap();
    handle.go();
    let nals = received(&viewer, &handle, film);
    (sender, handle, nals)
}

#[test]
fn a_stream_that_is_far_behind_goes_on_with_a_picture_that_can_be_decoded_alone() {
    let film = TestFilm::make(4, 2000);
    // Every picture refers to the one before, except for one per second.
    let (_sender, handle, nals) = over_a_narrow_link(&film, 60, |config| {
        config.drop_after = Duration::from_millis(50);
        config.catch_up = Duration::from_secs(5);
    });
    let mut before = None;
    for (timestamp, nal) in &nals[2..] {
        let number = timestamp.wrapping_sub(VIDEO_BASE) / 3600;
        assert!(*nal == film.pictures[number as usize], "picture {number}");
        let follows = before.is_none_or(|before: u32| before + 1 == number);
        assert!(
            follows || number.is_multiple_of(PICTURES_A_SECOND),
            "picture {number} after {before:?}: what it is decoded from was left out"
        );
        before = Some(number);
    }
    let missing = film.pictures.len() - (nals.len() - 2);
    assert!(missing > 0, "{:?}", handle.progress());
    assert_eq!(handle.progress().dropped, missing as u64);
    assert_eq!(handle.progress().shifts, 0);
}

#[test]
fn a_stream_that_falls_behind_leaves_out_whole_pictures_that_no_other_needs() {
    let droppable = |picture: u32| !picture.is_multiple_of(25) && picture % 2 == 1;
    let film = TestFilm::make_with(3, 2000, droppable);
    let (sender, handle, nals) = over_a_narrow_link(&film, 85, |_| {});
    let mut got = nals[2..]
        .iter()
        .map(|(timestamp, nal)| (timestamp.wrapping_sub(VIDEO_BASE) / 3600, nal));
    let mut missing = Vec::new();
    let mut next = got.next();
    for (number, picture) in (0u32..).zip(&film.pictures) {
        match next {
            Some((at, nal)) if at == number => {
                assert!(nal == picture, "picture {number}");
                next = got.next();
            }
            _ => missing.push(number),
        }
    }
    assert!(
        missing.iter().all(|number| droppable(*number)),
        "{missing:?}"
    );
    assert!(missing.len() >= 2, "{missing:?} {:?}", handle.progress());
    let (progress, stats) = (handle.progress(), sender.stats());
    assert_eq!(
        (progress.dropped, stats.dropped),
        (missing.len() as u64, missing.len() as u64)
    );
    assert_eq!(progress.shifts, 0);
}
