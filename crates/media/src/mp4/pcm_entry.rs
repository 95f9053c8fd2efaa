//! Sample entries of uncompressed audio: `ipcm` (ISO/IEC 23003-5) and those of QuickTime (QuickTime
//! File Format, "Sound Sample Descriptions").

use super::boxes::Boxed;
use crate::index_error::IndexError;
use crate::{PcmConfig, Sound};

/// The size of a sound description before the fields of version 2 (and before boxes, in version 0).
const FIXED: usize = 28;
/// Flags of `lpcm`.
const IS_FLOAT: u32 = 1;
const IS_BIG_ENDIAN: u32 = 2;
const IS_SIGNED: u32 = 4;
const IS_APART: u32 = 0x20;

/// The audio of an entry and its ISO form, or why it cannot be played.
pub type Known = Result<(PcmConfig, Sound, Vec<u8>), String>;

/// Returns whether this fourcc denotes uncompressed audio.
pub fn is_one(kind: &[u8; 4]) -> bool {
    matches!(
        kind,
        b"sowt"
            | b"twos"
            | b"lpcm"
            | b"in24"
            | b"in32"
            | b"ipcm"
            | b"fpcm"
            | b"fl32"
            | b"fl64"
            | b"raw "
            | b"NONE"
    )
}

/// Parses an entry of this version, with boxes from byte `boxes` on and `stated` in its fields.
pub fn parse(
    entry: &Boxed,
    version: u16,
    boxes: usize,
    stated: Sound,
) -> Result<Known, IndexError> {
    let stated_bits = u32::from(entry.fields(18).u16()?);
    let mut sound = stated;
    let (bits, little_endian) = match &entry.kind {
        b"fpcm" | b"fl32" | b"fl64" => return Ok(Err("floating-point sound".into())),
        b"raw " | b"NONE" => return Ok(Err("uncompressed sound of 8 bits".into())),
        b"lpcm" if version == 2 => match described(entry)? {
            Ok((own, bits, little_endian)) => {
                sound = own;
                (bits, little_endian)
            }
            Err(why) => return Ok(Err(why)),
        },
        b"lpcm" => return Ok(Err("uncompressed sound that is not described".into())),
        b"ipcm" => match find(entry, boxes, b"pcmC")? {
            Some(pcmc) => {
                let (_, _, mut fields) = pcmc.full()?;
                let (flags, bits) = (fields.u8()?, fields.u8()?);
                if let Some(srat) = find(entry, boxes, b"srat")? {
                    sound.rate = srat.full()?.2.u32()?;
                }
                (bits.into(), flags & 1 == 1)
            }
            None => return Ok(Err("uncompressed sound without its configuration".into())),
        },
        b"in24" => (24, is_little_endian(entry, boxes)?),
        b"in32" => (32, is_little_endian(entry, boxes)?),
        kind => (stated_bits, kind == b"sowt"),
    };
    let config = match PcmConfig::new(bits, little_endian, sound.channels.into()) {
        Ok(config) => config,
        Err(why) => return Ok(Err(why)),
    };
    let rate = sound.rate;
    let known = config.entry(rate).map(|bytes| (config, sound, bytes));
    Ok(known.ok_or_else(|| format!("uncompressed sound of {rate} samples a second")))
}

/// Reads version 2 of `lpcm`: the audio, its bits per sample, and whether it is little-endian.
fn described(entry: &Boxed) -> Result<Result<(Sound, u32, bool), String>, IndexError> {
    let mut fields = entry.fields(FIXED);
    fields.u32()?;
    let rate = f64::from_bits(fields.u64()?);
    let channels = fields.u32()?;
    fields.u32()?;
    let (bits, flags, bytes, frames) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    if flags & IS_FLOAT != 0 {
        return Ok(Err("floating-point sound".into()));
    }
    let is_packed = u64::from(bytes) * 8 == u64::from(bits) * u64::from(channels);
    if flags & IS_SIGNED == 0 || flags & IS_APART != 0 || !is_packed || frames > 1 {
        return Ok(Err(format!(
            "uncompressed sound whose {bits} bits are laid out otherwise"
        )));
    }
    let sound = Sound {
        channels: u16::try_from(channels).unwrap_or(0),
        // NaN becomes 0, and values that are too large become the maximum.
        rate: rate.round() as u32,
    };
    Ok(Ok((sound, bits, flags & IS_BIG_ENDIAN == 0)))
}

/// Reads `enda`, inside `wave` or beside it; big-endian if there is none.
fn is_little_endian(entry: &Boxed, boxes: usize) -> Result<bool, IndexError> {
    let says = |enda: Option<Boxed>| enda.is_some_and(|enda| enda.body.get(1) == Some(&1));
    if let Some(wave) = find(entry, boxes, b"wave")?
        && says(wave.find(b"enda")?)
    {
        return Ok(true);
    }
    Ok(says(find(entry, boxes, b"enda")?))
}

/// Returns the first box of this kind after the entry's fields. An invalid box ends the search:
/// QuickTime writers end lists of boxes with four zeros.
fn find<'p, 'a>(
    entry: &'p Boxed<'p, 'a>,
    boxes: usize,
    kind: &[u8; 4],
) -> Result<Option<Boxed<'p, 'a>>, IndexError> {
    for child in entry.children(boxes) {
        match child {
            Ok(child) if child.kind == *kind => return Ok(Some(child)),
            Ok(_) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}
