//! Movie fragments: `moof` and `mdat` in segments of HLS and DASH.

use super::boxes::{Box, Fields, Result, boxes, need};
use super::track::Track;

/// An access unit of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentUnit {
    /// Decode time in ticks of the track.
    pub dts: u64,
    /// Presentation time minus decode time, in ticks.
    pub cts: i64,
    /// Duration in ticks.
    pub duration: u32,
    /// Offset of its bytes in the input.
    pub offset: u64,
    /// Length in bytes.
    pub size: u32,
}

/// The access units of one track in one fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The track's id.
    pub track: u32,
    /// The access units.
    pub units: Vec<FragmentUnit>,
}

/// Maximum number of access units in a fragment: an hour of the smallest.
const MOST: usize = 500_000;

/// Reads all fragments of a segment (or file) in order.
///
/// # Errors
/// A description of why it is not a valid segment.
pub(crate) fn fragments(segment: &[u8], tracks: &[Track]) -> Result<Vec<Fragment>> {
    let mut all = Vec::new();
    for found in boxes(segment) {
        let found = found?;
        if found.kind == *b"moof" {
            read_moof(&found, 0, tracks, &mut all)?;
        }
    }
    if all.is_empty() {
        return Err("a segment without a moof box".into());
    }
    Ok(all)
}

/// Reads one `moof`; `at` is the offset of the input in the file.
pub(crate) fn read_moof(
    moof: &Box<'_>,
    at: u64,
    tracks: &[Track],
    all: &mut Vec<Fragment>,
) -> Result<()> {
    // Without a base of its own, a track's data follows that of the previous track.
    let mut base = at + moof.start as u64;
    for traf in boxes(moof.body) {
        let traf = traf?;
        if traf.kind != *b"traf" {
            continue;
        }
        let mut head = Fields(need(traf.body, &[b"tfhd"])?);
        let (_, flags) = head.full()?;
        let id = head.u32()?;
        let track = tracks
            .iter()
            .find(|track| track.id == id)
            .ok_or_else(|| format!("a fragment of a track {id} that is not in the beginning"))?;
        if flags & 1 != 0 {
            base = head.u64()?;
        } else if flags & 0x2_0000 != 0 {
            base = at + moof.start as u64;
        }
        if flags & 2 != 0 {
            head.u32()?;
        }
        let duration = if flags & 8 != 0 {
            head.u32()?
        } else {
            track.default_duration
        };
        let size = if flags & 16 != 0 {
            head.u32()?
        } else {
            track.default_size
        };
        let mut time = Fields(need(traf.body, &[b"tfdt"])?);
        let (version, _) = time.full()?;
        let mut dts = time.u32_or_64(version)?;
        let mut fragment = Fragment {
            track: id,
            units: Vec::new(),
        };
        let mut offset = base;
        for run in boxes(traf.body) {
            let run = run?;
            if run.kind == *b"trun" {
                let defaults = (duration, size);
                read_run(
                    run.body,
                    base,
                    &mut offset,
                    &mut dts,
                    defaults,
                    &mut fragment.units,
                )?;
            }
        }
        base = offset;
        all.push(fragment);
    }
    Ok(())
}

fn read_run(
    body: &[u8],
    base: u64,
    offset: &mut u64,
    dts: &mut u64,
    (duration, size): (u32, u32),
    units: &mut Vec<FragmentUnit>,
) -> Result<()> {
    let mut fields = Fields(body);
    let (_, flags) = fields.full()?;
    let count = fields.u32()? as usize;
    if flags & 1 != 0 {
        *offset = base.wrapping_add_signed(i64::from(fields.u32()? as i32));
    }
    if flags & 4 != 0 {
        fields.u32()?;
    }
    if units.len() + count > MOST {
        return Err(format!("a fragment of more than {MOST} samples"));
    }
    for _ in 0..count {
        let duration = if flags & 0x100 != 0 {
            fields.u32()?
        } else {
            duration
        };
        let size = if flags & 0x200 != 0 {
            fields.u32()?
        } else {
            size
        };
        if flags & 0x400 != 0 {
            fields.u32()?;
        }
        // Signed in version 1; in version 0, no offset reaches 2^31 ticks in practice.
        let cts = if flags & 0x800 != 0 {
            i64::from(fields.u32()? as i32)
        } else {
            0
        };
        units.push(FragmentUnit {
            dts: *dts,
            cts,
            duration,
            offset: *offset,
            size,
        });
        *dts = dts.saturating_add(duration.into());
        *offset = offset.saturating_add(size.into());
    }
    Ok(())
}
