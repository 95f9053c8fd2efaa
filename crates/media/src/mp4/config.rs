//! Decoder configuration records of video codecs, Opus, AC-3, E-AC-3 and FLAC.

use super::bits::Bits;
use super::boxes::{Boxed, Fields};
use crate::index_error::IndexError;
use crate::{H264Config, H265Config, OpusConfig, Sound};

/// Parses `avcC` (ISO/IEC 14496-15 5.3.3.1).
pub fn h264(avcc: &Boxed, fourcc: [u8; 4]) -> Result<H264Config, IndexError> {
    let mut fields = avcc.fields(0);
    fields.u8()?;
    let profile = [fields.u8()?, fields.u8()?, fields.u8()?];
    let length_size = length_size(avcc, fields.u8()?)?;
    let count = fields.u8()? & 0x1f;
    let sps = units(&mut fields, count.into())?;
    let count = fields.u8()?;
    let pps = units(&mut fields, count.into())?;
    Ok(H264Config {
        fourcc,
        length_size,
        profile,
        sps,
        pps,
    })
}

/// Parses `hvcC` (ISO/IEC 14496-15 8.3.3.1).
pub fn h265(hvcc: &Boxed, fourcc: [u8; 4]) -> Result<H265Config, IndexError> {
    let mut fields = hvcc.fields(1);
    let mut profile = [0; 12];
    profile.copy_from_slice(fields.take(12)?);
    fields.take(8)?;
    let length_size = length_size(hvcc, fields.u8()?)?;
    let mut config = H265Config {
        fourcc,
        length_size,
        profile,
        vps: vec![],
        sps: vec![],
        pps: vec![],
    };
    for _ in 0..fields.u8()? {
        let kind = fields.u8()? & 0x3f;
        let count = fields.u16()?;
        let units = units(&mut fields, count)?;
        match kind {
            32 => config.vps.extend(units),
            33 => config.sps.extend(units),
            34 => config.pps.extend(units),
            _ => {} // SEI and the like
        }
    }
    Ok(config)
}

/// Reads NAL units with 16-bit lengths: at least two bytes each, so the box limits their number.
fn units(fields: &mut Fields, count: u16) -> Result<Vec<Vec<u8>>, IndexError> {
    let mut units = Vec::new();
    for _ in 0..count {
        let length = fields.u16()?;
        let unit = fields.take(length.into())?;
        if !unit.is_empty() {
            units.push(unit.to_vec());
        }
    }
    Ok(units)
}

fn length_size(of: &Boxed, field: u8) -> Result<u8, IndexError> {
    match (field & 3) + 1 {
        3 => Err(of.damaged("says that NAL lengths take 3 bytes; 1, 2 or 4 are possible")),
        size => Ok(size),
    }
}

/// Parses `dOps` (Encapsulation of Opus in ISO BMFF 4.3.2).
pub fn opus(dops: &Boxed) -> Result<OpusConfig, IndexError> {
    let mut fields = dops.fields(1);
    let channels = fields.u8()?;
    Ok(OpusConfig {
        channels,
        pre_skip: fields.u16()?,
        input_rate: fields.u32()?,
    })
}

/// Sampling rates by fscod (ETSI TS 102 366 4.4.1.3).
const AC3_RATES: [u32; 3] = [48000, 44100, 32000];
/// Full-range channels by acmod (4.4.2.3).
const AC3_CHANNELS: [u16; 8] = [2, 1, 2, 3, 3, 4, 4, 5];

/// Parses `dac3` (ETSI TS 102 366 F.4); `None` if it is truncated or uses reserved values.
pub fn ac3(dac3: &[u8]) -> Option<Sound> {
    let mut bits = Bits::new(dac3);
    let rate = *AC3_RATES.get(bits.take(2)? as usize)?;
    bits.take(5 + 3)?; // bsid, bsmod
    let channels = AC3_CHANNELS[bits.take(3)? as usize] + bits.take(1)? as u16;
    Some(Sound { rate, channels })
}

/// Parses `dfLa` (Encapsulation of FLAC in ISO Base Media File Format 3.3.2); `None` if it does not
/// begin with STREAMINFO (RFC 9639 section 8.2).
pub fn flac(dfla: &[u8]) -> Option<Sound> {
    let mut bits = Bits::new(dfla.get(4..)?);
    bits.take(1)?; // last metadata block
    if (bits.take(7)?, bits.take(24)?) != (0, 34) {
        return None;
    }
    bits.take(16 + 16)?; // block sizes
    bits.take(24)?; // frame sizes
    bits.take(24)?;
    let rate = bits.take(20)?;
    let channels = bits.take(3)? as u16 + 1;
    (rate > 0).then_some(Sound { rate, channels })
}

