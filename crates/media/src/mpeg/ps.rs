//! Packets of a program stream (ISO/IEC 13818-1 2.5.3), or of a system stream of MPEG-1 (ISO/IEC 11172-1 2.4.3).

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::lpcm::{DVD_HEAD, Lpcm};
use super::pes::{Head, Stamp, stamp};
use super::psi::Coding;

/// Start codes.
const END: u8 = 0xb9;
const PACK: u8 = 0xba;
const SYSTEM: u8 = 0xbb;
const MAP: u8 = 0xbc;
const PRIVATE: u8 = 0xbd;
const PADDING: u8 = 0xbe;
const NAVIGATION: u8 = 0xbf;
/// Bytes ahead of AC-3 in a private packet of a DVD: which sound it is, how many frames begin, and where the first does.
const AC3_HEAD: usize = 4;

static CODE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(&[0, 0, 1]));

/// Whether a file that begins with these bytes is of this kind.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0, 0, 1, PACK])
}

/// A packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its stream: stream_id, and for private streams the number of the one in it.
    pub stream: u16,
    /// All of it.
    pub whole: &'a [u8],
    /// Bytes of it before what it carries.
    pub head: usize,
    pub stamp: Option<Stamp>,
    pub scrambled: bool,
}

/// Gives every packet of picture, sound and private data in `bytes` to `sink`, with where it begins in them. How many bytes need
/// not be seen again, and how many of them belong to no packet. `is_end`: they are the file's last.
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
                // The next start code, if it is one of these.
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

/// How many bytes something takes.
enum Size {
    Of(usize),
    /// More bytes are needed to tell.
    Short,
    /// It is nothing that could stand here.
    None,
}

/// Of what has this start code and these bytes after it.
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

    /// What it carries.
    pub fn body(&self) -> &'a [u8] {
        &self.whole[self.head..]
    }

    /// Whether it carries sound of a DVD in another form than this: the stream changes, which players do not follow.
    pub fn is_other(&self, sound: Lpcm) -> bool {
        self.coding() != Coding::Dvd(sound)
    }

    /// What its stream is coded in, of which it is the first packet.
    pub fn coding(&self) -> Coding {
        let body = self.body();
        match self.stream {
            0xe0..=0xef => {
                let codes = CODE.find_iter(body).filter_map(|at| body.get(at + 3));
                let first = codes
                    .copied()
                    .find(|code| matches!(code, 0xb3 | 0xb0 | 0x67 | 0x27 | 0x40));
                match first {
                    Some(0x67 | 0x27) => Coding::H264,
                    Some(0x40) => Coding::H265,
                    Some(0xb0) => Coding::Mpeg4Visual,
                    _ => Coding::MpegVideo,
                }
            }
            0xc0..=0xdf => {
                let is_adts = body
                    .windows(2)
                    .any(|head| head[0] == 0xff && head[1] & 0xf6 == 0xf0);
                let is_mpeg = body
                    .windows(2)
                    .any(|head| head[0] == 0xff && head[1] & 0xe6 > 0xe0);
                match is_adts && !is_mpeg {
                    true => Coding::Adts,
                    false => Coding::MpegAudio,
                }
            }
            0xbd80..=0xbd87 => Coding::Dolby,
            0xbd88..=0xbd8f => Coding::Other("DTS sound"),
            0xbda0..=0xbda7 => match Lpcm::of_dvd(&self.whole[self.head - DVD_HEAD..]) {
                Ok(sound) => Coding::Dvd(sound),
                Err(why) => Coding::Other(why),
            },
            0xbd20..=0xbd3f => Coding::Other("subtitles as pictures"),
            _ => Coding::Other("private data"),
        }
    }
}

/// The head of a packet, in either form.
fn head(whole: &[u8]) -> Option<Head> {
    if whole.get(6)? >> 6 == 2 {
        return Head::parse(whole);
    }
    // MPEG-1: stuffing, the size of a buffer, times.
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

    /// Where a packet begins, its stream, when it is shown, and what it carries.
    type FoundPacket = (usize, u16, Option<u64>, Vec<u8>);

    fn walked(bytes: &[u8], is_end: bool) -> (Vec<FoundPacket>, (usize, u64)) {
        let mut packets = Vec::new();
        let walked = walk(bytes, is_end, |at, packet| {
            let shown = packet.stamp.map(|stamp| stamp.shown);
            packets.push((at, packet.stream, shown, packet.body().to_vec()));
        });
        (packets, walked)
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
        // However many bytes have come, packets are the same.
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
