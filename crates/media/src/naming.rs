//! Names of codecs, for manifests (RFC 6381 and the codecs' ISO bindings) and for people.

use std::fmt::Write;

use crate::vorbis::OBJECT_TYPE as VORBIS;
use crate::{Codec, H264Config, H265Config, VpConfig};

impl Codec {
    /// Returns the `codecs` parameter of RFC 6381: `avc1.64001f`, `hvc1.1.6.L93.B0`,
    /// `av01.0.04M.08`, `vp09.00.31.08`, `mp4a.40.2`, `ac-3`, `ec-3`, `opus`, `fLaC`, `ipcm`.
    pub fn rfc6381(&self) -> String {
        match self {
            Codec::H264(config) => {
                let [profile, compatible, level] = config.profile;
                format!(
                    "{}.{profile:02x}{compatible:02x}{level:02x}",
                    config.fourcc.escape_ascii()
                )
            }
            Codec::H265(config) => hevc(config),
            Codec::Av1(config) => av1(config),
            Codec::Aac(config) => format!("mp4a.40.{}", config.object_type),
            Codec::Ac3 => "ac-3".into(),
            Codec::Eac3 => "ec-3".into(),
            Codec::Opus(_) => "opus".into(),
            Codec::MpegVideo(video) => format!("mp4v.{:02X}", video.object_type),
            Codec::MpegAudio(audio) => format!("mp4a.{:02X}", audio.object_type),
            Codec::Vp8(config) => vp("vp08", config),
            Codec::Vp9(config) => vp("vp09", config),
            Codec::Mpeg4Visual(video) => format!("mp4v.20.{}", video.profile()),
            Codec::Flac => "fLaC".into(),
            Codec::TransportStream(_) => "mp2t".into(),
            Codec::Vorbis(_) => format!("mp4a.{VORBIS:02X}"),
            Codec::Pcm(_) => "ipcm".into(),
        }
    }

    /// Returns the common name: `H.264 High`, `HEVC Main 10`, `AV1 Main`, `AAC-LC`, `HE-AAC`,
    /// `AC-3`, `Opus`.
    pub fn name(&self) -> String {
        let (codec, profile) = match self {
            Codec::H264(config) => ("H.264", h264_profile(config)),
            Codec::H265(config) => ("HEVC", hevc_profile(config.profile[0] & 0x1f)),
            Codec::Av1(config) => ("AV1", av1_profile(config)),
            Codec::Aac(config) => (aac_name(config.object_type), None),
            Codec::Ac3 => ("AC-3", None),
            Codec::Eac3 => ("E-AC-3", None),
            Codec::Opus(_) => ("Opus", None),
            Codec::MpegVideo(video) if video.is_mpeg1() => ("MPEG-1", None),
            Codec::MpegVideo(_) => ("MPEG-2", None),
            Codec::MpegAudio(_) => ("MPEG audio", None),
            Codec::Vp8(_) => ("VP8", None),
            Codec::Vp9(config) => ("VP9", vp9_profile(config.profile)),
            Codec::Mpeg4Visual(_) => ("MPEG-4 Visual", None),
            Codec::Flac => ("FLAC", None),
            Codec::TransportStream(_) => ("MPEG transport stream", None),
            Codec::Vorbis(_) => ("Vorbis", None),
            Codec::Pcm(config) => ("PCM", pcm_size(config.bits)),
        };
        profile.map_or(codec.into(), |profile| format!("{codec} {profile}"))
    }
}

/// Profile names of ISO/IEC 14496-10 annex A, by profile_idc and constraint flags.
fn h264_profile(config: &H264Config) -> Option<&'static str> {
    let [profile, constraints, _] = config.profile;
    let set = |flag: u8| constraints & (0x80 >> flag) != 0;
    Some(match profile {
        66 if set(1) => "Constrained Baseline",
        66 => "Baseline",
        77 => "Main",
        88 => "Extended",
        100 if set(4) && set(5) => "Constrained High",
        100 if set(4) => "Progressive High",
        100 => "High",
        110 if set(3) => "High 10 Intra",
        110 => "High 10",
        122 if set(3) => "High 4:2:2 Intra",
        122 => "High 4:2:2",
        244 if set(3) => "High 4:4:4 Intra",
        244 => "High 4:4:4 Predictive",
        44 => "CAVLC 4:4:4 Intra",
        118 => "Multiview High",
        128 => "Stereo High",
        _ => return None,
    })
}

