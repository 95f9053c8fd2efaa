//! `Info` and `Tracks`: the descriptions of a Matroska file and its tracks (RFC 9559 section 5.1).

use super::ebml::{Element, children};
use crate::places::MAX_STRIPPED;
use crate::time::{Nanos, SECOND};
use crate::wall_clock::since_2001;

/// The maximum number of tracks.
pub const MAX_TRACKS: usize = 1024;
/// The maximum bytes of all track descriptions, of which several copies are kept.
pub const MOST_BYTES: u64 = 8 << 20;
/// The longest CodecPrivate that is kept.
const MAX_PRIVATE: usize = 1 << 20;

/// The contents of `Info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Nanoseconds per tick.
    pub scale: u64,
    /// The film's name.
    pub name: Option<String>,
    /// The wall-clock time at the film's time 0, in ns since 1970.
    pub date: Option<Nanos>,
}

impl Default for Info {
    fn default() -> Info {
        Info {
            scale: 1_000_000,
            name: None,
            date: None,
        }
    }
}

impl Info {
    /// Parses the body of `Info`.
    pub fn parse(body: &[u8]) -> Info {
        let mut info = Info::default();
        for child in children(body) {
            match child.id {
                // Ticks of more than a second are invalid.
                0x2a_d7b1 if (1..=SECOND as u64).contains(&child.unsigned()) => {
                    info.scale = child.unsigned();
                }
                0x7ba9 => info.name = child.text(),
                // The date is signed.
                0x4461 if child.body.len() == 8 => info.date = since_2001(child.unsigned() as i64),
                _ => {}
            }
        }
        info
    }
}

/// The kind of a track and its properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Video.
    Picture {
        /// Coded width and height in pixels.
        size: (u16, u16),
        /// Pixel aspect ratio, width to height.
        aspect: (u32, u32),
        /// Display width and height, 16.16.
        display: (u32, u32),
    },
    /// Audio.
    Sound {
        /// Sampling rate in Hz.
        rate: u32,
        /// Channels.
        channels: u16,
        /// Bits per sample of uncompressed audio; 0 if not stated.
        bits: u8,
    },
    /// Anything else: subtitles, buttons.
    #[default]
    Other,
}

/// A track as described in `Tracks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// The number by which blocks refer to it.
    pub number: u64,
    /// The kind of track.
    pub shape: Shape,
    /// CodecID.
    pub codec: String,
    /// CodecPrivate.
    pub private: Vec<u8>,
    /// The language, `None` if undetermined.
    pub language: Option<String>,
    /// The track's own name.
    pub name: Option<String>,
    /// Whether players choose it by default.
    pub enabled: bool,
    /// Whether the file explicitly says that it is shown unless viewers choose otherwise.
    pub default: bool,
    /// Whether it covers only speech in a language other than the film's.
    pub forced: bool,
    /// Whether it is for the deaf and hard of hearing.
    pub sdh: bool,
    /// The duration of a frame in nanoseconds, if all have the same.
    pub frame: Option<u64>,
    /// The delay in nanoseconds that must be subtracted from its times.
    pub delay: u64,
    /// The encoding of its stored frames.
    pub kept: Encoding,
}

/// How stored frames are encoded (ContentEncodings).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Not encoded.
    #[default]
    AsIs,
    /// Without these first bytes, which all frames have in common (header stripping).
    WithoutHead(Vec<u8>),
    /// Compressed additionally with zlib.
    Deflated,
    /// In an unsupported way, for this reason.
    Not(&'static str),
}

/// The reason why compressed frames are not played, with a remedy.
const COMPRESSED: &str =
    "its frames are compressed once more, which `ffmpeg -i FILE -c copy NEW.mkv` undoes";

impl Encoding {
    /// Returns the bytes stripped from the beginning of each stored video or audio frame.
    ///
    /// # Errors
    /// Why such frames cannot be played.
    pub fn stripped(&self) -> Result<&[u8], &'static str> {
        match self {
            Encoding::AsIs => Ok(&[]),
            Encoding::WithoutHead(head) if head.len() > MAX_STRIPPED => {
                Err("its frames are stored without more than 255 bytes of each (header stripping)")
            }
            Encoding::WithoutHead(head) => Ok(head),
            Encoding::Deflated => Err(COMPRESSED),
            Encoding::Not(reason) => Err(reason),
        }
    }
}

