//! Packets of a program stream (ISO/IEC 13818-1 2.5.3) or MPEG-1 system stream (11172-1 2.4.3).

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::lpcm::{DVD_HEAD, Lpcm};
use super::nal::{Family, Units};
use super::parameters::Parameters;
use super::pes::{Head, Stamp, stamp};
use super::psi::Coding;
use super::sounds::Framing;

/// Start codes.
const END: u8 = 0xb9;
const PACK: u8 = 0xba;
const SYSTEM: u8 = 0xbb;
const MAP: u8 = 0xbc;
const PRIVATE: u8 = 0xbd;
const PADDING: u8 = 0xbe;
const NAVIGATION: u8 = 0xbf;
/// Bytes before AC-3 in a private DVD packet: substream number, number of frames that begin,
/// position of the first one.
const AC3_HEAD: usize = 4;

static CODE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(&[0, 0, 1]));

/// Returns whether a file that begins with these bytes is a program stream.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0, 0, 1, PACK])
}

/// A packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The stream_id, and for private streams the number of the substream.
    pub stream: u16,
    /// The whole packet.
    pub whole: &'a [u8],
    /// The number of bytes before the payload.
    pub head: usize,
    pub stamp: Option<Stamp>,
    pub scrambled: bool,
}

/// Passes every packet of video, audio and private data in `bytes` to `sink`, with its position.
/// Returns how many bytes have been processed, and how many of them belong to no packet. `is_end`:
/// `bytes` are the file's last.
pub fn walk<'a>(
    bytes: &'a [u8],
    is_end: bool,
    mut sink: impl FnMut(usize, Packet<'a>),
) -> (usize, u64) {
    let (mut at, mut lost) = (0, 0);
    loop {
        let rest = &bytes[at..];
        let size = match rest {
            [0, 0, 1, code, more @ ..] => size(*code, more),
            _ if rest.len() < 4 => Size::Short,
            _ => Size::None,
        };
        match size {
            Size::Of(size) if size <= rest.len() => {
                let (whole, code) = (&rest[..size], rest[3]);
                if let Some(packet) = Packet::parse(code, whole) {
                    sink(at, packet);
                }
                at += size;
            }
            Size::Of(_) | Size::Short if !is_end => return (at, lost),
            Size::None | Size::Of(_) | Size::Short => {
                // Skip to the next start code, if there is one.
                let next = rest.get(1..).and_then(|rest| CODE.find(rest));
                let skip = match next {
                    Some(next) => next + 1,
                    None if is_end => rest.len(),
                    None => rest.len().saturating_sub(3).max(1).min(rest.len()),
                };
                at += skip;
                lost += skip as u64;
                if rest.len() == skip {
                    return (at, lost);
                }
            }
        }
    }
}

/// The size of a unit in bytes.
enum Size {
    Of(usize),
    /// More bytes are needed to determine it.
    Short,
    /// Nothing valid begins here.
    None,
}

/// Returns the size of the unit with this start code and these bytes after it.
fn size(code: u8, more: &[u8]) -> Size {
    match (code, more) {
        (END, _) => Size::Of(4),
        (PACK, [first, ..]) if first >> 6 == 1 => match more.get(9) {
            Some(stuffing) => Size::Of(14 + usize::from(stuffing & 7)),
            None => Size::Short,
        },
        (PACK, [first, ..]) if first >> 4 == 2 => Size::Of(12),
        (PACK, []) => Size::Short,
        (PACK, _) | (..END, _) => Size::None,
        (_, [high, low, ..]) => match u16::from_be_bytes([*high, *low]) {
            0 => Size::None,
            length => Size::Of(6 + usize::from(length)),
        },
        (_, _) => Size::Short,
    }
}

impl<'a> Packet<'a> {
    fn parse(code: u8, whole: &'a [u8]) -> Option<Packet<'a>> {
        if !matches!(code, PRIVATE | 0xc0..=0xef) {
            debug_assert!(matches!(
                code,
                END | PACK | SYSTEM | MAP | PADDING | NAVIGATION | 0xf0..
            ));
            return None;
        }
        let Head {
            mut len,
            stamp,
            scrambled,
        } = head(whole)?;
        let mut stream = u16::from(code);
        if code == PRIVATE {
            let number = *whole.get(len)?;
            stream = stream << 8 | u16::from(number);
            len += match number {
                0x80..0x90 => AC3_HEAD,
                0xa0..0xa8 => DVD_HEAD,
                _ => 1,
            };
        }
        (len <= whole.len()).then_some(Packet {
            stream,
            whole,
            head: len,
            stamp,
            scrambled,
        })
    }

    /// Returns the payload.
    pub fn body(&self) -> &'a [u8] {
        &self.whole[self.head..]
    }

