//! MPEG transport streams over RTP (RFC 2250 section 2): whole packets of 188 bytes, unchanged, as
//! many as fit.

use reelway_media::{Nanos, TimedSample};

use crate::error::Unsupported;
use crate::plan::{Builder, FrameInfo, Plan};
use crate::timing::Timing;

/// RTP clock rate in Hz (RFC 2250 section 2.1).
pub(crate) const CLOCK_RATE: u32 = 90_000;
/// The static payload type (RFC 3551 section 6).
pub(crate) const TYPE: u8 = 33;
/// Size of a transport stream packet in bytes.
const PACKET: usize = 188;

/// Returns how many bytes of the stream an RTP packet carries.
fn room(max_payload: usize) -> usize {
    max_payload / PACKET * PACKET
}

/// Checks that a transport stream packet fits into an RTP packet.
///
/// # Errors
/// Fails if it does not fit.
pub(crate) fn check(max_payload: usize) -> Result<(), Unsupported> {
    match room(max_payload) {
        0 => Err(Unsupported::new(
            "the network's packets are too small for a transport stream",
        )),
        _ => Ok(()),
    }
}

/// Returns encoding name and format parameters.
pub(crate) fn sdp() -> (String, String) {
    (format!("MP2T/{CLOCK_RATE}"), String::new())
}

/// Returns the stream's PAT and PMT, without which no receiver can interpret what follows.
pub(crate) fn preface(tables: &[u8], max_payload: usize) -> Plan {
    let mut out = Builder::default();
    for packets in tables.chunks(room(max_payload)) {
        out.inline(packets);
        out.end_packet(false);
    }
    out.end_frame(FrameInfo {
        sync: true,
        ..FrameInfo::default()
    });
    out.finish()
}

/// Plans samples so that each RTP packet has its own time: that of its first byte, if the bytes
/// between two times that the stream states are sent evenly.
pub(crate) fn plan(samples: &[TimedSample], timing: Timing, max_payload: usize) -> Plan {
    let room = room(max_payload) as u32;
    let mut out = Builder::default();
    for sample in samples {
        let size = sample.sample.size;
        let whole = timing.frame(sample);
        let starts = timing.rtp(sample);
        let ticks = timing.rtp_end(sample) - starts;
        let part =
            |of: i64, at: u32| (i128::from(of) * i128::from(at) / i128::from(size.max(1))) as i64;
        let mut at = 0;
        while at < size {
            let end = (at + room).min(size);
            out.film(sample.sample.offset + u64::from(at), end - at);
            out.end_packet(false);
            let begins: Nanos = part(whole.duration, at);
            out.end_frame(FrameInfo {
                due: whole.due + begins,
                duration: part(whole.duration, end) - begins,
                shown: whole.shown + begins,
                rtp_time: (starts + part(ticks, at)) as u32,
                sync: whole.sync && at == 0,
                droppable: false,
            });
            at = end;
        }
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use reelway_media::Sample;

    use super::*;

    #[test]
    fn packets_are_whole_and_evenly_spread() {
        let sample = |offset, packets: u32, sync, dts| TimedSample {
            sample: Sample {
                offset,
                size: packets * 188,
                duration: 3600,
                cts: 0,
                sync,
            },
            dts,
        };
        let timing = Timing {
            timescale: 90_000,
            shift: -90_000,
            clock_rate: CLOCK_RATE,
        };
        let samples = [
            sample(376, 16, true, 90_000),
            sample(5000, 7, false, 93_600),
        ];
        let plan = plan(&samples, timing, 1438);
        let lens: Vec<u16> = plan.packets.iter().map(|packet| packet.len).collect();
        assert_eq!(lens, [1316, 1316, 376, 1316]);
        let offsets: Vec<u64> = plan
            .packets
            .iter()
            .map(|packet| packet.run().unwrap().1.start)
            .collect();
        assert_eq!(offsets, [376, 376 + 1316, 376 + 2632, 5000]);
        let times: Vec<u32> = plan.frames.iter().map(|frame| frame.rtp_time).collect();
        assert_eq!(times, [0, 1575, 3150, 3600]);
        let dues: Vec<Nanos> = plan.frames.iter().map(|frame| frame.due).collect();
        assert_eq!(dues, [0, 17_500_000, 35_000_000, 40_000_000]);
        let lasts: Vec<Nanos> = plan.frames.iter().map(|frame| frame.duration).collect();
        assert_eq!(lasts, [17_500_000, 17_500_000, 5_000_000, 40_000_000]);
        let syncs: Vec<bool> = plan.frames.iter().map(|frame| frame.sync).collect();
        assert_eq!(syncs, [true, false, false, false]);
    }

    #[test]
    fn pat_and_pmt_go_first() {
        let plan = preface(&[7; 376], 200);
        let lens: Vec<u16> = plan.packets.iter().map(|packet| packet.len).collect();
        assert_eq!((lens, plan.frames.len()), (vec![188, 188], 1));
        assert!(preface(&[], 1438).frames.is_empty());
        assert!(check(187).is_err() && check(188).is_ok());
    }
}
