//! Sample entries: a track's codec, and whether it is supported (14496-12 8.5.2, 12.1.3, 12.2.3).

use super::audio_config::{Esds, audio_config};
use super::boxes::{BoxOf, Boxed, Header, Place, fourcc};
use super::{config, pcm_entry};
use crate::index_error::{IndexError, IndexErrorKind};
use crate::sample_entry::{self, boxed};
use crate::vorbis::OBJECT_TYPE as VORBIS;
use crate::{Codec, Kind, Mpeg4Visual, MpegAudio, MpegVideo, Sound, VorbisConfig, VpConfig};

/// A sample entry of a playable track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The codec.
    pub codec: Codec,
    /// Coded width and height in pixels; 0 for audio.
    pub size: (u16, u16),
    /// The pixel aspect ratio (`pasp`), or 1:1.
    pub pixel_aspect: (u32, u32),
    /// Present for audio.
    pub sound: Option<Sound>,
    /// The entry as used in initialisation segments.
    pub bytes: Vec<u8>,
}

/// An entry if it is playable, or why it is not, as text for users (`MP3 sound`).
pub type Known = Result<Entry, String>;

/// The maximum size of an entry, which stays in memory. Real ones are far smaller.
const MAX_ENTRY: usize = 1 << 20;

/// The size of a visual sample entry before its boxes, in bytes.
const VISUAL: usize = 78;
/// The size of an audio sample entry before its boxes, in bytes.
const AUDIO: usize = 28;

impl Entry {
    /// Parses an entry of `stsd`. `stsd_version` distinguishes QuickTime's longer sound
    /// descriptions from those of ISO, which use the same version number.
    pub fn parse(entry: &Boxed, kind: Kind, stsd_version: u8) -> Result<Known, IndexError> {
        Entry::check(entry, entry.body.len())?;
        match (kind, &entry.kind) {
            (_, b"encv" | b"enca" | b"drms" | b"drmi") => Ok(Err("encrypted".into())),
            (Kind::Video, _) => picture(entry),
            (Kind::Audio, _) => sound(entry, stsd_version),
        }
    }

    /// Announces H.265 whose parameter sets are all in the entry as `hvc1`, even if the file allows
    /// them in the samples, too (`hev1`): Apple's players reject `hev1`, which is ffmpeg's default.
    pub fn for_players(mut self) -> Entry {
        if let Codec::H265(config) = &mut self.codec
            && config.fourcc == *b"hev1"
            && [&config.vps, &config.sps, &config.pps]
                .into_iter()
                .all(|sets| !sets.is_empty())
        {
            config.fourcc = *b"hvc1";
            self.bytes[4..8].copy_from_slice(b"hvc1");
        }
        self
    }

    /// Checks that an entry of this size may stay in memory.
    pub fn check(entry: &Place, bytes: usize) -> Result<(), IndexError> {
        match bytes <= MAX_ENTRY {
            true => Ok(()),
            false => Err(entry.error(
                IndexErrorKind::TooLarge,
                format!("is {bytes} bytes long; {MAX_ENTRY} are allowed"),
            )),
        }
    }
}

/// Parses a sample entry that consists of exactly these bytes.
///
/// # Errors
/// Why it cannot be played, as text for users.
pub(crate) fn entry_of(bytes: &[u8], kind: Kind) -> Result<Entry, String> {
    let header = Header::parse(bytes).filter(|header| header.size == Some(bytes.len() as u64));
    let Some(Header {
        kind: code, len, ..
    }) = header
    else {
        return Err("its sample entry is no box".to_owned());
    };
    let place = Place {
        kind: code,
        offset: 0,
        header: len,
        number: 0,
        parent: None,
    };
    let entry = BoxOf {
        place,
        body: &bytes[len..],
    };
    Entry::parse(&entry, kind, 0).map_err(|error| error.to_string())?
}

/// Returns a sample entry of Opus, for tests.
#[cfg(test)]
pub(crate) fn opus_entry() -> Vec<u8> {
    let head = [0, 2, 1, 56, 0, 0, 187, 128, 0, 0, 0];
    let mut body = vec![0; 28];
    (body[7], body[17], body[19]) = (1, 2, 16);
    body[24..28].copy_from_slice(&(48_000u32 << 16).to_be_bytes());
    body.extend(boxed(b"dOps", &[&head]));
    boxed(b"Opus", &[&body])
}