/// Parses `dec3` (ETSI TS 102 366 F.6): the first independent substream and its dependent ones.
pub fn eac3(dec3: &[u8]) -> Option<Sound> {
    let mut bits = Bits::new(dec3);
    bits.take(13 + 3)?; // data_rate, num_ind_sub
    let rate = *AC3_RATES.get(bits.take(2)? as usize)?;
    bits.take(5 + 1 + 1 + 3)?; // bsid, reserved, asvc, bsmod
    let mut channels = AC3_CHANNELS[bits.take(3)? as usize] + bits.take(1)? as u16;
    bits.take(3)?;
    if bits.take(4)? > 0 {
        // chan_loc from its lowest bit: pairs Lc/Rc, Lrs/Rrs; single Cs, Ts; pairs Lsd/Rsd, Lw/Rw,
        // Lvh/Rvh; single Cvh, LFE2 (table F.6.1).
        let location = bits.take(9)?;
        let pairs = location & 0b0_0111_0011;
        channels += (location.count_ones() + pairs.count_ones()) as u16;
    }
    Some(Sound { rate, channels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndexErrorKind;
    use crate::mp4::boxes::{BoxOf, Place};

    fn boxed<'a>(kind: &[u8; 4], body: &'a [u8]) -> Boxed<'a, 'a> {
        let place = Place {
            kind: *kind,
            offset: 40,
            header: 8,
            number: 0,
            parent: None,
        };
        BoxOf { place, body }
    }

    #[test]
    fn parameter_sets_of_h264() {
        let body = [
            1, 100, 0, 31, 0xff, 0xe1, 0, 3, 0x67, 1, 2, 1, 0, 2, 0x68, 3, 0xfd, 0xf8, 0xf8, 0,
        ];
        let config = h264(&boxed(b"avcC", &body), *b"avc1").unwrap();
        assert_eq!((config.length_size, config.profile), (4, [100, 0, 31]));
        assert_eq!(
            (config.sps, config.pps),
            (vec![vec![0x67, 1, 2]], vec![vec![0x68, 3]])
        );
    }

    #[test]
    fn parameter_sets_that_reach_past_the_box_are_an_error() {
        let body = [1, 100, 0, 31, 0xff, 0xe1, 255, 255, 0x67];
        let error = h264(&boxed(b"avcC", &body), *b"avc1").unwrap_err();
        assert_eq!(
            (error.kind, error.path.as_str(), error.offset),
            (IndexErrorKind::Damaged, "avcC", 40)
        );
    }

    #[test]
    fn nal_lengths_of_three_bytes_are_an_error() {
        assert!(h264(&boxed(b"avcC", &[1, 100, 0, 31, 0xfe, 0, 0]), *b"avc1").is_err());
    }

    #[test]
    fn parameter_sets_of_h265_by_their_kind() {
        let mut body = vec![1, 1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 93];
        body.extend([0xf0, 0, 0xfc, 0xfd, 0xf8, 0xf8, 0, 0, 0x0f, 4]);
        for kind in [32, 33, 34, 39] {
            body.extend([0x80 | kind, 0, 1, 0, 2, kind << 1, 1]);
        }
        let config = h265(&boxed(b"hvcC", &body), *b"hvc1").unwrap();
        assert_eq!(config.profile, [1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 93]);
        assert_eq!(
            (config.vps, config.sps, config.pps),
            (vec![vec![64, 1]], vec![vec![66, 1]], vec![vec![68, 1]])
        );
    }

    #[test]
    fn channels_of_dolby_sound() {
        // fscod 0, bsid 8, acmod 7 and LFE: 5.1 at 48 kHz.
        assert_eq!(
            ac3(&[0x10, 0x3d, 0x40]),
            Some(Sound {
                rate: 48000,
                channels: 6
            })
        );
        assert_eq!(
            eac3(&[0x06, 0x00, 0x20, 0x0f, 0x00]),
            Some(Sound {
                rate: 48000,
                channels: 6
            })
        );
        // One dependent substream with Lrs/Rrs: 7.1.
        assert_eq!(
            eac3(&[0x06, 0x00, 0x20, 0x0f, 0x02, 0x02]),
            Some(Sound {
                rate: 48000,
                channels: 8
            })
        );
        assert_eq!(ac3(&[0xc0]), None);
    }
}
