//! MPEG-4 audio: `esds` and the AudioSpecificConfig in it (ISO/IEC 14496-1 7.2.6, 14496-3 1.6).

use super::bits::Bits;
use super::boxes::Boxed;
use crate::AacConfig;
use crate::index_error::IndexError;

/// The contents of an `esds` box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Esds<'a> {
    /// objectTypeIndication (14496-1 table 5): 0x40 MPEG-4 audio, 0x6b MP3, …
    pub object_type: u8,
    /// DecoderSpecificInfo: for MPEG-4 audio an AudioSpecificConfig; may be empty.
    pub specific: &'a [u8],
}

impl<'a> Esds<'a> {
    /// Parses the box. Descriptors that claim to be longer than the box are truncated: some writers
    /// get the outer lengths wrong, and all players accept that.
    pub fn parse(esds: &Boxed<'_, 'a>) -> Result<Esds<'a>, IndexError> {
        let (_, _, fields) = esds.full()?;
        let read = || {
            let es = descriptor(fields.left(), 3)?;
            let (head, mut rest) = es.split_at_checked(3)?;
            let flags = head[2];
            if flags & 0x80 != 0 {
                rest = rest.get(2..)?;
            }
            if flags & 0x40 != 0 {
                rest = rest.get(1 + usize::from(*rest.first()?)..)?;
            }
            if flags & 0x20 != 0 {
                rest = rest.get(2..)?;
            }
            let decoder = descriptor(rest, 4)?;
            let (head, rest) = decoder.split_at_checked(13)?;
            Some(Esds {
                object_type: head[0],
                specific: descriptor(rest, 5).unwrap_or_default(),
            })
        };
        read().ok_or_else(|| esds.damaged("holds no decoder configuration"))
    }
}

/// Returns the body of the first descriptor with this tag in `bytes`.
fn descriptor(mut bytes: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        let (&tag, mut rest) = bytes.split_first()?;
        let mut length = 0usize;
        for _ in 0..4 {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            length = length << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (body, after) = rest.split_at(length.min(rest.len()));
        if tag == wanted {
            return Some(body);
        }
        bytes = after;
    }
}

/// An AudioSpecificConfig and the properties of the decoder's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioConfig {
    /// The configuration that other crates see.
    pub aac: AacConfig,
    /// Output sampling rate in Hz: with spectral band replication, usually twice the core's.
    pub rate: u32,
    /// Output channels.
    pub channels: u16,
}

/// Sampling rates by samplingFrequencyIndex (14496-3 table 1.18).
pub const RATES: [u32; 13] = [
    96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350,
];

const SBR: u8 = 5;
const PS: u8 = 29;

/// Parses an AudioSpecificConfig. `entry_rate` is the sampling rate in the sample entry: if it is
/// twice the core's rate, the writer signals SBR that the configuration does not mention (implicit
/// signalling). Returns `None` if the configuration is too short or uses reserved values.
pub fn audio_config(config: &[u8], entry_rate: u32) -> Option<AudioConfig> {
    let mut bits = Bits::new(config);
    let mut object_type = audio_object_type(&mut bits)?;
    let rate = sampling_rate(&mut bits)?;
    let channel_configuration = bits.take(4)?;
    let (mut extension, mut output_rate) = (None, rate);
    if object_type == SBR || object_type == PS {
        extension = Some(object_type);
        output_rate = sampling_rate(&mut bits)?;
        object_type = audio_object_type(&mut bits)?;
    }
    let mut channels = channels_of(channel_configuration);
    let mut frame_length = 1024;
    match object_type {
        1..=4 | 6 | 7 | 17 | 19..=23 => {
            let short = bits.flag()?;
            frame_length = match (object_type, short) {
                (23, false) => 512,
                (23, true) => 480,
                (_, false) => 1024,
                (_, true) => 960,
            };
            if bits.flag()? {
                bits.take(14)?; // coreCoderDelay
            }
            let _extension_flag = bits.flag()?;
            if channel_configuration == 0 {
                channels = program_channels(&mut bits);
            }
        }
        39 => frame_length = if bits.flag()? { 480 } else { 512 },
        _ => {}
    }
    if extension.is_none() {
        extension = late_extension(&mut bits, &mut output_rate);
    }
    if extension.is_none() && object_type == 2 && rate <= 24000 && entry_rate == 2 * rate {
        extension = Some(SBR);
        output_rate = entry_rate;
    }
    let channels = channels.unwrap_or(0);
    Some(AudioConfig {
        aac: AacConfig {
            config: config.to_vec(),
            object_type: extension.unwrap_or(object_type),
            rate,
            channels,
            frame_length,
        },
        rate: output_rate,
        channels: if extension == Some(PS) {
            u16::from(channels.max(2))
        } else {
            u16::from(channels)
        },
    })
}

