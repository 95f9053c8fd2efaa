//! MPEG-4 Visual over RTP (RFC 6416 section 5): a picture in as many packets as it needs, without
//! payload headers. The decoder configuration is in the session description.

use std::fmt::Write;

use reelway_media::{Mpeg4Visual, TimedSample};

use crate::plan::{Builder, Plan, parts};
use crate::timing::Timing;

/// Clock rate in Hz (RFC 6416 section 5.1: the default, if the stream's own time resolution is not
/// used).
pub(crate) const CLOCK_RATE: u32 = 90_000;

/// Returns encoding name and format parameters (RFC 6416 section 7.1).
pub(crate) fn sdp(config: &Mpeg4Visual) -> (String, String) {
    let mut fmtp = format!("profile-level-id={}", config.profile());
    if !config.headers.is_empty() {
        fmtp += ";config=";
    }
    for byte in &config.headers {
        let _ = write!(fmtp, "{byte:02X}");
    }
    (format!("MP4V-ES/{CLOCK_RATE}"), fmtp)
}

pub(crate) fn plan(samples: &[TimedSample], timing: Timing, max_payload: usize) -> Plan {
    let room = max_payload as u32;
    let mut out = Builder::default();
    for sample in samples {
        let (offset, size) = (sample.sample.offset, sample.sample.size);
        for (at, len, is_last) in parts(size, room) {
            out.film(offset + u64::from(at), len);
            out.end_packet(is_last);
        }
        out.end_frame(timing.frame(sample));
    }
    out.finish()
}
