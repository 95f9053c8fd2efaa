//! The codec of a track, as far as other crates need it: names for manifests, parameter sets for SDP and the
//! packetiser.

use serde::{Deserialize, Serialize};

use crate::{PcmConfig, VorbisConfig};

/// A track's codec with the configuration from its sample entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Codec {
    /// H.264/AVC (`avc1`, `avc3`).
    H264(H264Config),
    /// H.265/HEVC (`hvc1`, `hev1`).
    H265(H265Config),
    /// AV1 (`av01`): the `av1C` box's payload.
    Av1(Vec<u8>),
    /// MPEG-4 audio (`mp4a` with an AudioSpecificConfig).
    Aac(AacConfig),
    /// AC-3 (`ac-3`).
    Ac3,
    /// Enhanced AC-3 (`ec-3`).
    Eac3,
    /// Opus (`Opus`).
    Opus(OpusConfig),
    /// MPEG-1 or MPEG-2 video (`mp4v` with one of their object types).
    MpegVideo(MpegVideo),
    /// MPEG-1 or MPEG-2 audio of layer I, II or III (`mp4a` with one of their object types).
    MpegAudio(MpegAudio),
    /// VP8 (`vp08`).
    Vp8(VpConfig),
    /// VP9 (`vp09`).
    Vp9(VpConfig),
    /// MPEG-4 Visual (`mp4v` with its object type).
    Mpeg4Visual(Mpeg4Visual),
    /// FLAC (`fLaC`).
    Flac,
    /// A complete MPEG transport stream: the packets of its PAT and PMT.
    TransportStream(Vec<u8>),
    /// Vorbis (`mp4a` with the unregistered object type that other software writes for it).
    Vorbis(VorbisConfig),
    /// Uncompressed audio (`ipcm`).
    Pcm(PcmConfig),
}

/// The configuration of MPEG-4 Visual (ISO/IEC 14496-2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mpeg4Visual {
    /// The configuration headers with their start codes; empty if they are in the samples only.
    pub headers: Vec<u8>,
}

impl Mpeg4Visual {
    /// Returns profile_and_level_indication (annex G), or 1 (Simple) if the headers have none.
    pub fn profile(&self) -> u8 {
        let mut codes = self.headers.windows(5);
        let sequence = codes.find(|bytes| bytes[..4] == [0, 0, 1, 0xb0]);
        sequence.map_or(1, |bytes| bytes[4])
    }
}

/// `vpcC` (VP Codec ISO Media File Format Binding 1.0, section 2.2), as far as it names the codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VpConfig {
    /// Profile: 0 to 3.
    pub profile: u8,
    /// Ten times the level; 0 if it is not known.
    pub level: u8,
    /// Bits per sample: 8, 10 or 12.
    pub depth: u8,
}

/// The configuration of MPEG-1 or MPEG-2 video (ISO/IEC 11172-2, 13818-2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpegVideo {
    /// objectTypeIndication (ISO/IEC 14496-1 table 5): 0x60 to 0x65 MPEG-2 by profile, 0x6a MPEG-1.
    pub object_type: u8,
    /// The sequence header and its extension, with start codes; empty if it is in the samples only.
    pub sequence: Vec<u8>,
}

impl MpegVideo {
    /// Returns whether this is MPEG-1.
    pub fn is_mpeg1(&self) -> bool {
        self.object_type == 0x6a
    }
}

/// The configuration of MPEG-1 or MPEG-2 audio (ISO/IEC 11172-3, 13818-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpegAudio {
    /// objectTypeIndication: 0x69 for MPEG-2 (lower sampling rates), 0x6b for MPEG-1.
    pub object_type: u8,
}

/// `avcC` (ISO/IEC 14496-15 5.3.3.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct H264Config {
    /// The sample entry's fourcc: `avc1` (parameter sets here only) or `avc3` (also in band).
    pub fourcc: [u8; 4],
    /// Bytes per NAL unit length in the samples: 1, 2 or 4.
    pub length_size: u8,
    /// AVCProfileIndication, profile_compatibility, AVCLevelIndication.
    pub profile: [u8; 3],
    /// Sequence parameter sets, with NAL header, without start codes.
    pub sps: Vec<Vec<u8>>,
    /// Picture parameter sets, in the same form.
    pub pps: Vec<Vec<u8>>,
}

/// `hvcC` (ISO/IEC 14496-15 8.3.3.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct H265Config {
    /// The sample entry's fourcc: `hvc1` or `hev1`.
    pub fourcc: [u8; 4],
    /// Bytes per NAL unit length in the samples: 1, 2 or 4.
    pub length_size: u8,
    /// The record's 12 bytes from general_profile_space to general_level_idc.
    pub profile: [u8; 12],
    /// Video parameter sets, with NAL header, without start codes.
    pub vps: Vec<Vec<u8>>,
    /// Sequence parameter sets, in the same form.
    pub sps: Vec<Vec<u8>>,
    /// Picture parameter sets, in the same form.
    pub pps: Vec<Vec<u8>>,
}

/// AudioSpecificConfig (ISO/IEC 14496-3 1.6.2.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AacConfig {
    /// The configuration as stored in the `esds` box.
    pub config: Vec<u8>,
    /// Audio object type: 2 AAC-LC, 5 SBR (HE-AAC), 29 PS (HE-AAC v2), …
    pub object_type: u8,
    /// Sampling rate of the core coder, in Hz.
    pub rate: u32,
    /// Channels of the core coder.
    pub channels: u8,
    /// Samples per access unit: 1024 or 960.
    pub frame_length: u16,
}

/// `dOps` (Encapsulation of Opus in ISOBMFF 4.3.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpusConfig {
    /// Output channels.
    pub channels: u8,
    /// Samples at 48 kHz to drop at the start.
    pub pre_skip: u16,
    /// Input sampling rate in Hz, informative only: Opus always decodes to 48 kHz.
    pub input_rate: u32,
}
