//! Frames of audio: AAC with ADTS headers ([`super::adts`]) or in LATM ([`super::latm`]), Opus
//! ([`super::opus`]), AC-3, E-AC-3 (ETSI TS 102 366 4.3, E.1.2), MPEG (11172-3, 13818-3: 2.4.2.3).

use std::borrow::Cow;

use super::lpcm::{HDMV_HEAD, Hdmv, Lpcm, hdmv_sound};
use super::{adts, latm, opus};
use crate::sample_entry::{dac3, dec3, decoder, esds, sound};

/// The number of bytes at the beginning of a frame that determine its length.
const HEAD: usize = 9;
/// The maximum frames of an E-AC-3 set: eight substreams, eight dependent ones each, six parts.
const MOST_PARTS: u32 = 8 * 9 * 6;
/// Samples per AC-3 frame, and per complete set of E-AC-3 frames.
const DOLBY: u32 = 1536;
/// Bit rates in kbit/s by frmsizecod (table 4.13).
const AC3_RATES: [usize; 19] = [
    32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640,
];

/// kbit/s by bitrate_index: layers I, II and III of MPEG-1, layer I, layers II and III of MPEG-2.
const MPEG_RATES: [[usize; 14]; 5] = [
    [
        32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448,
    ],
    [
        32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
    ],
    [
        32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
    ],
    [
        32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256,
    ],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
/// The streamType of audio with its reserved bit (ISO/IEC 14496-1 table 6).
const AUDIO: u8 = 0x15;

/// Audio without data for this many bytes of the file ends and starts anew; no frame spans the
/// gap. So frames are never searched for far from their start. (Shorter for the fuzzer.)
pub const GAP: u64 = if cfg!(fuzzing) { 2 << 10 } else { 4 << 20 };

/// The framing of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// AAC with ADTS headers.
    Adts,
    /// AAC in LATM.
    Latm,
    /// AC-3 and E-AC-3, which have the same sync word.
    Dolby,
    /// MPEG-1 and MPEG-2, all layers.
    Mpeg,
    /// Opus with this many channels.
    Opus(u8),
    /// Uncompressed audio of a DVD, which has no frames: it is cut into units of fixed length.
    Dvd(Lpcm),
    /// Uncompressed audio of a Blu-ray Disc.
    Hdmv,
}

/// A frame found in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The position of its beginning.
    pub start: usize,
    /// The position of its end.
    pub end: usize,
    /// The size of its payload in bytes.
    pub size: usize,
    /// Whether its configuration differs from that of the frames to be played.
    pub other: bool,
}

/// The properties of all frames, from the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Sampling rate in Hz.
    pub rate: u32,
    /// Samples per frame.
    pub length: u32,
    /// For uncompressed audio, bytes per sample of all channels; otherwise 0.
    pub bytes: u32,
    /// The sample entry.
    pub entry: Vec<u8>,
}

impl Kind {
    /// Returns the properties of uncompressed audio.
    fn of_lpcm(sound: Lpcm) -> Option<Kind> {
        Some(Kind {
            rate: sound.rate,
            length: 0,
            bytes: sound.config.frame_bytes(),
            entry: sound.config.entry(sound.rate)?,
        })
    }

    /// Returns the number of samples in a frame of this size.
    pub fn length_of(&self, size: u32) -> u32 {
        match self.bytes {
            0 => self.length,
            bytes => size / bytes,
        }
    }
}

/// The description of a frame in its header.
struct Head {
    /// The size of the frame with its header, in bytes.
    len: usize,
    /// The number of bytes before the payload.
    before: usize,
    /// Whether it belongs to the same set as the previous frame.
    joins: bool,
    /// The number of blocks of 256 samples; a set of E-AC-3 has six.
    blocks: u32,
}

/// Finds frames in consecutive bytes.
#[derive(Clone, Debug)]
pub struct Frames {
    framing: Framing,
    /// The earliest position of the next frame.
    at: usize,
    /// The number of bytes in no frame.
    pub lost: u64,
    /// The configuration of the frames to be played, if decoders do not follow changes of it.
    only: Option<Vec<u8>>,
    /// Whether the latest frame has another configuration; frames that state none keep this.
    is_other: bool,
}

impl Frames {
    pub fn new(framing: Framing) -> Frames {
        Frames {
            framing,
            at: 0,
            lost: 0,
            only: None,
            is_other: false,
        }
    }

