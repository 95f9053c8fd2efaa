//! SubRip as found in practice.

mod common;

use common::subtitles;
use reelway_subtitles::{Format, MOST_BYTES, SubtitleError, read};

const TWO: [common::Short<'static>; 2] = [(1000, 2000, "", "One"), (3000, 4500, "", "Two\nlines")];

/// Compares the cues, and returns the notes.
#[track_caller]
fn expect(file: &str, cues: &[common::Short<'_>]) -> Vec<String> {
    common::expect(Format::SubRip, file, cues)
}

/// Returns the text of a file's only cue, and its settings.
fn one(text: &str) -> (String, String) {
    let file = format!("1\n00:00:01,000 --> 00:00:02,000\n{text}\n");
    let mut cues = subtitles(Format::SubRip, &file).cues;
    assert_eq!(cues.len(), 1);
    let cue = cues.remove(0);
    (cue.text, cue.settings)
}

fn text(text: &str) -> String {
    one(text).0
}

#[test]
fn a_file_as_it_should_be() {
    let file =
        "1\n00:00:01,000 --> 00:00:02,000\nOne\n\n2\n00:00:03,000 --> 00:00:04,500\nTwo\nlines\n";
    assert_eq!(expect(file, &TWO), Vec::<String>::new());
    for ends in ["\r\n", "\r"] {
        let file = file.replace('\n', ends);
        assert_eq!(expect(&file, &TWO), Vec::<String>::new());
        assert_eq!(
            expect(&format!("\u{feff}{file}"), &TWO),
            Vec::<String>::new()
        );
        // Truncated, and with the end-of-file character of DOS.
        assert_eq!(expect(file.trim_end(), &TWO), Vec::<String>::new());
        assert_eq!(expect(&format!("{file}\u{1a}"), &TWO), Vec::<String>::new());
    }
}

#[test]
fn numbers_may_be_missing_or_wrong() {
    expect(
        "00:00:01,000 --> 00:00:02,000\nOne\n\n00:00:03,000 --> 00:00:04,500\nTwo\nlines",
        &TWO,
    );
    expect(
        "7\n00:00:01,000 --> 00:00:02,000\nOne\n\n7\n00:00:03,000 --> 00:00:04,500\nTwo\nlines",
        &TWO,
    );
}

#[test]
fn a_text_may_be_a_number() {
    expect(
        "1\n00:00:01,000 --> 00:00:02,000\nWhen?\n\n2\n00:00:02,000 --> 00:00:03,000\n1984\n\n\
         3\n00:00:03,000 --> 00:00:04,000\nOh.\n1985\n\n00:00:04,000 --> 00:00:05,000\n4",
        &[
            (1000, 2000, "", "When?"),
            (2000, 3000, "", "1984"),
            (3000, 4000, "", "Oh.\n1985"),
            (4000, 5000, "", "4"),
        ],
    );
}

#[test]
fn blank_lines_may_be_anywhere_or_nowhere() {
    expect(
        "1\n00:00:01,000 --> 00:00:02,000\nOne\n2\n00:00:03,000 --> 00:00:04,500\nTwo\nlines",
        &TWO,
    );
    expect(
        "\n\n1\n\n00:00:01,000 --> 00:00:02,000\n\nOne\n\n2\n\n00:00:03,000 --> 00:00:04,500\n\nTwo\n \n\nlines",
        &TWO,
    );
}

#[test]
fn times_are_written_in_many_ways() {
    expect(
        "1\n0:0:1.000-->0:00:02.000\nOne\n\n2\n00:03 -> 00:00:04, 500   X1:10 X2:20 Y1:5 Y2:9\nTwo\nlines",
        &TWO,
    );
}

#[test]
fn cues_are_sorted_and_may_overlap() {
    expect(
        "1\n00:00:03,000 --> 00:00:09,000\nb\n\n2\n00:00:01,000 --> 00:00:04,000\na\n\n3\n00:00:03,000 --> 00:00:04,000\nc",
        &[
            (1000, 4000, "", "a"),
            (3000, 9000, "", "b"),
            (3000, 4000, "", "c"),
        ],
    );
}

#[test]
fn what_cannot_be_shown_is_passed_over() {
    let notes = expect(
        "1\n00:00:03,000 --> 00:00:02,000\nbackwards\n\n2\n-00:00:03,000 --> -00:00:02,000\nnever\n\n\
         3\n-00:00:03,000 --> 00:00:02,000\nlate\n\n4\n00:00:0x,000 --> 00:00:05,000\nwhen?\n\n\
         5\n00:00:04,000 --> 00:00:05,000\n\n6\n00:00:04,000 --> 00:00:05,000\n<i> </i>\n",
        &[(0, 2000, "", "late")],
    );
    assert_eq!(
        notes,
        [
            "line 2: the cue ends before it begins, passed over",
            "line 6: the cue ends before the film begins, passed over",
            "line 10: the cue begins before the film does; now with it",
            "line 14: the times of a cue cannot be read, passed over",
        ]
    );
}

#[test]
fn tags_are_kept_or_removed() {
    assert_eq!(
        text("<i>a</i> <B>b</B> <u>c</u>"),
        "<i>a</i> <b>b</b> <u>c</u>"
    );
    assert_eq!(text("<font color=\"#ff0000\" size=12>a</font>"), "a");
    assert_eq!(text("<FONT\ncolor=red>a</FONT>"), "a");
    assert_eq!(text("a<br>b<br/>c"), "a\nb\nc");
    assert_eq!(text("<i>never closed"), "<i>never closed</i>");
    assert_eq!(text("never opened</i>"), "never opened");
    assert_eq!(text("<i>a <b>b</i> c</b>"), "<i>a <b>b</b></i> <b>c</b>");
    assert_eq!(text("<i>a\n\nb</i>"), "<i>a\nb</i>");
    assert_eq!(text("<i></i>a<b> </b>b"), "a b");
}

#[test]
fn other_text_is_escaped() {
    assert_eq!(text("a < b & c > d"), "a &lt; b &amp; c &gt; d");
    assert_eq!(text("<script>x</script>"), "&lt;script&gt;x&lt;/script&gt;");
    assert_eq!(text("Go --> there <"), "Go --&gt; there &lt;");
    assert_eq!(text("<<i>a</i>>"), "&lt;<i>a</i>&gt;");
    assert_eq!(text("{a} {\\b"), "{a} {\\b");
}

#[test]
fn override_tags_are_places_or_removed() {
    let expected = |settings: &str| ("a".to_owned(), settings.to_owned());
    assert_eq!(one("{\\an8}a"), expected("line:0"));
    assert_eq!(one("{\\an7}a"), expected("line:0 align:start"));
    assert_eq!(one("{\\an9}a"), expected("line:0 align:end"));
    assert_eq!(one("{\\a6}a"), expected("line:0"));
    assert_eq!(one("{\\an2}a"), expected(""));
    assert_eq!(one("{\\fad(100,200)\\fs20}a{\\pos(1,2)}"), expected(""));
    assert_eq!(one("{\\i1}a{\\i0}"), ("<i>a</i>".to_owned(), String::new()));
}

#[test]
fn other_encodings_are_told() {
    let file = "1\n00:00:01,000 --> 00:00:02,000\nOù est passé le garçon ?\n";
    let bytes: Vec<u8> = file
        .chars()
        .map(|char| u8::try_from(u32::from(char)).unwrap())
        .collect();
    let subtitles = read(Format::SubRip, &bytes).unwrap();
    assert_eq!(subtitles.cues[0].text, "Où est passé le garçon ?");
    assert_eq!(subtitles.notes, ["the text was taken for windows-1252"]);
}

#[test]
fn files_without_cues_are_refused() {
    let error = |bytes: &[u8]| read(Format::SubRip, bytes).unwrap_err();
    assert_eq!(error(b""), SubtitleError::NoCue);
    assert_eq!(error(b"<html>404</html>"), SubtitleError::NoCue);
    assert_eq!(
        error(b"1\n00:00:02,000 --> 00:00:01,000\na").to_string(),
        "line 2: the cue ends before it begins, passed over; there is no other cue in it"
    );
    let bytes = MOST_BYTES + 1;
    assert_eq!(error(&vec![b' '; bytes]), SubtitleError::TooLarge { bytes });
}

/// Each of these would take hours if every character were matched against the rest of the file.
#[test]
fn hostile_files_take_no_longer_than_others() {
    for piece in [
        "<",
        "{\\",
        "<i",
        "{\\i1}",
        "<i><b></i>",
        "\n1",
        "{\\an8",
        "a>",
        "\u{feff}",
        "-",
    ] {
        let mut file =
            "1\n00:00:01,000 --> 00:00:02,000\nOne\n\n2\n00:00:03,000 --> 00:00:04,000\n"
                .to_owned();
        let repeated = &piece.repeat((1 << 20) / piece.len());
        file.push_str(repeated);
        for format in [Format::SubRip, Format::WebVtt] {
            assert_eq!(
                subtitles(format, &file).cues[0].text.lines().next(),
                Some("One")
            );
        }
        let file = format!(
            "[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,,,,,,,One\nDialogue: 0,0:00:01.00,0:00:02.00,,,,,,,{}",
            repeated
        );
        assert_eq!(subtitles(Format::Ass, &file).cues[0].text, "One");
    }
}
