//! Builds MP4 sample entries from the track descriptions of other containers, for initialisation
//! segments (ISO/IEC 14496-12 12.1.3, 12.2.3; 14496-1 7.2.6; ETSI TS 102 366 annex F).

use crate::mp4::Bits;

/// Returns a box with the concatenated `parts`.
pub(crate) fn boxed(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let size = (body.len() + 8) as u32;
    [&size.to_be_bytes()[..], kind, &body].concat()
}

/// Returns a visual sample entry for this size in pixels and this pixel aspect ratio. `config` is
/// the box with the decoder configuration.
pub(crate) fn picture(
    kind: &[u8; 4],
    size: (u16, u16),
    aspect: (u32, u32),
    config: &[u8],
) -> Vec<u8> {
    let pasp = match aspect {
        (1, 1) => Vec::new(),
        (wide, high) => boxed(b"pasp", &[&wide.to_be_bytes(), &high.to_be_bytes()]),
    };
    boxed(
        kind,
        &[
            &[0, 0, 0, 0, 0, 0, 0, 1], // data_reference_index
            &[0; 16],
            &size.0.to_be_bytes(),
            &size.1.to_be_bytes(),
            &[0, 0x48, 0, 0, 0, 0x48, 0, 0], // 72 dpi
            &[0, 0, 0, 0, 0, 1],             // frame_count
            &[0; 32],
            &[0, 0x18, 0xff, 0xff], // depth
            config,
            &pasp,
        ],
    )
}

/// Returns an audio sample entry.
pub(crate) fn sound(kind: &[u8; 4], rate: u32, channels: u16, config: &[u8]) -> Vec<u8> {
    sound_of_bits(kind, (rate, channels, 16), config)
}

/// Returns an audio sample entry with these bits per sample (16 for all compressed formats).
pub(crate) fn sound_of_bits(
    kind: &[u8; 4],
    (rate, channels, bits): (u32, u16, u8),
    config: &[u8],
) -> Vec<u8> {
    // 16.16 fixed point; higher rates are only in the configuration.
    let rate = if rate <= 0xffff { rate << 16 } else { 0 };
    boxed(
        kind,
        &[
            &[0, 0, 0, 0, 0, 0, 0, 1],
            &[0; 8],
            &channels.to_be_bytes(),
            &[0, bits, 0, 0, 0, 0],
            &rate.to_be_bytes(),
            config,
        ],
    )
}

/// Returns an `esds` box with an AudioSpecificConfig of at most 64 bytes.
pub(crate) fn esds(config: &[u8]) -> Vec<u8> {
    decoder(0x40, 0x15, config)
}

/// Returns an `esds` box with this objectTypeIndication and streamType (ISO/IEC 14496-1 tables 5
/// and 6) and a decoder configuration of at most 16,000 bytes.
pub(crate) fn decoder(object_type: u8, stream_type: u8, config: &[u8]) -> Vec<u8> {
    let descriptor = |tag: u8, parts: &[&[u8]]| {
        let body = parts.concat();
        let [high, low] = [body.len() >> 7, body.len() & 0x7f].map(|part| part as u8);
        match high {
            0 => [&[tag, low][..], &body].concat(),
            _ => [&[tag, 0x80 | high, low][..], &body].concat(),
        }
    };
    let specific = descriptor(5, &[config]);
    let specific = if config.is_empty() {
        Vec::new()
    } else {
        specific
    };
    // Buffer size and bit rates are not known.
    let decoder = descriptor(4, &[&[object_type, stream_type], &[0; 11], &specific]);
    let stream = descriptor(3, &[&[0, 0, 0], &decoder, &descriptor(6, &[&[2]])]);
    boxed(b"esds", &[&[0; 4], &stream])
}

/// Returns the `dfLa` box for the header of a FLAC stream (RFC 9639 section 8): the marker and
/// metadata blocks, of which decoders need the first only.
pub(crate) fn dfla(head: &[u8]) -> Option<Vec<u8>> {
    let blocks = head.strip_prefix(b"fLaC")?;
    let mut first: [u8; 38] = *blocks.first_chunk()?;
    // The flag of the last metadata block.
    first[0] |= 0x80;
    Some(boxed(b"dfLa", &[&[0; 4], &first]))
}

/// The sync word of AC-3 and E-AC-3 frames.
const SYNC: u32 = 0x0b77;

/// Returns the `dac3` box for a frame of AC-3 (ETSI TS 102 366 4.3, F.4).
pub(crate) fn dac3(frame: &[u8]) -> Option<Vec<u8>> {
    let mut bits = Bits::new(frame);
    if bits.take(16)? != SYNC {
        return None;
    }
    bits.take(16)?; // crc1
    let (rate, size) = (bits.take(2)?, bits.take(6)?);
    let (version, mode, coding) = (bits.take(5)?, bits.take(3)?, bits.take(3)?);
    if version > 8 {
        return None;
    }
    if coding & 1 != 0 && coding != 1 {
        bits.take(2)?; // cmixlev
    }
    if coding & 4 != 0 {
        bits.take(2)?; // surmixlev
    }
    if coding == 2 {
        bits.take(2)?; // dsurmod
    }
    let low = bits.take(1)?;
    let value =
        rate << 22 | version << 17 | mode << 14 | coding << 11 | low << 10 | (size >> 1) << 5;
    Some(boxed(b"dac3", &[&value.to_be_bytes()[1..]]))
}

/// Returns the `dec3` box for the first independent substream of a frame of E-AC-3 (ETSI TS 102 366
/// E.1.2, F.6).
pub(crate) fn dec3(frame: &[u8]) -> Option<Vec<u8>> {
    let mut bits = Bits::new(frame);
    if bits.take(16)? != SYNC {
        return None;
    }
    bits.take(2 + 3)?; // strmtyp, substreamid
    let words = bits.take(11)? + 1;
    let rate = bits.take(2)?;
    let samples = match (rate, bits.take(2)?) {
        (3, _) => 6 * 256, // those two bits were fscod2
        (_, 3) => 6 * 256,
        (_, blocks) => (blocks + 1) * 256,
    };
    let (coding, low, version) = (bits.take(3)?, bits.take(1)?, bits.take(5)?);
    if !(11..=16).contains(&version) {
        return None;
    }
    let hertz = [48_000, 44_100, 32_000]
        .get(rate as usize)
        .copied()
        .unwrap_or(24_000);
    let kbits = u64::from(words) * 16 * hertz / u64::from(samples) / 1000;
    let data_rate = (kbits as u32).min(0x1fff);
    let head = (data_rate << 3) as u16; // and no further independent substreams
    let rest = rate << 22 | version << 17 | coding << 9 | low << 8;
    Some(boxed(
        b"dec3",
        &[&head.to_be_bytes(), &rest.to_be_bytes()[1..]],
    ))
}
