//! AAC over RTP (RFC 3640), mode AAC-hbr: 13 bits of size and 3 bits of index per access unit.

use reelway_media::{AacConfig, TimedSample};

use crate::bytes::Bytes;
use crate::error::{Damage, PlanError, Unsupported};
use crate::plan::{Builder, FrameInfo, MAX_AGGREGATED, Plan};
use crate::timing::Timing;

/// The longest access unit that 13 bits of size can express, in bytes.
const MAX_UNIT: u32 = (1 << 13) - 1;

/// Bytes of an AU header: 13 bits of size, 3 of index.
const AU_HEADER: usize = 2;

/// The most audio that one packet carries, in milliseconds. A packet leaves when its first unit is
/// due, so this limits how early the last unit leaves, and how much audio a lost packet costs.
const MAX_PACKET_MS: i64 = 100;

#[derive(Clone, Debug)]
pub(crate) struct Aac {
    config: Vec<u8>,
    object_type: u8,
    rate: u32,
    channels: u8,
    clock_rate: u32,
    /// Duration of an access unit in ticks of the clock rate.
    unit: i64,
}

impl Aac {
    /// Creates the packetiser. `timescale` is that of the track.
    pub fn new(config: &AacConfig, timescale: u32) -> Result<Aac, Unsupported> {
        // The object types of ISO/IEC 14496-3 table 1.17 that are variants of AAC.
        if !matches!(config.object_type, 1..=6 | 17 | 19 | 20 | 23 | 29 | 39) {
            return Err(Unsupported::new(format!(
                "MPEG-4 audio object type {} cannot be carried in RTP's AAC format; HLS and DASH play this film if \
                 the player can",
                config.object_type
            )));
        }
        if config.rate == 0 || config.config.is_empty() || config.frame_length == 0 {
            return Err(Unsupported::new(
                "the AAC track says neither its sampling rate nor its configuration",
            ));
        }
        // The clock should be the sampling rate (RFC 3640 section 3.3.6). With SBR there are two:
        // that of the core coder and, twice as high, that of the output. A film may use either for
        // its timescale. The film's choice is adopted, so that no timestamp is rounded.
        let twice = config.rate.saturating_mul(2);
        let clock_rate = if timescale == twice {
            twice
        } else {
            config.rate
        };
        let unit = i64::from(config.frame_length) * i64::from(clock_rate) / i64::from(config.rate);
        Ok(Aac {
            config: config.config.clone(),
            object_type: config.object_type,
            rate: config.rate,
            channels: config.channels,
            clock_rate,
            unit,
        })
    }

    pub fn clock_rate(&self) -> u32 {
        self.clock_rate
    }

    pub fn plan(
        &self,
        samples: &[TimedSample],
        _bytes: &dyn Bytes,
        timing: Timing,
        max_payload: usize,
    ) -> Result<Plan, PlanError> {
        let most_units =
            (MAX_PACKET_MS * i64::from(self.clock_rate) / 1000 / self.unit.max(1)).max(1) as usize;
        let most_units = most_units.min(MAX_AGGREGATED);
        let mut out = Builder::default();
        let mut rest = samples;
        while let Some((first, after)) = rest.split_first() {
            let size = first.sample.size;
            if size > MAX_UNIT {
                out.leaves_out(Damage::UnitTooLong {
                    offset: first.sample.offset,
                    length: size,
                    most: MAX_UNIT,
                });
            }
            if size == 0 || size > MAX_UNIT {
                rest = after;
                continue;
            }
            let mut count = 1;
            if 2 + AU_HEADER + size as usize > max_payload {
                fragments(&mut out, first, max_payload);
            } else {
                count = self.together(rest, timing, most_units, max_payload);
                units(&mut out, &rest[..count]);
            }
            let due = timing.due(first);
            out.end_frame(FrameInfo {
                due,
                duration: timing.end(&rest[count - 1]).saturating_sub(due).max(0),
                shown: timing.shown(first),
                rtp_time: timing.rtp(first) as u32,
                sync: true,
                droppable: false,
            });
            rest = &rest[count..];
        }
        Ok(out.finish())
    }