    /// Returns whether it has DVD audio in another format. Players do not follow such changes.
    pub fn is_other(&self, sound: Lpcm) -> bool {
        self.coding() != Some(Coding::Dvd(sound))
    }

    /// Returns the coding of its stream; `None` for video if the packet does not reveal it, because
    /// no picture at which decoders could start begins in it.
    pub fn coding(&self) -> Option<Coding> {
        let body = self.body();
        Some(match self.stream {
            0xe0..=0xef => return pictures(body),
            0xc0..=0xdf => match Framing::of_packet(body) {
                Some(Framing::Adts) => Coding::Adts,
                _ => Coding::MpegAudio,
            },
            0xbd80..=0xbd87 => Coding::Dolby,
            0xbd88..=0xbd8f => Coding::Other("DTS sound"),
            0xbda0..=0xbda7 => match Lpcm::of_dvd(&self.whole[self.head - DVD_HEAD..]) {
                Ok(sound) => Coding::Dvd(sound),
                Err(why) => Coding::Other(why),
            },
            0xbd20..=0xbd3f => Coding::Other("subtitles as pictures"),
            _ => Coding::Other("private data"),
        })
    }
}

/// Returns the coding of video from a part of its stream, by the headers that set up decoders.
fn pictures(bytes: &[u8]) -> Option<Coding> {
    let mut units = Units::default();
    let mut units = std::iter::from_fn(|| units.next(bytes, true)).map(|unit| &bytes[unit]);
    // Slice start codes of one coding equal header codes of another.
    let is_set = |family: Family, unit: &[u8]| {
        let mut parameters = Parameters::new(family);
        parameters.take(unit);
        parameters.shape.is_some()
    };
    units.find_map(|unit| match unit {
        [0xb3, ..] => Some(Coding::MpegVideo),
        [0xb0, ..] => Some(Coding::Mpeg4Visual),
        [0x27 | 0x47 | 0x67, ..] => is_set(Family::H264, unit).then_some(Coding::H264),
        // A video parameter set has sixteen bits that are 1 (ITU-T H.265 7.3.2.1).
        [0x40, 1, _, _, 0xff, 0xff, ..] => Some(Coding::H265),
        [0x42, 1, ..] => is_set(Family::H265, unit).then_some(Coding::H265),
        _ => None,
    })
}