/// Returns the whole entry as it is in the file, with a new header.
fn verbatim(entry: &Boxed) -> Vec<u8> {
    boxed(&entry.kind, &[entry.body])
}

/// Returns the first box of this kind after the entry's fixed fields.
fn inner<'p, 'a>(
    entry: &'p Boxed<'p, 'a>,
    fixed: usize,
    kind: &[u8; 4],
) -> Result<Option<Boxed<'p, 'a>>, IndexError> {
    for child in entry.children(fixed) {
        let child = child?;
        if child.kind == *kind {
            return Ok(Some(child));
        }
    }
    Ok(None)
}

fn picture(entry: &Boxed) -> Result<Known, IndexError> {
    let mut fields = entry.fields(24);
    let size = (fields.u16()?, fields.u16()?);
    entry.fields(0).take(VISUAL)?;
    let find = |kind| inner(entry, VISUAL, kind);
    let codec = match &entry.kind {
        b"avc1" | b"avc3" => find(b"avcC")?
            .map(|avcc| config::h264(&avcc, entry.kind))
            .transpose()?
            .map(Codec::H264),
        b"hvc1" | b"hev1" => find(b"hvcC")?
            .map(|hvcc| config::h265(&hvcc, entry.kind))
            .transpose()?
            .map(Codec::H265),
        b"av01" => find(b"av1C")?
            .filter(|av1c| av1c.body.len() >= 4)
            .map(|av1c| Codec::Av1(av1c.body.to_vec())),
        b"vp08" => find(b"vpcC")?.and_then(|vpcc| vp(&vpcc)).map(Codec::Vp8),
        b"vp09" => find(b"vpcC")?.and_then(|vpcc| vp(&vpcc)).map(Codec::Vp9),
        b"mp4v" => {
            let esds = find(b"esds")?;
            let esds = esds.as_ref().map(Esds::parse).transpose()?;
            match esds {
                Some(Esds {
                    object_type: object_type @ (0x60..=0x65 | 0x6a),
                    specific,
                }) => Some(Codec::MpegVideo(MpegVideo {
                    object_type,
                    sequence: specific.to_vec(),
                })),
                Some(Esds {
                    object_type: 0x20,
                    specific,
                }) => Some(Codec::Mpeg4Visual(Mpeg4Visual {
                    headers: specific.to_vec(),
                })),
                Some(esds) if (0x6c..=0x6e).contains(&esds.object_type) => {
                    return Ok(Err(STILLS.into()));
                }
                _ => return Ok(Err("picture of an unknown kind in mp4v".into())),
            }
        }
        kind if quicktime_mpeg(kind).is_some() => quicktime_mpeg(kind).map(|object_type| {
            Codec::MpegVideo(MpegVideo {
                object_type,
                sequence: Vec::new(),
            })
        }),
        other => return Ok(Err(unknown_picture(*other))),
    };
    let Some(codec) = codec else {
        return Ok(Err(format!(
            "{} picture without its configuration",
            fourcc(entry.kind)
        )));
    };
    let pixel_aspect = match find(b"pasp")? {
        Some(pasp) => {
            let mut fields = pasp.fields(0);
            Some((fields.u32()?, fields.u32()?)).filter(|(h, v)| *h > 0 && *v > 0)
        }
        None => None,
    };
    let pixel_aspect = pixel_aspect.unwrap_or((1, 1));
    let bytes = match quicktime_mpeg(&entry.kind) {
        Some(object_type) => {
            let config = sample_entry::decoder(object_type, 0x11, &[]);
            sample_entry::picture(b"mp4v", size, pixel_aspect, &config)
        }
        None => verbatim(entry),
    };
    Ok(Ok(Entry {
        codec,
        size,
        pixel_aspect,
        sound: None,
        bytes,
    }))
}

/// Returns the objectTypeIndication (ISO/IEC 14496-1 table 5) of video that QuickTime films contain
/// without `esds`: MPEG-1 and MPEG-2, including HDV, XDCAM and IMX, which have one code per size
/// and rate.
fn quicktime_mpeg(kind: &[u8; 4]) -> Option<u8> {
    match kind {
        b"m2v1" | b"mpg2" | b"xdhd" | b"xdh2" | [b'h' | b'x', b'd', b'v', _] => Some(0x61),
        [b'x', b'd', b'5', _] | [b'm', b'x', b'3'..=b'5', b'n' | b'p'] => Some(0x65),
        b"m1v " | b"mpg1" => Some(0x6a),
        _ => None,
    }
}

