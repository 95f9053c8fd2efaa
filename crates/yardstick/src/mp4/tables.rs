//! `moov`: the tracks, and the access units of a film that is not fragmented.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::boxes::{Box, Fields, Result, boxes, descend, header, name, need};
use super::coding::Coding;
use super::fragment::{Fragment, FragmentUnit, read_moof};
use super::track::Track;
use crate::reference::{Reference, ReferenceTrack};

/// Maximum length of a `moov` or `moof`.
const MOST_HEAD: u64 = 256 << 20;
/// Maximum size of an access unit.
const MOST_UNIT: u32 = 64 << 20;

/// The contents of an initialisation segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Initialisation {
    /// Video and audio tracks.
    pub tracks: Vec<Track>,
}

/// Reads an initialisation segment.
///
/// # Errors
/// A description of why it is not a valid initialisation segment.
pub(crate) fn initialisation(bytes: &[u8]) -> Result<Initialisation> {
    let moov = need(bytes, &[b"moov"])?;
    Ok(Initialisation {
        tracks: tracks(moov)?.into_iter().map(|(track, _)| track).collect(),
    })
}

/// Returns the video and audio tracks of a `moov`, each with the body of its `trak`.
fn tracks(moov: &[u8]) -> Result<Vec<(Track, &[u8])>> {
    let movie_scale = {
        let mut fields = Fields(need(moov, &[b"mvhd"])?);
        let (version, _) = fields.full()?;
        fields.take(if version == 1 { 16 } else { 8 })?;
        fields.u32()?.max(1)
    };
    let mut all = Vec::new();
    for trak in boxes(moov) {
        let trak = trak?;
        if trak.kind != *b"trak" {
            continue;
        }
        let handler = need(trak.body, &[b"mdia", b"hdlr"])?.get(8..12);
        let is_video = match handler {
            Some(b"vide") => true,
            Some(b"soun") => false,
            _ => continue,
        };
        let mut fields = Fields(need(trak.body, &[b"tkhd"])?);
        let (version, _) = fields.full()?;
        fields.take(if version == 1 { 16 } else { 8 })?;
        let id = fields.u32()?;
        let mut fields = Fields(need(trak.body, &[b"mdia", b"mdhd"])?);
        let (version, _) = fields.full()?;
        fields.take(if version == 1 { 16 } else { 8 })?;
        let timescale = fields.u32()?.max(1);
        let (default_duration, default_size) = defaults(moov, id)?;
        let track = Track {
            id,
            is_video,
            timescale,
            coding: coding(need(trak.body, &[b"mdia", b"minf", b"stbl", b"stsd"])?)?,
            default_duration,
            default_size,
            edit: edit(trak.body, movie_scale)?,
        };
        all.push((track, trak.body));
    }
    if all.is_empty() {
        return Err("no track of picture or sound".into());
    }
    Ok(all)
}

/// Returns the default duration and size from the `trex` of a track.
fn defaults(moov: &[u8], id: u32) -> Result<(u32, u32)> {
    let Some(mvex) = descend(moov, &[b"mvex"])? else {
        return Ok((0, 0));
    };
    for found in boxes(mvex) {
        let found = found?;
        let mut fields = Fields(found.body);
        if found.kind == *b"trex" && {
            fields.full()?;
            fields.u32()? == id
        } {
            fields.u32()?;
            return Ok((fields.u32()?, fields.u32()?));
        }
    }
    Ok((0, 0))
}

/// Returns the edit list: the start in the track's time, and the length of an empty edit before it
/// in nanoseconds.
fn edit(trak: &[u8], movie_scale: u32) -> Result<(i64, i64)> {
    let Some(elst) = descend(trak, &[b"edts", b"elst"])? else {
        return Ok((0, 0));
    };
    let mut fields = Fields(elst);
    let (version, _) = fields.full()?;
    let count = fields.count(if version == 1 { 20 } else { 12 })?;
    let mut empty = 0;
    for _ in 0..count {
        let duration = fields.u32_or_64(version)?;
        let media = if version == 1 {
            fields.u64()? as i64
        } else {
            i64::from(fields.u32()? as i32)
        };
        fields.u32()?;
        if media >= 0 {
            return Ok((media, empty));
        }
        let nanos = i128::from(duration) * 1_000_000_000 / i128::from(movie_scale);
        empty += i64::try_from(nanos).unwrap_or(0);
    }
    Ok((0, empty))
}

