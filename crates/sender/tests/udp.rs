//! Films over UDP on loopback: every byte, in order, on time, never in bursts.

mod common;

use std::time::Duration;

use common::*;
use reelway_sender::{State, StreamEvent};

const SECOND: i64 = 1_000_000_000;

#[test]
fn a_film_arrives_whole_in_time_and_without_bursts_by_every_backend() {
    for backend in BACKENDS {
        let film = TestFilm::make(3, 4000);
        let store = store();
        let sender = sender_by(backend, &store, |_| {});
        let viewer = Viewer::default();
        let handle = sender.play(viewer.stream(&film, &store, 0, None));
        let info = block(handle.ready()).unwrap();
        assert_eq!((info.start, info.end), (0, 3 * SECOND));
        assert_eq!(
            (info.tracks[0].seq, info.tracks[0].rtp_time),
            (VIDEO_SEQ, VIDEO_BASE)
        );
        assert_eq!(
            (info.tracks[1].seq, info.tracks[1].rtp_time),
            (7, AUDIO_BASE)
        );
        handle.go();
        viewer.gets_everything(&handle);

        let (video, audio) = (viewer.video.packets(), viewer.audio.packets());
        assert_whole(&video, VIDEO_SEQ);
        assert_whole(&audio, 7);
        assert!(
            video
                .iter()
                .all(|packet| packet.ssrc == VIDEO_SSRC && packet.payload_type == 96)
        );
        assert_whole_film(&film, &video, &audio);
        let times: Vec<u64> = video.iter().chain(&audio).map(|packet| packet.at).collect();
        assert_bursts(&times, 8);
        let took = times.iter().max().unwrap() - times.iter().min().unwrap();
        assert!(
            (2_900_000_000..3_300_000_000).contains(&took),
            "three seconds, not {took} ns"
        );

        let progress = handle.progress();
        assert_eq!(progress.state, State::Ended);
        assert_eq!(progress.position, 3 * SECOND);
        assert_eq!(progress.packets as usize, video.len() + audio.len());
        assert_eq!(progress.refused, 0);
        let stats = sender.stats();
        assert_eq!(stats.packets, progress.packets);
        assert!(
            stats.backend == "sendmmsg" || stats.runs * 3 < stats.packets,
            "{stats:?}"
        );
    }
}

#[test]
fn reports_come_at_once_and_put_all_tracks_on_one_clock_and_bye_comes_last() {
    let film = TestFilm::make(2, 1000);
    let store = store();
    let sender = sender(&store, |config| {
        config.report_interval = Duration::from_millis(400)
    });
    let viewer = Viewer::default();
    let handle = viewer.plays(&sender, &film, &store);
    viewer.gets_everything(&handle);
    let first = viewer.video.packets()[0].at;
    let (video, audio) = (viewer.video.reports(), viewer.audio.reports());
    for (reports, ssrc) in [(&video, VIDEO_SSRC), (&audio, AUDIO_SSRC)] {
        assert!(
            reports[0].at.abs_diff(first) < 50_000_000,
            "the first report comes at once"
        );
        assert!(
            reports
                .iter()
                .all(|report| report.ssrc == ssrc && report.cname)
        );
        // At 0, 0.1, 0.5, 0.9, 1.3, 1.7, 2.1, 2.5 and 2.9 s, one more if the end is later than 3.3 s, and BYE.
        assert!((10..=11).contains(&reports.len()), "{reports:?}");
        let soon = reports[1].rtp_time.wrapping_sub(reports[0].rtp_time);
        let then = reports[3].rtp_time.wrapping_sub(reports[2].rtp_time);
        assert!(soon < then, "{reports:?}");
        assert!(
            reports.last().unwrap().bye && reports.iter().filter(|report| report.bye).count() == 1
        );
    }
    for (video, audio) in video.iter().zip(&audio) {
        assert_eq!(video.ntp, audio.ntp);
        let seen = |rtp_time: u32, base: u32, rate: f64| {
            f64::from(rtp_time.wrapping_sub(base) as i32) / rate
        };
        let apart =
            seen(video.rtp_time, VIDEO_BASE, 90_000.0) - seen(audio.rtp_time, AUDIO_BASE, 48_000.0);
        assert!(apart.abs() < 0.000_1, "{apart} s apart");
        // 2208988800: from 1900 to 1970.
        let wall = (video.ntp >> 32) as f64 - 2_208_988_800.0
            + (video.ntp & 0xffff_ffff) as f64 / 4_294_967_296.0;
        assert!(
            (wall - video.at as f64 / 1e9).abs() < 0.05,
            "the report tells the time"
        );
    }
    let last = video.last().unwrap();
    let packets = viewer.video.packets();
    assert_eq!(last.packets as usize, packets.len());
    assert_eq!(
        last.octets as usize,
        packets
            .iter()
            .map(|packet| packet.payload.len())
            .sum::<usize>()
    );
    assert!(
        last.at > packets.last().unwrap().at + 400_000_000,
        "players may read BYE before the last packets"
    );
}