/// Profile names of ISO/IEC 23008-2 annex A, by general_profile_idc.
fn hevc_profile(profile: u8) -> Option<&'static str> {
    Some(match profile {
        1 => "Main",
        2 => "Main 10",
        3 => "Main Still Picture",
        4 => "Range Extensions",
        5 => "High Throughput",
        6 => "Multiview Main",
        7 => "Scalable Main",
        9 => "Screen Content",
        _ => return None,
    })
}

/// Profile names of AV1, by seq_profile.
fn av1_profile(config: &[u8]) -> Option<&'static str> {
    ["Main", "High", "Professional"]
        .get(usize::from(config.get(1)? >> 5))
        .copied()
}

/// Profile names of VP9, except for profile 0, which is the usual one.
fn vp9_profile(profile: u8) -> Option<&'static str> {
    [
        None,
        Some("Profile 1"),
        Some("Profile 2"),
        Some("Profile 3"),
    ]
    .get(usize::from(profile))
    .copied()?
}

/// VP Codec ISO Media File Format Binding 1.0, section 5.
fn vp(fourcc: &str, config: &VpConfig) -> String {
    let VpConfig {
        profile,
        level,
        depth,
    } = config;
    format!("{fourcc}.{profile:02}.{level:02}.{depth:02}")
}

/// Names of the PCM sample sizes.
fn pcm_size(bits: u8) -> Option<&'static str> {
    Some(match bits {
        16 => "16-bit",
        24 => "24-bit",
        32 => "32-bit",
        _ => return None,
    })
}

/// Audio object types of ISO/IEC 14496-3 table 1.17.
fn aac_name(object_type: u8) -> &'static str {
    match object_type {
        1 => "AAC Main",
        2 => "AAC-LC",
        3 => "AAC-SSR",
        4 => "AAC-LTP",
        5 => "HE-AAC",
        23 => "AAC-LD",
        29 => "HE-AAC v2",
        39 => "AAC-ELD",
        42 => "xHE-AAC",
        _ => "MPEG-4 audio",
    }
}

/// ISO/IEC 14496-15 annex E.3: profile space and profile, compatibility flags in reversed bit
/// order, tier and level, constraint bytes without trailing zeros.
fn hevc(config: &H265Config) -> String {
    let profile = &config.profile;
    let space = ["", "A", "B", "C"][usize::from(profile[0] >> 6)];
    let compatible =
        u32::from_be_bytes([profile[1], profile[2], profile[3], profile[4]]).reverse_bits();
    let tier = if profile[0] & 0x20 == 0 { 'L' } else { 'H' };
    let mut name = format!(
        "{}.{space}{}.{compatible:X}.{tier}{}",
        config.fourcc.escape_ascii(),
        profile[0] & 0x1f,
        profile[11]
    );
    let constraints = &profile[5..11];
    let used = constraints
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    for byte in &constraints[..used] {
        let _ = write!(name, ".{byte:X}");
    }
    name
}

