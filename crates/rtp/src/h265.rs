//! H.265 over RTP (RFC 7798): single NAL units, aggregation packets, fragmentation units; no DONL.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use reelway_media::{H265Config, TimedSample};

use crate::bytes::Bytes;
use crate::error::{PlanError, Unsupported};
use crate::nal::{self, NalFormat, NalHeader, Role};
use crate::plan::Plan;
use crate::timing::Timing;

/// Clock rate in Hz (RFC 7798 section 4.1).
pub(crate) const CLOCK_RATE: u32 = 90_000;

const AP: u8 = 48;
const FU: u8 = 49;

#[derive(Clone, Debug)]
pub(crate) struct H265 {
    length_size: u8,
    profile: [u8; 12],
    vps: Vec<Vec<u8>>,
    sps: Vec<Vec<u8>>,
    pps: Vec<Vec<u8>>,
    /// nuh_temporal_id_plus1 of the highest sub-layer; 0 if unknown. Only in this sub-layer is a
    /// non-reference picture not needed by any other picture of the same or a higher sub-layer.
    highest: u8,
}

impl H265 {
    pub fn new(config: &H265Config) -> Result<H265, Unsupported> {
        if !(1..=4).contains(&config.length_size) {
            let words = format!(
                "NAL lengths of {} bytes in hvcC; 1, 2 or 4 are possible",
                config.length_size
            );
            return Err(Unsupported::new(words));
        }
        let kept = |sets: &[Vec<u8>]| {
            sets.iter()
                .filter(|set| set.len() >= 2)
                .cloned()
                .collect::<Vec<_>>()
        };
        // sps_max_sub_layers_minus1, after the header and four bits (ITU-T H.265 7.3.2.2.1).
        let highest = config
            .sps
            .iter()
            .filter_map(|sps| sps.get(2))
            .map(|byte| ((byte >> 1) & 7) + 1)
            .max();
        Ok(H265 {
            length_size: config.length_size,
            profile: config.profile,
            vps: kept(&config.vps),
            sps: kept(&config.sps),
            pps: kept(&config.pps),
            highest: highest.unwrap_or(0),
        })
    }

    pub fn plan(
        &self,
        samples: &[TimedSample],
        bytes: &dyn Bytes,
        timing: Timing,
        max_payload: usize,
    ) -> Result<Plan, PlanError> {
        nal::plan(self, self.length_size, samples, bytes, timing, max_payload)
    }

    pub fn preface(&self, max_payload: usize) -> Plan {
        nal::preface(
            self,
            self.vps.iter().chain(&self.sps).chain(&self.pps),
            max_payload,
        )
    }

    /// Returns encoding name and format parameters (RFC 7798 section 7.1).
    pub fn sdp(&self) -> (String, String) {
        let p = &self.profile;
        let mut fmtp = format!(
            "profile-space={};profile-id={};tier-flag={};level-id={}",
            p[0] >> 6,
            p[0] & 0x1f,
            (p[0] >> 5) & 1,
            p[11]
        );
        let hex = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect::<String>()
        };
        let _ = write!(
            fmtp,
            ";interop-constraints={};profile-compatibility-indicator={}",
            hex(&p[5..11]),
            hex(&p[1..5])
        );
        for (name, sets) in [("vps", &self.vps), ("sps", &self.sps), ("pps", &self.pps)] {
            let sets: Vec<String> = sets.iter().map(|set| BASE64.encode(set)).collect();
            if !sets.is_empty() {
                let _ = write!(fmtp, ";sprop-{name}={}", sets.join(","));
            }
        }
        (format!("H265/{CLOCK_RATE}"), fmtp)
    }
}

fn unit_type(header: NalHeader) -> u8 {
    (header[0] >> 1) & 0x3f
}

fn with_type(header: NalHeader, unit_type: u8) -> NalHeader {
    [(header[0] & 0x81) | (unit_type << 1), header[1]]
}

impl NalFormat for H265 {
    const HEADER: usize = 2;

    fn role(&self, header: NalHeader) -> Role {
        match unit_type(header) {
            // Even types below 16 are sub-layer non-reference pictures (ITU-T H.265 table 7-1).
            even @ 0..16 if even % 2 == 0 && header[1] & 7 == self.highest => Role::Disposable,
            0..32 => Role::Reference,
            // Access unit delimiters, and unspecified types, which RTP uses for its own packets.
            35 | 48.. => Role::Drop,
            _ => Role::Other,
        }
    }

    /// RFC 7798 section 4.4.2: F is set if any unit has it, layer and temporal ID are the lowest of
    /// all units.
    fn aggregate(headers: impl Iterator<Item = NalHeader>) -> NalHeader {
        let (mut forbidden, mut layer, mut temporal) = (0, 63, 7);
        for [high, low] in headers {
            forbidden |= high & 0x80;
            layer = layer.min(((high & 1) << 5) | (low >> 3));
            temporal = temporal.min(low & 7);
        }
        [
            forbidden | (AP << 1) | (layer >> 5),
            (layer << 3) | temporal,
        ]
    }

    /// RFC 7798 section 4.4.3: payload header and FU header.
    fn fragment(header: NalHeader, first: bool, last: bool) -> [u8; 3] {
        let [high, low] = with_type(header, FU);
        [
            high,
            low,
            (u8::from(first) << 7) | (u8::from(last) << 6) | unit_type(header),
        ]
    }
}
