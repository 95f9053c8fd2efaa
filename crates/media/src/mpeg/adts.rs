//! AAC with ADTS headers (ISO/IEC 14496-3 1.A.2.2): its decoder configuration.

use super::latm::{Config, copied};
use crate::mp4::{AAC_RATES, Bits, program_channels};

/// Header sizes in bytes, without and with a checksum.
const HEADS: [usize; 2] = [7, 9];
/// The 3-bit id of the element that lists the channels (4.5.2.1).
const PROGRAM: u32 = 5;

/// Returns the sizes of the header and of the whole frame; `None` if `bytes` begin with no header.
pub fn len(bytes: &[u8]) -> Option<(usize, usize)> {
    let head = bytes.first_chunk::<7>()?;
    if head[0] != 0xff || head[1] & 0xf6 != 0xf0 {
        return None;
    }
    let before = HEADS[usize::from(head[1] & 1 == 0)];
    let len =
        usize::from(head[3] & 3) << 11 | usize::from(head[4]) << 3 | usize::from(head[5] >> 5);
    (len > before).then_some((before, len))
}

/// Returns the AudioSpecificConfig that a frame's header states: object type, rate, channels.
pub fn setup(frame: &[u8]) -> Option<[u8; 2]> {
    let head = frame.first_chunk::<7>()?;
    let object = u16::from(head[2] >> 6) + 1;
    let (index, channels) = (u16::from(head[2] >> 2 & 0xf), u16::from(channels(head)));
    Some((object << 11 | index << 7 | channels << 3).to_be_bytes())
}

fn channels(head: &[u8; 7]) -> u8 {
    (head[2] & 1) << 2 | head[3] >> 6
}

/// Returns the decoder configuration of a frame. `None` if the frame does not state its channels,
/// or has several blocks, which cannot be separated.
pub fn config(frame: &[u8]) -> Option<Config> {
    let (before, _) = len(frame)?;
    let head = frame.first_chunk::<7>()?;
    let mut specific = setup(frame)?.to_vec();
    let channels = match channels(head) {
        // The first element states them from an odd bit on, the configuration from byte 3 on.
        0 => {
            let mut bits = Bits::new(frame.get(before..)?);
            if bits.take(3)? != PROGRAM {
                return None;
            }
            let from = bits.clone();
            let channels = program_channels(&mut bits)?;
            let size = from.left() - bits.left();
            specific.extend(copied(from, size as u32)?);
            specific.push(0); // without its comment
            channels
        }
        7 => 8,
        channels => channels,
    };
    let index = usize::from(head[2] >> 2 & 0xf);
    (head[6] & 3 == 0).then_some(Config {
        specific,
        rate: *AAC_RATES.get(index)?,
        length: 1024,
        channels,
    })
}

#[cfg(test)]
mod tests {
    use reelway_mux::bits;

    use super::*;

    #[test]
    fn channels_are_said_by_the_head_or_by_the_first_element() {
        // LC, 48 kHz, two channels; a block of one byte.
        let plain = [0xff, 0xf1, 0x4c, 0x80, 1, 0x1f, 0xfc, 0x20];
        assert_eq!(len(&plain), Some((7, 8)));
        let stereo = config(&plain).expect("a configuration");
        assert_eq!(stereo.specific, [0x11, 0x90]);
        assert_eq!((stereo.rate, stereo.channels), (48_000, 2));

        // The same without a channel configuration: a front channel, a back pair, an LFE channel.
        let element = concat!(
            "101",  // a program_config_element
            "0000", // its tag
            "01",   // LC
            "0011", // 48 kHz
            "0001", // front
            "0000", // side
            "0001", // back
            "01",   // LFE
            "000",  // associated data
            "0000", // coupled
            "000",  // no mixtures
            "0", "0000", // a single one
            "1", "0001", // a pair
            "0010", // the LFE channel
        );
        let body = bits(element);
        let length = 7 + body.len() as u8;
        let head = [0xff, 0xf1, 0x4c, 0, length >> 3, length << 5 | 0x1f, 0xfc];
        let several = config(&[&head[..], &body].concat()).expect("a configuration");
        let expected = [&[0x11, 0x80][..], &bits(&element[3..]), &[0]].concat();
        assert_eq!((several.specific, several.channels), (expected, 4));

        let other = config(&[&head[..], &[0x20; 8]].concat());
        assert_eq!(other, None, "a frame without it");
        let cut = config(&[&head[..], &body[..4]].concat());
        assert_eq!(cut, None, "a part of it");
    }
}
