//! FFmpeg's library with the calls ffplay makes: seeks three times, pauses past the session's
//! timeout, and plays to the end. What comes between is the film without a hole.

mod rtsp_viewers;

use rtsp_viewers::seeks_and_pauses;

/// ffmpeg 5.1 drops what is left of the first packet of sound after a pause (up to three access
/// units of four); the packet itself comes, as other viewers show.
const LOST: usize = 3;

#[test]
fn ffplay_seeks_and_pauses_over_udp() {
    seeks_and_pauses("avformat.py", "udp", LOST);
}

#[test]
fn ffplay_seeks_and_pauses_over_tcp() {
    seeks_and_pauses("avformat.py", "tcp", LOST);
}