fn coding(stsd: &[u8]) -> Result<Coding> {
    let mut fields = Fields(stsd);
    fields.full()?;
    fields.u32()?;
    let Some(entry) = boxes(fields.0).next() else {
        return Err("a track without a description".into());
    };
    let entry = entry?;
    // Skips the fields before the boxes of a visual sample entry.
    let inner = entry.body.get(78..).unwrap_or_default();
    let length = |kind: &[u8; 4], at: usize| -> Result<u8> {
        let config = need(inner, &[kind])?;
        let byte = config.get(at).ok_or("a codec configuration cut off")?;
        Ok((byte & 3) + 1)
    };
    Ok(match &entry.kind {
        b"avc1" | b"avc3" => Coding::H264(length(b"avcC", 4)?),
        b"hvc1" | b"hev1" => Coding::H265(length(b"hvcC", 21)?),
        _ => Coding::Whole,
    })
}

/// Returns the access units of a `trak` with sample tables.
fn units(trak: &[u8]) -> Result<Vec<FragmentUnit>> {
    let table = need(trak, &[b"mdia", b"minf", b"stbl"])?;
    let mut sizes = sizes(table)?;
    let offsets = offsets(table)?;
    let mut chunks = Fields(need(table, &[b"stsc"])?);
    chunks.full()?;
    let runs = chunks.count(12)?;
    let mut firsts = Vec::with_capacity(runs);
    for _ in 0..runs {
        firsts.push((chunks.u32()? as usize, chunks.u32()? as usize));
        chunks.u32()?;
    }
    let mut units = Vec::with_capacity(sizes.len());
    let mut run = 0;
    sizes.reverse();
    for (number, offset) in offsets.iter().enumerate() {
        while firsts.get(run + 1).is_some_and(|next| next.0 <= number + 1) {
            run += 1;
        }
        let (mut offset, count) = (*offset, firsts.get(run).map_or(0, |first| first.1));
        for _ in 0..count {
            let Some(size) = sizes.pop() else {
                break;
            };
            units.push(FragmentUnit {
                dts: 0,
                cts: 0,
                duration: 0,
                offset,
                size,
            });
            offset += u64::from(size);
        }
    }
    let mut at = 0;
    let mut dts = 0_u64;
    for (count, duration) in pairs(table, b"stts")?.unwrap_or_default() {
        for unit in units.iter_mut().skip(at).take(count as usize) {
            unit.dts = dts;
            unit.duration = duration;
            dts = dts.saturating_add(duration.into());
        }
        at += count as usize;
    }
    at = 0;
    for (count, cts) in pairs(table, b"ctts")?.unwrap_or_default() {
        for unit in units.iter_mut().skip(at).take(count as usize) {
            unit.cts = i64::from(cts as i32);
        }
        at += count as usize;
    }
    Ok(units)
}

fn pairs(table: &[u8], kind: &[u8; 4]) -> Result<Option<Vec<(u32, u32)>>> {
    let Some(body) = descend(table, &[kind])? else {
        return Ok(None);
    };
    let mut fields = Fields(body);
    fields.full()?;
    let count = fields.count(8)?;
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push((fields.u32()?, fields.u32()?));
    }
    Ok(Some(all))
}

fn sizes(table: &[u8]) -> Result<Vec<u32>> {
    if let Some(body) = descend(table, &[b"stsz"])? {
        let mut fields = Fields(body);
        fields.full()?;
        let fixed = fields.u32()?;
        if fixed > 0 {
            let count = fields.u32()? as usize;
            if count > 50_000_000 {
                return Err("more than 50 million samples".into());
            }
            return Ok(vec![fixed; count]);
        }
        let count = fields.count(4)?;
        return (0..count).map(|_| fields.u32()).collect();
    }
    let mut fields = Fields(need(table, &[b"stz2"])?);
    fields.full()?;
    let bits = fields.u32()? & 0xff;
    let count = fields.u32()? as usize;
    if count > fields.0.len() * 2 {
        return Err("a table with more entries than it holds".into());
    }
    let body = fields.0;
    let size = |number: usize| -> Option<u32> {
        match bits {
            4 => body.get(number / 2).map(|byte| {
                u32::from(if number.is_multiple_of(2) {
                    byte >> 4
                } else {
                    byte & 15
                })
            }),
            8 => body.get(number).map(|byte| u32::from(*byte)),
            _ => Some(u32::from(u16::from_be_bytes([
                *body.get(number * 2)?,
                *body.get(number * 2 + 1)?,
            ]))),
        }
    };
    (0..count)
        .map(|number| size(number).ok_or_else(|| "stz2 cut off".to_owned()))
        .collect()
}

