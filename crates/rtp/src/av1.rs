//! AV1 over RTP (RTP Payload Format For AV1, v1.0.0): the open bitstream units (OBUs) of a temporal
//! unit, without their size fields.

use reelway_media::TimedSample;

use crate::bytes::Bytes;
use crate::error::PlanError;
use crate::plan::{Builder, MAX_AGGREGATED, Plan};
use crate::timing::Timing;

/// Clock rate in Hz (section 4.1).
pub(crate) const CLOCK_RATE: u32 = 90_000;

/// Flags of the aggregation header (section 4.4): the first element continues one of the previous
/// packet, the last element continues in the next packet, and a coded video sequence begins.
const Z: u8 = 0x80;
const Y: u8 = 0x40;
const N: u8 = 0x08;

/// OBU types (AV1 Bitstream Specification 6.2.2).
const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const TILE_LIST: u8 = 8;
const PADDING: u8 = 15;

/// Flags of an OBU's header.
const EXTENSION: u8 = 0x04;
const HAS_SIZE: u8 = 0x02;

/// Smallest fragment of an OBU, in bytes, that is worth adding to a packet.
const LEAST_PART: u32 = 8;

/// Returns encoding name and format parameters (section 7.2.2) for a track with this `av1C`.
pub(crate) fn sdp(av1c: &[u8]) -> (String, String) {
    let (profile, tier) = (av1c.get(1).copied(), av1c.get(2).copied());
    let (profile, tier) = (profile.unwrap_or(0), tier.unwrap_or(0) >> 7);
    let fmtp = format!(
        "profile={};level-idx={};tier={tier}",
        profile >> 5,
        profile & 0x1f
    );
    (format!("AV1/{CLOCK_RATE}"), fmtp)
}

/// Returns the sequence header of `av1C` (AV1 Codec ISO Media File Format Binding 2.3.3), which not
/// every key frame repeats.
pub(crate) fn preface(av1c: &[u8], max_payload: usize) -> Plan {
    let units = av1c.get(4..).unwrap_or_default();
    let Ok(Some(unit)) = Unit::read(&units, 0, units.len() as u64) else {
        return Plan::default();
    };
    let body = unit.body as usize..unit.end as usize;
    let whole = [&unit.head[..unit.head_len], &units[body]].concat();
    let mut out = Builder::default();
    if unit.kind() == SEQUENCE_HEADER && whole.len() < max_payload {
        // The only element takes its size from the packet.
        out.inline(&[N | 1 << 4]);
        out.inline(&whole);
        out.end_packet(false);
    }
    out.end_frame(crate::plan::FrameInfo {
        sync: true,
        ..Default::default()
    });
    out.finish()
}

/// An OBU: its header as it is sent, and the range of its payload.
#[derive(Clone, Copy, Debug)]
struct Unit {
    head: [u8; 2],
    head_len: usize,
    body: u64,
    end: u64,
}

impl Unit {
    fn kind(&self) -> u8 {
        self.head[0] >> 3 & 0xf
    }

    /// Reads the unit at `at`, in bytes up to `end`; `None` at the end, or if there is no valid
    /// unit.
    fn read(bytes: &dyn Bytes, at: u64, end: u64) -> Result<Option<Unit>, PlanError> {
        let mut next = at;
        let mut byte = || -> Result<Option<u8>, PlanError> {
            if next >= end {
                return Ok(None);
            }
            let mut byte = [0];
            if !bytes.read_at(next, &mut byte) {
                return Err(PlanError::Missing { offset: next });
            }
            next += 1;
            Ok(Some(byte[0]))
        };
        let Some(first) = byte()? else {
            return Ok(None);
        };
        let (mut head, mut head_len) = ([first & !HAS_SIZE, 0], 1);
        if first & EXTENSION != 0 {
            let Some(second) = byte()? else {
                return Ok(None);
            };
            (head[1], head_len) = (second, 2);
        }
        let mut size = None;
        if first & HAS_SIZE != 0 {
            let mut value = 0u64;
            for nth in 0..8 {
                let Some(byte) = byte()? else {
                    return Ok(None);
                };
                value |= u64::from(byte & 0x7f) << (7 * nth);
                if byte & 0x80 == 0 {
                    break;
                }
            }
            size = Some(value);
        }
        let end = size.map_or(end, |size| next.saturating_add(size).min(end));
        Ok(Some(Unit {
            head,
            head_len,
            body: next,
            end,
        }))
    }
}

