//! Audio frames over RTP, one per packet or one in several packets: MPEG audio (RFC 2250), AC-3
//! (RFC 4184), E-AC-3 (RFC 4598), Vorbis (RFC 5215).

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use reelway_media::{Codec, TimedSample, Track, VorbisConfig};

use crate::mpeg::CLOCK_RATE;
use crate::plan::{Builder, FrameInfo, Plan};
use crate::timing::Timing;

/// The payload format of audio frames, which determines the payload header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frames {
    /// MPEG-1 and MPEG-2 audio (RFC 2250 section 3.5).
    Mpeg,
    /// AC-3 (RFC 4184 section 4.1.1).
    Ac3,
    /// E-AC-3 (RFC 4598 section 4.1.1).
    Eac3,
    /// Vorbis (RFC 5215 sections 2.2 and 2.3).
    Vorbis,
}

/// Returns the track's sampling rate, which is the RTP clock rate of all formats but MPEG audio
/// (RFC 4184 section 3, RFC 4598 section 3, RFC 5215 section 2.1).
pub(crate) fn rate(track: &Track) -> u32 {
    track
        .sound
        .as_ref()
        .map_or(48_000, |sound| sound.rate.max(1))
}

/// Identifies the Vorbis headers that packets are decoded with. A session has only one set of them.
const IDENT: u32 = 1;

/// Returns the Vorbis headers as packed for the session description (RFC 5215 section 3.2.1).
fn packed(config: &VorbisConfig) -> Vec<u8> {
    let (headers, [second, third]) = config.headers();
    let [_, ident @ ..] = IDENT.to_be_bytes();
    let length = (headers.len() as u16).to_be_bytes();
    // One set; then the number of headers after its first, and the lengths of all but the last,
    // each below 128.
    let lengths = [2, second as u8, (third - second) as u8];
    [&1u32.to_be_bytes()[..], &ident, &length, &lengths, &headers].concat()
}

impl Frames {
    /// Returns encoding name and format parameters (RFC 3555 section 4.1.17, RFC 4184 section 5.1,
    /// RFC 4598 section 5.1, RFC 5215 section 6.1).
    pub fn sdp(self, track: &Track) -> (String, String) {
        let encoding = match self {
            Frames::Mpeg => format!("MPA/{CLOCK_RATE}"),
            _ => {
                let name = match self {
                    Frames::Eac3 => "eac3",
                    Frames::Vorbis => "vorbis",
                    _ => "AC3",
                };
                let channels = track.sound.as_ref().map_or(2, |sound| sound.channels);
                format!("{name}/{}/{channels}", rate(track))
            }
        };
        let fmtp = match &track.codec {
            Codec::Vorbis(config) => format!("configuration={}", BASE64.encode(packed(config))),
            _ => String::new(),
        };
        (encoding, fmtp)
    }

    fn head_len(self) -> usize {
        match self {
            Frames::Mpeg => 4,
            Frames::Ac3 | Frames::Eac3 => 2,
            Frames::Vorbis => 6,
        }
    }

    /// Returns the payload header of the part that begins at byte `at` of a frame. The frame has
    /// `size` bytes and is sent in `parts` parts, the first of which has `first` bytes.
    fn head(self, at: u32, size: u32, first: u32, parts: u32) -> Vec<u8> {
        match self {
            Frames::Mpeg => (at & 0xffff).to_be_bytes().to_vec(),
            Frames::Ac3 => {
                // 0: a whole frame; 1: a first part with at least the 5/8 that can be decoded
                // alone; 2: a shorter first part; 3: a later part.
                let kind = match (parts, at) {
                    (1, _) => 0,
                    (_, 0) if first >= size.div_ceil(8) * 5 => 1,
                    (_, 0) => 2,
                    _ => 3,
                };
                vec![kind, parts.min(255) as u8]
            }
            // Whether it is a fragment; then the number of fragments, or of frames.
            Frames::Eac3 => vec![u8::from(parts > 1), parts.min(255) as u8],
            Frames::Vorbis => {
                let part = first.min(size - at);
                // Whole, first, middle or last part; then the number of whole Vorbis packets.
                let fragment: u8 = match (parts, at) {
                    (1, _) => 0,
                    (_, 0) => 1,
                    _ if at + part < size => 2,
                    _ => 3,
                };
                let [.., high, low] = part.to_be_bytes();
                let [_, ident @ ..] = IDENT.to_be_bytes();
                [
                    &ident[..],
                    &[fragment << 6 | u8::from(parts == 1), high, low],
                ]
                .concat()
            }
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
                // In AC-3 and E-AC-3 the marker ends a frame. In MPEG audio it begins audio after
                // silence; Vorbis has none.
                let is_last = part + 1 == parts;
                out.end_packet(is_last && matches!(self, Frames::Ac3 | Frames::Eac3));
            }
            out.end_frame(FrameInfo {
                sync: true,
                ..timing.frame(sample)
            });
        }
        out.finish()
    }
}
