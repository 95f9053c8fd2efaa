//! The packetiser of one track: which payload format, and what a run of samples becomes in it.

use reelway_media::{Codec, Kind, Nanos, TimedSample, Track, rescale, ticks_to_nanos};

use crate::plan::Plan;
use crate::sdp::SdpMedia;
use crate::{aac, h264, h265, opus};

/// Most NAL units or access units put into one packet.
pub(crate) const MAX_AGGREGATED: usize = 16;

/// Bytes of a film that are in memory.
pub trait Bytes {
    /// Copies the film's bytes from `offset` on into all of `buf`; false (and `buf` undefined) if
    /// not all of them are there.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool;
}

/// A whole film, or its beginning, as a slice.
impl Bytes for &[u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool {
        let Ok(start) = usize::try_from(offset) else {
            return false;
        };
        let Some(from) = start
            .checked_add(buf.len())
            .and_then(|end| self.get(start..end))
        else {
            return false;
        };
        buf.copy_from_slice(from);
        true
    }
}

/// What a plan depends on besides the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayloadOptions {
    /// Most bytes of a packet after the 12 bytes of RTP header, payload header included. Taken as
    /// the nearest value in [`PayloadOptions::LEAST`]..=[`PayloadOptions::MOST`].
    pub max_payload: usize,
}

impl PayloadOptions {
    /// Smallest payload the formats work with.
    pub const LEAST: usize = 16;
    /// Largest payload: what a UDP datagram over IPv4 holds, less the RTP header.
    pub const MOST: usize = 65_507 - crate::Header::BYTES;

    /// For links that carry IP packets of up to `mtu` bytes. This is the only place that reckons it.
    ///
    /// One plan serves IPv4 and IPv6, first transmission and retransmission alike, so the largest
    /// headers are taken off: IPv6's 40 bytes (RFC 8200 section 3; IPv4 has 20), UDP's 8, RTP's 12, and
    /// the 2 of the retransmission payload header (RFC 4588 section 4).
    pub fn for_mtu(mtu: usize) -> Self {
        const IPV6: usize = 40;
        const UDP: usize = 8;
        let headers = IPV6 + UDP + crate::Header::BYTES + crate::RTX_BYTES;
        PayloadOptions {
            max_payload: mtu.saturating_sub(headers),
        }
    }
}

/// Ethernet: 1500 bytes of IP packet, 1438 of payload.
impl Default for PayloadOptions {
    fn default() -> Self {
        PayloadOptions::for_mtu(1500)
    }
}

/// Why a track does not go over RTP, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unsupported {
    /// A sentence fit for the film's list of reasons.
    pub reason: String,
}

impl Unsupported {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Unsupported {
            reason: reason.into(),
        }
    }
}

/// Why a run of samples could not be planned. The film is damaged at `offset`, or its bytes are
/// not in memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The bytes of a sample were not in memory: the caller must have them all.
    #[error("byte {offset} of the film is needed and not in memory")]
    Missing {
        /// Where in the film file.
        offset: u64,
    },
    /// A NAL unit reaches beyond the end of its sample.
    #[error(
        "byte {offset}: a NAL unit of {length} bytes, but only {left} are left of its sample; the film is damaged here"
    )]
    NalTooLong {
        /// Where in the film file the length stands.
        offset: u64,
        /// The length it says, in bytes.
        length: u32,
        /// Bytes left of the sample after the length.
        left: u32,
    },
    /// An access unit is longer than its payload format can say.
    #[error(
        "byte {offset}: an access unit of {length} bytes, the payload format carries at most {most}; the film is damaged here"
    )]
    UnitTooLong {
        /// Where in the film file.
        offset: u64,
        /// Its length in bytes.
        length: u32,
        /// The most the format carries.
        most: u32,
    },
}

/// The packetiser of one track.
///
/// Holds all it needs of the track; one is made for a film and payload size and shared by all
/// viewers.
#[derive(Clone, Debug)]
pub struct Payload {
    format: Format,
    timing: Timing,
    max_payload: usize,
    preface: Plan,
    sdp: SdpMedia,
}

#[derive(Clone, Debug)]
enum Format {
    H264(h264::H264),
    H265(h265::H265),
    Aac(aac::Aac),
    Opus,
}

/// From a track's ticks to the film's timeline and to RTP ticks, always from absolute values so
/// that no rounding adds up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub timescale: u32,
    pub shift: i64,
    pub clock_rate: u32,
}

impl Timing {
    /// Decode time on the film's timeline.
    pub fn due(&self, sample: &TimedSample) -> Nanos {
        ticks_to_nanos(sample.dts.saturating_add(self.shift), self.timescale)
    }