/// Parses the body of `Tracks`.
pub fn parse(body: &[u8]) -> Vec<Stated> {
    let entries = children(body).filter(|child| child.id == 0xae);
    entries
        .take(MAX_TRACKS)
        .map(|entry| track(&entry))
        .collect()
}

fn track(entry: &Element) -> Stated {
    let mut track = Stated {
        enabled: true,
        language: Some("eng".into()), // the meaning of a missing language
        ..Stated::default()
    };
    let (mut kind, mut tag) = (0, None);
    for child in entry.children() {
        match child.id {
            0xd7 => track.number = child.unsigned(),
            0x83 => kind = child.unsigned(),
            0x86 => track.codec = child.text().unwrap_or_default(),
            0x63a2 if child.body.len() <= MAX_PRIVATE => track.private = child.body.to_vec(),
            0x22_b59c => track.language = language(&child),
            0x22_b59d => tag = language(&child),
            0x536e => track.name = child.text(),
            0x88 => {
                track.default = child.unsigned() != 0;
                track.enabled &= track.default;
            }
            0xb9 => track.enabled &= child.unsigned() != 0,
            0x55aa => track.forced = child.unsigned() != 0,
            0x55ab => track.sdh = child.unsigned() != 0,
            0x23_e383 => track.frame = Some(child.unsigned()).filter(|frame| *frame > 0),
            0x56aa => track.delay = child.unsigned().min(SECOND as u64),
            0x6d80 => track.kept = kept(&child),
            _ => {}
        }
    }
    track.language = tag.or(track.language);
    track.shape = match kind {
        1 => picture(entry.children().first(0xe0)),
        2 => sound(entry.children().first(0xe1)),
        _ => Shape::Other,
    };
    track
}

fn language(child: &Element) -> Option<String> {
    crate::mp4::language_tag(child.body)
}

/// Returns the encoding that results from these ContentEncodings.
fn kept(encodings: &Element) -> Encoding {
    // Encodings without frames in their scope concern CodecPrivate.
    let scope = |encoding: &Element| {
        let scope = encoding.children().first(0x5032);
        scope.map_or(1, |scope| scope.unsigned())
    };
    let of_frames = |encoding: &Element| scope(encoding) & 1 != 0;
    let mut found = encodings.children().filter(|child| child.id == 0x6240);
    let Some(encoding) = found.find(of_frames) else {
        return Encoding::AsIs;
    };
    if encoding.children().first(0x5035).is_some() {
        return Encoding::Not("encrypted");
    }
    if found.any(|other| of_frames(&other)) {
        return Encoding::Not("its frames are encoded more than once");
    }
    let Some(how) = encoding.children().first(0x5034) else {
        return Encoding::AsIs;
    };
    match how.children().first(0x4254).map(|how| how.unsigned()) {
        Some(3) if scope(&encoding) & 2 != 0 => {
            Encoding::Not("its configuration is stored without its beginning (header stripping)")
        }
        Some(3) => {
            let settings = how.children().first(0x4255);
            Encoding::WithoutHead(settings.map_or_else(Vec::new, |head| head.body.to_vec()))
        }
        None | Some(0) => Encoding::Deflated,
        Some(_) => Encoding::Not(COMPRESSED),
    }
}

fn picture(video: Option<Element>) -> Shape {
    let number = |id: u32| {
        let child = video.as_ref().and_then(|video| video.children().first(id));
        child.map_or(0, |child| child.unsigned())
    };
    let side = |id: u32| u16::try_from(number(id)).unwrap_or(0);
    let size = (side(0xb0), side(0xba));
    // Display size in pixels; other units only matter as a ratio.
    let shown = |id: u32, own: u16| match number(id) {
        0 => u32::from(own),
        shown => shown.min(0xffff) as u32,
    };
    let display = (shown(0x54b0, size.0), shown(0x54ba, size.1));
    let aspect = (display.0 * u32::from(size.1), display.1 * u32::from(size.0));
    let common = common_divisor(aspect.0, aspect.1);
    Shape::Picture {
        size,
        aspect: match common {
            0 => (1, 1),
            common => (aspect.0 / common, aspect.1 / common),
        },
        display: (display.0 << 16, display.1 << 16),
    }
}

