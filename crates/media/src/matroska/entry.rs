//! Builds a track's sample entry from Matroska data (Encapsulation of Opus in ISOBMFF 4.3).

use super::tracks::{Shape, Stated};
use crate::mp4::{Entry, entry_of};
use crate::sample_entry::{boxed, dac3, dec3, decoder, dfla, esds, picture, sound};
use crate::title::Kind;
use crate::vorbis::OBJECT_TYPE as VORBIS;
use crate::{PcmConfig, VorbisConfig, vp};

/// The frames needed to build a track's entry, in addition to its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// None.
    Nothing,
    /// The beginning of its first frame.
    FirstFrame,
}

/// The number of bytes of a frame that are needed.
pub const FRAME_HEAD: u64 = 16;

/// Returns which frames the entry of a track with this codec requires.
pub fn wants(codec: &str) -> Wants {
    match codec {
        "A_AC3" | "A_EAC3" | "V_VP8" | "V_VP9" => Wants::FirstFrame,
        _ => Wants::Nothing,
    }
}

/// Builds the entry of a track; `frame` is the beginning of its first frame if that is required.
///
/// # Errors
/// Why it cannot be played, as text for users.
pub fn make(track: &Stated, frame: &[u8]) -> Result<Entry, String> {
    let private = &track.private[..];
    let missing = || format!("{} without its configuration", name(&track.codec));
    let shown = |kind, config: &[u8]| match track.shape {
        Shape::Picture { size, aspect, .. } => picture(kind, size, aspect, config),
        _ => Vec::new(),
    };
    let heard = |kind, config: &[u8]| match track.shape {
        Shape::Sound { rate, channels, .. } => sound(kind, rate, channels, config),
        _ => Vec::new(),
    };
    let bytes = match track.codec.as_str() {
        "V_MPEG4/ISO/AVC" if private.len() >= 7 => shown(b"avc1", &boxed(b"avcC", &[private])),
        "V_MPEGH/ISO/HEVC" if private.len() >= 23 => shown(b"hvc1", &boxed(b"hvcC", &[private])),
        "V_AV1" if private.len() >= 4 => shown(b"av01", &boxed(b"av1C", &[private])),
        "V_MPEG4/ISO/AVC" | "V_MPEGH/ISO/HEVC" | "V_AV1" => return Err(missing()),
        codec if codec == "A_AAC" || codec.starts_with("A_AAC/") => {
            if private.is_empty() || private.len() > 64 {
                return Err(missing());
            }
            heard(b"mp4a", &esds(private))
        }
        "A_OPUS" => heard(b"Opus", &dops(private).ok_or_else(missing)?),
        "A_VORBIS" => {
            let config = VorbisConfig::parse(private).ok_or_else(missing)?;
            heard(b"mp4a", &decoder(VORBIS, 0x15, &config.laced()))
        }
        "A_FLAC" => heard(b"fLaC", &dfla(private).ok_or_else(missing)?),
        "V_VP8" => shown(b"vp08", &vp::vp8(frame).ok_or_else(missing)?),
        "V_VP9" => shown(b"vp09", &vp9(track, frame).ok_or_else(missing)?),
        "V_MPEG4/ISO/SP" | "V_MPEG4/ISO/ASP" | "V_MPEG4/ISO/AP" if !private.is_empty() => {
            shown(b"mp4v", &decoder(0x20, 0x11, headers(private)))
        }
        "V_MPEG1" => shown(b"mp4v", &decoder(0x6a, 0x11, sequence(private))),
        "V_MPEG2" => shown(b"mp4v", &decoder(0x61, 0x11, sequence(private))),
        "A_MPEG/L2" | "A_MPEG/L3" => heard(b"mp4a", &decoder(mpeg_audio(track), 0x15, &[])),
        "A_AC3" => heard(b"ac-3", &dac3(frame).ok_or_else(missing)?),
        "A_EAC3" => heard(b"ec-3", &dec3(frame).ok_or_else(missing)?),
        "A_PCM/INT/LIT" => pcm(track, true)?,
        "A_PCM/INT/BIG" => pcm(track, false)?,
        "V_MS/VFW/FOURCC" => return Err(as_in_avi(private)),
        _ => return Err(name(&track.codec)),
    };
    let kind = match track.shape {
        Shape::Picture { .. } => Kind::Video,
        _ => Kind::Audio,
    };
    entry_of(&bytes, kind)
}

