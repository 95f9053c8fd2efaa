//! Converts subtitle samples to WebVTT text: timed text (3GPP TS 26.245, `tx3g`) and WebVTT
//! (ISO/IEC 14496-30, `wvtt`).

use super::boxes::Header;

/// The styles that players support: bold, italic, underlined.
const STYLES: [(u8, char); 3] = [(1, 'b'), (2, 'i'), (4, 'u')];
/// The maximum number of styled runs that are read.
const MOST_RUNS: usize = 256;

/// Returns the text of a timed-text sample; empty if nothing is shown.
pub fn timed_text(sample: &[u8]) -> String {
    let (text, boxes) = text(sample);
    let runs = runs(boxes);
    let mut out = String::with_capacity(text.len());
    let mut style = 0;
    for (at, char) in text.chars().enumerate() {
        let of = |run: &&Run| run.from <= at && at < run.to;
        let wanted = runs.iter().find(of).map_or(0, |run| run.style);
        if wanted != style {
            restyle(&mut out, style, wanted);
            style = wanted;
        }
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => {}
            char => out.push(char),
        }
    }
    restyle(&mut out, style, 0);
    out
}

/// Returns the plain text of a sample, which follows its 16-bit length, and the boxes after it.
pub fn text(sample: &[u8]) -> (String, &[u8]) {
    let Some((length, rest)) = sample.split_first_chunk::<2>() else {
        return (String::new(), &[]);
    };
    let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
    let (text, boxes) = rest.split_at(length);
    (decoded(text), boxes)
}

/// Decodes UTF-8, or UTF-16 if there is a byte order mark.
fn decoded(text: &[u8]) -> String {
    let wide = |text: &[u8], unit: fn([u8; 2]) -> u16| {
        let (units, _) = text.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|two| unit(*two)).collect();
        String::from_utf16_lossy(&units)
    };
    match text {
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        _ => String::from_utf8_lossy(text).into_owned(),
    }
}

/// A range of characters, end exclusive, with their style.
struct Run {
    from: usize,
    to: usize,
    style: u8,
}

/// Returns the runs in the `styl` boxes that follow the text.
fn runs(mut boxes: &[u8]) -> Vec<Run> {
    let mut found = Vec::new();
    while let Some((kind, body, rest)) = first_box(boxes) {
        if kind == *b"styl" {
            let (records, _) = body.get(2..).unwrap_or_default().as_chunks::<12>();
            let number = |high: u8, low: u8| usize::from(u16::from_be_bytes([high, low]));
            found.extend(records.iter().take(MOST_RUNS).map(|record| Run {
                from: number(record[0], record[1]),
                to: number(record[2], record[3]),
                style: record[6] & 7,
            }));
        }
        boxes = rest;
    }
    found.truncate(MOST_RUNS);
    found
}

/// Splits off the first box: its kind, its body, and the bytes after it.
fn first_box(bytes: &[u8]) -> Option<([u8; 4], &[u8], &[u8])> {
    let Header {
        kind, size, len, ..
    } = Header::parse(bytes)?;
    let size = usize::try_from(size.unwrap_or(bytes.len() as u64)).ok()?;
    let body = bytes.get(len..size)?;
    Some((kind, body, &bytes[size..]))
}

/// Closes the tags of one style and opens those of another.
fn restyle(out: &mut String, from: u8, to: u8) {
    for (bit, name) in STYLES.iter().rev() {
        if from & bit != 0 {
            out.extend(['<', '/', *name, '>']);
        }
    }
    for (bit, name) in STYLES {
        if to & bit != 0 {
            out.extend(['<', name, '>']);
        }
    }
}

/// Returns settings and text of the cues in a WebVTT sample.
pub fn web_vtt(mut sample: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut cues = Vec::new();
    while let Some((kind, mut body, rest)) = first_box(sample) {
        sample = rest;
        if kind != *b"vttc" {
            continue;
        }
        let (mut settings, mut text) = (String::new(), Vec::new());
        while let Some((kind, inner, rest)) = first_box(body) {
            match &kind {
                b"sttg" => settings = one_line(inner),
                b"payl" => text = inner.to_vec(),
                _ => {}
            }
            body = rest;
        }
        cues.push((settings, text));
    }
    cues
}

fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reelway_mux::boxes::boxed;

    #[test]
    fn texts_are_utf_8_or_utf_16() {
        assert_eq!(text(b"\0\x05Hello\0\0\0\x0cencd").0, "Hello");
        assert_eq!(text(&[0, 6, 0xfe, 0xff, 0, b'H', 0, b'i']).0, "Hi");
        assert_eq!(text(&[0, 4, 0xff, 0xfe, 0xe4, 0]).0, "ä");
        assert_eq!(text(b"\xff\xffabc").0, "abc");
        assert_eq!(text(b"\0").0, "");
        assert_eq!(timed_text(b"\0\x05Hello\0\0\0\x0cencd"), "Hello");
        assert_eq!(timed_text(&[0, 6, 0xfe, 0xff, 0, b'H', 0, b'i']), "Hi");
        assert_eq!(timed_text(&[0, 4, 0xff, 0xfe, 0xe4, 0]), "ä");
        assert_eq!(timed_text(b"\xff\xffa<b&"), "a&lt;b&amp;");
        assert_eq!(timed_text(b"\0"), "");
        assert_eq!(timed_text(b"\0\0"), "");
    }

    #[test]
    fn styles_count_characters() {
        let record = |from: u8, to: u8, style: u8| [0, from, 0, to, 0, 1, style, 18, 0, 0, 0, 0];
        let body = [&[0, 2][..], &record(1, 3, 2), &record(3, 4, 3)].concat();
        let text = "äbcde";
        let sample = [
            &(text.len() as u16).to_be_bytes()[..],
            text.as_bytes(),
            &boxed(b"styl", &[&body]),
        ];
        assert_eq!(timed_text(&sample.concat()), "ä<i>bc</i><b><i>d</i></b>e");
    }

    #[test]
    fn cues_of_web_vtt_are_boxes() {
        let cue = [
            boxed(b"sttg", &[b"line:0\n"]),
            boxed(b"payl", &[b"One\ntwo"]),
        ]
        .concat();
        let sample = [boxed(b"vttc", &[&cue]), boxed(b"vtte", &[b""])].concat();
        let expected = [("line:0".to_owned(), b"One\ntwo".to_vec())];
        assert_eq!(web_vtt(&sample), expected);
        assert!(web_vtt(&sample[..20]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_some_text(sample in proptest::collection::vec(0u8.., 0..200)) {
            let text = timed_text(&sample);
            proptest::prop_assert!(text.len() <= 20 * sample.len());
            web_vtt(&sample);
        }
    }
}
