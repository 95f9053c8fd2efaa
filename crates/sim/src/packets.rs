//! What a group's packets carry: planned by the server's packetiser, of bytes that are made up where it looks at them.

use std::ops::Range;

use reelway_media::{Kind, Nanos, TimedSample};
use reelway_rtp::{Bytes, Part, Plan};

/// The bytes of a group's samples: of a picture one NAL unit that fills it.
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
                // A slice of an IDR picture, or of one that others are decoded from.
                4 if sample.sync => 0x65,
                4 => 0x41,
                _ => 0x80,
            };
        }
        true
    }
}

/// Whether all packets of a group are due within its time, each of bytes of the film behind those of the packet before, and
/// within `bytes`. `kind`: they are made up as of this kind, so that they carry all of it.
///
/// # Errors
/// What is not so.
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
            return Err(format!("a frame is due at {} ns", frame.due));
        }
        due = frame.due;
    }
    let mut carried = 0;
    for part in parts(plan) {
        if part.start < end || part.end > bytes.end {
            return Err(format!("a packet has the bytes {part:?} of the film"));
        }
        (end, carried) = (part.end, carried + part.end - part.start);
    }
    let all: u64 = samples
        .iter()
        .map(|timed| u64::from(timed.sample.size))
        .sum();
    // Of a picture, the length of its NAL unit is left out, and the header of one that is cut to pieces.
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

/// The film's bytes in a plan's packets, in the order of sending.
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