/// The reason for entries whose pictures are stills; their number is not checked.
const STILLS: &str = "cover art or Motion JPEG";

/// Parses `vpcC` (VP Codec ISO Media File Format Binding 1.0, section 2.2), except for its
/// short-lived first version.
fn vp(vpcc: &Boxed) -> Option<VpConfig> {
    match vpcc.body {
        [1, _, _, _, profile, level, depth, ..] => Some(VpConfig {
            profile: *profile,
            level: *level,
            depth: depth >> 4,
        }),
        _ => None,
    }
}

fn unknown_picture(kind: [u8; 4]) -> String {
    match &kind {
        b"jpeg" | b"mjpa" | b"mjpb" | b"png " | b"mjp2" => STILLS.into(),
        b"vvc1" | b"vvi1" => "H.266 picture".into(),
        b"dvh1" | b"dvhe" | b"dva1" | b"dvav" => "Dolby Vision picture of its own kind".into(),
        b"apch" | b"apcn" | b"apcs" | b"apco" | b"ap4h" | b"ap4x" => "ProRes picture".into(),
        _ => format!("picture in {}", fourcc(kind)),
    }
}

fn sound(entry: &Boxed, stsd_version: u8) -> Result<Known, IndexError> {
    let mut fields = entry.fields(8);
    let version = if stsd_version == 0 {
        fields.u16()?
    } else {
        fields.take(2).map(|_| 0)?
    };
    // QuickTime's versions 1 and 2 have additional fields before the boxes.
    let fixed = AUDIO + [0, 16, 36].get(usize::from(version)).copied().unwrap_or(0);
    fields.take(6)?;
    let stated = Sound {
        channels: fields.u16()?,
        rate: 0,
    };
    fields.take(6)?;
    let stated = Sound {
        rate: fields.u32()? >> 16,
        ..stated
    };
    entry.fields(0).take(fixed)?;
    if pcm_entry::is_one(&entry.kind) {
        let is_iso = entry.kind == *b"ipcm" && version == 0 && stsd_version == 0;
        let known = pcm_entry::parse(entry, version, fixed, stated)?;
        return Ok(known.map(|(config, sound, bytes)| Entry {
            codec: Codec::Pcm(config),
            size: (0, 0),
            pixel_aspect: (1, 1),
            sound: Some(sound),
            bytes: if is_iso { verbatim(entry) } else { bytes },
        }));
    }
    let find = |kind| inner(entry, fixed, kind);
    let mut bytes = verbatim(entry);
    let (codec, sound) = match &entry.kind {
        b"mp4a" => {
            let wave = find(b"wave")?;
            let esds = match (find(b"esds")?, &wave) {
                (None, Some(wave)) => wave.find(b"esds")?,
                (esds, _) => esds,
            };
            let Some(esds) = esds else {
                return Ok(Err("mp4a sound without its configuration".into()));
            };
            let (codec, sound) = match mp4a(&esds, stated)? {
                Ok(known) => known,
                Err(reason) => return Ok(Err(reason)),
            };
            if version > 0 {
                bytes = iso_entry(entry, &sound, &esds);
            }
            (codec, sound)
        }
        b"ac-3" => (
            Codec::Ac3,
            find(b"dac3")?
                .and_then(|dac3| config::ac3(dac3.body))
                .unwrap_or(stated),
        ),
        b"ec-3" => (
            Codec::Eac3,
            find(b"dec3")?
                .and_then(|dec3| config::eac3(dec3.body))
                .unwrap_or(stated),
        ),
        b"Opus" => {
            let Some(dops) = find(b"dOps")? else {
                return Ok(Err("Opus sound without its configuration".into()));
            };
            let config = config::opus(&dops)?;
            let sound = Sound {
                rate: 48000,
                channels: config.channels.into(),
            };
            (Codec::Opus(config), sound)
        }
        b"fLaC" => {
            let stream = find(b"dfLa")?.and_then(|dfla| config::flac(dfla.body));
            let Some(sound) = stream else {
                return Ok(Err("FLAC sound without its configuration".into()));
            };
            (Codec::Flac, sound)
        }
        kind if is_quicktime_mpeg_sound(kind) => {
            if version == 1 && entry.fields(20).u16()? != PACKETS {
                let words = "MPEG audio without the sizes of its frames";
                return Ok(Err(words.into()));
            }
            // The lower sampling rates exist only in MPEG-2.
            let object_type = if stated.rate < 32_000 { 0x69 } else { 0x6b };
            let config = sample_entry::decoder(object_type, 0x15, &[]);
            bytes = sample_entry::sound(b"mp4a", stated.rate, stated.channels, &config);
            (Codec::MpegAudio(MpegAudio { object_type }), stated)
        }
        other => return Ok(Err(unknown_sound(*other))),
    };
    Ok(Ok(Entry {
        codec,
        size: (0, 0),
        pixel_aspect: (1, 1),
        sound: Some(sound),
        bytes,
    }))
}