#[test]
fn a_start_within_the_film_begins_with_the_sync_sample_before_and_ends_where_it_should() {
    let film = TestFilm::make(4, 2000);
    let (store, sender, viewer) = one_viewer();
    let handle =
        sender.play(viewer.stream(&film, &store, 2 * SECOND + 400_000_000, Some(3 * SECOND)));
    let info = block(handle.ready()).unwrap();
    assert_eq!((info.start, info.end), (2 * SECOND, 3 * SECOND));
    assert_eq!(info.tracks[0].rtp_time, VIDEO_BASE.wrapping_add(180_000));
    assert_eq!(info.tracks[1].rtp_time, AUDIO_BASE + 96_000);
    handle.go();
    viewer.gets_everything(&handle);
    let sounds = viewer.audio.packets();
    // Audio packets hold up to four units: the one that contains the start may begin with earlier
    // units.
    let first = (units(&sounds)[0].0 - AUDIO_BASE) as usize / 1024;
    assert!((90..=94).contains(&first), "{first}");
    let count = units(&sounds).len();
    assert_film(
        &film,
        &viewer.video.packets(),
        &sounds,
        50..75,
        first..first + count,
    );
    assert!((140..=145).contains(&(first + count)), "{}", first + count);
}

#[test]
fn a_pause_goes_on_with_exactly_the_next_packet() {
    let film = TestFilm::make(3, 3000);
    let (store, sender, viewer) = one_viewer();
    let handle = viewer.plays(&sender, &film, &store);
    wait_until("some packets", || viewer.count() > 100);
    let at = block(handle.pause());
    assert_eq!(handle.progress().state, State::Paused);
    viewer.wait_for_what_is_on_its_way(&handle);
    assert_eq!(store.stats().in_use, 0, "a paused viewer holds no memory");

    let info = block(handle.resume()).unwrap();
    assert_eq!(info.start, at);
    assert_eq!(
        info.tracks[0].seq,
        VIDEO_SEQ.wrapping_add(viewer.video.count() as u16)
    );
    assert_eq!(
        info.tracks[0].rtp_time,
        VIDEO_BASE.wrapping_add(reelway_media::nanos_to_ticks(at, 90_000) as u32)
    );
    handle.go();
    viewer.gets_everything(&handle);
    let (video, audio) = (viewer.video.packets(), viewer.audio.packets());
    assert_whole(&video, VIDEO_SEQ);
    assert_whole(&audio, 7);
    assert_whole_film(&film, &video, &audio);
}

#[test]
fn a_seek_leaves_the_old_place_at_once_and_numbers_run_on() {
    let film = TestFilm::make(6, 3000);
    let (store, sender, viewer) = one_viewer();
    let handle = viewer.plays(&sender, &film, &store);
    for (to, begins) in [(4 * SECOND, 4), (SECOND / 2, 0), (5 * SECOND + 1, 5)] {
        let before = viewer.count();
        wait_until("some packets", || viewer.count() > before + 50);
        let info = block(handle.seek(to, None)).unwrap();
        viewer.wait_for_what_is_on_its_way(&handle);
        let (video, audio) = (viewer.video.count(), viewer.audio.count());
        assert_eq!(info.start, begins * SECOND);
        assert_eq!(info.tracks[0].seq, VIDEO_SEQ.wrapping_add(video as u16));
        assert_eq!(info.tracks[1].seq, 7u16.wrapping_add(audio as u16));
        handle.go();
        wait_until("packets of the new place", || viewer.video.count() > video);
        let first = viewer.video.packets()[video].clone();
        assert_eq!(first.timestamp, info.tracks[0].rtp_time);
        // The first report: the next one follows soon.
        let report = || {
            let mut reports = viewer.video.reports().into_iter();
            reports.find(|report| report.at > first.at)
        };
        wait_until("a report of the new place", || report().is_some());
        let report = report().unwrap();
        let ahead = report.rtp_time.wrapping_sub(first.timestamp);
        assert!(
            (27_000..36_000).contains(&ahead),
            "the report speaks of the new place, 300 ms ahead of what is sent: {ahead} ticks"
        );
    }
    viewer.gets_everything(&handle);
    assert_whole(&viewer.video.packets(), VIDEO_SEQ);
    assert_whole(&viewer.audio.packets(), 7);
    let info = block(handle.seek(0, Some(SECOND / 5))).unwrap();
    assert_eq!(info.start, 0, "a stream that ended plays again");
    handle.go();
    let ended = || {
        viewer
            .events
            .lock()
            .unwrap()
            .iter()
            .filter(|event| **event == StreamEvent::Ended)
            .count()
    };
    wait_until("the second end", || ended() == 2);
}

