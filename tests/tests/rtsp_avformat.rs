//! FFmpeg's library, called as ffplay does: seeks three times, pauses for longer than the session's
//! timeout, and plays to the end. It receives the film without a gap.

mod rtsp_viewers;

use reelway_tests::films::{film, library};
use reelway_tests::server::Options;
use rtsp_viewers::{Expected, seeks_and_pauses, watch, without_holes};

/// The most units of video or audio that ffmpeg 5.1 itself discards at a pause or a seek:
/// interleaved packets before the response to PAUSE, packets in its queue, the picture in its
/// parser, and the rest of an audio packet. Other viewers show that all of them were sent.
const LOST: usize = 12;

#[test]
fn ffplay_seeks_and_pauses_over_udp() {
    seeks_and_pauses("avformat.py", "udp", LOST);
}

#[test]
fn ffplay_seeks_and_pauses_over_tcp() {
    seeks_and_pauses("avformat.py", "tcp", LOST);
}

/// ffmpeg reads RTCP before RTP and ends with BYE. Packets that arrived while it stood still must
/// not be lost to it.
#[test]
fn who_stands_still_at_the_films_end_loses_nothing_of_it_over_udp() {
    let library = library(&["bunny"]);
    let server = Options::new(library.path()).patient().start();
    server.wait_indexed();
    let expected = Expected::of(&film("bunny").path);
    let url = server.rtsp_url("bunny");
    let mut lines = watch("avformat.py", &url, "udp", &["doze:0.35"]);
    without_holes("video", &mut lines, &expected.video, &[], (0, 0));
    without_holes("audio", &mut lines, &expected.audio, &[], (0, 0));
}