/// QuickTime's compression ID of audio whose samples are frames of individual sizes.
const PACKETS: u16 = 0xfffe;

/// Returns whether this is MPEG audio of layer II or III as QuickTime films contain it without
/// `esds`; `ms` precedes a WAVE format number.
fn is_quicktime_mpeg_sound(kind: &[u8; 4]) -> bool {
    matches!(
        kind,
        b".mp3" | b".mp2" | [b'm', b's', 0, 0x50] | [b'm', b's', 0, 0x55]
    )
}

/// Converts a QuickTime sound description to an ISO sample entry for initialisation segments.
fn iso_entry(entry: &Boxed, sound: &Sound, esds: &Boxed) -> Vec<u8> {
    let rate = if sound.rate <= 0xffff {
        sound.rate << 16
    } else {
        0
    };
    let head = &entry.body[..8];
    let parts: [&[u8]; 6] = [
        head,
        &[0; 8],
        &sound.channels.to_be_bytes(),
        &[0, 16, 0, 0, 0, 0],
        &rate.to_be_bytes(),
        &boxed(b"esds", &[esds.body]),
    ];
    boxed(&entry.kind, &parts)
}

/// Returns the codec of an `mp4a` entry with this `esds` (14496-1 table 5), or why it cannot play.
fn mp4a(esds_box: &Boxed, stated: Sound) -> Result<Result<(Codec, Sound), String>, IndexError> {
    let esds = Esds::parse(esds_box)?;
    if let object_type @ (0x69 | 0x6b) = esds.object_type {
        return Ok(Ok((Codec::MpegAudio(MpegAudio { object_type }), stated)));
    }
    if esds.object_type == VORBIS {
        let known = VorbisConfig::parse(esds.specific);
        let known = known.map(|config| {
            let sound = Sound {
                channels: config.channels().into(),
                rate: config.rate(),
            };
            (Codec::Vorbis(config), sound)
        });
        return Ok(known.ok_or_else(|| "Vorbis sound without its configuration".into()));
    }
    let other = match esds.object_type {
        0x40 | 0x66..=0x68 => None,
        0xa5 => Some("AC-3 sound in mp4a"),
        0xa6 => Some("E-AC-3 sound in mp4a"),
        0xa9..=0xac => Some("DTS sound"),
        0xad => Some("Opus sound in mp4a"),
        _ => Some("sound of an unknown kind in mp4a"),
    };
    if let Some(reason) = other {
        return Ok(Err(reason.into()));
    }
    let Some(config) = audio_config(esds.specific, stated.rate) else {
        return Err(esds_box.damaged("holds no AudioSpecificConfig that can be read"));
    };
    let object_type = config.aac.object_type;
    if !matches!(object_type, 1..=5 | 23 | 29 | 39 | 42) {
        return Ok(Err(format!("MPEG-4 sound of object type {object_type}")));
    }
    let channels = if config.channels > 0 {
        config.channels
    } else {
        stated.channels
    };
    Ok(Ok((
        Codec::Aac(config.aac),
        Sound {
            rate: config.rate,
            channels,
        },
    )))
}

fn unknown_sound(kind: [u8; 4]) -> String {
    match &kind {
        b"alac" => "Apple Lossless sound".into(),
        b"ac-4" => "AC-4 sound".into(),
        b"dtsc" | b"dtsh" | b"dtsl" | b"dtse" | b"dtsx" => "DTS sound".into(),
        b"mlpa" => "TrueHD sound".into(),
        b"samr" | b"sawb" => "AMR sound".into(),
        _ => format!("sound in {}", fourcc(kind)),
    }
}
