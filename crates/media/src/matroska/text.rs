//! Text tracks (RFC 9559 section 5.1.4.1 and the list of subtitle codecs) and their frames.

use super::ebml::children;
use super::tracks::{Encoding, Stated};
use crate::text::{Document, TextForm, TextTrack};
use crate::texts::MOST_CUE;

/// The cue format of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The text alone, in this form.
    Text(TextForm),
    /// The format of WebM: a line with an identifier, a line with settings, and the WebVTT text.
    Lines,
}

/// A text frame and its additions.
#[derive(Debug)]
pub struct Text {
    /// The bytes of the frame.
    pub frame: Vec<u8>,
    /// WebVTT cue settings, usually empty.
    pub settings: String,
}

/// Returns the cue format of a codec; `None` if it is not supported text.
pub fn holds(codec: &str) -> Option<Holds> {
    Some(match codec {
        "S_TEXT/UTF8" | "S_TEXT/ASCII" => Holds::Text(TextForm::SubRip),
        "S_TEXT/ASS" | "S_TEXT/SSA" | "S_ASS" | "S_SSA" => Holds::Text(TextForm::Ass),
        "S_TEXT/WEBVTT" => Holds::Text(TextForm::WebVtt),
        "D_WEBVTT/SUBTITLES" | "D_WEBVTT/CAPTIONS" => Holds::Lines,
        _ => return None,
    })
}

/// Returns the text track without cues; `None` if it cannot be read.
pub fn track(stated: &Stated) -> Option<TextTrack> {
    let form = match holds(&stated.codec)? {
        Holds::Text(form) => form,
        Holds::Lines => TextForm::WebVtt,
    };
    let is_read = !matches!(stated.kept, Encoding::Not(_));
    is_read.then(|| TextTrack {
        id: u32::try_from(stated.number).unwrap_or(u32::MAX),
        form,
        language: stated.language.clone(),
        name: stated.name.clone(),
        default: stated.default,
        forced: stated.forced,
        sdh: stated.sdh || stated.codec.ends_with("CAPTIONS"),
        document: Document::new(Vec::new()),
    })
}

/// Returns settings and text of the cue in a frame; `None` if it cannot be read.
pub fn cue(stated: &Stated, frame: &[u8]) -> Option<(String, Vec<u8>)> {
    let frame = match &stated.kept {
        Encoding::AsIs => frame.to_vec(),
        Encoding::WithoutHead(head) => [head, frame].concat(),
        Encoding::Deflated => {
            let most = MOST_CUE as usize;
            miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(frame, most).ok()?
        }
        Encoding::Not(_) => return None,
    };
    match holds(&stated.codec)? {
        Holds::Text(_) => Some((String::new(), frame)),
        Holds::Lines => {
            let mut lines = frame.splitn(3, |byte| *byte == b'\n');
            let (_, settings, text) = (lines.next()?, lines.next()?, lines.next()?);
            Some((settings_of(settings), text.to_vec()))
        }
    }
}

/// Returns the cue settings in a block's BlockAdditions: the first line, before an identifier.
pub fn settings_beside(body: &[u8]) -> String {
    let more = children(body).first(0xa6);
    let additional = more.as_ref().and_then(|more| more.children().first(0xa5));
    let body = additional.map_or(&[][..], |additional| additional.body);
    settings_of(body.split(|byte| *byte == b'\n').next().unwrap_or_default())
}

fn settings_of(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    line.chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(codec: &str, kept: Encoding) -> Stated {
        Stated {
            codec: codec.into(),
            kept,
            ..Stated::default()
        }
    }

    fn text(stated: &Stated, frame: &[u8]) -> Option<(String, String)> {
        let (settings, text) = cue(stated, frame)?;
        Some((settings, String::from_utf8(text).expect("text")))
    }

    #[test]
    fn text_is_found_however_it_is_kept() {
        let hello = Some((String::new(), "Hello".to_owned()));
        let zlib = miniz_oxide::deflate::compress_to_vec_zlib(b"Hello", 6);
        let of = |kept, frame: &[u8]| text(&stated("S_TEXT/UTF8", kept), frame);
        assert_eq!(of(Encoding::AsIs, b"Hello"), hello);
        assert_eq!(of(Encoding::WithoutHead(b"He".to_vec()), b"llo"), hello);
        assert_eq!(of(Encoding::Deflated, &zlib), hello);
        assert_eq!(of(Encoding::Deflated, b"Hello"), None);
        assert_eq!(of(Encoding::Not("encrypted"), b"Hello"), None);
    }

    #[test]
    fn a_frame_that_grows_without_end_is_no_cue() {
        let zlib = miniz_oxide::deflate::compress_to_vec_zlib(&[b'x'; 1 << 20], 6);
        assert!(zlib.len() < 4096);
        let deflated = stated("S_TEXT/UTF8", Encoding::Deflated);
        assert_eq!(cue(&deflated, &zlib), None);
    }

    #[test]
    fn settings_of_web_vtt_stand_in_the_frame_or_beside_it() {
        let web_m = stated("D_WEBVTT/SUBTITLES", Encoding::AsIs);
        let found = text(&web_m, b"7\nline:0\nOne\ntwo");
        assert_eq!(found, Some(("line:0".into(), "One\ntwo".into())));
        assert_eq!(text(&web_m, b"Hello"), None);
        let beside = [
            0xa6, 0x8a, 0xa5, 0x88, b'a', b':', b'1', b'\n', b'i', b'd', b'\n', b'x',
        ];
        assert_eq!(settings_beside(&beside), "a:1");
        assert_eq!(settings_beside(&[]), "");
    }
}
