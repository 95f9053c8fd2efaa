//! Opus over RTP (RFC 7587): one Opus packet in each RTP packet.

use reelway_media::{Codec, OpusConfig, TimedSample, Track, opus_frame};

use crate::bytes::Bytes;
use crate::error::{Damage, PlanError, Unsupported};
use crate::plan::{Builder, FrameInfo, Plan};
use crate::timing::Timing;

/// Clock rate in Hz, whatever the sampling rate (RFC 7587 section 4.1).
pub(crate) const CLOCK_RATE: u32 = 48_000;

/// Most frames of an Opus packet (RFC 6716 section 3.2.5, R5: 120 ms of 2.5 ms each).
const MAX_FRAMES: usize = 48;

/// The longest Opus frame in bytes (RFC 6716 section 3.2.1).
const MAX_FRAME: u32 = 1275;

/// Returns why the format cannot carry this configuration, in words.
pub(crate) fn refused(config: &OpusConfig) -> Option<String> {
    let channels = config.channels;
    (!matches!(channels, 1 | 2))
        .then(|| format!("it has {channels} channels, and RTP carries 1 or 2 of Opus"))
}

pub(crate) fn check(config: &OpusConfig) -> Result<(), Unsupported> {
    match refused(config) {
        Some(why) => Err(Unsupported::new(format!(
            "Opus: {why}; HLS and DASH play this film"
        ))),
        None => Ok(()),
    }
}

/// Returns encoding name and format parameters (RFC 7587 section 7: always 48000/2, whatever the
/// content).
pub(crate) fn sdp(track: &Track) -> (String, String) {
    let stereo = matches!(&track.codec, Codec::Opus(config) if config.channels == 2);
    (
        format!("opus/{CLOCK_RATE}/2"),
        format!("sprop-stereo={}", u8::from(stereo)),
    )
}

pub(crate) fn plan(
    samples: &[TimedSample],
    bytes: &dyn Bytes,
    timing: Timing,
    max_payload: usize,
) -> Result<Plan, PlanError> {
    let mut out = Builder::default();
    for sample in samples {
        let (offset, size) = (sample.sample.offset, sample.sample.size);
        let whole = FrameInfo {
            sync: true,
            ..timing.frame(sample)
        };
        if size as usize > max_payload {
            split(&mut out, sample, bytes, whole, max_payload)?;
        } else {
            out.film(offset, size);
            if size > 0 {
                // The marker would mean the end of a silence.
                out.end_packet(false);
            }
            out.end_frame(whole);
        }
    }
    Ok(out.finish())
}

/// Adds a packet that is too long for one payload as single frames. RTP has no fragments for Opus,
/// but the frames of a packet decode to the same audio if each is in a packet of its own.
fn split(
    out: &mut Builder,
    sample: &TimedSample,
    bytes: &dyn Bytes,
    whole: FrameInfo,
    max_payload: usize,
) -> Result<(), PlanError> {
    let (offset, size) = (sample.sample.offset, sample.sample.size);
    let most = (max_payload as u32 - 1).min(MAX_FRAME);
    let mut inside = Inside {
        bytes,
        at: offset,
        end: offset + u64::from(size),
    };
    let toc = inside.byte()?;
    let mut lens = [0; MAX_FRAMES];
    let count = match toc {
        Some(toc) => inside.frames(toc, &mut lens)?,
        None => None,
    };
    let fits = |count: &usize| lens[..*count].iter().all(|len| *len <= most);
    let (Some(toc), Some(count)) = (toc, count.filter(fits)) else {
        out.leaves_out(Damage::UnitTooLong {
            offset,
            length: size,
            most: most + 1,
        });
        return Ok(());
    };
    let lens = &lens[..count];
    let lone = out.keep(&[toc & !3]);
    let step = i64::from(opus_frame(toc));
    for (nth, &len) in (0..).zip(lens) {
        let ticks = i64::from(nth) * step;
        let later = ticks * 1_000_000_000 / i64::from(CLOCK_RATE);
        out.add(lone);
        out.film(inside.at, len);
        inside.at += u64::from(len);
        out.end_packet(false);
        out.end_frame(FrameInfo {
            due: whole.due.saturating_add(later),
            duration: whole.duration / count as i64,
            shown: whole.shown.saturating_add(later),
            rtp_time: whole.rtp_time.wrapping_add(ticks as u32),
            ..whole
        });
    }
    Ok(())
}