/// The largest size that two bytes can express.
const MOST_SIZED: u32 = (1 << 14) - 1;

/// Encodes a size of at most [`MOST_SIZED`], as it precedes an element.
fn leb128(size: u32) -> ([u8; 2], usize) {
    match size {
        0..0x80 => ([size as u8, 0], 1),
        _ => ([size as u8 | 0x80, (size >> 7) as u8], 2),
    }
}

/// Distributes units over packets.
struct Packer {
    out: Builder,
    room: u32,
    /// Elements of the packet being made, and the bytes they take.
    elements: Vec<Element>,
    filled: u32,
    /// The first element continues one of the previous packet.
    goes_on: bool,
    begins: bool,
}

struct Element {
    head: [u8; 2],
    head_len: usize,
    at: u64,
    len: u32,
}

impl Packer {
    /// Ends the packet being made; with `continues`, its last element goes on in the next one.
    fn flush(&mut self, continues: bool) {
        if self.elements.is_empty() {
            return;
        }
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let flags = flag(Z, self.goes_on) | flag(Y, continues) | flag(N, self.begins);
        self.out.inline(&[flags]);
        for element in self.elements.drain(..) {
            let (size, size_len) = leb128(element.head_len as u32 + element.len);
            let head = &element.head[..element.head_len];
            self.out.inline(&[&size[..size_len], head].concat());
            self.out.film(element.at, element.len);
        }
        self.out.end_packet(false);
        (self.filled, self.goes_on, self.begins) = (0, continues, false);
    }

    fn put(&mut self, unit: &Unit) {
        let (mut at, mut head_len) = (unit.body, unit.head_len);
        loop {
            let left = (unit.end - at) as u32;
            // A size field takes at most two bytes.
            let head = head_len as u32 + 2;
            let free = self.room.saturating_sub(self.filled);
            let is_full =
                self.elements.len() == MAX_AGGREGATED || free < head + left.min(LEAST_PART);
            if is_full {
                // The rest of a unit always begins an empty packet, so no unit is cut here.
                self.flush(false);
                continue;
            }
            let len = left.min(free - head);
            self.elements.push(Element {
                head: unit.head,
                head_len,
                at,
                len,
            });
            self.filled += head + len;
            at += u64::from(len);
            head_len = 0;
            if len == left {
                return;
            }
            self.flush(true);
        }
    }
}

pub(crate) fn plan(
    samples: &[TimedSample],
    bytes: &dyn Bytes,
    timing: Timing,
    max_payload: usize,
) -> Result<Plan, PlanError> {
    let mut packer = Packer {
        out: Builder::default(),
        room: (max_payload as u32 - 1).min(MOST_SIZED),
        elements: Vec::new(),
        filled: 0,
        goes_on: false,
        begins: false,
    };
    for sample in samples {
        let mut at = sample.sample.offset;
        let end = at + u64::from(sample.sample.size);
        packer.begins = sample.sample.sync;
        while let Some(unit) = Unit::read(bytes, at, end)? {
            at = unit.end;
            if !matches!(unit.kind(), TEMPORAL_DELIMITER | TILE_LIST | PADDING) {
                packer.put(&unit);
            }
        }
        packer.flush(false);
        packer.goes_on = false;
        packer.out.mark_last();
        packer.out.end_frame(timing.frame(sample));
    }
    Ok(packer.out.finish())
}
