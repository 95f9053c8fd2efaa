//! Reading any file ends, and reading the output yields the same cues.

use proptest::prelude::*;
use reelway_subtitles::{Format, MOST_CHARS, MOST_CUES, MOST_NOTES, SubtitleError, named, read};

const FORMATS: [Format; 3] = [Format::SubRip, Format::WebVtt, Format::Ass];

/// Parts of subtitle files, so that random files contain cues.
fn piece() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "1",
        "2",
        "1984",
        ",",
        ":",
        "-->",
        "->",
        "<i>",
        "</i>",
        "<b>",
        "</b>",
        "<u>",
        "<font color=\"red\">",
        "</font>",
        "<br>",
        "<",
        ">",
        "&",
        "&amp;",
        "{\\an8}",
        "{\\an7\\i1}",
        "{\\b0}",
        "{\\p1}",
        "{\\r}",
        "{",
        "}",
        "\\N",
        "\\h",
        "\u{feff}",
        "\u{a0}",
        "\0",
        "\x0c",
        "\x0b",
        "\u{85}",
        "\u{2028}",
        "ä",
        "猫",
        "text",
        "WEBVTT\n",
        "\n\nNOTE\n",
        "\n\nSTYLE\n",
        "\n\nREGION\n",
        "X-TIMESTAMP-MAP=",
        "[Events]\n",
        "Format: Start, End, Text\n",
        "\nComment: ",
        "line:0",
        "align:end",
        "region:a",
        "line:",
        "size:-->",
        "X1:10",
    ]);
    let time = (0..3u8, 0..70u8, 0..70u8, 0..1000u16)
        .prop_map(|(h, m, s, ms)| format!("{h}:{m:02}:{s:02},{ms:03}"));
    let cue = (0..50u32, 0..50u32, ".{0,8}").prop_map(|(start, end, text)| {
        format!("\n\n00:00:{start:02}.000 --> 00:00:{end:02}.500 {text}\n{text}")
    });
    let dialogue = (0..50u32, 0..50u32, ".{0,8}").prop_map(|(start, end, text)| {
        format!("\nDialogue: 0,0:00:{start:02}.00,0:00:{end:02}.50,a,b,0,0,0,,{text}")
    });
    prop_oneof![
        6 => words.prop_map(str::to_owned),
        1 => time,
        2 => cue,
        2 => dialogue,
        1 => ".{0,12}",
    ]
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let pieces = (
        prop::sample::select(vec!["", "\u{feff}", "WEBVTT\n\n", "[Events]\n"]),
        prop::collection::vec(piece(), 0..60),
    );
    pieces.prop_map(|(begin, pieces)| (begin.to_owned() + &pieces.concat()).into_bytes())
}

fn check(format: Format, bytes: &[u8]) -> Result<(), TestCaseError> {
    let subtitles = match read(format, bytes) {
        Ok(subtitles) => subtitles,
        Err(error) => {
            let too_large = matches!(error, SubtitleError::TooLarge { .. });
            prop_assert!(!too_large);
            return Ok(());
        }
    };
    prop_assert!(!subtitles.cues.is_empty() && subtitles.cues.len() <= MOST_CUES);
    prop_assert!(subtitles.notes.len() <= MOST_NOTES);
    prop_assert!(subtitles.cues.is_sorted_by_key(|cue| cue.start));
    for cue in &subtitles.cues {
        prop_assert!(cue.start < cue.end);
        prop_assert!(cue.text.chars().count() <= MOST_CHARS);
        prop_assert!(!cue.text.contains("-->") && !cue.text.contains("\n\n"));
    }
    let written = subtitles.to_web_vtt();
    let again = read(Format::WebVtt, written.as_bytes());
    let again = again.map_err(|error| TestCaseError::fail(format!("{error}: {written}")))?;
    prop_assert_eq!(again.notes, Vec::<String>::new());
    prop_assert_eq!(again.cues, subtitles.cues);
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for format in FORMATS {
            check(format, &bytes)?;
        }
    }

    #[test]
    fn files_of_pieces(bytes in file()) {
        for format in FORMATS {
            check(format, &bytes)?;
        }
    }

    #[test]
    fn files_with_damage(
        mut bytes in file(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        for format in FORMATS {
            check(format, &bytes)?;
        }
    }

    #[test]
    fn any_name(film in ".{0,6}", words in ".{0,20}") {
        for extension in ["srt", "vtt", "ass", ""] {
            let _ = named(&film, &format!("{film}.{words}.{extension}"));
        }
    }
}
