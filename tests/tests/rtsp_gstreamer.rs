//! GStreamer's rtspsrc: seeks three times, pauses for longer than the session's timeout, and plays
//! to the end. It receives the film without a gap.

mod rtsp_viewers;

use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::probe::decoded as decoded_frames;
use reelway_tests::server::Options;
use rtsp_viewers::{
    Expected, Line, joined, seeks_and_pauses, seeks_and_pauses_where, watch_with,
    with_built_plugins, without_holes,
};

/// The most pictures that may be missing because rtspsrc gives them wrong timestamps, mostly
/// outside the range it plays: one to four were seen on an overloaded machine. Other viewers test
/// that packets have the right times.
const MISTIMED: usize = 8;

/// The most units of a track that rtspsrc may discard at a pause over UDP. It stops reading its
/// sockets when it gets the response to PAUSE. Packets left in them are read after the next
/// PLAY, whose RTP-Info names the first packet that counts (`seqnum-base`): earlier ones are
/// discarded, unless they are read before that response has been processed. With processor time to
/// spare, there are none; on an overloaded machine a picture was missing. This does not happen over
/// TCP.
fn thrown_away_at_a_pause(protocol: &str) -> usize {
    if protocol == "udp" { 25 } else { 0 }
}

/// Checks that received pictures are decoded: all of them in the last run, and in earlier runs all
/// but those that the seek discards (the latency, and what the decoder holds for reordering).
/// Pictures with wrong timestamps from rtspsrc, as after a seek on an overloaded machine, need not
/// be shown ([`MISTIMED`] at most). A picture from before the seek may have lost its reference
/// pictures.
fn decoded(lines: &[Line], thrown_away: usize) {
    let last = lines.last().expect("lines").run;
    for run in 0..=last {
        let of = |kind: &Option<String>| kind.as_deref() == Some("video");
        let units = || {
            let of_run = lines.iter().filter(|line| line.run == run && !line.stale);
            of_run.filter(|line| of(&line.unit))
        };
        let came = units().count();
        // The first one's timestamp may also be relative to the position before the seek: seconds
        // after those that follow it.
        let next = units().skip(1).map(|line| line.at);
        let mistimed = units().zip(next.chain([None])).filter(|(line, next)| {
            let is_after = |(at, next): (f64, f64)| at > next + 1.0;
            line.at.is_none() || line.at.zip(*next).is_some_and(is_after)
        });
        let mistimed = mistimed.count();
        let shown = lines
            .iter()
            .filter(|line| line.run == run && of(&line.frame))
            .count();
        let lost = mistimed.min(MISTIMED) + if run == last { 0 } else { thrown_away };
        assert!(
            shown + lost >= came && shown > 0,
            "run {run}: {came} pictures came, {shown} were shown: {:?}",
            units().map(|line| line.at).collect::<Vec<_>>()
        );
    }
}

#[test]
fn rtspsrc_seeks_and_pauses_over_udp() {
    let lost = thrown_away_at_a_pause("udp");
    decoded(&seeks_and_pauses("rtspsrc.py", "udp", lost), 15);
}

#[test]
fn rtspsrc_seeks_and_pauses_over_tcp() {
    decoded(&seeks_and_pauses("rtspsrc.py", "tcp", 0), 15);
}

/// Over a limited link, packets are sent up to `rtp.smooth_ahead` before their time, 1000 ms by
/// default. That is less than rtspsrc buffers by default, 2000 ms; if it is configured to buffer
/// less, the server must be, too.
fn over_a_limited_link(protocol: &str, latency: &str, ahead: &str) {
    let keys = [("capacity.net", "\"100Mbit\""), ("rtp.smooth_ahead", ahead)];
    let environment = [("LATENCY_MS", latency)];
    let lost = thrown_away_at_a_pause(protocol);
    let lines = seeks_and_pauses_where("rtspsrc.py", protocol, lost, &keys, &environment);
    // A seek discards what rtspsrc still buffers: two seconds of 25 pictures, and one more that was
    // sent ahead.
    decoded(&lines, 75);
}

#[test]
fn rtspsrc_bears_what_leaves_ahead_of_its_time_over_udp() {
    over_a_limited_link("udp", "2000", "1000");
}

#[test]
fn rtspsrc_that_holds_little_bears_a_limited_link_where_nothing_leaves_ahead() {
    over_a_limited_link("udp", "200", "0");
}

#[test]
fn rtspsrc_bears_what_leaves_ahead_of_its_time_over_tcp() {
    over_a_limited_link("tcp", "2000", "1000");
}

#[test]
fn rtspsrc_plays_every_codec_to_the_end() {
    let names = [
        "bunny", "hvc1", "opus", "surround", "mpeg2", "mpeg1", "ac3", "mpeg4", "vp9", "vorbis",
        "eac3",
    ];
    let library = library(&names);
    let server = Options::new(library.path()).patient().start();
    server.wait_indexed();
    std::thread::scope(|scope| {
        for (nth, name) in names.into_iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let expected = Expected::of(&film(name).path);
                // The default latency of rtspsrc. It ends a film this long after the expected end
                // and drops later packets: with 200 ms, an overloaded machine may lose the last
                // ones.
                let mut lines = watch_with(
                    "rtspsrc.py",
                    &server.rtsp_url(name),
                    ["udp", "tcp"][nth % 2],
                    &["play:1", "end:30"],
                    &[("LATENCY_MS", "2000")],
                );
                without_holes("video", &mut lines, &expected.video, &[], (0, 0));
                without_holes("audio", &mut lines, &expected.audio, &[], (0, 0));
                let decoded = |kind| lines.iter().any(|line| line.frame.as_deref() == Some(kind));
                assert!(decoded("video") && decoded("audio"), "{name}");
            });
        }
    });
}

/// AV1 passes through an independently developed depayloader: it returns all units of the film,
/// whole. They are decoded to the file's pictures, bit by bit. Packets contain several OBUs of
/// small pictures; large ones are fragmented.
#[test]
fn rtspsrc_gets_every_picture_of_av1_as_it_is_in_the_file() {
    let names = ["av1", "av1_large"];
    let library = library(&names);
    let server = Options::new(library.path()).patient().start();
    server.wait_indexed();
    let dir = temp_dir("av1");
    for (name, protocol) in names.into_iter().zip(["tcp", "udp"]) {
        let came = dir.path().join(name).with_extension("obu");
        let came = came.to_str().expect("a path");
        let plugins = with_built_plugins();
        let mut environment: Vec<_> = plugins.iter().map(|(key, path)| (*key, &**path)).collect();
        environment.extend([("LATENCY_MS", "2000"), ("OBUS_TO", came)]);
        let url = server.rtsp_url(name);
        let steps = ["play:1", "end:30"];
        let lines = watch_with("rtspsrc.py", &url, protocol, &steps, &environment);
        let mut lines = joined(lines);
        let film = film(name);
        let expected = Expected::of(&film.path);
        without_holes("video", &mut lines, &expected.video, &[], (0, 0));
        let is_shown = |line: &&Line| line.frame.as_deref() == Some("video");
        assert!(
            lines.iter().any(|line| is_shown(&line)),
            "{name}: nothing was shown"
        );
        let file = film.path.to_str().expect("a path");
        let (got, wanted) = (decoded_frames(came, "0:v:0"), decoded_frames(file, "0:v:0"));
        assert!(wanted.len() >= 75, "{name}: {} pictures", wanted.len());
        assert_eq!(got.len(), wanted.len(), "{name}");
        assert!(got == wanted, "{name}: other pictures");
    }
}