impl AacConfig {
    /// Returns the number of the channel layout (14496-3 table 1.19), such as 2 for left and right.
    /// 0 means that a program_config_element lists the channels, which Chromium does not accept.
    pub fn channel_configuration(&self) -> u8 {
        let mut bits = Bits::new(&self.config);
        let mut read = || {
            audio_object_type(&mut bits)?;
            sampling_rate(&mut bits)?;
            bits.take(4)
        };
        read().unwrap_or(0) as u8
    }
}

fn audio_object_type(bits: &mut Bits) -> Option<u8> {
    match bits.take(5)? {
        31 => Some(32 + bits.take(6)? as u8),
        value => Some(value as u8),
    }
}

fn sampling_rate(bits: &mut Bits) -> Option<u32> {
    match bits.take(4)? {
        15 => bits.take(24).filter(|&rate| rate > 0),
        index => RATES.get(index as usize).copied(),
    }
}

/// Returns the number of channels of a channelConfiguration (14496-3 table 1.19).
fn channels_of(configuration: u32) -> Option<u8> {
    match configuration {
        1..=6 => Some(configuration as u8),
        7 | 12 | 14 => Some(8),
        11 => Some(7),
        13 => Some(24),
        _ => None,
    }
}

/// Returns the number of channels of a program_config_element (14496-3 4.4.1.1), which follows if
/// the channel configuration is 0. Its comment, which begins with a length byte, is not read.
pub fn program_channels(bits: &mut Bits) -> Option<u8> {
    bits.take(4 + 2 + 4)?; // element_instance_tag, object_type, sampling_frequency_index
    let paired = bits.take(4)? + bits.take(4)? + bits.take(4)?; // front, side, back
    let low = bits.take(2)?;
    let (beside, coupled) = (bits.take(3)?, bits.take(4)?);
    for mixdown_bits in [4, 4, 3] {
        if bits.flag()? {
            bits.take(mixdown_bits)?;
        }
    }
    let mut channels = low;
    for _ in 0..paired {
        channels += 1 + bits.take(1)?;
        bits.take(4)?;
    }
    for _ in 0..low + beside {
        bits.take(4)?;
    }
    for _ in 0..coupled {
        bits.take(5)?;
    }
    Some(channels as u8)
}