fn offsets(table: &[u8]) -> Result<Vec<u64>> {
    if let Some(body) = descend(table, &[b"co64"])? {
        let mut fields = Fields(body);
        fields.full()?;
        let count = fields.count(8)?;
        return (0..count).map(|_| fields.u64()).collect();
    }
    let mut fields = Fields(need(table, &[b"stco"])?);
    fields.full()?;
    let count = fields.count(4)?;
    (0..count).map(|_| fields.u32().map(u64::from)).collect()
}

/// Reads a film and hashes each of its access units, for comparison. Times are the tracks' own
/// after their edit lists, not yet relative to the film's zero.
///
/// # Errors
/// A description of why it cannot be read or is not MP4, with the file's name.
pub fn read_film(path: &Path) -> Result<Reference> {
    read(path).map_err(|why| format!("{}: {why}", path.display()))
}

fn read(path: &Path) -> Result<Reference> {
    let io = |error: std::io::Error| error.to_string();
    let file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let (mut at, mut moov, mut moofs) = (0, None, Vec::new());
    while at < length {
        let mut head = [0; 16];
        let there = (length - at).min(16) as usize;
        file.read_exact_at(&mut head[..there], at).map_err(io)?;
        let (kind, _, size) =
            header(&head[..there]).map_err(|why| format!("{why} at byte {at}"))?;
        let size = size.unwrap_or(length - at);
        if matches!(&kind, b"moov" | b"moof") {
            if size > MOST_HEAD || size > length - at {
                return Err(format!("a box {} of {size} bytes at byte {at}", name(kind)));
            }
            let mut bytes = vec![0; size as usize];
            file.read_exact_at(&mut bytes, at).map_err(io)?;
            if &kind == b"moov" {
                moov = Some(bytes);
            } else {
                moofs.push((at, bytes));
            }
        }
        at = at.saturating_add(size);
    }
    let moov = moov.ok_or("no moov box: is it an MP4 file?")?;
    let moov = need(&moov, &[b"moov"])?;
    let described = tracks(moov)?;
    let only: Vec<Track> = described.iter().map(|(track, _)| track.clone()).collect();
    let mut fragments: Vec<Fragment> = Vec::new();
    for (at, bytes) in &moofs {
        let whole: Vec<Box<'_>> = boxes(bytes).collect::<Result<_>>()?;
        read_moof(&whole[0], *at, &only, &mut fragments)?;
    }
    let mut reference = Reference::default();
    let mut bytes = Vec::new();
    for (track, trak) in described {
        let mut all = units(trak)?;
        all.extend(
            fragments
                .iter()
                .filter(|fragment| fragment.track == track.id)
                .flat_map(|fragment| fragment.units.iter().copied()),
        );
        let mut hashed = Vec::with_capacity(all.len());
        for unit in all {
            if unit.size > MOST_UNIT {
                return Err(format!("a sample of {} bytes", unit.size));
            }
            bytes.resize(unit.size as usize, 0);
            file.read_exact_at(&mut bytes, unit.offset).map_err(io)?;
            let ticks = i128::from(unit.dts) + i128::from(unit.cts) - i128::from(track.edit.0);
            let nanos = ticks * 1_000_000_000 / i128::from(track.timescale);
            let nanos = i64::try_from(nanos).map_err(|_| "a time beyond all films")?;
            hashed.push((nanos + track.edit.1, track.coding.hash(&bytes)));
        }
        hashed.sort_unstable();
        reference.tracks.push(ReferenceTrack {
            is_video: track.is_video,
            units: hashed,
        });
    }
    Ok(reference)
}
