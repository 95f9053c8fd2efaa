//! The contents of a group's packets, planned by the server's packetiser, with bytes that are
//! generated where it reads them.

use std::ops::Range;

use reelway_media::{Kind, Nanos, TimedSample};
use reelway_rtp::{Bytes, Part, Plan};

/// The bytes of a group's samples: a picture is one NAL unit that fills it.
pub(crate) struct MadeUp<'a>(pub &'a [TimedSample]);

impl Bytes for MadeUp<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool {
        let after = self
            .0
            .partition_point(|timed| timed.sample.offset <= offset);
        let Some(timed) = after.checked_sub(1).and_then(|nth| self.0.get(nth)) else {
            return false;
        };
        let sample = timed.sample;
        if offset + buf.len() as u64 > sample.bytes().end {
            return false;
        }
        let length = sample.size.saturating_sub(4).to_be_bytes();
        for (at, byte) in (offset - sample.offset..).zip(buf) {
            *byte = match at {
                0..4 => length[at as usize],
                // A slice of an IDR picture, or of a picture from which others are decoded.
                4 if sample.sync => 0x65,
                4 => 0x41,
                _ => 0x80,
            };
        }
        true
    }
}

/// Checks that all packets of a group are due within its time, and that each has bytes of the film
/// after those of the previous one, within `bytes`. `kind` is that of generated samples, whose
/// bytes all have to be carried.
///
/// # Errors
/// Describes what does not hold.
pub(crate) fn check(
    plan: &Plan,
    kind: Option<Kind>,
    samples: &[TimedSample],
    time: Range<Nanos>,
    bytes: Range<u64>,
) -> Result<(), String> {
    let (mut due, mut end) = (time.start, bytes.start);
    for frame in &plan.frames {
        if frame.due < due || frame.due >= time.end {
            return Err(format!(
                "a frame is due at {} ns, out of order or outside its group",
                frame.due
            ));
        }
        due = frame.due;
    }
    let mut carried = 0;
    for part in parts(plan) {
        if part.start < end || part.end > bytes.end {
            return Err(format!(
                "a packet has bytes {part:?} of the film, out of order or outside its group"
            ));
        }
        (end, carried) = (part.end, carried + part.end - part.start);
    }
    let all: u64 = samples
        .iter()
        .map(|timed| u64::from(timed.sample.size))
        .sum();
    // The length of a picture's NAL unit is left out, and so is the header of a unit
    // that is fragmented.
    let spared = match kind {
        Some(Kind::Video) => 5 * samples.len() as u64,
        Some(Kind::Audio) => 0,
        None => all,
    };
    if carried > all || carried + spared < all {
        return Err(format!("packets carry {carried} of {all} bytes"));
    }
    Ok(())
}

/// Returns the film's bytes in a plan's packets, in the order of sending.
fn parts(plan: &Plan) -> impl Iterator<Item = Range<u64>> {
    let parts = plan
        .packets
        .iter()
        .flat_map(move |packet| plan.parts_of(packet));
    parts.filter_map(|part| match part {
        Part::Film(bytes) => Some(bytes),
        Part::Kept(_) => None,
    })
}