/// Returns the entry of uncompressed audio.
fn pcm(track: &Stated, little_endian: bool) -> Result<Vec<u8>, String> {
    let Shape::Sound {
        rate,
        channels,
        bits,
    } = track.shape
    else {
        return Err(name(&track.codec));
    };
    let config = PcmConfig::new(bits.into(), little_endian, channels.into())?;
    let missing = || format!("uncompressed sound of {rate} samples a second");
    config.entry(rate).ok_or_else(missing)
}

/// Returns the `vpcC` box of VP9; a missing frame rate counts as 30 pictures per second.
fn vp9(track: &Stated, frame: &[u8]) -> Option<Vec<u8>> {
    let Shape::Picture { size, .. } = track.shape else {
        return None;
    };
    let rate = track.frame.filter(|nanos| *nanos > 0);
    let rate = rate.map_or(30, |nanos| (1_000_000_000u64.div_ceil(nanos)) as u32);
    vp::vp9(frame, size, rate)
}

/// Returns the headers of MPEG-4 Visual, or nothing if they are implausibly long.
fn headers(private: &[u8]) -> &[u8] {
    match private.len() <= 16_000 {
        true => private,
        false => &[],
    }
}

/// Returns the sequence header of MPEG-1 or MPEG-2 video, or nothing if it is implausibly long.
fn sequence(private: &[u8]) -> &[u8] {
    match private.len() <= 90 {
        true => private,
        false => &[],
    }
}

/// Returns the objectTypeIndication (14496-1 table 5) of MPEG audio: low rates are MPEG-2's.
fn mpeg_audio(track: &Stated) -> u8 {
    match track.shape {
        Shape::Sound { rate, .. } if rate < 32_000 => 0x69,
        _ => 0x6b,
    }
}

/// Describes AVI-style video for users: its BITMAPINFOHEADER contains a four-character code.
fn as_in_avi(header: &[u8]) -> String {
    match header.get(16..20) {
        Some(code) => format!("picture as in AVI, coded in {}", code.escape_ascii()),
        None => "picture as in AVI".to_owned(),
    }
}

/// Returns the name of a codec for users.
fn name(codec: &str) -> String {
    let known = match codec {
        "V_MPEG4/ISO/AVC" => "H.264 picture",
        "V_MPEGH/ISO/HEVC" => "H.265 picture",
        "V_AV1" => "AV1 picture",
        "V_VP8" => "VP8 picture",
        "V_VP9" => "VP9 picture",
        "V_MPEG1" => "MPEG-1 picture",
        "V_MPEG2" => "MPEG-2 picture",
        "V_THEORA" => "Theora picture",
        "V_PRORES" => "ProRes picture",
        "V_FFV1" => "FFV1 picture",
        "V_MJPEG" => "Motion JPEG picture",
        "A_OPUS" => "Opus sound",
        "A_AC3" => "AC-3 sound",
        "A_EAC3" => "E-AC-3 sound",
        "A_MPEG/L3" => "MP3 sound",
        "A_MPEG/L2" | "A_MPEG/L1" => "MPEG audio",
        "A_VORBIS" => "Vorbis sound",
        "A_FLAC" => "FLAC sound",
        "A_TRUEHD" => "TrueHD sound",
        "A_ALAC" => "Apple Lossless sound",
        _ => "",
    };
    match codec {
        _ if !known.is_empty() => known.to_owned(),
        _ if codec.starts_with("V_MPEG4/ISO/") => "MPEG-4 Visual picture".to_owned(),
        _ if codec.starts_with("A_AAC") => "AAC sound".to_owned(),
        _ if codec.starts_with("A_DTS") => "DTS sound".to_owned(),
        _ if codec.starts_with("A_PCM/FLOAT") => "floating-point sound".to_owned(),
        _ if codec.starts_with("A_PCM") => "uncompressed sound".to_owned(),
        _ => format!(
            "codec {}",
            codec.escape_debug().take(40).collect::<String>()
        ),
    }
}