    /// Restricts playback to frames with this configuration, which the first one has.
    pub fn only(&mut self, setup: Option<Vec<u8>>) {
        self.only = setup;
    }

    /// Returns a copy for other bytes.
    pub fn anew(&self) -> Frames {
        Frames {
            only: self.only.clone(),
            ..Frames::new(self.framing)
        }
    }

    /// Returns the next whole frame. `bytes`: the last call's and more; `is_end`: nothing follows.
    pub fn next(&mut self, bytes: &[u8], is_end: bool) -> Option<Frame> {
        if let Framing::Dvd(sound) = self.framing {
            let start = self.at;
            let size = sound.dvd_unit(bytes.len().checked_sub(start)?, is_end);
            self.at += size;
            let end = self.at;
            return (size > 0).then_some(Frame {
                start,
                end,
                size,
                other: false,
            });
        }
        loop {
            let start = self.at;
            let rest = bytes.get(start..)?;
            let wanted = self.framing.longest_head();
            if rest.is_empty() || (rest.len() < wanted && !is_end) {
                return None;
            }
            let Some(head) = self.framing.head(rest) else {
                self.skip();
                continue;
            };
            let mut end = start + head.len;
            let (mut blocks, mut parts) = (head.blocks, 1);
            // The next header shows whether this is a frame, and whether more belongs to it.
            loop {
                let next = bytes.get(end..).unwrap_or_default();
                if next.len() < wanted && !is_end {
                    return None;
                }
                if bytes.len() < end {
                    return None;
                }
                let follows = self.framing.head(next);
                match follows {
                    Some(_) if parts >= MOST_PARTS => {
                        end = start;
                        break;
                    }
                    Some(follows) if follows.joins || blocks < 6 => {
                        parts += 1;
                        end += follows.len;
                        blocks += if follows.joins { 0 } else { follows.blocks };
                    }
                    Some(_) => break,
                    None if next.len() < HEAD => break,
                    None => {
                        end = start;
                        break;
                    }
                }
            }
            if end == start {
                self.skip();
                continue;
            }
            self.at = end;
            if let Some(only) = &self.only
                && let Some(setup) = self.framing.setup(&bytes[start..end])
            {
                self.is_other = setup != *only;
            }
            let Some(size) = self
                .payload(&bytes[start..end])
                .map(|payload| payload.len())
            else {
                self.lost += (end - start) as u64;
                continue;
            };
            return Some(Frame {
                start,
                end,
                size,
                other: self.is_other,
            });
        }
    }

    /// Returns the payload of a frame that was found; `None` if it cannot be read.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self.framing {
            Framing::Latm => return latm::payload(frame).map(Cow::Owned),
            Framing::Hdmv => return hdmv_sound(frame).map(Cow::Owned),
            Framing::Dvd(sound) if sound.config.bits > 16 => {
                return Some(Cow::Owned(Lpcm::ungrouped(frame)));
            }
            Framing::Dvd(_) => return Some(Cow::Borrowed(frame)),
            _ => {}
        }
        let before = self.framing.head(frame)?.before;
        frame.get(before..).map(Cow::Borrowed)
    }

    fn skip(&mut self) {
        self.at += 1;
        self.lost += 1;
    }

    /// Adapts to the removal of the first `gone` bytes.
    pub fn forget(&mut self, gone: usize) {
        self.at = self.at.saturating_sub(gone);
    }

    /// Returns the position from which bytes are still needed.
    pub fn needed(&self) -> usize {
        self.at
    }
}

impl Framing {
    /// Returns the framing of AAC with this first frame: the sync words differ.
    pub fn of_aac(frame: &[u8]) -> Framing {
        match latm::len(frame) {
            Some(_) => Framing::Latm,
            None => Framing::Adts,
        }
    }

    /// Returns the framing of audio in a packet of a program stream: AAC or MPEG audio, which share
    /// the stream_id and similar sync words. The kind of the first whole frame decides, or a frame
    /// header at the packet's beginning; `None` if both are missing.
    pub fn of_packet(bytes: &[u8]) -> Option<Framing> {
        let kinds = [Framing::Adts, Framing::Mpeg];
        let whole = kinds.into_iter().filter_map(|kind| {
            let frame = Frames::new(kind).next(bytes, true)?;
            Some((frame.start, kind))
        });
        let first = whole.min_by_key(|(start, _)| *start).map(|(_, kind)| kind);
        first.or_else(|| kinds.into_iter().find(|kind| kind.head(bytes).is_some()))
    }

