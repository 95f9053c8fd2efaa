//! Edit lists (ISO/IEC 14496-12 8.6.6): the part of a track's media that is presented, and when.

use super::kept::KeptBox;
use crate::index_error::IndexError;

/// The part of a track that is presented, as one piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The delay before the media begins, in ticks of the movie's timescale.
    pub delay: u64,
    /// The media time, in the track's ticks, that is presented after the delay.
    pub start: i64,
    /// The presented duration in ticks of the movie's timescale; `None`: to the end.
    pub length: Option<u64>,
}

/// The maximum delay or length in ticks; it keeps later sums in range.
const MAX_TICKS: u64 = 1 << 60;

/// Reads `edts` of a track: the leading empty edits and the first non-empty one. Whatever cannot be
/// played as one piece is reported in `notes`.
pub fn read(edts: &KeptBox, notes: &mut Vec<String>) -> Result<Edit, IndexError> {
    let Some(elst) = edts.find(b"elst")? else {
        return Ok(Edit::default());
    };
    let mut head = Vec::new();
    let head = elst.head(&mut head)?;
    let (version, _, mut fields) = head.full()?;
    let wide = version > 0;
    let count = fields.u32()?;
    let entry = if wide { 20 } else { 12 };
    let mut words = elst.entries::<4>(fields.at(), count, entry)?;
    let mut word = || words.next().map_or(0, u32::from_be_bytes);
    let (mut edit, mut shown, mut odd_rate) = (Edit::default(), 0, false);
    for _ in 0..count {
        let mut long = || u64::from(word()) << 32 | u64::from(word());
        let (length, start) = match wide {
            true => (long(), long() as i64),
            false => (word().into(), i64::from(word() as i32)),
        };
        let rate = word();
        if length > MAX_TICKS || start > MAX_TICKS as i64 {
            // Some writers mean "to the end" by the highest number.
            if length < u64::from(u32::MAX) || start > MAX_TICKS as i64 {
                return Err(elst.damaged(format!("has an edit of {length} ticks from {start} on")));
            }
        }
        match start {
            // Empty edits between and after non-empty ones would be pauses: they are ignored.
            ..0 if shown > 0 => {}
            ..0 => edit.delay = edit.delay.saturating_add(length).min(MAX_TICKS),
            // An initial still picture ("dwell") delays the rest like an empty edit.
            _ if rate == 0 && shown == 0 => {
                odd_rate = true;
                edit.delay = edit.delay.saturating_add(length).min(MAX_TICKS);
            }
            _ => {
                shown += 1;
                odd_rate |= rate != 0x1_0000;
                let endless =
                    length == 0 || length > MAX_TICKS || (!wide && length == u64::from(u32::MAX));
                if shown == 1 {
                    edit.start = start;
                    edit.length = (!endless).then_some(length);
                } else {
                    edit.length = None;
                }
            }
        }
    }
    if shown == 0 && edit.delay > 0 {
        notes.push("its edit list shows nothing and is ignored".into());
        return Ok(Edit::default());
    }
    if shown > 1 {
        notes.push(format!(
            "of its {shown} edits the first is followed, and on to the end"
        ));
    }
    if odd_rate {
        notes.push("an edit asks for another speed, which is ignored".into());
    }
    Ok(edit)
}
