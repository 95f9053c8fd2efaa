//! Opus in transport streams (ETSI_TS_opus 0.1.3, a draft that all writers follow; RFC 6716): a
//! control header precedes each packet.

use crate::sample_entry::{boxed, sound};

/// Sampling rate in Hz, whatever was encoded.
pub const RATE: u32 = 48_000;
/// The maximum size of a packet in bytes (RFC 6716 section 3.2: 48 frames of 1275 bytes).
const LONGEST: usize = 48 * 1275 + 200;

/// The maximum size of a control header in bytes: prefix, packet size in bytes of up to 255,
/// trimmed samples at both ends, extension.
pub const LONGEST_CONTROL: usize = 2 + LONGEST / 255 + 1 + 2 + 2 + 1 + 255;

/// A control header.
pub struct Control {
    /// The size of the header in bytes.
    pub len: usize,
    /// The size of the packet after it in bytes.
    pub packet: usize,
    /// The number of decoded samples to skip at the beginning.
    skipped: u16,
}

/// Parses a control header; `None` if it is invalid or truncated.
pub fn control(bytes: &[u8]) -> Option<Control> {
    let (prefix, mut rest) = bytes.split_first_chunk::<2>()?;
    if prefix[0] != 0x7f || prefix[1] & 0xe0 != 0xe0 {
        return None;
    }
    let mut packet = 0;
    loop {
        let (byte, more) = rest.split_first()?;
        rest = more;
        packet += usize::from(*byte);
        if *byte != 255 {
            break;
        }
    }
    let mut trimmed = |flag: u8| -> Option<u16> {
        if prefix[1] & flag == 0 {
            return Some(0);
        }
        let (samples, more) = rest.split_first_chunk::<2>()?;
        rest = more;
        Some(u16::from_be_bytes(*samples) & 0x1fff)
    };
    let skipped = trimmed(0x10)?;
    trimmed(0x08)?;
    if prefix[1] & 0x04 != 0 {
        let (length, more) = rest.split_first()?;
        rest = more.get(usize::from(*length)..)?;
    }
    (packet > 0 && packet <= LONGEST).then_some(Control {
        len: bytes.len() - rest.len(),
        packet,
        skipped,
    })
}

/// Returns samples per packet and sample entry of a stream with this many channels, from its first
/// packet and the control header before it.
pub fn kind(frame: &[u8], channels: u8) -> Option<(u32, Vec<u8>)> {
    let control = control(frame)?;
    let length = samples(frame.get(control.len..)?)?;
    let [high, low] = control.skipped.to_be_bytes();
    // Version, channels, skipped samples, encoded rate, gain.
    let dops = [0, channels, high, low, 0, 0, 0xbb, 0x80, 0, 0];
    let config = boxed(b"dOps", &[&dops, mapping(channels)?]);
    Some((length, sound(b"Opus", RATE, channels.into(), &config)))
}

/// Returns the mapping family for this many channels and, unless it is the default, the number of
/// streams, the number of two-channel streams, and for each output channel the decoded channel (RFC
/// 7845 sections 5.1.1.1 and 5.1.1.2).
fn mapping(channels: u8) -> Option<&'static [u8]> {
    Some(match channels {
        1 | 2 => &[0],
        3 => &[1, 2, 1, 0, 2, 1],
        4 => &[1, 2, 2, 0, 1, 2, 3],
        5 => &[1, 3, 2, 0, 4, 1, 2, 3],
        6 => &[1, 4, 2, 0, 4, 1, 2, 3, 5],
        7 => &[1, 4, 3, 0, 4, 1, 2, 3, 5, 6],
        8 => &[1, 5, 3, 0, 6, 1, 2, 3, 4, 5, 7],
        _ => return None,
    })
}

/// Returns the samples at 48 kHz of an Opus frame, by its packet's first byte (RFC 6716 table 2).
pub fn opus_frame(first: u8) -> u32 {
    match first >> 3 {
        silk @ 0..12 => [480, 960, 1920, 2880][usize::from(silk % 4)],
        hybrid @ 12..16 => [480, 960][usize::from(hybrid % 2)],
        celt => [120, 240, 480, 960][usize::from(celt % 4)],
    }
}

/// Returns the samples of a packet, by its first bytes (RFC 6716 section 3.1).
fn samples(packet: &[u8]) -> Option<u32> {
    let first = *packet.first()?;
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0x3f),
    };
    (frames > 0).then(|| opus_frame(first) * frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_with_all_that_they_may_have() {
        let plain = control(&[0x7f, 0xe0, 20, 1, 2, 3]).unwrap();
        assert_eq!((plain.len, plain.packet, plain.skipped), (3, 20, 0));
        let whole = [0x7f, 0xfc, 255, 255, 3, 0x01, 0x38, 0, 9, 2, 7, 7, 0xfc];
        let whole = control(&whole).unwrap();
        assert_eq!((whole.len, whole.packet, whole.skipped), (12, 513, 312));
        for bytes in [
            &[0x7f, 0xc0, 20][..],
            &[0x7e, 0xe0, 20],
            &[0x7f, 0xe0, 255],
            &[0x7f, 0xf0, 9, 1],
            &[0x7f, 0xe0, 0],
        ] {
            assert!(control(bytes).is_none(), "{bytes:02x?}");
        }
    }

    #[test]
    fn packets_last_as_their_first_byte_says() {
        assert_eq!(samples(&[0xfc]), Some(960));
        assert_eq!(samples(&[0xfd]), Some(1920));
        assert_eq!(samples(&[0x0b, 3]), Some(3 * 960));
        assert_eq!(samples(&[0x60]), Some(480));
        assert_eq!(
            (samples(&[]), samples(&[0xff]), samples(&[0xff, 0])),
            (None, None, None)
        );
    }
}
