//! Frames of sound over RTP, one in each packet or several packets for one: MPEG audio (RFC 2250), AC-3 (RFC 4184), E-AC-3
//! (RFC 4598).

use reelway_media::{TimedSample, Track};

use crate::mpeg::CLOCK_RATE;
use crate::plan::{Builder, FrameInfo, Plan};
use crate::timing::Timing;

/// What goes ahead of frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frames {
    /// MPEG-1 and MPEG-2 sound (RFC 2250 section 3.5).
    Mpeg,
    /// AC-3 (RFC 4184 section 4.1.1).
    Ac3,
    /// E-AC-3 (RFC 4598 section 4.1.1).
    Eac3,
}

/// The track's sampling rate: ticks a second of AC-3 and E-AC-3 (RFC 4184 section 3, RFC 4598 section 3).
pub(crate) fn rate(track: &Track) -> u32 {
    track
        .sound
        .as_ref()
        .map_or(48_000, |sound| sound.rate.max(1))
}

impl Frames {
    /// Encoding name and format parameters (RFC 3555 section 4.1.17, RFC 4184 section 5.1, RFC 4598 section 5.1).
    pub fn sdp(self, track: &Track) -> (String, String) {
        let encoding = match self {
            Frames::Mpeg => format!("MPA/{CLOCK_RATE}"),
            Frames::Ac3 | Frames::Eac3 => {
                let name = match self {
                    Frames::Eac3 => "eac3",
                    _ => "AC3",
                };
                let channels = track.sound.as_ref().map_or(2, |sound| sound.channels);
                format!("{name}/{}/{channels}", rate(track))
            }
        };
        (encoding, String::new())
    }

    fn head_len(self) -> usize {
        match self {
            Frames::Mpeg => 4,
            Frames::Ac3 | Frames::Eac3 => 2,
        }
    }

    /// What goes ahead of the part of a frame of `size` bytes that begins at byte `at` of it, when it is sent in `parts`, the first
    /// of `first` bytes.
    fn head(self, at: u32, size: u32, first: u32, parts: u32) -> Vec<u8> {
        match self {
            Frames::Mpeg => (at & 0xffff).to_be_bytes().to_vec(),
            Frames::Ac3 => {
                // Whole; the first part with the five eighths that can be decoded alone, or less; a later part.
                let kind = match (parts, at) {
                    (1, _) => 0,
                    (_, 0) if first >= size.div_ceil(8) * 5 => 1,
                    (_, 0) => 2,
                    _ => 3,
                };
                vec![kind, parts.min(255) as u8]
            }
            // Whether it is a fragment; of how many, or how many frames there are.
            Frames::Eac3 => vec![u8::from(parts > 1), parts.min(255) as u8],
        }
    }

    pub fn plan(self, samples: &[TimedSample], timing: Timing, max_payload: usize) -> Plan {
        let room = (max_payload - self.head_len()) as u32;
        let mut out = Builder::default();
        for sample in samples {
            let (offset, size) = (sample.sample.offset, sample.sample.size);
            let parts = size.div_ceil(room);
            for part in 0..parts {
                let at = part * room;
                out.inline(&self.head(at, size, room.min(size), parts));
                out.film(offset + u64::from(at), room.min(size - at));
                // AC-3 and E-AC-3 mark the end of a frame, MPEG audio the beginning of sound after silence.
                let is_last = part + 1 == parts;
                out.end_packet(is_last && !matches!(self, Frames::Mpeg));
            }
            out.end_frame(FrameInfo {
                sync: true,
                ..timing.frame(sample)
            });
        }
        out.finish()
    }
}
