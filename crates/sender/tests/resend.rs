//! Lost packets are retransmitted from the timetable, within limits whatever is requested.

mod common;

use common::*;
use reelway_sender::{Again, Sender, State, Stream, StreamEvent, StreamHandle, StreamKind};
use reelway_sys::udp::Destination;

const SECOND: i64 = 1_000_000_000;
const AGAIN: u32 = 0x3333_3333;

fn with_again(mut stream: Stream) -> Stream {
    if let StreamKind::Film(film) = &mut stream.what {
        film.tracks[0].again = Some(Again {
            payload_type: 112,
            ssrc: AGAIN,
            seq: 65_534,
        });
    }
    stream
}

/// Reports packets of the viewer's video track as missing.
fn miss(viewer: &Viewer, sender: &Sender, lost: &[u16]) {
    for lost in lost.chunks(100) {
        let to = ([127, 0, 0, 1], sender.ports().1).into();
        let socket = &viewer.video.rtcp_socket;
        socket
            .send(&nack(VIDEO_SSRC, lost), &Destination::new(to, None, false))
            .unwrap();
    }
}

/// Returns the packets of the track itself, and the retransmissions.
fn sorted(viewer: &Viewer) -> (Vec<Got>, Vec<Got>) {
    viewer
        .video
        .packets()
        .into_iter()
        .partition(|packet| packet.ssrc == VIDEO_SSRC)
}

fn plays(film: &TestFilm, viewer: &Viewer) -> (Sender, StreamHandle) {
    let store = store();
    let sender = sender(&store, |_| ());
    let handle = sender.play(with_again(viewer.stream(film, &store, 0, None)));
    block(handle.ready()).unwrap();
    handle.go();
    (sender, handle)
}

/// Waits until both sources of video have sent BYE.
fn said_bye(viewer: &Viewer) {
    wait_until("BYE of both", || {
        let reports = viewer.video.reports();
        reports.iter().filter(|report| report.bye).count() == 2
    });
}

/// Checks that every retransmitted packet equals the original, with the original number ahead of
/// it.
fn assert_same(first: &[Got], again: &[Got]) {
    for (nth, packet) in again.iter().enumerate() {
        assert_eq!((packet.payload_type, packet.ssrc), (112, AGAIN));
        assert_eq!(
            packet.seq,
            65_534u16.wrapping_add(nth as u16),
            "numbers of its own"
        );
        let lost = u16::from_be_bytes([packet.payload[0], packet.payload[1]]);
        let of = first
            .iter()
            .find(|first| first.seq == lost)
            .expect("it was sent before");
        assert!(
            packet.payload[2..] == of.payload
                && packet.timestamp == of.timestamp
                && packet.marker == of.marker
        );
    }
}

#[test]
fn what_is_missed_is_sent_again_wherever_it_lies() {
    let film = TestFilm::make(5, 4000);
    let viewer = Viewer::default();
    let (sender, handle) = plays(&film, &viewer);
    let mut missed = Vec::new();
    // From the parameter sets on, over four groups, each requested as late as possible.
    for part in 0..6 {
        let from = VIDEO_SEQ.wrapping_add(part * 150);
        wait_until("more packets", || {
            viewer.video.count() > usize::from(part + 1) * 150 + missed.len()
        });
        let lost: Vec<u16> = (0..10).map(|nth| from.wrapping_add(nth * 3)).collect();
        miss(&viewer, &sender, &lost);
        missed.extend(lost);
        wait_until("what is missed", || sorted(&viewer).1.len() == missed.len());
    }
    wait_until("the end", || {
        viewer.has(|event| *event == StreamEvent::Ended)
    });
    let (first, again) = sorted(&viewer);
    assert_whole(&first, VIDEO_SEQ);
    assert_same(&first, &again);
    let numbers: Vec<u16> = again
        .iter()
        .map(|packet| u16::from_be_bytes([packet.payload[0], packet.payload[1]]))
        .collect();
    assert_eq!(numbers, missed);
    let times: Vec<u64> = viewer
        .video
        .packets()
        .iter()
        .chain(&viewer.audio.packets())
        .map(|packet| packet.at)
        .collect();
    assert_bursts(&times, 8);
    assert_eq!(
        handle.progress().packets as usize,
        first.len() + viewer.audio.count(),
        "counted apart"
    );
    let stats = sender.stats();
    assert_eq!((stats.missed, stats.resent), (60, 60));
    // The retransmission source has reports of its own, on the clock of its track.
    said_bye(&viewer);
    let (own, beside): (Vec<Report>, Vec<Report>) = viewer
        .video
        .reports()
        .into_iter()
        .partition(|report| report.ssrc == VIDEO_SSRC);
    assert!(
        beside
            .iter()
            .all(|report| report.ssrc == AGAIN && report.cname)
    );
    let clock = |report: &Report| (report.ntp, report.rtp_time, report.bye);
    let same = |report: &Report| own.iter().any(|of| clock(of) == clock(report));
    assert!(beside.iter().all(same), "{beside:?} {own:?}");
    let last = beside.last().expect("a report of what was sent again");
    let octets: usize = again.iter().map(|packet| packet.payload.len()).sum();
    assert_eq!(
        (last.packets as usize, last.octets as usize, last.bye),
        (again.len(), octets, true)
    );
}

