//! The small boxes of `moov` that say what the movie and its tracks are.

use super::boxes::fourcc;
use super::kept::KeptBox;
use super::meta;
use crate::Nanos;
use crate::index_error::IndexError;
use crate::wall_clock::since_1904;

/// The movie's timescale, and its date.
pub fn movie_header(moov: &KeptBox) -> Result<(u32, Option<Nanos>), IndexError> {
    let mvhd = moov.need(b"mvhd")?;
    let mut head = Vec::new();
    let head = mvhd.head(&mut head)?;
    let (version, _, mut fields) = head.full()?;
    let created = match version {
        1 => fields.u64()?,
        _ => fields.u32()?.into(),
    };
    // When it was changed last.
    fields.take(if version == 1 { 8 } else { 4 })?;
    // Only edit lists count in it; players take 0 for 1.
    Ok((fields.u32()?.max(1), since_1904(created)))
}

/// `tkhd`.
pub struct TrackHeader {
    /// track_ID.
    pub id: u32,
    /// Its "enabled" flag.
    pub enabled: bool,
    /// How pictures are turned.
    pub matrix: [i32; 9],
    /// Width and height, 16.16.
    pub display: (u32, u32),
}

impl TrackHeader {
    /// Reads that of a track.
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

/// `hdlr`.
pub struct Handler {
    /// What the track is: `vide`, `soun`, …
    pub kind: [u8; 4],
    /// The track's name, if it says something.
    pub name: Option<String>,
}

impl Handler {
    /// Reads it.
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

/// Timescale and language of `mdhd`.
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

/// `elng`: a BCP 47 language, which goes before that of `mdhd`.
pub fn extended_language(mdia: &KeptBox) -> Result<Option<String>, IndexError> {
    let Some(elng) = mdia.find(b"elng")? else {
        return Ok(None);
    };
    let mut head = Vec::new();
    let head = elng.head(&mut head)?;
    let (_, _, fields) = head.full()?;
    Ok(meta::language_tag(fields.left()))
}

/// Whether `dref` says that the media lies in another file, and in which.
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
        // Without the flag but without an address too, careless writers mean the same file.
        let local = flags & 1 != 0 || reference.rest(fields.at()).all(|byte| byte == [0]);
        if !local && fourcc(reference.kind) != "alis" {
            return Ok(true);
        }
    }
    Ok(false)
}