    /// Returns how many bytes may be needed to detect a header; with fewer, the result may change.
    fn longest_head(self) -> usize {
        match self {
            Framing::Opus(_) => opus::LONGEST_CONTROL,
            _ => HEAD,
        }
    }

    fn head(self, bytes: &[u8]) -> Option<Head> {
        let head = &beginning(bytes);
        match self {
            Framing::Latm => latm::len(bytes).map(|len| Head {
                len,
                before: 0,
                joins: false,
                blocks: 6,
            }),
            Framing::Opus(_) => opus::control(bytes).map(|control| Head {
                len: control.len + control.packet,
                before: control.len,
                joins: false,
                blocks: 6,
            }),
            Framing::Hdmv => Hdmv::parse(bytes).map(|head| Head {
                len: HDMV_HEAD + head.bytes,
                before: HDMV_HEAD,
                joins: false,
                blocks: head.parts(),
            }),
            // DVD audio has no headers.
            Framing::Dvd(_) => None,
            Framing::Adts => adts::len(head).map(|(before, len)| Head {
                len,
                before,
                joins: false,
                blocks: 6,
            }),
            Framing::Mpeg => mpeg(head).map(|(len, ..)| Head {
                len,
                before: 0,
                joins: false,
                blocks: 6,
            }),
            Framing::Dolby => {
                if head[..2] != [0x0b, 0x77] {
                    return None;
                }
                if head[5] >> 3 <= 10 {
                    return ac3(head);
                }
                let words = usize::from(head[2] & 7) << 8 | usize::from(head[3]);
                let blocks = match (head[4] >> 6, head[4] >> 4 & 3) {
                    (3, _) | (_, 3) => 6,
                    (_, blocks) => u32::from(blocks) + 1,
                };
                Some(Head {
                    len: (words + 1) * 2,
                    before: 0,
                    joins: head[2] >> 6 == 1 || head[2] >> 3 & 7 != 0,
                    blocks,
                })
            }
        }
    }

    /// Returns the AudioSpecificConfig of a frame, if stated and if decoders do not follow changes.
    pub fn setup(self, frame: &[u8]) -> Option<Vec<u8>> {
        match self {
            Framing::Adts => adts::setup(frame).map(|config| config.to_vec()),
            Framing::Latm => latm::config(frame).map(|config| config.specific),
            _ => None,
        }
    }

    /// Returns the [`Framing::setup`] of frames of AAC with this AudioSpecificConfig.
    pub fn said_of(self, config: &[u8]) -> &[u8] {
        match (self, config) {
            // The rest is in the frames, or is implied.
            (Framing::Adts, [_, _, ..]) => &config[..2],
            _ => config,
        }
    }

    /// Returns the properties of all frames from this one; `None` if it cannot be played.
    pub fn kind(self, frame: &[u8]) -> Option<Kind> {
        let entry = |code: &[u8; 4], rate: u32, length: u32, channels: u8, config: &[u8]| Kind {
            rate,
            length,
            bytes: 0,
            entry: sound(code, rate, channels.into(), config),
        };
        match self {
            Framing::Adts | Framing::Latm => {
                let config = match self {
                    Framing::Adts => adts::config(frame)?,
                    _ => latm::config(frame)?,
                };
                let (rate, length) = (config.rate, config.length);
                let esds = esds(&config.specific);
                Some(entry(b"mp4a", rate, length, config.channels, &esds))
            }
            Framing::Opus(channels) => opus::kind(frame, channels).map(|(length, entry)| Kind {
                rate: opus::RATE,
                length,
                bytes: 0,
                entry,
            }),
            Framing::Dvd(sound) => Kind::of_lpcm(sound),
            Framing::Hdmv => Kind::of_lpcm(Hdmv::parse(frame)?.sound),
            Framing::Mpeg => {
                let (_, rate, length, object_type) = mpeg(&beginning(frame))?;
                let channels = if frame.get(3)? >> 6 == 3 { 1 } else { 2 };
                Some(entry(
                    b"mp4a",
                    rate,
                    length,
                    channels,
                    &decoder(object_type, AUDIO, &[]),
                ))
            }
            Framing::Dolby if frame.get(5)? >> 3 > 10 => {
                let rate = [48_000, 44_100, 32_000].get(usize::from(frame[4] >> 6));
                let rate = rate.copied().unwrap_or(24_000);
                Some(entry(b"ec-3", rate, DOLBY, 2, &dec3(frame)?))
            }
            Framing::Dolby => {
                let rate = *[48_000, 44_100, 32_000].get(usize::from(frame[4] >> 6))?;
                Some(entry(b"ac-3", rate, DOLBY, 2, &dac3(frame)?))
            }
        }
    }
}

