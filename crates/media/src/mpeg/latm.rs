//! AAC in LATM, with the sync words of LOAS (ISO/IEC 14496-3 1.7).
//!
//! The payload of a frame may begin at any bit, so it is copied.

use crate::mp4::{AAC_RATES, Bits, program_channels};

/// Bytes before an AudioMuxElement: a sync word of 11 bits and a length of 13 bits.
const HEAD: usize = 3;
/// The maximum number of bits of an AudioSpecificConfig.
const MOST_CONFIG: u32 = 64 * 8;
/// Object types whose stated rate is that of the core: SBR, without and with parametric stereo.
const EXTENDED: [u32; 2] = [5, 29];

/// The configuration of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The AudioSpecificConfig.
    pub specific: Vec<u8>,
    /// Sampling rate of the core in Hz.
    pub rate: u32,
    /// Samples per frame of the core.
    pub length: u32,
    /// The number of channels.
    pub channels: u8,
}

/// Returns the size of the frame that `bytes` begin with, header included; `None`: there is none.
pub fn len(bytes: &[u8]) -> Option<usize> {
    let &[first, second, third, ..] = bytes else {
        return None;
    };
    let length = usize::from(second & 0x1f) << 8 | usize::from(third);
    (first == 0x56 && second & 0xe0 == 0xe0 && length > 0).then_some(HEAD + length)
}

/// Returns the decoder configuration of a frame, if it has one: most refer to the previous one.
pub fn config(frame: &[u8]) -> Option<Config> {
    let mut bits = Bits::new(frame.get(HEAD..)?);
    match bits.flag()? {
        true => None,
        false => mux_config(&mut bits),
    }
}

/// Returns the payload of a frame; `None` if it cannot be read.
pub fn payload(frame: &[u8]) -> Option<Vec<u8>> {
    let bytes = frame.get(HEAD..)?;
    let mut bits = Bits::new(bytes);
    if !bits.flag()? {
        mux_config(&mut bits)?;
    }
    let mut size = 0usize;
    loop {
        let part = bits.take(8)?;
        size += part as usize;
        if part < 255 {
            break;
        }
    }
    let at = bytes.len() * 8 - bits.left();
    (size > 0 && size * 8 <= bits.left()).then(|| shifted(bytes, at, size))
}

/// Returns `size` bytes from bit `at` on, all of which must exist.
fn shifted(bytes: &[u8], at: usize, size: usize) -> Vec<u8> {
    let (first, shift) = (at / 8, at % 8);
    let whole = &bytes[first..];
    if shift == 0 {
        return whole[..size].to_vec();
    }
    let pairs = whole.windows(2).take(size);
    pairs
        .map(|pair| pair[0] << shift | pair[1] >> (8 - shift))
        .collect()
}

/// Reads a StreamMuxConfig with one programme, one layer and one frame per element.
fn mux_config(bits: &mut Bits) -> Option<Config> {
    let version = bits.flag()?;
    // audioMuxVersionA is reserved for future versions.
    if version && bits.flag()? {
        return None;
    }
    if version {
        value(bits)?; // taraBufferFullness
    }
    let _same_time_framing = bits.flag()?;
    let (frames, programmes, layers) = (bits.take(6)?, bits.take(4)?, bits.take(3)?);
    if (frames, programmes, layers) != (0, 0, 0) {
        return None;
    }
    let stated = if version { Some(value(bits)?) } else { None };
    let before = bits.clone();
    let (rate, length, channels) = specific_config(bits)?;
    let own = (before.left() - bits.left()) as u32;
    let size = stated.unwrap_or(own);
    if size < own || size > MOST_CONFIG {
        return None;
    }
    skip(bits, size - own)?;
    let config = Config {
        specific: copied(before, size)?,
        rate,
        length,
        channels,
    };
    // Only variable-length frames that state their own length are supported.
    if bits.take(3)? != 0 {
        return None;
    }
    bits.take(8)?; // latmBufferFullness
    if bits.flag()? {
        match version {
            true => drop(value(bits)?),
            false => while bits.take(9)? & 0x100 != 0 {},
        }
    }
    if bits.flag()? {
        bits.take(8)?; // crcCheckSum
    }
    Some(config)
}

/// Reads a LatmGetValue.
fn value(bits: &mut Bits) -> Option<u32> {
    let bytes = bits.take(2)? + 1;
    bits.take(bytes as usize * 8)
}

fn skip(bits: &mut Bits, mut count: u32) -> Option<()> {
    while count > 0 {
        let some = count.min(32);
        bits.take(some as usize)?;
        count -= some;
    }
    Some(())
}

