//! Decodes text in any encoding.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::gather::Gathered;

/// Number of bytes that are examined to detect UTF-16 without a byte order mark.
const LOOKED_AT: usize = 4096;
/// With at least this many UTF-8 letters per invalid sequence, the file counts as UTF-8 with
/// errors. In other encodings, bytes that happen to form a letter of UTF-8 are rarer than those
/// that do not.
const WHOLE_PER_BROKEN: usize = 10;

/// Returns the text of a file. If the encoding is a guess, the notes say so. NULs become U+FFFD, as
/// in WebVTT (section 4.1).
pub fn decode<'a>(bytes: &'a [u8], gathered: &mut Gathered) -> Cow<'a, str> {
    let text = without_nuls(bytes, gathered);
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        text
    }
}

fn without_nuls<'a>(bytes: &'a [u8], gathered: &mut Gathered) -> Cow<'a, str> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return take_for(encoding, &bytes[mark..], gathered);
    }
    if let Some(encoding) = utf_16(bytes) {
        gathered.note(format!("the text was taken for {}", encoding.name()));
        return take_for(encoding, bytes, gathered);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    if is_nearly_utf_8(bytes) {
        return take_for(UTF_8, bytes, gathered);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    gathered.note(format!("the text was taken for {}", encoding.name()));
    take_for(encoding, bytes, gathered)
}

fn take_for<'a>(
    encoding: &'static Encoding,
    bytes: &'a [u8],
    gathered: &mut Gathered,
) -> Cow<'a, str> {
    let (text, broken) = encoding.decode_without_bom_handling(bytes);
    if broken {
        gathered.note(format!(
            "bytes that are no {} were replaced",
            encoding.name()
        ));
    }
    text
}

/// Detects UTF-16 without a byte order mark: times and tags are ASCII, so many bytes are 0, either
/// only first or only second bytes of pairs.
fn utf_16(bytes: &[u8]) -> Option<&'static Encoding> {
    let (pairs, _) = bytes[..bytes.len().min(LOOKED_AT)].as_chunks::<2>();
    let first = pairs.iter().filter(|pair| pair[0] == 0).count();
    let second = pairs.iter().filter(|pair| pair[1] == 0).count();
    // A third: in a Russian or Chinese file, half of it is text.
    let many = pairs.len().div_ceil(3);
    if many == 0 {
        None
    } else if second >= many && first == 0 {
        Some(UTF_16LE)
    } else if first >= many && second == 0 {
        Some(UTF_16BE)
    } else {
        None
    }
}

/// Returns whether this is UTF-8 with few errors, as in a file that was truncated, or to which a
/// line in another encoding was added.
fn is_nearly_utf_8(bytes: &[u8]) -> bool {
    let mut whole = 0;
    let mut broken = 0;
    for chunk in bytes.utf8_chunks() {
        whole += chunk
            .valid()
            .chars()
            .filter(|char| !char.is_ascii())
            .count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    whole >= broken * WHOLE_PER_BROKEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cue::Cue;

    /// Returns the text and the notes about it.
    fn decoded(bytes: &[u8]) -> (String, Vec<String>) {
        let mut gathered = Gathered::default();
        let text = decode(bytes, &mut gathered).into_owned();
        // Without a cue there would be an error instead of notes.
        let (settings, cue) = (String::new(), "cue".to_owned());
        let (start, end) = (0, 1);
        let cue = Cue {
            start,
            end,
            settings,
            text: cue,
        };
        gathered.cue(1, cue);
        (text, gathered.finish().unwrap().notes)
    }

    fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn unicode_is_taken_without_a_note() {
        let text = "1\nÄrger, 猫 🐈";
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            utf_16(&format!("\u{feff}{text}"), u16::to_le_bytes),
            utf_16(&format!("\u{feff}{text}"), u16::to_be_bytes),
        ] {
            assert_eq!(decoded(&bytes), (text.to_owned(), Vec::new()));
        }
    }

    #[test]
    fn utf_16_needs_no_byte_order_mark() {
        let text = "1\n00:00:01,000 --> 00:00:02,000\nМосква, как много в этом звуке\n";
        for (bytes, name) in [
            (u16::to_le_bytes as fn(u16) -> [u8; 2], "UTF-16LE"),
            (u16::to_be_bytes, "UTF-16BE"),
        ] {
            let notes = vec![format!("the text was taken for {name}")];
            assert_eq!(decoded(&utf_16(text, bytes)), (text.to_owned(), notes));
        }
    }

    #[test]
    fn other_encodings_are_guessed() {
        for (encoding, text) in [
            (
                encoding_rs::WINDOWS_1252,
                "Où est passé le garçon ? Il était là, près de la fenêtre.",
            ),
            (
                encoding_rs::WINDOWS_1251,
                "Москва! Как много в этом звуке для сердца русского слилось.",
            ),
            (
                encoding_rs::SHIFT_JIS,
                "吾輩は猫である。名前はまだ無い。どこで生れたか",
            ),
            (
                encoding_rs::GBK,
                "学而时习之，不亦说乎？有朋自远方来，不亦乐乎？",
            ),
        ] {
            let (bytes, _, _) = encoding.encode(text);
            let (read, notes) = decoded(&bytes);
            assert_eq!(read, text);
            assert_eq!(
                notes,
                [format!("the text was taken for {}", encoding.name())]
            );
        }
    }

    #[test]
    fn a_broken_byte_in_utf_8_is_replaced() {
        let text =
            "Schöne Grüße, Fräulein Müller: überall blüht es, hört, hört, ärgert Euch nicht!";
        let (read, notes) = decoded(&[text.as_bytes(), b"\xc3"].concat());
        assert_eq!(read, format!("{text}\u{fffd}"));
        assert_eq!(notes, ["bytes that are no UTF-8 were replaced"]);
    }

    #[test]
    fn nuls_are_replaced() {
        assert_eq!(decoded(b"abcdef\0ghijkl").0, "abcdef\u{fffd}ghijkl");
    }
}