    /// Returns how many of `samples` share the first packet: as many as fit, and as long as the
    /// receiver, which only gets the first timestamp, would compute the right times for the others.
    fn together(
        &self,
        samples: &[TimedSample],
        timing: Timing,
        most: usize,
        max_payload: usize,
    ) -> usize {
        let begin = timing.rtp(&samples[0]);
        let mut bytes = 2;
        samples
            .iter()
            .take(most)
            .enumerate()
            .take_while(|(nth, unit)| {
                let size = unit.sample.size as usize;
                bytes += AU_HEADER + size;
                // A film's coarser ticks make the times jitter by one tick in either direction.
                let expected = begin.saturating_add(*nth as i64 * self.unit);
                let off = timing.rtp(unit).saturating_sub(expected).saturating_abs();
                let tick = i64::from(self.clock_rate / timing.timescale) + 1;
                size > 0 && bytes <= max_payload && off <= tick
            })
            .count()
            .max(1)
    }

    /// Returns encoding name and format parameters (RFC 3640 sections 4.1 and 3.3.6).
    pub fn sdp(&self) -> (String, String) {
        let config: String = self
            .config
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        let fmtp = format!(
            "streamtype=5;profile-level-id={};mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;constantDuration={};config={config}",
            self.profile_level(),
            self.unit,
        );
        (
            format!("mpeg4-generic/{}/{}", self.clock_rate, self.channels.max(1)),
            fmtp,
        )
    }

    /// audioProfileLevelIndication (ISO/IEC 14496-3 table 1.14).
    fn profile_level(&self) -> u8 {
        let (rate, channels) = (self.rate, self.channels);
        match self.object_type {
            // AAC profile, levels 1, 2, 4, 5.
            2 if rate <= 24_000 && channels <= 2 => 0x28,
            2 if rate <= 48_000 && channels <= 2 => 0x29,
            2 if rate <= 48_000 => 0x2a,
            2 => 0x2b,
            // High Efficiency AAC profile, levels 2 to 5.
            5 if rate <= 24_000 && channels <= 2 => 0x2c,
            5 if rate <= 48_000 && channels <= 2 => 0x2d,
            // Level 4 limits the core of SBR to 24 kHz with more than two channels.
            5 if rate <= 24_000 => 0x2e,
            5 => 0x2f,
            // High Efficiency AAC v2 profile, levels 2 and 3.
            29 if rate <= 24_000 => 0x30,
            29 => 0x31,
            // No audio profile specified.
            _ => 0xfe,
        }
    }
}

/// Adds one packet of whole access units.
fn units(out: &mut Builder, samples: &[TimedSample]) {
    let mut head = [0; 2 + AU_HEADER * MAX_AGGREGATED];
    let len = 2 + AU_HEADER * samples.len();
    // AU-headers-length, in bits.
    head[..2].copy_from_slice(&((samples.len() * AU_HEADER * 8) as u16).to_be_bytes());
    for (header, unit) in head[2..].chunks_exact_mut(AU_HEADER).zip(samples) {
        // The size, then the index (first unit) or index delta minus one (others), which is always
        // 0.
        header.copy_from_slice(&((unit.sample.size as u16) << 3).to_be_bytes());
    }
    out.inline(&head[..len]);
    for unit in samples {
        out.film(unit.sample.offset, unit.sample.size);
    }
    out.end_packet(true);
}

/// Adds one access unit as several packets of equal size (the last may be shorter). Each has the
/// header of the whole unit; the last has the marker (RFC 3640 section 3.2.3).
fn fragments(out: &mut Builder, unit: &TimedSample, max_payload: usize) {
    let size = unit.sample.size;
    let [high, low] = ((size as u16) << 3).to_be_bytes();
    let head = out.keep(&[0, 16, high, low]);
    let most = (max_payload - 2 - AU_HEADER) as u32;
    let each = size.div_ceil(size.div_ceil(most));
    let mut done = 0;
    while done < size {
        let len = each.min(size - done);
        out.add(head);
        out.film(unit.sample.offset + u64::from(done), len);
        done += len;
        out.end_packet(done == size);
    }
}
