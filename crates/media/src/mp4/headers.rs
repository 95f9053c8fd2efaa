//! The small boxes in `moov` that describe the movie and its tracks.

use super::boxes::fourcc;
use super::kept::KeptBox;
use super::meta;
use crate::Nanos;
use crate::index_error::IndexError;
use crate::wall_clock::since_1904;

/// Returns the movie's timescale and creation date.
pub fn movie_header(moov: &KeptBox) -> Result<(u32, Option<Nanos>), IndexError> {
    let mvhd = moov.need(b"mvhd")?;
    let mut head = Vec::new();
    let head = mvhd.head(&mut head)?;
    let (version, _, mut fields) = head.full()?;
    let created = match version {
        1 => fields.u64()?,
        _ => fields.u32()?.into(),
    };
    // modification_time
    fields.take(if version == 1 { 8 } else { 4 })?;
    // Only edit lists use it; players treat 0 as 1.
    Ok((fields.u32()?.max(1), since_1904(created)))
}

/// The contents of `tkhd`.
pub struct TrackHeader {
    /// The track_ID.
    pub id: u32,
    /// The "enabled" flag.
    pub enabled: bool,
    /// The transformation matrix (rotation).
    pub matrix: [i32; 9],
    /// Width and height, 16.16.
    pub display: (u32, u32),
}

impl TrackHeader {
    /// Parses the header of a track.
    pub fn parse(trak: &KeptBox) -> Result<Self, IndexError> {
        let tkhd = trak.need(b"tkhd")?;
        let mut head = Vec::new();
        let head = tkhd.head(&mut head)?;
        let (version, flags, mut fields) = head.full()?;
        let wide = version == 1;
        fields.take(if wide { 16 } else { 8 })?;
        let id = fields.u32()?;
        fields.u32()?;
        fields.wide(wide)?;
        fields.take(16)?; // reserved, layer, alternate_group, volume
        let mut matrix = [0; 9];
        for value in &mut matrix {
            *value = fields.u32()? as i32;
        }
        let display = (fields.u32()?, fields.u32()?);
        Ok(TrackHeader {
            id,
            enabled: flags & 1 != 0,
            matrix,
            display,
        })
    }
}

/// The contents of `hdlr`.
pub struct Handler {
    /// The kind of track: `vide`, `soun`, …
    pub kind: [u8; 4],
    /// The track's name, if it is meaningful.
    pub name: Option<String>,
}

impl Handler {
    /// Parses the box.
    pub fn parse(hdlr: &KeptBox) -> Result<Self, IndexError> {
        let mut head = Vec::new();
        let head = hdlr.head(&mut head)?;
        let (_, _, mut fields) = head.full()?;
        fields.take(4)?;
        let kind = fields.u32()?.to_be_bytes();
        let rest = fields.left();
        Ok(Handler {
            kind,
            name: rest.get(12..).and_then(meta::handler_name),
        })
    }
}

/// Returns timescale and language from `mdhd`.
pub fn media_header(mdhd: &KeptBox) -> Result<(u32, Option<String>), IndexError> {
    let mut head = Vec::new();
    let head = mdhd.head(&mut head)?;
    let (version, _, mut fields) = head.full()?;
    fields.take(if version == 1 { 16 } else { 8 })?;
    let timescale = fields.u32()?;
    if timescale == 0 {
        return Err(mdhd.damaged("says that a second has 0 ticks"));
    }
    fields.wide(version == 1)?;
    Ok((timescale, meta::packed_language(fields.u16()?)))
}

/// Returns the BCP 47 language from `elng`, which has priority over that of `mdhd`.
pub fn extended_language(mdia: &KeptBox) -> Result<Option<String>, IndexError> {
    let Some(elng) = mdia.find(b"elng")? else {
        return Ok(None);
    };
    let mut head = Vec::new();
    let head = elng.head(&mut head)?;
    let (_, _, fields) = head.full()?;
    Ok(meta::language_tag(fields.left()))
}

/// Returns whether `dref` says that the media lies in another file.
pub fn elsewhere(minf: &KeptBox) -> Result<bool, IndexError> {
    let Some(dinf) = minf.find(b"dinf")? else {
        return Ok(false);
    };
    let Some(dref) = dinf.find(b"dref")? else {
        return Ok(false);
    };
    for reference in dref.children(8) {
        let reference = reference?;
        let mut head = Vec::new();
        let head = reference.head(&mut head)?;
        let (_, flags, fields) = head.full()?;
        // Without flag and address, it is the same file: careless writers omit the flag.
        let local = flags & 1 != 0 || reference.rest(fields.at()).all(|byte| byte == [0]);
        if !local && fourcc(reference.kind) != "alis" {
            return Ok(true);
        }
    }
    Ok(false)
}
