//! FFmpeg's library with the calls ffplay makes: seeks three times, pauses past the session's
//! timeout, and plays to the end. What comes between is the film without a hole.

mod rtsp_viewers;

use rtsp_viewers::seeks_and_pauses;

/// Units of picture or sound that ffmpeg 5.1 itself throws away at a pause: interleaved packets that
/// come before the answer to PAUSE, packets in its queue, and what is left of the first packet of
/// sound after it. That all of them were sent, other viewers show.
const LOST: usize = 12;

#[test]
fn ffplay_seeks_and_pauses_over_udp() {
    seeks_and_pauses("avformat.py", "udp", LOST);
}

#[test]
fn ffplay_seeks_and_pauses_over_tcp() {
    seeks_and_pauses("avformat.py", "tcp", LOST);
}