    /// Decode time of what follows the sample.
    pub fn end(&self, sample: &TimedSample) -> Nanos {
        let end = sample.dts.saturating_add(i64::from(sample.sample.duration));
        ticks_to_nanos(end.saturating_add(self.shift), self.timescale)
    }

    fn presented(&self, sample: &TimedSample) -> i64 {
        sample
            .dts
            .saturating_add(i64::from(sample.sample.cts))
            .saturating_add(self.shift)
    }

    /// Presentation time on the film's timeline.
    pub fn shown(&self, sample: &TimedSample) -> Nanos {
        ticks_to_nanos(self.presented(sample), self.timescale)
    }

    /// Presentation time in ticks of the clock rate, before it wraps.
    pub fn rtp(&self, sample: &TimedSample) -> i64 {
        rescale(self.presented(sample), self.timescale, self.clock_rate)
    }
}

impl Payload {
    /// The packetiser of `track`, or why there is none.
    pub fn new(track: &Track, options: PayloadOptions) -> Result<Payload, Unsupported> {
        let max_payload = options
            .max_payload
            .clamp(PayloadOptions::LEAST, PayloadOptions::MOST);
        let later = |codec| {
            let words = format!("{codec} cannot be sent over RTP yet; HLS and DASH play this film");
            Err(Unsupported::new(words))
        };
        let (format, clock_rate) = match &track.codec {
            Codec::H264(config) => (Format::H264(h264::H264::new(config)?), h264::CLOCK_RATE),
            Codec::H265(config) => (Format::H265(h265::H265::new(config)?), h265::CLOCK_RATE),
            Codec::Aac(config) => {
                let aac = aac::Aac::new(config, track.timescale)?;
                let rate = aac.clock_rate();
                (Format::Aac(aac), rate)
            }
            Codec::Opus(config) => {
                opus::check(config)?;
                (Format::Opus, opus::CLOCK_RATE)
            }
            Codec::Av1(_) => return later("AV1"),
            Codec::Ac3 => return later("AC-3"),
            Codec::Eac3 => return later("Enhanced AC-3"),
        };
        let timing = Timing {
            timescale: track.timescale.max(1),
            shift: track.shift,
            clock_rate,
        };
        let preface = match &format {
            Format::H264(h264) => h264.preface(max_payload),
            Format::H265(h265) => h265.preface(max_payload),
            Format::Aac(_) | Format::Opus => Plan::default(),
        };
        let (encoding, fmtp) = match &format {
            Format::H264(h264) => h264.sdp(),
            Format::H265(h265) => h265.sdp(),
            Format::Aac(aac) => aac.sdp(),
            Format::Opus => opus::sdp(track),
        };
        let media = match track.kind {
            Kind::Video => "video",
            Kind::Audio => "audio",
        };
        let sdp = SdpMedia::of(track, media, encoding, fmtp, max_payload);
        Ok(Payload {
            format,
            timing,
            max_payload,
            preface,
            sdp,
        })
    }

    /// Ticks a second of RTP timestamps.
    pub fn clock_rate(&self) -> u32 {
        self.timing.clock_rate
    }

    /// Most bytes of a packet after its RTP header.
    pub fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// What the session description says of the track.
    pub fn sdp(&self) -> &SdpMedia {
        &self.sdp
    }

    /// Plans `samples`, consecutive samples of the track in decode order; `bytes` must hold all
    /// their bytes. The plan of the same samples is always the same. Several sound access units
    /// share a packet only within one call.
    pub fn plan(&self, samples: &[TimedSample], bytes: &dyn Bytes) -> Result<Plan, PlanError> {
        match &self.format {
            Format::H264(h264) => h264.plan(samples, bytes, self.timing, self.max_payload),
            Format::H265(h265) => h265.plan(samples, bytes, self.timing, self.max_payload),
            Format::Aac(aac) => aac.plan(samples, bytes, self.timing, self.max_payload),
            Format::Opus => opus::plan(samples, bytes, self.timing, self.max_payload),
        }
    }

    /// What a decoder must have before its first picture: the parameter sets, to be sent before the
    /// first sync frame at every start and after every seek.
    ///
    /// One frame whose packets are all inline, or no frame for sound and where the film carries its
    /// parameter sets in the samples alone. It has no time of its own: send it with the
    /// `rtp_time` and `due` of the picture that follows.
    pub fn preface(&self) -> &Plan {
        &self.preface
    }

    /// The RTP timestamp, before a viewer's base is added, of the film's presentation time `at`:
    /// what RTP-Info's `rtptime` says of the start of a range (RFC 2326 section 12.33), and what a
    /// sender report says of now.
    pub fn rtp_time(&self, at: Nanos) -> u32 {
        reelway_media::nanos_to_ticks(at, self.timing.clock_rate) as u32
    }
}
