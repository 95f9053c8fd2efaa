//! A film sent ahead of time, into the viewer's buffer, so that it is sent evenly.

mod common;

use std::time::Duration;

use common::*;
use reelway_sender::SenderConfig;

const SECOND: i64 = 1_000_000_000;

/// Returns the nanoseconds from first to last packet of each sync picture (one per second), sorted.
fn sync_pictures(video: &[Got]) -> Vec<u64> {
    let mut took: Vec<u64> = (0u32..)
        .map(|second| VIDEO_BASE.wrapping_add(second * 90_000))
        .map_while(|timestamp| {
            let of = || video.iter().filter(|packet| packet.timestamp == timestamp);
            let first = of().map(|packet| packet.at).min()?;
            Some(of().map(|packet| packet.at).max()? - first)
        })
        .collect();
    took.sort_unstable();
    took
}

#[test]
fn a_large_picture_sent_ahead_takes_its_time_and_every_byte_is_the_same() {
    let film = TestFilm::make(3, 4000);
    let store = store();
    let ahead = |smooth_ahead| {
        sender(&store, |config: &mut SenderConfig| {
            config.smooth_ahead = smooth_ahead;
        })
    };
    let (at_once, evenly) = (ahead(Duration::ZERO), ahead(Duration::from_secs(1)));
    let viewers = [Viewer::default(), Viewer::default()];
    let plain = viewers[0].plays(&at_once, &film, &store);
    let smooth = evenly.play(viewers[1].stream(&film, &store, 0, None));
    let info = block(smooth.ready()).unwrap();
    assert_eq!((info.start, info.end), (0, 3 * SECOND));
    assert_eq!(
        info.tracks[0].rtp_time, VIDEO_BASE,
        "what is told is the same"
    );
    smooth.go();
    viewers[0].gets_everything(&plain);
    viewers[1].gets_everything(&smooth);
    let took = viewers.each_ref().map(|viewer| {
        let (video, audio) = (viewer.video.packets(), viewer.audio.packets());
        assert_whole(&video, VIDEO_SEQ);
        assert_whole(&audio, 7);
        assert_whole_film(&film, &video, &audio);
        let times: Vec<u64> = video.iter().chain(&audio).map(|packet| packet.at).collect();
        assert_bursts(&times, 8);
        let took = sync_pictures(&video);
        assert_eq!(took.len(), 3);
        took
    });
    // A quarter of each second's bytes is its first picture: it takes 40 ms, or a quarter of a
    // second if sent evenly. Delays only make it longer, so the shortest is the best measure for
    // pictures sent at once.
    assert!(took[1][1] > 3 * took[0][0], "{took:?} ns");
    assert_eq!(
        (plain.progress().refused, smooth.progress().refused),
        (0, 0)
    );
    // Audio and video share a clock, which starts before the time of the first packets, as it
    // should.
    let (video, audio) = (viewers[1].video.reports(), viewers[1].audio.reports());
    for (video, audio) in video.iter().zip(&audio) {
        let seen = |report: &Report, base: u32, rate: f64| {
            f64::from(report.rtp_time.wrapping_sub(base) as i32) / rate
        };
        let apart = seen(video, VIDEO_BASE, 90_000.0) - seen(audio, AUDIO_BASE, 48_000.0);
        assert!(video.ntp == audio.ntp && apart.abs() < 0.000_1, "{apart} s");
        assert!(
            seen(video, VIDEO_BASE, 90_000.0) > 0.0,
            "before the first packet"
        );
    }
}

#[test]
fn who_begins_elsewhere_pauses_and_seeks_gets_the_same_from_there_on() {
    let film = TestFilm::make(4, 3000);
    let store = store();
    let sender = sender(&store, |config| {
        config.smooth_ahead = Duration::from_millis(1500);
    });
    let viewer = Viewer::default();
    let handle = sender.play(viewer.stream(&film, &store, SECOND, Some(2 * SECOND)));
    let info = block(handle.ready()).unwrap();
    assert_eq!(info.start, SECOND);
    handle.go();
    wait_until("some packets", || viewer.video.count() > 60);
    block(handle.pause());
    viewer.wait_for_what_is_on_its_way(&handle);
    let before = viewer.video.count();
    assert_eq!(
        block(handle.resume()).unwrap().tracks[0].seq,
        VIDEO_SEQ.wrapping_add(before as u16)
    );
    handle.go();
    viewer.gets_everything(&handle);
    let (video, audio) = (viewer.video.packets(), viewer.audio.packets());
    let count = units(&audio).len();
    let first = (units(&audio)[0].0 - AUDIO_BASE) as usize / 1024;
    assert_film(&film, &video, &audio, 25..50, first..first + count);

    let info = block(handle.seek(3 * SECOND, None)).unwrap();
    assert_eq!(info.start, 3 * SECOND);
    let sent = video.len();
    handle.go();
    wait_until("packets of the new place", || viewer.video.count() > sent);
    assert_eq!(
        viewer.video.packets()[sent].timestamp,
        info.tracks[0].rtp_time
    );
}