/// Returns `dOps` for an Opus identification header (RFC 7845 section 5.1), which is little-endian.
fn dops(head: &[u8]) -> Option<Vec<u8>> {
    let (magic, head) = head.split_first_chunk::<8>()?;
    let (fixed, mapping) = head.split_first_chunk::<11>()?;
    let [
        _,
        channels,
        skip0,
        skip1,
        rate0,
        rate1,
        rate2,
        rate3,
        gain0,
        gain1,
        family,
    ] = *fixed;
    if magic != b"OpusHead" || channels == 0 {
        return None;
    }
    let mapping = match family {
        0 => &[][..],
        _ => mapping.get(..2 + usize::from(channels))?,
    };
    let body = [
        0, channels, skip1, skip0, rate3, rate2, rate1, rate0, gain1, gain0, family,
    ];
    Some(boxed(b"dOps", &[&body, mapping]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Sound};

    fn stated(codec: &str, private: &[u8], shape: Shape) -> Stated {
        Stated {
            codec: codec.into(),
            private: private.into(),
            shape,
            ..Stated::default()
        }
    }

    const SOUND: Shape = Shape::Sound {
        rate: 48_000,
        channels: 2,
        bits: 0,
    };

    #[test]
    fn sound_gets_the_entry_that_its_configuration_asks_for() {
        let aac = make(&stated("A_AAC", &[0x11, 0x90], SOUND), &[]).unwrap();
        let Codec::Aac(config) = &aac.codec else {
            panic!("{aac:?}");
        };
        assert_eq!(
            (config.object_type, config.rate, config.channels),
            (2, 48_000, 2)
        );
        let head = *b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0";
        let opus = make(&stated("A_OPUS", &head, SOUND), &[]).unwrap();
        let Codec::Opus(config) = &opus.codec else {
            panic!("{opus:?}");
        };
        assert_eq!(
            (config.channels, config.pre_skip, config.input_rate),
            (2, 312, 48_000)
        );
    }

    #[test]
    fn dolby_sound_is_known_by_its_first_frame() {
        // fscod 0, frmsizecod 30; bsid 8, bsmod 0, acmod 7, cmixlev, surmixlev, lfeon.
        let frame = [0x0b, 0x77, 0, 0, 0x1e, 0x40, 0b1110_0001, 0];
        let ac3 = make(&stated("A_AC3", &[], SOUND), &frame).unwrap();
        assert_eq!((ac3.codec, ac3.sound.unwrap().channels), (Codec::Ac3, 6));
        // 768 words at 48 kHz, six blocks, acmod 7, lfeon, bsid 16.
        let frame = [0x0b, 0x77, 0x02, 0xff, 0x3f, 0x80, 0];
        let eac3 = make(&stated("A_EAC3", &[], SOUND), &frame).unwrap();
        assert_eq!((eac3.codec, eac3.sound.unwrap().channels), (Codec::Eac3, 6));
        for codec in ["A_AC3", "A_EAC3"] {
            let error = make(&stated(codec, &[], SOUND), &[0x0b, 0x77]).unwrap_err();
            assert!(
                error.ends_with("sound without its configuration"),
                "{error}"
            );
        }
    }

    #[test]
    fn pictures_keep_size_and_aspect() {
        let shape = Shape::Picture {
            size: (720, 576),
            aspect: (16, 15),
            display: (768 << 16, 576 << 16),
        };
        let private = [
            1, 100, 0, 31, 0xff, 0xe1, 0, 3, 0x67, 1, 2, 1, 0, 2, 0x68, 3,
        ];
        let entry = make(&stated("V_MPEG4/ISO/AVC", &private, shape), &[]).unwrap();
        assert_eq!((entry.size, entry.pixel_aspect), ((720, 576), (16, 15)));
        assert!(matches!(entry.codec, Codec::H264(_)));
    }

    #[test]
    fn uncompressed_sound_keeps_its_size_and_order_of_bytes() {
        let of = |codec: &str, bits: u8| {
            let shape = Shape::Sound {
                rate: 44_100,
                channels: 1,
                bits,
            };
            make(&stated(codec, &[], shape), &[]).map(|entry| (entry.codec, entry.sound))
        };
        let pcm = |bits: u8, little_endian: bool| {
            let config = PcmConfig {
                bits,
                little_endian,
                channels: 1,
            };
            let sound = Sound {
                rate: 44_100,
                channels: 1,
            };
            Ok((Codec::Pcm(config), Some(sound)))
        };
        assert_eq!(of("A_PCM/INT/LIT", 16), pcm(16, true));
        assert_eq!(of("A_PCM/INT/BIG", 24), pcm(24, false));
        let eight = Err("uncompressed sound of 8 bits".to_owned());
        assert_eq!(of("A_PCM/INT/LIT", 8), eight);
        assert_eq!(
            of("A_PCM/FLOAT/IEEE", 32),
            Err("floating-point sound".to_owned())
        );
    }

    #[test]
    fn what_cannot_be_played_is_named() {
        let why = |codec: &str| make(&stated(codec, &[], SOUND), &[]).unwrap_err();
        assert_eq!(why("V_THEORA"), "Theora picture");
        assert_eq!(why("A_DTS/LOSSLESS"), "DTS sound");
        assert_eq!(why("A_OPUS"), "Opus sound without its configuration");
        assert_eq!(
            why("V_MPEGH/ISO/HEVC"),
            "H.265 picture without its configuration"
        );
        assert_eq!(why("X_\u{1}"), "codec X_\\u{1}");
    }
}