/// Returns 0 if one of the numbers is 0.
fn common_divisor(a: u32, b: u32) -> u32 {
    let (mut a, mut b) = if a == 0 { (0, 0) } else { (a, b) };
    if b == 0 {
        return 0;
    }
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn sound(audio: Option<Element>) -> Shape {
    let child = |id: u32| {
        audio.as_ref().and_then(|audio| {
            audio
                .children()
                .first(id)
                .map(|child| (child.float(), child.unsigned()))
        })
    };
    let rate = child(0xb5).map_or(8000.0, |(rate, _)| rate);
    let channels = child(0x9f).map_or(1, |(_, channels)| channels);
    let bits = child(0x6264).map_or(0, |(_, bits)| bits);
    Shape::Sound {
        rate: rate.round().clamp(0.0, 768_000.0) as u32,
        channels: channels.min(255) as u16,
        bits: bits.min(255) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reelway_mux::ebml::element;

    #[test]
    fn what_is_not_said_has_its_default() {
        assert_eq!(Info::parse(&[]), Info::default());
        let info = element(0x2ad7b1, &[0x01, 0x86, 0xa0]);
        assert_eq!(Info::parse(&info).scale, 100_000);
        let zero = element(0x2ad7b1, &[0]);
        assert_eq!(Info::parse(&zero).scale, 1_000_000);

        let entry = element(0xae, &[element(0xd7, &[1]), element(0x83, &[2])].concat());
        let tracks = parse(&entry);
        let expected = Shape::Sound {
            rate: 8000,
            channels: 1,
            bits: 0,
        };
        assert_eq!((tracks.len(), tracks[0].shape), (1, expected));
        assert_eq!(tracks[0].language.as_deref(), Some("eng"));
        assert!(tracks[0].enabled);
    }

    #[test]
    fn pixels_have_the_shape_that_the_shown_size_gives_them() {
        let video = |shown: &[(u8, u16)]| {
            let mut body = [
                element(0xb0, &720u16.to_be_bytes()),
                element(0xba, &576u16.to_be_bytes()),
            ]
            .concat();
            for (id, value) in shown {
                body.extend(element(0x5400 | u32::from(*id), &value.to_be_bytes()));
            }
            let entry = [element(0x83, &[1]), element(0xe0, &body)].concat();
            match parse(&element(0xae, &entry))[0].shape {
                Shape::Picture { aspect, .. } => aspect,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(video(&[]), (1, 1));
        assert_eq!(video(&[(0xb0, 1024)]), (64, 45));
        assert_eq!(common_divisor(0, 5), 0);
        assert_eq!(common_divisor(5, 0), 0);
    }

    /// Returns the track with this frame encoding.
    fn encoded(how: &[u8]) -> Stated {
        let encodings = element(0x6d80, &element(0x6240, how));
        parse(&element(0xae, &encodings)).remove(0)
    }

    fn stripping(head: &[u8]) -> Vec<u8> {
        let settings = [element(0x4254, &[3]), element(0x4255, head)];
        element(0x5034, &settings.concat())
    }

    #[test]
    fn what_frames_are_stored_without_is_known() {
        assert_eq!(
            encoded(&stripping(&[0x0b, 0x77])).kept.stripped(),
            Ok(&[0x0b, 0x77][..])
        );
        let nothing = element(0x5034, &element(0x4254, &[3]));
        assert_eq!(encoded(&nothing).kept.stripped(), Ok(&[][..]));
        assert!(encoded(&stripping(&[7; 255])).kept.stripped().is_ok());
    }

    #[test]
    fn frames_that_are_compressed_or_encrypted_cannot_be_played() {
        let zlib = element(0x5034, &[]);
        let encrypted = element(0x5035, &[]);
        let with_private = [element(0x5032, &[3]), stripping(&[0])].concat();
        for (how, words) in [
            (stripping(&[7; 256]), "more than 255 bytes"),
            (with_private, "its configuration"),
            (zlib, "compressed"),
            (encrypted, "encrypted"),
        ] {
            let track = encoded(&how);
            assert!(
                track.kept.stripped().is_err_and(|why| why.contains(words)),
                "{track:?}"
            );
        }
    }
}
