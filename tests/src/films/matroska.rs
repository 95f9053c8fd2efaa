//! Matroska films that ffmpeg cannot make: header stripping removes the first bytes of each frame.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114d_9b74;
const TRACKS: u32 = 0x1654_ae6b;
const TRACK: u32 = 0xae;
const TRACK_NUMBER: u32 = 0xd7;
const CLUSTER: u32 = 0x1f43_b675;
const CUES: u32 = 0x1c53_bb6b;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;
/// The bytes of a block before its frame: track, time, flags.
const BLOCK_HEAD: usize = 4;

/// Strips the bytes with which all frames of a track begin, as mkvmerge once did by default.
pub(super) fn stripped(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from)?;
    let mut heads = BTreeMap::new();
    find_heads(&bytes, &mut heads)?;
    ensure!(
        heads.values().any(|head| !head.is_empty()),
        "frames have nothing in common"
    );
    Ok(fs::write(to, without(&bytes, &heads)?)?)
}

/// Splits off an element: returns its ID, its body, and the bytes after it.
fn element(bytes: &[u8]) -> Result<(u32, &[u8], &[u8])> {
    let (id, rest) = number(bytes, false)?;
    let (size, rest) = number(rest, true)?;
    let (body, rest) = rest
        .split_at_checked(size as usize)
        .context("an element is cut off")?;
    Ok((id as u32, body, rest))
}

/// Splits off a number of one to eight bytes, with or without its length marker.
fn number(bytes: &[u8], unmarked: bool) -> Result<(u64, &[u8])> {
    let first = *bytes.first().context("a number is cut off")?;
    let len = first.leading_zeros() as usize + 1;
    let (number, rest) = bytes.split_at_checked(len).context("a number is cut off")?;
    let value = number
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    let mark = if unmarked { 1 << (7 * len) } else { 0 };
    Ok((value & !mark, rest))
}

fn written(id: u32, body: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let start = id.iter().position(|byte| *byte > 0).unwrap_or(3);
    let size = 1 << 56 | body.len() as u64;
    [&id[start..], &size.to_be_bytes(), body].concat()
}

/// Finds the common first bytes of each track's frames, at most 255.
fn find_heads(mut bytes: &[u8], heads: &mut BTreeMap<u8, Vec<u8>>) -> Result<()> {
    while !bytes.is_empty() {
        let (id, body, rest) = element(bytes)?;
        bytes = rest;
        match id {
            SEGMENT | CLUSTER | BLOCK_GROUP => find_heads(body, heads)?,
            SIMPLE_BLOCK | BLOCK => {
                let frame = body.get(BLOCK_HEAD..).context("a block without a frame")?;
                ensure!(body[3] & 6 == 0, "frames share a block");
                let most = frame.len().min(255);
                let head = heads
                    .entry(body[0] & 0x7f)
                    .or_insert_with(|| frame[..most].to_vec());
                let same = head.iter().zip(frame).take_while(|(a, b)| a == b);
                head.truncate(same.count());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the elements without the stripped bytes of frames, and without the tables of file
/// positions.
fn without(mut bytes: &[u8], heads: &BTreeMap<u8, Vec<u8>>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (id, body, rest) = element(bytes)?;
        let whole = &bytes[..bytes.len() - rest.len()];
        bytes = rest;
        match id {
            SEEK_HEAD | CUES => {}
            SEGMENT | CLUSTER | BLOCK_GROUP | TRACKS => {
                out.extend(written(id, &without(body, heads)?));
            }
            TRACK => {
                let head = &heads[&track_number(body)?];
                let settings = [written(0x4254, &[3]), written(0x4255, head)].concat();
                let encoding = written(0x6240, &written(0x5034, &settings));
                let encodings = match head.is_empty() {
                    true => Vec::new(),
                    false => written(0x6d80, &encoding),
                };
                out.extend(written(id, &[body, &encodings].concat()));
            }
            SIMPLE_BLOCK | BLOCK => {
                let (before, frame) = body.split_at(BLOCK_HEAD);
                let head = &heads[&(body[0] & 0x7f)];
                out.extend(written(id, &[before, &frame[head.len()..]].concat()));
            }
            _ => out.extend(whole),
        }
    }
    Ok(out)
}

fn track_number(mut entry: &[u8]) -> Result<u8> {
    loop {
        let (id, body, rest) = element(entry)?;
        entry = rest;
        if id == TRACK_NUMBER {
            return body.last().copied().context("a track without a number");
        }
    }
}