/// Returns the next `size` bits, padded with zeros.
pub fn copied(mut bits: Bits, size: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut left = size as usize;
    while left > 0 {
        let some = left.min(8);
        bytes.push((bits.take(some)? << (8 - some)) as u8);
        left -= some;
    }
    Some(bytes)
}

/// Reads an AudioSpecificConfig of AAC and returns rate, samples per frame and channels.
fn specific_config(bits: &mut Bits) -> Option<(u32, u32, u8)> {
    let begins = bits.left();
    let mut object_type = bits.take(5)?;
    let rate = rate(bits)?;
    let configuration = bits.take(4)?;
    if EXTENDED.contains(&object_type) {
        self::rate(bits)?;
        object_type = bits.take(5)?;
    }
    // Main, LC, SSR, LTP.
    if !(1..=4).contains(&object_type) {
        return None;
    }
    let is_short = bits.flag()?;
    if bits.flag()? {
        bits.take(14)?; // coreCoderDelay
    }
    let is_extended = bits.flag()?;
    let channels = match configuration {
        0 => {
            let channels = program_channels(bits)?;
            let over = (begins - bits.left()) % 8;
            skip(bits, (8 - over as u32) % 8)?;
            let comment = bits.take(8)?;
            skip(bits, comment * 8)?;
            channels
        }
        1..=6 => configuration as u8,
        7 => 8,
        _ => return None,
    };
    (!is_extended).then_some((rate, if is_short { 960 } else { 1024 }, channels))
}

fn rate(bits: &mut Bits) -> Option<u32> {
    match bits.take(4)? {
        15 => bits.take(24).filter(|rate| (1..=192_000).contains(rate)),
        index => AAC_RATES.get(index as usize).copied(),
    }
}

#[cfg(test)]
mod tests {
    use reelway_mux::bits as bytes;

    use super::*;

    fn frame(element: &[u8]) -> Vec<u8> {
        let [high, low] = (element.len() as u16).to_be_bytes();
        [&[0x56, 0xe0 | high, low][..], element].concat()
    }

    /// LC, 48 kHz, two channels.
    const LC: &str = "00010 0011 0010 0 0 0";

    #[test]
    fn a_frame_with_its_configuration_and_one_without() {
        let head = format!("0 0 1 000000 0000 000 {LC} 000 11111111 0 0 00000010");
        let first = frame(&bytes(&format!("{head} 10101010 11001100")));
        assert_eq!(len(&first), Some(first.len()));
        let config = config(&first).expect("a configuration");
        assert_eq!(config.specific, bytes(LC));
        assert_eq!(
            (config.rate, config.length, config.channels),
            (48_000, 1024, 2)
        );
        assert_eq!(payload(&first), Some(vec![0b1010_1010, 0b1100_1100]));

        let next = frame(&bytes("1 00000010 10101010 11001100"));
        assert_eq!(self::config(&next), None);
        assert_eq!(payload(&next), payload(&first));
    }

    #[test]
    fn version_1_states_the_length_of_its_configuration() {
        // SBR: 24 kHz, extended to 48 kHz; two more bits than expected.
        let sbr = "00101 0110 0001 0011 00010 0 0 0 11";
        let size = sbr.replace(' ', "").len();
        let head = format!(
            "0 1 0 00 11111111 1 000000 0000 000 00 {size:08b} {sbr} 000 11111111 1 00 00000000 1 10101010 00000001"
        );
        let found = frame(&bytes(&format!("{head} 11110000")));
        let config = config(&found).expect("a configuration");
        assert_eq!(config.specific, bytes(sbr));
        assert_eq!((config.rate, config.channels), (24_000, 1));
        assert_eq!(payload(&found), Some(vec![0b1111_0000]));
    }

    #[test]
    fn what_is_not_understood_or_too_short_is_refused() {
        let two = frame(&bytes(&format!(
            "0 0 1 000001 0000 000 {LC} 000 11111111 0 0 00000001 1"
        )));
        assert_eq!(payload(&two), None);
        assert_eq!(payload(&frame(&[0xff, 0x7f, 1])), None);
        assert_eq!(len(&[0x56, 0xe0, 0]), None);
        assert_eq!(len(&[0x56, 0xa0, 9]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_none(element in proptest::collection::vec(0u8.., 1..600)) {
            let frame = frame(&element);
            if let Some(payload) = payload(&frame) {
                proptest::prop_assert!(payload.len() < frame.len());
            }
            config(&frame);
        }
    }
}
