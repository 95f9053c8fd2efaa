//! Names and languages.

use super::kept::KeptBox;

/// The maximum length of a name, in bytes.
const MAX_NAME: usize = 1024;

/// Returns the `©nam` of a movie or track from iTunes' list (`udta/meta/ilst`) or QuickTime's
/// `udta`, or a track's `name`. Names are optional, so whatever cannot be read is skipped.
pub fn name_of(of: &KeptBox) -> Option<String> {
    let udta = of.find(b"udta").ok()??;
    let mut bytes = Vec::new();
    let mut itunes = || {
        let meta = udta.find(b"meta").ok()??;
        // A full box in ISO files, a plain one in QuickTime files.
        let head = meta.head(&mut bytes).ok()?;
        let skip = if head.body.get(4..8) == Some(b"hdlr") {
            0
        } else {
            4
        };
        let ilst = meta
            .children(skip)
            .filter_map(Result::ok)
            .find(|child| child.kind == *b"ilst")?;
        let name = ilst.find(b"\xa9nam").ok()??;
        let data = name.find(b"data").ok()??;
        text(data.head(&mut bytes).ok()?.body.get(8..)?)
    };
    if let Some(name) = itunes() {
        return Some(name);
    }
    let mut quicktime = || {
        let name = udta.find(b"\xa9nam").ok()??;
        let name = name.first(4 + usize::from(u16::MAX), &mut bytes).ok()?;
        let length = u16::from_be_bytes(*name.body.first_chunk::<2>()?);
        text(name.body.get(4..4 + usize::from(length))?)
    };
    if let Some(name) = quicktime() {
        return Some(name);
    }
    text(udta.find(b"name").ok()??.head(&mut bytes).ok()?.body)
}

/// Returns the name in `hdlr`, unless it is just the name of the writing program.
pub fn handler_name(bytes: &[u8]) -> Option<String> {
    // QuickTime stores a length first, ISO ends with a NUL.
    let pascal = bytes
        .split_first()
        .filter(|(length, rest)| usize::from(**length) == rest.len());
    let name = text(pascal.map_or(bytes, |(_, rest)| rest))?;
    let lower = name.to_lowercase();
    let program = [
        "handler",
        "core media",
        "iso media",
        "mainconcept",
        "gpac",
        "l-smash",
        "bento4",
        "apple ",
        "google inc",
    ];
    let bare = [
        "video", "audio", "sound", "visual", "vide", "soun", "stereo", "mono", "und",
    ];
    let says_something =
        !program.iter().any(|part| lower.contains(part)) && !bare.contains(&lower.as_str());
    says_something.then_some(name)
}

/// Returns the text up to its end or a NUL, without control characters; `None` if nothing is left.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let bytes = &bytes[..end.min(MAX_NAME)];
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .filter(|char| !char.is_control())
        .collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the language of `mdhd`: three letters of ISO 639-2/T in five bits each. Small values are
/// QuickTime language codes, of which the most common are supported.
pub fn packed_language(packed: u16) -> Option<String> {
    const MACINTOSH: [&str; 24] = [
        "eng", "fra", "deu", "ita", "nld", "swe", "spa", "dan", "por", "nor", "heb", "jpn", "ara",
        "fin", "ell", "isl", "mlt", "tur", "hrv", "zho", "urd", "hin", "tha", "kor",
    ];
    if packed < 0x400 {
        // 0 is English, but also what writers without language support leave there.
        return MACINTOSH
            .get(usize::from(packed))
            .filter(|_| packed > 0)
            .map(|code| code.to_string());
    }
    let letters = [10, 5, 0].map(|shift| (packed >> shift & 0x1f) as u8 + 0x60);
    let code = std::str::from_utf8(&letters).ok()?;
    (letters.iter().all(u8::is_ascii_lowercase) && code != "und").then(|| code.to_owned())
}

/// Returns the language of `elng`: a BCP 47 tag.
pub fn language_tag(bytes: &[u8]) -> Option<String> {
    let tag = text(bytes)?;
    let plain = tag.len() <= 35
        && tag
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (plain && tag != "und").then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::boxes::Place;
    use crate::mp4::kept::Kept;

    #[test]
    fn languages_of_three_packed_letters() {
        assert_eq!(packed_language(0x15c7).as_deref(), Some("eng"));
        assert_eq!(packed_language(0x55c4), None); // und
        assert_eq!(packed_language(0x7fff), None);
        assert_eq!(
            (packed_language(2).as_deref(), packed_language(0)),
            (Some("deu"), None)
        );
        assert_eq!(language_tag(b"pt-BR\0").as_deref(), Some("pt-BR"));
        assert_eq!(language_tag(b"\"><script>\0"), None);
    }

    #[test]
    fn handler_names_that_say_something() {
        assert_eq!(
            handler_name(b"Director's commentary\0").as_deref(),
            Some("Director's commentary")
        );
        assert_eq!(
            handler_name(b"\x0aCommentary").as_deref(),
            Some("Commentary")
        );
        assert_eq!(handler_name(b"VideoHandler\0"), None);
        assert_eq!(
            handler_name(b"ISO Media file produced by Google Inc.\0"),
            None
        );
        assert_eq!(handler_name(b"\0"), None);
    }

    #[test]
    fn names_of_itunes_and_quicktime() {
        let data = b"\0\0\0\x16data\0\0\0\x01\0\0\0\0Bunny!".to_vec();
        let wrap = |kind: &[u8], body: &[u8]| {
            [&(body.len() as u32 + 8).to_be_bytes()[..], kind, body].concat()
        };
        let ilst = wrap(b"ilst", &wrap(b"\xa9nam", &data));
        let itunes = wrap(b"udta", &wrap(b"meta", &[&[0; 4][..], &ilst].concat()));
        let quicktime = wrap(b"udta", &wrap(b"\xa9nam", b"\0\x05\x55\xc4Bunny"));
        let named = |body: &[u8]| {
            let place = Place {
                kind: *b"moov",
                offset: 0,
                header: 8,
                number: 0,
                parent: None,
            };
            name_of(&Kept::of(body).boxed(place))
        };
        assert_eq!(named(&itunes).as_deref(), Some("Bunny!"));
        assert_eq!(named(&quicktime).as_deref(), Some("Bunny"));
        assert_eq!(named(b"\0\0\0\x20udta"), None);
    }
}
