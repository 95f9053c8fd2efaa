//! VP8 (RFC 7741) and VP9 (RFC 9628) over RTP: a frame in as many packets as it needs, each with a
//! payload descriptor of one byte.

use reelway_media::{TimedSample, VpConfig};

use crate::plan::{Builder, Plan, parts};
use crate::timing::Timing;

/// Clock rate in Hz (RFC 7741 section 6.1, RFC 9628 section 7).
pub(crate) const CLOCK_RATE: u32 = 90_000;

/// Start of a partition, here of a frame (RFC 7741 section 4.2).
const VP8_START: u8 = 0x10;
/// Inter-picture predicted, start and end of a frame (RFC 9628 section 4.2).
const VP9_PREDICTED: u8 = 0x40;
const VP9_START: u8 = 0x08;
const VP9_END: u8 = 0x04;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Vp {
    Vp8,
    /// Its profile.
    Vp9(u8),
}

impl Vp {
    pub fn vp9(config: &VpConfig) -> Vp {
        Vp::Vp9(config.profile)
    }

    /// Returns encoding name and format parameters.
    pub fn sdp(self) -> (String, String) {
        match self {
            Vp::Vp8 => (format!("VP8/{CLOCK_RATE}"), String::new()),
            Vp::Vp9(profile) => (format!("VP9/{CLOCK_RATE}"), format!("profile-id={profile}")),
        }
    }

    /// Returns the payload descriptor of a part of a frame.
    fn descriptor(self, sync: bool, is_first: bool, is_last: bool) -> u8 {
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        match self {
            Vp::Vp8 => flag(VP8_START, is_first),
            Vp::Vp9(_) => {
                flag(VP9_PREDICTED, !sync) | flag(VP9_START, is_first) | flag(VP9_END, is_last)
            }
        }
    }

    pub fn plan(self, samples: &[TimedSample], timing: Timing, max_payload: usize) -> Plan {
        let room = max_payload as u32 - 1;
        let mut out = Builder::default();
        for sample in samples {
            let (offset, size) = (sample.sample.offset, sample.sample.size);
            for (at, len, is_last) in parts(size, room) {
                out.inline(&[self.descriptor(sample.sample.sync, at == 0, is_last)]);
                out.film(offset + u64::from(at), len);
                out.end_packet(is_last);
            }
            out.end_frame(timing.frame(sample));
        }
        out.finish()
    }
}
