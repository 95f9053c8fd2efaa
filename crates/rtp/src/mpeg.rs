//! MPEG-1 and MPEG-2 video over RTP (RFC 2250 section 3): slices that fit into a packet stay whole.

use std::ops::Range;

use reelway_media::{MpegVideo as Config, TimedSample};

use crate::bytes::Bytes;
use crate::error::PlanError;
use crate::plan::{Builder, FrameInfo, Plan};
use crate::timing::Timing;

/// Clock rate in Hz (RFC 2250 section 3.3).
pub(crate) const CLOCK_RATE: u32 = 90_000;

/// Size of the payload header in bytes.
const HEAD: usize = 4;

/// Start codes (ISO/IEC 13818-2 table 6-1).
const PICTURE: u8 = 0;
const SLICES: std::ops::RangeInclusive<u8> = 1..=0xaf;
const SEQUENCE: u8 = 0xb3;

#[derive(Clone, Debug)]
pub(crate) struct MpegVideo {
    sequence: Vec<u8>,
}

impl MpegVideo {
    pub fn new(config: &Config) -> MpegVideo {
        MpegVideo {
            sequence: config.sequence.clone(),
        }
    }

    /// Returns the sequence header, which not every sync picture repeats.
    pub fn preface(&self, max_payload: usize) -> Plan {
        let mut out = Builder::default();
        let whole = &self.sequence[..];
        if whole.is_empty() || whole.len() + HEAD > max_payload {
            return Plan::default();
        }
        out.inline(&head(&PictureHead::default(), true, false, false));
        out.inline(whole);
        out.end_packet(false);
        out.end_frame(FrameInfo {
            sync: true,
            ..FrameInfo::default()
        });
        out.finish()
    }
}

/// Returns encoding name and format parameters.
pub(crate) fn sdp() -> (String, String) {
    (format!("MPV/{CLOCK_RATE}"), String::new())
}

/// The fields of a picture header that RTP repeats.
#[derive(Clone, Copy, Debug, Default)]
struct PictureHead {
    temporal_reference: u16,
    /// picture_coding_type: 1 I, 2 P, 3 B.
    kind: u8,
    /// full_pel_backward_vector, backward_f_code, full_pel_forward_vector, forward_f_code.
    vectors: u8,
}

impl PictureHead {
    /// Parses the bytes that follow the start code.
    fn parse(bytes: &[u8]) -> PictureHead {
        let word = |at: usize| u64::from(bytes.get(at).copied().unwrap_or(0));
        let bits = (0..6).fold(0, |bits, at| bits << 8 | word(at));
        let take = |from: u32, count: u32| (bits >> (48 - from - count)) & ((1 << count) - 1);
        let kind = take(10, 3) as u8;
        // temporal_reference 10, picture_coding_type 3, vbv_delay 16.
        let forward = if matches!(kind, 2 | 3) {
            take(29, 4)
        } else {
            0
        };
        let backward = if kind == 3 { take(33, 4) } else { 0 };
        PictureHead {
            temporal_reference: take(0, 10) as u16,
            kind,
            vectors: (backward << 4 | forward) as u8,
        }
    }
}

/// Returns a payload header. The flags state whether the packet contains a sequence header, begins
/// a slice and ends a slice.
fn head(picture: &PictureHead, sequence: bool, begins: bool, ends: bool) -> [u8; HEAD] {
    let [high, low] = picture.temporal_reference.to_be_bytes();
    let flags = u8::from(sequence) << 5 | u8::from(begins) << 4 | u8::from(ends) << 3;
    [high & 3, low, flags | picture.kind & 7, picture.vectors]
}

/// Bytes of a picture that stay together: consecutive headers, or a slice.
struct Chunk {
    start: usize,
    end: usize,
    is_slice: bool,
    /// Header of the picture or field that the chunk belongs to.
    picture: PictureHead,
}

