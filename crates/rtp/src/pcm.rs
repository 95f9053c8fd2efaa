//! Uncompressed audio over RTP: L16 (RFC 3551 section 4.5.11) and L24 (RFC 3190 section 4), with as
//! many whole audio frames per packet as fit.

use reelway_media::{PcmConfig, SECOND, TimedSample, Track};

use crate::error::Unsupported;
use crate::plan::{Builder, FrameInfo, Plan};
use crate::timing::Timing;

/// Returns why the format cannot carry this configuration, in words.
pub(crate) fn refused(config: &PcmConfig) -> Option<String> {
    let PcmConfig {
        bits,
        little_endian,
        channels,
    } = config;
    match config {
        _ if !matches!(bits, 16 | 24) => Some(format!("RTP carries 16 or 24 bits, not {bits}")),
        // The film's bytes are sent as they are in the file.
        _ if *little_endian => {
            Some("it is little-endian, and RTP carries big-endian sound only".into())
        }
        // RFC 3190 section 5 defines an order for more channels, but hardly any receiver supports
        // it.
        _ if *channels > 2 => Some(format!(
            "it has {channels} channels, and RTP carries 1 or 2"
        )),
        _ => None,
    }
}

pub(crate) fn check(config: &PcmConfig) -> Result<(), Unsupported> {
    match refused(config) {
        Some(why) => Err(Unsupported::new(format!(
            "uncompressed sound: {why}; HLS and DASH play this film"
        ))),
        None => Ok(()),
    }
}

/// Returns encoding name and format parameters (RFC 3551 section 6, RFC 3190 section 7).
pub(crate) fn sdp(config: &PcmConfig, track: &Track) -> (String, String) {
    let (bits, rate, channels) = (config.bits, crate::frames::rate(track), config.channels);
    (format!("L{bits}/{rate}/{channels}"), String::new())
}

pub(crate) fn plan(
    config: &PcmConfig,
    samples: &[TimedSample],
    timing: Timing,
    max_payload: usize,
) -> Plan {
    let frame = config.frame_bytes();
    let room = (max_payload as u32 / frame).max(1);
    let mut out = Builder::default();
    for sample in samples {
        let (offset, size) = (sample.sample.offset, sample.sample.size);
        let whole = FrameInfo {
            sync: true,
            ..timing.frame(sample)
        };
        let frames = size / frame;
        let mut from = 0;
        while from < frames {
            let count = room.min(frames - from);
            out.film(offset + u64::from(from * frame), count * frame);
            // The marker would mean the end of a silence.
            out.end_packet(false);
            // Absolute times, so that rounding errors do not add up.
            let after =
                |frame: u32| i64::from(frame) * SECOND / i64::from(timing.clock_rate.max(1));
            out.end_frame(FrameInfo {
                due: whole.due.saturating_add(after(from)),
                duration: after(from + count) - after(from),
                shown: whole.shown.saturating_add(after(from)),
                rtp_time: whole.rtp_time.wrapping_add(from),
                ..whole
            });
            from += count;
        }
    }
    out.finish()
}