/// AV1 Codec ISO Media File Format Binding, section 5, without the optional fields: all of them
/// are at their defaults or in the sequence header.
fn av1(config: &[u8]) -> String {
    let (profile_level, flags) = (
        config.get(1).copied().unwrap_or(0),
        config.get(2).copied().unwrap_or(0),
    );
    let (profile, level) = (profile_level >> 5, profile_level & 0x1f);
    let tier = if flags & 0x80 == 0 { 'M' } else { 'H' };
    let depth = match (flags & 0x40 != 0, flags & 0x20 != 0) {
        (false, _) => 8,
        (true, false) => 10,
        (true, true) => 12,
    };
    format!("av01.{profile}.{level:02}{tier}.{depth:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AacConfig, OpusConfig};

    fn h264(fourcc: &[u8; 4], profile: [u8; 3]) -> Codec {
        Codec::H264(H264Config {
            fourcc: *fourcc,
            length_size: 4,
            profile,
            sps: vec![],
            pps: vec![],
        })
    }

    fn h265(fourcc: &[u8; 4], profile: [u8; 12]) -> Codec {
        Codec::H265(H265Config {
            fourcc: *fourcc,
            length_size: 4,
            profile,
            vps: vec![],
            sps: vec![],
            pps: vec![],
        })
    }

    fn aac(object_type: u8) -> Codec {
        Codec::Aac(AacConfig {
            config: vec![],
            object_type,
            rate: 44100,
            channels: 2,
            frame_length: 1024,
        })
    }

    #[test]
    fn h264_is_named_by_profile_and_level() {
        let codec = h264(b"avc1", [0x64, 0, 0x1f]);
        assert_eq!(
            (codec.rfc6381().as_str(), codec.name().as_str()),
            ("avc1.64001f", "H.264 High")
        );
        let codec = h264(b"avc3", [0x42, 0xc0, 0x0d]);
        assert_eq!(
            (codec.rfc6381().as_str(), codec.name().as_str()),
            ("avc3.42c00d", "H.264 Constrained Baseline")
        );
        assert_eq!(h264(b"avc1", [9, 0, 10]).name(), "H.264");
    }

    #[test]
    fn h265_is_named_as_iso_14496_15_has_it() {
        let codec = h265(b"hvc1", [0x01, 0x60, 0, 0, 0, 0xb0, 0, 0, 0, 0, 0, 93]);
        assert_eq!(
            (codec.rfc6381().as_str(), codec.name().as_str()),
            ("hvc1.1.6.L93.B0", "HEVC Main")
        );
        let codec = h265(b"hev1", [0x22, 0x20, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 153]);
        assert_eq!(
            (codec.rfc6381().as_str(), codec.name().as_str()),
            ("hev1.2.4.H153.90", "HEVC Main 10")
        );
        let codec = h265(b"hvc1", [0x44, 0x08, 0, 0, 0, 0x9d, 0, 8, 0, 0, 0, 120]);
        assert_eq!(codec.rfc6381(), "hvc1.A4.10.L120.9D.0.8");
    }

    #[test]
    fn av1_is_named_by_profile_level_tier_and_depth() {
        let codec = Codec::Av1(vec![0x81, 0x04, 0x0c, 0]);
        assert_eq!(
            (codec.rfc6381().as_str(), codec.name().as_str()),
            ("av01.0.04M.08", "AV1 Main")
        );
        assert_eq!(
            Codec::Av1(vec![0x81, 0x2d, 0xc0, 0]).rfc6381(),
            "av01.1.13H.10"
        );
    }

    #[test]
    fn sound_is_named_by_object_type() {
        assert_eq!(
            (aac(2).rfc6381().as_str(), aac(2).name().as_str()),
            ("mp4a.40.2", "AAC-LC")
        );
        assert_eq!(
            (aac(5).rfc6381().as_str(), aac(5).name().as_str()),
            ("mp4a.40.5", "HE-AAC")
        );
        assert_eq!(
            (aac(29).rfc6381().as_str(), aac(29).name().as_str()),
            ("mp4a.40.29", "HE-AAC v2")
        );
        let opus = Codec::Opus(OpusConfig {
            channels: 2,
            pre_skip: 312,
            input_rate: 48000,
        });
        assert_eq!(
            (opus.rfc6381().as_str(), opus.name().as_str()),
            ("opus", "Opus")
        );
        assert_eq!(
            (
                Codec::Ac3.rfc6381().as_str(),
                Codec::Eac3.rfc6381().as_str()
            ),
            ("ac-3", "ec-3")
        );
    }
}
