//! H.264 over RTP (RFC 6184), packetization mode 1: single NAL units, STAP-A, FU-A.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use reelway_media::{H264Config, TimedSample};

use crate::bytes::Bytes;
use crate::error::{PlanError, Unsupported};
use crate::nal::{self, NalFormat, NalHeader, Role};
use crate::plan::Plan;
use crate::timing::Timing;

/// Clock rate in Hz (RFC 6184 section 5.1).
pub(crate) const CLOCK_RATE: u32 = 90_000;

const STAP_A: u8 = 24;
const FU_A: u8 = 28;

#[derive(Clone, Debug)]
pub(crate) struct H264 {
    length_size: u8,
    profile: [u8; 3],
    sets: Vec<Vec<u8>>,
}

impl H264 {
    pub fn new(config: &H264Config) -> Result<H264, Unsupported> {
        if !(1..=4).contains(&config.length_size) {
            let words = format!(
                "NAL lengths of {} bytes in avcC; 1, 2 or 4 are possible",
                config.length_size
            );
            return Err(Unsupported::new(words));
        }
        let sets = config
            .sps
            .iter()
            .chain(&config.pps)
            .filter(|set| !set.is_empty())
            .cloned()
            .collect();
        Ok(H264 {
            length_size: config.length_size,
            profile: config.profile,
            sets,
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
        nal::preface(self, self.sets.iter(), max_payload)
    }

    /// Returns encoding name and format parameters (RFC 6184 section 8.1).
    pub fn sdp(&self) -> (String, String) {
        let [profile, compatibility, level] = self.profile;
        let mut fmtp = format!(
            "packetization-mode=1;profile-level-id={profile:02X}{compatibility:02X}{level:02X}"
        );
        let sets: Vec<String> = self.sets.iter().map(|set| BASE64.encode(set)).collect();
        if !sets.is_empty() {
            let _ = write!(fmtp, ";sprop-parameter-sets={}", sets.join(","));
        }
        (format!("H264/{CLOCK_RATE}"), fmtp)
    }
}

impl NalFormat for H264 {
    const HEADER: usize = 1;

    fn role(&self, [header, _]: NalHeader) -> Role {
        match header & 0x1f {
            // Slices and their data partitions (ITU-T H.264 table 7-1).
            1..=5 if header & 0x60 == 0 => Role::Disposable,
            1..=5 => Role::Reference,
            // Access unit delimiters, and unspecified types, which RTP uses for its own packets.
            0 | 9 | 24.. => Role::Drop,
            _ => Role::Other,
        }
    }

    /// RFC 6184 section 5.7.1: F is set if any unit has it, NRI is the highest of all units.
    fn aggregate(headers: impl Iterator<Item = NalHeader>) -> NalHeader {
        let (forbidden, nri) = headers.fold((0, 0), |(forbidden, nri), [header, _]| {
            (
                forbidden | (header & 0x80),
                std::cmp::max(nri, header & 0x60),
            )
        });
        [forbidden | nri | STAP_A, 0]
    }

    /// RFC 6184 section 5.8: FU indicator and FU header.
    fn fragment([header, _]: NalHeader, first: bool, last: bool) -> [u8; 3] {
        let indicator = (header & 0xe0) | FU_A;
        let fragment = (u8::from(first) << 7) | (u8::from(last) << 6) | (header & 0x1f);
        [indicator, fragment, 0]
    }
}
