//! The packetiser of one track: chooses the payload format and plans packets in it.

use reelway_media::{Codec, Kind, Mpeg4Visual, Nanos, PcmConfig, TimedSample, Track};

use crate::bytes::Bytes;
use crate::error::{PlanError, Unsupported};
use crate::options::PayloadOptions;
use crate::plan::Plan;
use crate::sdp::SdpMedia;
use crate::timing::Timing;
use crate::{aac, av1, frames, h264, h265, mp2t, mpeg, mpeg4, opus, pcm, vp};

/// The packetiser of one track.
///
/// Holds everything it needs of the track. One packetiser is made per film track and payload size,
/// and shared by all viewers.
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
    MpegVideo(mpeg::MpegVideo),
    Mpeg4Visual(Mpeg4Visual),
    Vp(vp::Vp),
    /// Its `av1C`.
    Av1(Vec<u8>),
    Frames(frames::Frames),
    Pcm(PcmConfig),
    /// Packets of its PAT and PMT.
    TransportStream(Vec<u8>),
}

impl Payload {
    /// Returns whether a payload format exists for a codec. A track with this codec may still have
    /// features that the format cannot carry.
    pub fn carries(codec: &Codec) -> bool {
        Payload::refused(codec).is_none()
    }

    /// Returns why no payload format exists for a codec, in words; `None` if one exists.
    pub fn refused(codec: &Codec) -> Option<String> {
        match codec {
            Codec::H264(_)
            | Codec::H265(_)
            | Codec::Aac(_)
            | Codec::Ac3
            | Codec::Eac3
            | Codec::MpegVideo(_)
            | Codec::MpegAudio(_)
            | Codec::Mpeg4Visual(_)
            | Codec::Vp8(_)
            | Codec::Vp9(_)
            | Codec::Av1(_)
            | Codec::TransportStream(_)
            | Codec::Vorbis(_) => None,
            Codec::Opus(config) => opus::refused(config),
            Codec::Pcm(config) => pcm::refused(config),
            Codec::Flac => Some("no payload format exists".into()),
        }
    }