/// Reads the backward-compatible extension after the part that old decoders read (14496-3 1.6.2.1,
/// syncExtensionType 0x2b7). It is searched for bit by bit: the part before it varies in length.
fn late_extension(bits: &mut Bits, rate: &mut u32) -> Option<u8> {
    while bits.left() > 15 {
        if bits.peek(11) != Some(0x2b7) {
            bits.take(1)?;
            continue;
        }
        bits.take(11)?;
        let sbr = audio_object_type(bits)? == SBR && bits.flag()?;
        if !sbr {
            return None;
        }
        *rate = sampling_rate(bits)?;
        let ps = bits.take(11) == Some(0x548) && bits.flag() == Some(true);
        return Some(if ps { PS } else { SBR });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::boxes::{BoxOf, Place};

    fn parsed(config: &[u8], entry_rate: u32) -> (u8, u32, u8, u16, u32, u16) {
        let AudioConfig {
            aac,
            rate,
            channels,
        } = audio_config(config, entry_rate).unwrap();
        (
            aac.object_type,
            aac.rate,
            aac.channels,
            aac.frame_length,
            rate,
            channels,
        )
    }

    #[test]
    fn plain_aac() {
        assert_eq!(parsed(&[0x12, 0x10], 44100), (2, 44100, 2, 1024, 44100, 2));
        // As ffmpeg writes it: with an extension that states the absence of SBR.
        assert_eq!(
            parsed(&[0x11, 0x90, 0x56, 0xe5, 0x00], 48000),
            (2, 48000, 2, 1024, 48000, 2)
        );
    }

    #[test]
    fn frames_of_960() {
        assert_eq!(parsed(&[0x11, 0x94], 48000), (2, 48000, 2, 960, 48000, 2));
    }

    #[test]
    fn sbr_in_the_object_type() {
        // 5, 24 kHz, 2 channels, 48 kHz, 2: hierarchical signalling.
        assert_eq!(
            parsed(&[0x2b, 0x11, 0x88, 0x00], 48000),
            (5, 24000, 2, 1024, 48000, 2)
        );
    }

    #[test]
    fn sbr_and_ps_behind_the_old_configuration() {
        // 2, 24 kHz, stereo, then 0x2b7, 5, 1, 48 kHz.
        assert_eq!(
            parsed(&[0x13, 0x10, 0x56, 0xe5, 0x98], 24000),
            (5, 24000, 2, 1024, 48000, 2)
        );
        // Mono with parametric stereo: followed by 0x548 and 1.
        assert_eq!(
            parsed(&[0x13, 0x08, 0x56, 0xe5, 0x9d, 0x48, 0x80], 24000),
            (29, 24000, 1, 1024, 48000, 2)
        );
    }

    #[test]
    fn ps_in_the_object_type() {
        // 29, 24 kHz, mono, 48 kHz, 2.
        assert_eq!(
            parsed(&[0xeb, 0x09, 0x88, 0x00], 48000),
            (29, 24000, 1, 1024, 48000, 2)
        );
    }

    #[test]
    fn sbr_told_by_the_sample_entry_alone() {
        assert_eq!(parsed(&[0x13, 0x10], 48000), (5, 24000, 2, 1024, 48000, 2));
        assert_eq!(parsed(&[0x12, 0x10], 44100).0, 2);
    }

    #[test]
    fn channels_of_a_program_config_element() {
        // 2, 48 kHz, configuration 0, then a PCE: front 1 + a pair, back pair, one LFE: 5.1.
        let mut bits =
            String::from("00010 0011 0000 000 0000 01 0011 0010 0000 0001 01 000 0000 0 0 0");
        bits += "0 0000 1 0000 1 0001 0000"; // centre, front pair, back pair, lfe
        let bits: Vec<u8> = bits
            .bytes()
            .filter(|byte| *byte != b' ')
            .map(|byte| byte - b'0')
            .collect();
        let bytes: Vec<u8> = bits
            .chunks(8)
            .map(|byte| byte.iter().fold(0, |all, bit| all << 1 | bit))
            .collect();
        assert_eq!(parsed(&bytes, 48000).5, 6);
        let aac = |config| audio_config(config, 48000).expect("it is whole").aac;
        assert_eq!(aac(&bytes).channel_configuration(), 0);
        assert_eq!(aac(&[0x11, 0x90]).channel_configuration(), 2);
        // With an explicit sampling rate: 7.1.
        let full = [0x17, 0x80, 0x5d, 0xc0, 0x38];
        assert_eq!(aac(&full).channel_configuration(), 7);
    }

    #[test]
    fn cut_off_or_reserved_is_none() {
        assert_eq!(audio_config(&[], 0), None);
        assert_eq!(audio_config(&[0x12], 0), None);
        assert_eq!(audio_config(&[0x17, 0x10], 0), None); // index 14
    }

    #[test]
    fn descriptors_with_long_lengths_and_options() {
        let mut body = vec![
            0, 0, 0, 0, 3, 0x80, 0x80, 0x80, 60, 0, 1, 0xe0, 0, 9, 1, b'x', 0, 0,
        ];
        body.extend([
            4, 20, 0x40, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x80, 0x80, 0x80, 2, 0x12, 0x10,
        ]);
        let place = Place {
            kind: *b"esds",
            offset: 0,
            header: 8,
            number: 0,
            parent: None,
        };
        let esds = BoxOf {
            place,
            body: &body[..],
        };
        let read = Esds::parse(&esds).unwrap();
        assert_eq!(
            read,
            Esds {
                object_type: 0x40,
                specific: &[0x12, 0x10]
            }
        );
    }
}