/// Parses a packet header in either form.
fn head(whole: &[u8]) -> Option<Head> {
    if whole.get(6)? >> 6 == 2 {
        return Head::parse(whole);
    }
    // MPEG-1: stuffing, buffer size, times.
    let mut at = 6;
    while *whole.get(at)? == 0xff {
        at += 1;
    }
    if whole.get(at)? >> 6 == 1 {
        at += 2;
    }
    let first = *whole.get(at)?;
    let (len, stamp) = match first >> 4 {
        2 => (5, stamp(&whole[at..]).map(|shown| (shown, shown))),
        3 => (10, stamp(&whole[at..]).zip(stamp(whole.get(at + 5..)?))),
        _ if first == 0x0f => (1, None),
        _ => return None,
    };
    Some(Head {
        len: at + len,
        stamp: stamp.map(|(shown, decoded)| Stamp { decoded, shown }),
        scrambled: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet's position, stream, presentation time and payload.
    type FoundPacket = (usize, u16, Option<u64>, Vec<u8>);

    fn walked(bytes: &[u8], is_end: bool) -> (Vec<FoundPacket>, (usize, u64)) {
        let mut packets = Vec::new();
        let walked = walk(bytes, is_end, |at, packet| {
            let shown = packet.stamp.map(|stamp| stamp.shown);
            packets.push((at, packet.stream, shown, packet.body().to_vec()));
        });
        (packets, walked)
    }

    /// The coding found in a packet of this stream with these bytes.
    fn coding_of(code: u8, body: &[u8]) -> Option<Coding> {
        let head = [0x80, 0, 0];
        let length = ((head.len() + body.len()) as u16).to_be_bytes();
        let packet = [&[0, 0, 1, code], &length[..], &head, body].concat();
        let mut coding = None;
        walk(&packet, true, |_, packet| coding = packet.coding());
        coding
    }

    #[test]
    fn pictures_tell_what_they_are_where_a_decoder_can_start() {
        // From ffmpeg with libx264: 320 x 240.
        let sps = [
            0x67, 0x42, 0xc0, 0x0c, 0xda, 0x05, 0x07, 0xe8, 0x40, 0, 0, 3, 0, 0x40, 0, 0, 0x0c,
            0x83, 0xc5, 0x0a, 0xa8,
        ];
        for head in [0x27, 0x47, 0x67] {
            let stream = [
                &[0, 0, 1, 9, 0xf0, 0, 0, 1, head],
                &sps[1..],
                &[0, 0, 1, 0x65, 0x88],
            ];
            assert_eq!(
                coding_of(0xe0, &stream.concat()),
                Some(Coding::H264),
                "{head:x}"
            );
        }
        let set = [0, 0, 1, 0x40, 1, 0x0c, 1, 0xff, 0xff, 1, 0x60];
        assert_eq!(coding_of(0xe0, &set), Some(Coding::H265));
        let sequence = [0, 0, 1, 0xb3, 0x14, 0, 0xf0, 0x13];
        assert_eq!(coding_of(0xe0, &sequence), Some(Coding::MpegVideo));
        // In the middle of a group of pictures: H.264, and slices of a tall MPEG-2 picture.
        assert_eq!(
            coding_of(0xe0, &[0, 0, 1, 9, 0x30, 0, 0, 1, 0x41, 0x9a]),
            None
        );
        assert_eq!(
            coding_of(
                0xe0,
                &[
                    0, 0, 1, 0x27, 0x2a, 0, 0, 1, 0x28, 0x2a, 0, 0, 1, 0x40, 0x33
                ]
            ),
            None
        );
        assert_eq!(coding_of(0xe0, &[7; 40]), None);
    }

    #[test]
    fn sound_is_told_by_frames_that_follow_one_another() {
        // The frames' contents look like headers of another kind.
        let aac = [
            &[0xff, 0xf1, 0x4c, 0x80, 1, 0xdf, 0xfc][..],
            &[0xff, 0xfb, 0x90, 0x44],
            &[0x21; 3],
        ]
        .concat();
        assert_eq!(coding_of(0xc0, &aac.repeat(4)), Some(Coding::Adts));
        // The packet begins in the middle of a frame.
        assert_eq!(coding_of(0xc0, &aac.repeat(4)[7..]), Some(Coding::Adts));
        // One frame that is longer than its packet.
        let mut long = aac.clone();
        (long[3], long[4]) = (0x81, 0xff);
        assert_eq!(coding_of(0xc0, &long), Some(Coding::Adts));
        // MPEG-1, layer II, 32 kbit/s at 48 kHz: 96 bytes.
        let mut layer = [0; 96];
        layer[..4].copy_from_slice(&[0xff, 0xfd, 0x14, 0]);
        layer[20..22].copy_from_slice(&[0xff, 0xf1]);
        assert_eq!(
            coding_of(0xc0, &layer.repeat(3)[30..]),
            Some(Coding::MpegAudio)
        );
    }

    #[test]
    fn both_forms_of_packets_are_read_and_what_is_none_is_passed_over() {
        let mut bytes = vec![0, 0, 1, PACK, 0x21, 0, 1, 0, 1, 0x80, 0, 1];
        bytes.extend([
            0, 0, 1, 0xe0, 0, 11, 0xff, 0x60, 0x20, 0x21, 0, 1, 0, 3, 7, 8, 9,
        ]);
        bytes.extend([1, 2, 3]);
        bytes.extend([0, 0, 1, PACK, 0x44, 0, 4, 0, 4, 1, 0, 0, 3, 0xf8]);
        bytes.extend([0, 0, 1, PRIVATE, 0, 9, 0x80, 0, 0, 0x80, 1, 0, 1, 5, 6]);
        bytes.extend([0, 0, 1, PADDING, 0, 2, 0xff, 0xff, 0, 0, 1, END]);
        let (packets, (taken, lost)) = walked(&bytes, true);
        assert_eq!((taken, lost), (bytes.len(), 3));
        assert_eq!(packets[0], (12, 0xe0, Some(1), vec![7, 8, 9]));
        assert_eq!(packets[1].1..=packets[1].1, 0xbd80..=0xbd80);
        assert_eq!(packets[1].3, [5, 6]);
        // The packets are the same however many bytes have arrived.
        for have in 0..bytes.len() {
            let (mut some, (taken, _)) = walked(&bytes[..have], false);
            let (rest, _) = walked(&bytes[taken..], true);
            some.extend(
                rest.into_iter()
                    .map(|(at, stream, shown, body)| (at + taken, stream, shown, body)),
            );
            assert_eq!(some, packets, "{have} bytes first");
        }
    }
}
