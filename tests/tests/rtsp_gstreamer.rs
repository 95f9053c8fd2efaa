//! GStreamer's rtspsrc: seeks three times, pauses past the session's timeout, and plays to the end.
//! What comes between is the film without a hole.

mod rtsp_viewers;

use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::probe::decoded as decoded_frames;
use reelway_tests::server::Options;
use rtsp_viewers::{
    Expected, Line, joined, seeks_and_pauses, seeks_and_pauses_where, watch_with,
    with_built_plugins, without_holes,
};

/// Pictures that may not be shown of those that rtspsrc stamps wrongly, mostly outside what it plays: one to four were seen on a
/// starved machine. That packets have the right times is tested with other viewers.
const MISTIMED: usize = 8;

/// Units of a track that rtspsrc may throw away at a pause over UDP. It stops reading its sockets when PAUSE is answered. What
/// lies in them by then it reads after the next PLAY, whose RTP-Info names the first packet that counts (`seqnum-base`): what
/// came before is thrown away, unless it is read before that answer has been worked on. On a machine with time to spare nothing
/// lies there; on a starved one a picture was missing. Over TCP there is no such thing.
fn thrown_away_at_a_pause(protocol: &str) -> usize {
    if protocol == "udp" { 25 } else { 0 }
}

/// What comes is decoded: in the last run every picture, in those before all but what the seek
/// throws away on its way (the latency, and what the decoder holds to bring it in order). Of those
/// that rtspsrc stamps wrongly, as after a seek on a starved machine, the first may not
/// be shown ([`MISTIMED`] at most). One of the place before the seek may have lost what it is decoded
/// from.
fn decoded(lines: &[Line], thrown_away: usize) {
    let last = lines.last().expect("lines").run;
    for run in 0..=last {
        let of = |kind: &Option<String>| kind.as_deref() == Some("video");
        let units = || {
            let of_run = lines.iter().filter(|line| line.run == run && !line.stale);
            of_run.filter(|line| of(&line.unit))
        };
        let came = units().count();
        // The first may also be stamped by what the place before the seek was counted by: seconds after those that follow it.
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

/// Over a limited link packets leave up to `rtp.smooth_ahead`, 1000 ms by default, before their time. That is less than what
/// rtspsrc holds by default, 2000 ms; where it is told to hold less, the server must be told so.
fn over_a_limited_link(protocol: &str, latency: &str, ahead: &str) {
    let keys = [("capacity.net", "\"100Mbit\""), ("rtp.smooth_ahead", ahead)];
    let environment = [("LATENCY_MS", latency)];
    let lost = thrown_away_at_a_pause(protocol);
    let lines = seeks_and_pauses_where("rtspsrc.py", protocol, lost, &keys, &environment);
    // A seek throws away what rtspsrc still holds: two seconds of 25 pictures, and one more that was sent ahead.
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
                // What rtspsrc waits by default. It ends a film so long after the time at which it expects the end, and drops
                // what comes later: with 200 ms, a starved machine may lose the last packets to that.
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

/// AV1 goes through a depayloader that others wrote: all units of the film come out of it, whole. What comes
/// is decoded to the pictures of the file, bit by bit. Of small pictures several OBUs are in a packet; large ones are cut.
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