/// Splits a picture into chunks; also returns whether it contains a sequence header.
fn chunks(bytes: &[u8]) -> (Vec<Chunk>, bool) {
    let (mut chunks, mut picture, mut sequence): (Vec<Chunk>, _, _) =
        (Vec::new(), PictureHead::default(), false);
    let mut at = 0;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| rest.windows(4).position(|code| code[..3] == [0, 0, 1]))
    {
        let start = at + found;
        let code = bytes[start + 3];
        at = start + 4;
        match code {
            PICTURE => picture = PictureHead::parse(&bytes[at..]),
            SEQUENCE => sequence = true,
            _ => {}
        }
        let is_slice = SLICES.contains(&code);
        match chunks.last_mut() {
            // Headers stay together; those of a second field follow slices.
            Some(last) if !last.is_slice && !is_slice => last.picture = picture,
            last => {
                if let Some(last) = last {
                    last.end = start;
                }
                chunks.push(Chunk {
                    start: if chunks.is_empty() { 0 } else { start },
                    end: bytes.len(),
                    is_slice,
                    picture,
                });
            }
        }
    }
    if chunks.is_empty() && !bytes.is_empty() {
        chunks.push(Chunk {
            start: 0,
            end: bytes.len(),
            is_slice: false,
            picture,
        });
    }
    (chunks, sequence)
}

pub(crate) fn plan(
    samples: &[TimedSample],
    bytes: &dyn Bytes,
    timing: Timing,
    max_payload: usize,
) -> Result<Plan, PlanError> {
    let mut out = Builder::default();
    let mut own = Vec::new();
    for sample in samples {
        let offset = sample.sample.offset;
        own.resize(sample.sample.size as usize, 0);
        if !bytes.read_at(offset, &mut own) {
            return Err(PlanError::Missing { offset });
        }
        let (chunks, sequence) = chunks(&own);
        packets(&mut out, offset, &chunks, sequence, max_payload - HEAD);
        out.mark_last();
        out.end_frame(FrameInfo {
            droppable: chunks.iter().all(|chunk| chunk.picture.kind == 3),
            ..timing.frame(sample)
        });
    }
    Ok(out.finish())
}

/// Adds the packets of a picture whose first byte is at `offset` in the film; each carries at most
/// `room` bytes of it.
fn packets(out: &mut Builder, offset: u64, chunks: &[Chunk], sequence: bool, room: usize) {
    let mut put = |range: Range<usize>, picture: &PictureHead, begins: bool, ends: bool| {
        let has_sequence = sequence && range.start == 0;
        out.inline(&head(picture, has_sequence, begins, ends));
        let len = (range.end - range.start) as u32;
        out.film(offset + range.start as u64, len);
        out.end_packet(false);
    };
    // Range of whole chunks not yet sent, and whether it contains slices.
    let (mut waits, mut slices, mut picture) = (0..0, false, PictureHead::default());
    for chunk in chunks {
        // Headers come first in their packet (section 3.1), so those of a second field begin a new
        // one.
        let is_full = chunk.end - waits.start > room;
        if !waits.is_empty() && (is_full || (slices && !chunk.is_slice)) {
            put(waits.clone(), &picture, slices, slices);
            (waits, slices) = (chunk.start..chunk.start, false);
        }
        picture = chunk.picture;
        if chunk.end - chunk.start > room {
            // Too long for one packet; the chunk after it begins a new one.
            let mut at = chunk.start;
            while at < chunk.end {
                let to = (at + room).min(chunk.end);
                let (begins, ends) = (at == chunk.start, to == chunk.end);
                put(
                    at..to,
                    &picture,
                    chunk.is_slice && begins,
                    chunk.is_slice && ends,
                );
                at = to;
            }
            waits = chunk.end..chunk.end;
            continue;
        }
        waits.end = chunk.end;
        slices |= chunk.is_slice;
    }
    if !waits.is_empty() {
        put(waits, &picture, slices, slices);
    }
}