#[test]
fn after_a_seek_nothing_of_the_old_place_is_sent_again() {
    let film = TestFilm::make(6, 2000);
    let viewer = Viewer::default();
    let (sender, handle) = plays(&film, &viewer);
    wait_until("packets", || viewer.video.count() > 50);
    block(handle.seek(3 * SECOND, None)).unwrap();
    viewer.wait_for_what_is_on_its_way(&handle);
    let before = viewer.video.count() as u16;
    handle.go();
    wait_until("more packets", || {
        viewer.video.count() > usize::from(before) + 20
    });
    let old: Vec<u16> = (0..before).map(|nth| VIDEO_SEQ.wrapping_add(nth)).collect();
    miss(&viewer, &sender, &old);
    miss(&viewer, &sender, &[VIDEO_SEQ.wrapping_add(before + 3)]);
    // Lost packets are retransmitted in the order of the requests.
    wait_until("what is missed", || !sorted(&viewer).1.is_empty());
    let (first, again) = sorted(&viewer);
    assert_same(&first, &again);
    assert_eq!(again.len(), 1, "only what was sent from the new place");
}

#[test]
fn packets_that_are_too_old_to_be_sent_again_are_not_read_again() {
    let film = TestFilm::make(8, 2000);
    let viewer = Viewer::default();
    let store = store();
    let sender = sender(&store, |_| ());
    let handle = sender.play(with_again(viewer.stream(&film, &store, 0, None)));
    block(handle.ready()).unwrap();
    handle.go();
    // Everything that the rest of the film needs has been requested.
    wait_until("the last second", || {
        handle.progress().position > 7 * SECOND + SECOND / 4
    });
    let asked = || store.stats().hits + store.stats().misses;
    let before = asked();
    let old: Vec<u16> = (0..100).map(|nth| VIDEO_SEQ.wrapping_add(nth)).collect();
    miss(&viewer, &sender, &old);
    wait_until("the request", || sender.stats().missed >= 100);
    viewer.wait_for_the_end();
    assert_eq!((sender.stats().resent, asked()), (0, before));
}

#[test]
fn junk_old_future_and_repeated_numbers_get_no_more_than_a_share() {
    let film = TestFilm::make(4, 4000);
    let viewer = Viewer::default();
    let (sender, handle) = plays(&film, &viewer);
    let every: Vec<u16> = (0..=u16::MAX).step_by(3).collect();
    let began = reelway_clock::now();
    while handle.progress().state != State::Ended {
        // All possible numbers, and repeatedly those just sent.
        miss(&viewer, &sender, &every);
        let last = viewer.video.packets().last().map_or(0, |packet| packet.seq);
        for _ in 0..20 {
            miss(&viewer, &sender, &[last; 100]);
        }
        let before = viewer.video.count();
        wait_until("more packets", || {
            viewer.video.count() > before + 10 || handle.progress().state == State::Ended
        });
    }
    said_bye(&viewer);
    let asked = reelway_clock::now().since(began);
    let (first, again) = sorted(&viewer);
    assert_whole(&first, VIDEO_SEQ);
    assert_same(&first, &again);
    let bytes = |packets: &[Got]| {
        packets
            .iter()
            .map(|packet| packet.payload.len())
            .sum::<usize>()
    };
    assert!(!again.is_empty() && bytes(&again) <= bytes(&first) / 4 + (64 << 10));
    let times: Vec<u64> = viewer
        .video
        .packets()
        .iter()
        .chain(&viewer.audio.packets())
        .map(|packet| packet.at)
        .collect();
    assert_bursts(&times, 8);
    // At most 256 are looked up per tenth of a second; the first and last tenth are incomplete, and
    // the end is reported later than the last packet.
    let missed = sender.stats().missed;
    assert!(
        missed <= (asked.as_millis() as u64 / 100 + 2) * 256,
        "{missed} in {asked:?}"
    );
}