#[test]
fn two_viewers_of_a_film_share_what_is_read_and_planned() {
    let film = TestFilm::make(3, 4000);
    let store = store();
    let sender = sender(&store, |config| config.threads = 2);
    let viewers: Vec<_> = (0..4).map(|_| Viewer::default()).collect();
    let handles: Vec<_> = viewers
        .iter()
        .map(|viewer| sender.play(viewer.stream(&film, &store, 0, None)))
        .collect();
    for handle in &handles {
        block(handle.ready()).unwrap();
    }
    handles.iter().for_each(|handle| handle.go());
    for (viewer, handle) in viewers.iter().zip(&handles) {
        viewer.gets_everything(handle);
        assert_whole_film(&film, &viewer.video.packets(), &viewer.audio.packets());
    }
    let blocks = film.film.identity.size.div_ceil(256 << 10);
    assert_eq!(store.stats().misses, blocks, "each block was read once");
    assert_eq!(store.stats().in_use, 0);
    assert_eq!(sender.stats().plans, 0);
}

#[test]
fn viewers_that_are_gone_do_not_disturb_the_others() {
    let film = TestFilm::make(2, 4000);
    let store = store();
    let sender = sender(&store, |_| {});
    let (gone, viewer) = (Viewer::default(), Viewer::default());
    let lost = sender.play(gone.stream(&film, &store, 0, None));
    let handle = sender.play(viewer.stream(&film, &store, 0, None));
    block(lost.ready()).unwrap();
    block(handle.ready()).unwrap();
    // Its ports are closed: the kernel answers each packet with ICMP.
    drop(gone);
    lost.go();
    handle.go();
    viewer.gets_everything(&handle);
    assert_whole_film(&film, &viewer.video.packets(), &viewer.audio.packets());
}

#[test]
fn ipv6_viewers_get_the_same() {
    let film = TestFilm::make(1, 1000);
    let store = store();
    let sender = sender(&store, |config| {
        config.addresses = vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]
    });
    let viewer = Viewer {
        video: Receiver::at("[::1]:0"),
        audio: Receiver::at("127.0.0.1:0"),
        ..Viewer::default()
    };
    let handle = viewer.plays(&sender, &film, &store);
    viewer.gets_everything(&handle);
    assert_whole_film(&film, &viewer.video.packets(), &viewer.audio.packets());
}

#[test]
fn a_film_overwritten_while_it_plays_ends_with_the_reason_and_without_a_wrong_byte() {
    let film = TestFilm::make(8, 4000);
    let (store, sender, viewer) = one_viewer();
    let handle = viewer.plays(&sender, &film, &store);
    wait_until("some packets", || viewer.count() > 100);
    let size = film.film.identity.size as usize;
    std::fs::write(&film.film.path, vec![0xaa; size]).unwrap();
    wait_until("the failure", || {
        viewer.has(|event| matches!(event, StreamEvent::Failed(why) if why.contains("film.mp4") && why.contains("changed")))
    });
    assert_eq!(handle.progress().state, State::Failed);
    let pictures = nals(&viewer.video.packets());
    for (number, (_, nal)) in pictures[2..pictures.len() - 1].iter().enumerate() {
        assert!(*nal == film.pictures[number], "picture {number}");
    }
}

#[test]
fn what_cannot_begin_says_why() {
    let film = TestFilm::make(1, 1000);
    let store = store();
    let sender = sender(&store, |_| {});
    let viewer = Viewer {
        video: Receiver::at("[::1]:0"),
        ..Viewer::default()
    };
    let handle = sender.play(viewer.stream(&film, &store, 0, None));
    let error = block(handle.ready()).unwrap_err();
    assert!(
        error.0.contains("no address of this server reaches"),
        "{error}"
    );
}