    /// Creates the packetiser of `track`, or returns why there is none.
    pub fn new(track: &Track, options: PayloadOptions) -> Result<Payload, Unsupported> {
        let max_payload = options
            .max_payload
            .clamp(PayloadOptions::LEAST, PayloadOptions::MOST);
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
            Codec::MpegVideo(config) => (
                Format::MpegVideo(mpeg::MpegVideo::new(config)),
                mpeg::CLOCK_RATE,
            ),
            Codec::MpegAudio(_) => (Format::Frames(frames::Frames::Mpeg), mpeg::CLOCK_RATE),
            Codec::Ac3 => (Format::Frames(frames::Frames::Ac3), frames::rate(track)),
            Codec::Eac3 => (Format::Frames(frames::Frames::Eac3), frames::rate(track)),
            Codec::Vorbis(_) => (Format::Frames(frames::Frames::Vorbis), frames::rate(track)),
            Codec::Mpeg4Visual(config) => (Format::Mpeg4Visual(config.clone()), mpeg4::CLOCK_RATE),
            Codec::Vp8(_) => (Format::Vp(vp::Vp::Vp8), vp::CLOCK_RATE),
            Codec::Vp9(config) => (Format::Vp(vp::Vp::vp9(config)), vp::CLOCK_RATE),
            Codec::Av1(config) => (Format::Av1(config.clone()), av1::CLOCK_RATE),
            Codec::TransportStream(tables) => {
                mp2t::check(max_payload)?;
                (Format::TransportStream(tables.clone()), mp2t::CLOCK_RATE)
            }
            Codec::Pcm(config) => {
                pcm::check(config)?;
                (Format::Pcm(*config), frames::rate(track))
            }
            Codec::Flac => {
                let words = "there is no RTP payload format for FLAC; HLS and DASH play this film";
                return Err(Unsupported::new(words));
            }
        };
        let timing = Timing {
            timescale: track.timescale.max(1),
            shift: track.shift,
            clock_rate,
        };
        let preface = match &format {
            Format::H264(h264) => h264.preface(max_payload),
            Format::H265(h265) => h265.preface(max_payload),
            Format::MpegVideo(video) => video.preface(max_payload),
            Format::Av1(config) => av1::preface(config, max_payload),
            Format::TransportStream(tables) => mp2t::preface(tables, max_payload),
            Format::Aac(_)
            | Format::Opus
            | Format::Mpeg4Visual(_)
            | Format::Vp(_)
            | Format::Pcm(_)
            | Format::Frames(_) => Plan::default(),
        };
        let (encoding, fmtp) = match &format {
            Format::H264(h264) => h264.sdp(),
            Format::H265(h265) => h265.sdp(),
            Format::Aac(aac) => aac.sdp(),
            Format::Opus => opus::sdp(track),
            Format::MpegVideo(_) => mpeg::sdp(),
            Format::Mpeg4Visual(config) => mpeg4::sdp(config),
            Format::Vp(vp) => vp.sdp(),
            Format::Av1(config) => av1::sdp(config),
            Format::Frames(frames) => frames.sdp(track),
            Format::Pcm(config) => pcm::sdp(config, track),
            Format::TransportStream(_) => mp2t::sdp(),
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

    /// Returns the clock rate of RTP timestamps in Hz.
    pub fn clock_rate(&self) -> u32 {
        self.timing.clock_rate
    }

    /// Returns the static payload type of the format (RFC 3551 section 6), the only one that some
    /// players recognise.
    pub fn static_type(&self) -> Option<u8> {
        match self.format {
            Format::MpegVideo(_) => Some(32),
            Format::Frames(frames::Frames::Mpeg) => Some(14),
            Format::TransportStream(_) => Some(mp2t::TYPE),
            _ => None,
        }
    }

    /// Returns the maximum size of a packet after its RTP header, in bytes.
    pub fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Returns the track's part of the session description.
    pub fn sdp(&self) -> &SdpMedia {
        &self.sdp
    }

    /// Plans `samples`, consecutive samples of the track in decode order; `bytes` must contain all
    /// their bytes. The same samples always give the same plan. Several audio access units share a
    /// packet only within one call.
    pub fn plan(&self, samples: &[TimedSample], bytes: &dyn Bytes) -> Result<Plan, PlanError> {
        match &self.format {
            Format::H264(h264) => h264.plan(samples, bytes, self.timing, self.max_payload),
            Format::H265(h265) => h265.plan(samples, bytes, self.timing, self.max_payload),
            Format::Aac(aac) => aac.plan(samples, bytes, self.timing, self.max_payload),
            Format::Opus => opus::plan(samples, bytes, self.timing, self.max_payload),
            Format::MpegVideo(_) => mpeg::plan(samples, bytes, self.timing, self.max_payload),
            Format::Av1(_) => av1::plan(samples, bytes, self.timing, self.max_payload),
            Format::Mpeg4Visual(_) => Ok(mpeg4::plan(samples, self.timing, self.max_payload)),
            Format::Vp(vp) => Ok(vp.plan(samples, self.timing, self.max_payload)),
            Format::Frames(frames) => Ok(frames.plan(samples, self.timing, self.max_payload)),
            Format::Pcm(config) => Ok(pcm::plan(config, samples, self.timing, self.max_payload)),
            Format::TransportStream(_) => Ok(mp2t::plan(samples, self.timing, self.max_payload)),
        }
    }

    /// Returns what a decoder needs before its first picture: the parameter sets, to be sent before
    /// the first sync frame at every start and after every seek.
    ///
    /// One frame whose packets are all inline; no frame for audio, or if the film carries its
    /// parameter sets in the samples only. It has no time of its own: send it with the `rtp_time`
    /// and `due` of the picture that follows.
    pub fn preface(&self) -> &Plan {
        &self.preface
    }

    /// Returns the RTP timestamp of the film's presentation time `at`, before a viewer's base is
    /// added: for RTP-Info's `rtptime`, which refers to the start of a range (RFC 2326 section
    /// 12.33), and for sender reports, which refer to the current time.
    pub fn rtp_time(&self, at: Nanos) -> u32 {
        reelway_media::nanos_to_ticks(at, self.timing.clock_rate) as u32
    }
}