/// A reader of the bytes of an Opus packet.
struct Inside<'b> {
    bytes: &'b dyn Bytes,
    at: u64,
    end: u64,
}

impl Inside<'_> {
    fn byte(&mut self) -> Result<Option<u8>, PlanError> {
        if self.at == self.end {
            return Ok(None);
        }
        let mut byte = [0];
        if !self.bytes.read_at(self.at, &mut byte) {
            return Err(PlanError::Missing { offset: self.at });
        }
        self.at += 1;
        Ok(Some(byte[0]))
    }

    /// Reads a frame length (RFC 6716 section 3.2.1).
    fn length(&mut self) -> Result<Option<u32>, PlanError> {
        let Some(first) = self.byte()? else {
            return Ok(None);
        };
        if first < 252 {
            return Ok(Some(u32::from(first)));
        }
        Ok(self
            .byte()?
            .map(|second| 4 * u32::from(second) + u32::from(first)))
    }

    /// Reads the lengths of the packet's frames and moves `at` to the first frame; `None` if the
    /// packet is malformed (RFC 6716 section 3.2).
    fn frames(
        &mut self,
        toc: u8,
        lens: &mut [u32; MAX_FRAMES],
    ) -> Result<Option<usize>, PlanError> {
        let count = match toc & 3 {
            0 => 1,
            1 | 2 => 2,
            _ => return self.many(lens),
        };
        if toc & 3 == 2 {
            let Some(first) = self.length()? else {
                return Ok(None);
            };
            lens[0] = first;
            return Ok(self.last(&mut lens[..2], 0));
        }
        Ok(self.equal(&mut lens[..count], 0))
    }

    /// Code 3: a count byte, optional padding, optional lengths.
    fn many(&mut self, lens: &mut [u32; MAX_FRAMES]) -> Result<Option<usize>, PlanError> {
        let Some(head) = self.byte()? else {
            return Ok(None);
        };
        let count = usize::from(head & 0x3f);
        if count == 0 || count > MAX_FRAMES {
            return Ok(None);
        }
        let mut padding = 0;
        let mut more = head & 0x40 != 0;
        while more {
            let Some(byte) = self.byte()? else {
                return Ok(None);
            };
            padding += u64::from(byte.min(254));
            more = byte == 255;
        }
        let lens = &mut lens[..count];
        if head & 0x80 == 0 {
            return Ok(self.equal(lens, padding));
        }
        for len in &mut lens[..count - 1] {
            let Some(length) = self.length()? else {
                return Ok(None);
            };
            *len = length;
        }
        Ok(self.last(lens, padding))
    }

    /// All frames have the same length.
    fn equal(&self, lens: &mut [u32], padding: u64) -> Option<usize> {
        let body = (self.end - self.at).checked_sub(padding)?;
        let count = lens.len() as u64;
        lens.fill((body / count) as u32);
        body.is_multiple_of(count).then_some(lens.len())
    }

    /// The last frame takes the bytes that remain.
    fn last(&self, lens: &mut [u32], padding: u64) -> Option<usize> {
        let body = (self.end - self.at).checked_sub(padding)?;
        let others: u64 = lens[..lens.len() - 1]
            .iter()
            .map(|&len| u64::from(len))
            .sum();
        *lens.last_mut()? = body.checked_sub(others)? as u32;
        Some(lens.len())
    }
}