/// Returns the first bytes of a frame, padded with zeros, since the shortest frames have fewer.
fn beginning(frame: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let len = frame.len().min(HEAD);
    head[..len].copy_from_slice(&frame[..len]);
    head
}

/// Parses the header of an AC-3 frame.
fn ac3(head: &[u8; HEAD]) -> Option<Head> {
    let code = usize::from(head[4] & 0x3f);
    let rate = *AC3_RATES.get(code / 2)?;
    let words = match head[4] >> 6 {
        0 => rate * 2,
        1 => rate * 320 / 147 + code % 2,
        2 => rate * 3,
        _ => return None,
    };
    Some(Head {
        len: words * 2,
        before: 0,
        joins: false,
        blocks: 6,
    })
}

/// Returns size, rate, samples and objectTypeIndication (14496-1 table 5) of an MPEG audio frame.
fn mpeg(head: &[u8; HEAD]) -> Option<(usize, u32, u32, u8)> {
    if head[0] != 0xff || head[1] & 0xe0 != 0xe0 {
        return None;
    }
    // Version 3 is MPEG-1, 2 is MPEG-2, 0 is its extension to lower rates.
    let (version, layer) = (head[1] >> 3 & 3, 4 - (head[1] >> 1 & 3));
    let lower = match version {
        3 => 1,
        2 => 2,
        0 => 4,
        _ => return None,
    };
    let rates = match (version, layer) {
        (3, 1..=3) => MPEG_RATES[usize::from(layer) - 1],
        (_, 1) => MPEG_RATES[3],
        (_, 2 | 3) => MPEG_RATES[4],
        _ => return None,
    };
    let kilobits = *rates.get(usize::from(head[2] >> 4).checked_sub(1)?)?;
    let rate = *[44_100, 48_000, 32_000].get(usize::from(head[2] >> 2 & 3))? / lower;
    let padding = usize::from(head[2] >> 1 & 1);
    let (length, len) = match layer {
        1 => (384, (12_000 * kilobits / rate as usize + padding) * 4),
        3 if version != 3 => (576, 72_000 * kilobits / rate as usize + padding),
        _ => (1152, 144_000 * kilobits / rate as usize + padding),
    };
    Some((len, rate, length, if version == 3 { 0x6b } else { 0x69 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the frames of a stream, of which `step` bytes arrive at once.
    fn found(framing: Framing, stream: &[u8], step: usize) -> Vec<Frame> {
        let (mut frames, mut all, mut have) = (Frames::new(framing), Vec::new(), 0);
        while have < stream.len() {
            have = (have + step).min(stream.len());
            let is_end = have == stream.len();
            all.extend(std::iter::from_fn(|| frames.next(&stream[..have], is_end)));
        }
        all
    }

    #[test]
    fn how_bytes_come_changes_nothing() {
        // A size of two bytes, samples trimmed at both ends, and an extension.
        let control = [
            &[0x7f, 0xfc, 255, 45, 0, 1, 0, 2, 20][..],
            &[9; 20],
            &[0xfc; 300],
        ];
        let opus = control.concat().repeat(3);
        let hdmv = [&[0, 8, 0x31, 0x40][..], &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
        for (framing, stream, count) in [
            (Framing::Opus(2), opus, 3),
            (Framing::Hdmv, hdmv.repeat(13), 3),
        ] {
            let whole = found(framing, &stream, stream.len());
            assert_eq!(whole.len(), count, "{framing:?}");
            for step in 1..stream.len() {
                assert_eq!(found(framing, &stream, step), whole, "{framing:?}, {step}");
            }
        }
    }

    #[test]
    fn parts_of_uncompressed_sound_are_joined() {
        // Twelve parts of two frames, and one more.
        let part = [&[0, 8, 0x31, 0x40][..], &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
        let sizes: Vec<usize> = found(Framing::Hdmv, &part.repeat(13), 7)
            .iter()
            .map(|frame| frame.size)
            .collect();
        assert_eq!(sizes, [48, 48, 8]);
        let kind = Framing::Hdmv.kind(&part).unwrap();
        assert_eq!((kind.rate, kind.length_of(48)), (48_000, 12));
    }
}