#[test]
fn where_any_ports_will_do_they_are_an_even_one_and_the_next() {
    let store = store();
    let senders: Vec<_> = (0..20).map(|_| sender(&store, |_| {})).collect();
    for sender in &senders {
        let (rtp, rtcp) = sender.ports();
        assert_eq!((rtp % 2, rtcp), (0, rtp + 1));
    }
}

#[test]
fn receiver_reports_are_heard_only_from_where_the_media_goes() {
    let film = TestFilm::make(2, 1000);
    let (store, sender, viewer) = one_viewer();
    let handle = viewer.plays(&sender, &film, &store);
    let mut report = vec![0x81, 201, 0, 7, 9, 9, 9, 9];
    report.extend_from_slice(&VIDEO_SSRC.to_be_bytes());
    report.extend_from_slice(&[64, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 90, 0, 0, 0, 0, 0, 0, 0, 0]);
    let to =
        reelway_sys::udp::Destination::new(([127, 0, 0, 1], sender.ports().1).into(), None, false);
    let stranger = reelway_sys::udp::UdpSocket::bind("127.0.0.2:0".parse().unwrap()).unwrap();
    // Reports are read in order of arrival.
    stranger.send(&report, &to).unwrap();
    viewer.video.rtcp_socket.send(&report, &to).unwrap();
    wait_until("the report", || {
        viewer.has(|event| matches!(event, StreamEvent::Report(_)))
    });
    assert_eq!(viewer.events.lock().unwrap().len(), 1);
    let reception = handle.progress().reception[0].unwrap();
    assert_eq!(
        (reception.lost, reception.fraction_lost, reception.jitter),
        (5, 0.25, Duration::from_millis(1))
    );
    viewer
        .audio
        .rtcp_socket
        .send(&[0x80, 201, 0, 1, 1, 2, 3, 4], &to)
        .unwrap();
    wait_until("a sign of life", || {
        viewer.has(|event| *event == StreamEvent::Alive)
    });
}

#[test]
fn a_viewer_has_left_when_the_receivers_of_all_their_tracks_have_said_bye() {
    let film = TestFilm::make(2, 1000);
    let (store, sender, viewer) = one_viewer();
    let _handle = viewer.plays(&sender, &film, &store);
    let to =
        reelway_sys::udp::Destination::new(([127, 0, 0, 1], sender.ports().1).into(), None, false);
    let report = |from: u8, source: u32| {
        let mut report = vec![0x81, 201, 0, 7, from, 0, 0, 0];
        report.extend_from_slice(&source.to_be_bytes());
        report.extend_from_slice(&[0; 20]);
        report
    };
    // Players send a report and BYE in one datagram.
    let last = |from: u8, source: u32, leaves: u8| {
        let mut datagram = report(from, source);
        datagram.extend_from_slice(&[0x81, 203, 0, 1, leaves, 0, 0, 0]);
        datagram
    };
    let (video, audio) = (&viewer.video.rtcp_socket, &viewer.audio.rtcp_socket);
    let count = |wanted: fn(&StreamEvent) -> bool| {
        let events = viewer.events.lock().unwrap();
        events.iter().filter(|event| wanted(event)).count()
    };
    let reports = || count(|event| matches!(event, StreamEvent::Report(_)));
    let left = || count(|event| *event == StreamEvent::Left);

    video.send(&report(1, VIDEO_SSRC), &to).unwrap();
    // One track; an SSRC that has not reported on the track; both tracks from one track's address.
    audio.send(&last(2, AUDIO_SSRC, 2), &to).unwrap();
    video.send(&last(1, VIDEO_SSRC, 2), &to).unwrap();
    audio.send(&last(1, VIDEO_SSRC, 1), &to).unwrap();
    wait_until("four reports", || reports() == 4);
    // A receiver that reports again is present again.
    audio.send(&report(2, AUDIO_SSRC), &to).unwrap();
    video.send(&last(1, VIDEO_SSRC, 1), &to).unwrap();
    // This report arrives after everything sent before.
    audio.send(&report(2, AUDIO_SSRC), &to).unwrap();
    wait_until("seven reports", || reports() == 7);
    assert_eq!(left(), 0);
    audio.send(&last(2, AUDIO_SSRC, 2), &to).unwrap();
    wait_until("the viewer to leave", || left() == 1);
}
