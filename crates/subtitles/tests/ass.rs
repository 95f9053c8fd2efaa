//! ASS and SSA.

mod common;

use common::subtitles;
use reelway_subtitles::{Format, SubtitleError, read};

const HEAD: &str = "[Script Info]\nTitle: a\nDialogue: 0,0:00:00.00,0:00:01.00,no event\n\n\
    [V4+ Styles]\nFormat: Name, Fontname\nStyle: Default,Arial\n\n\
    [Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n";

/// Compares the cues, and returns the notes.
#[track_caller]
fn expect(file: &str, cues: &[common::Short<'_>]) -> Vec<String> {
    common::expect(Format::Ass, file, cues)
}

/// Returns the text of a file's only cue, and its settings.
fn one(text: &str) -> (String, String) {
    let file = format!("{HEAD}Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{text}\n");
    let mut cues = subtitles(Format::Ass, &file).cues;
    assert_eq!(cues.len(), 1);
    let cue = cues.remove(0);
    (cue.text, cue.settings)
}

fn text(text: &str) -> String {
    one(text).0
}

#[test]
fn dialogue_is_read_and_comments_are_not() {
    let file = format!(
        "{HEAD}Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,no\n\
         Dialogue: 0,1:00:03.50,1:00:04.05,Default,,0,0,0,,One, two, three\n\
         Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,first\n\
         ; a comment: too\n\n[Fonts]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,no\n"
    );
    let cues = [
        (1000, 2000, "", "first"),
        (3_603_500, 3_604_050, "", "One, two, three"),
    ];
    for ends in ["\n", "\r\n"] {
        assert_eq!(
            expect(&file.replace('\n', ends), &cues),
            Vec::<String>::new()
        );
    }
}

#[test]
fn fields_are_those_of_the_format_line() {
    expect(
        "[events]\nFormat: Start,End, Text\nDialogue: 0:00:01.00,0:00:02.00,a, b\n",
        &[(1000, 2000, "", "a, b")],
    );
    // Without a format line, in SSA's form.
    expect(
        "[Events]\nDialogue: Marked=0,0:00:01.00,0:00:02.00,Default,,0,0,0,,a, b\n",
        &[(1000, 2000, "", "a, b")],
    );
    let notes = expect(
        "[Events]\nFormat: Begin, Text\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,a\n",
        &[(1000, 2000, "", "a")],
    );
    let expected = "line 2: it does not name Start, End and Text; taken for the usual fields";
    assert_eq!(notes, [expected]);
}

#[test]
fn tags_are_kept_or_removed() {
    assert_eq!(text("{\\i1}a{\\i0} {\\b1}b{\\b0}"), "<i>a</i> <b>b</b>");
    assert_eq!(text("{\\i1}a {\\b1}b{\\i0}c"), "<i>a <b>b</b></i><b>c</b>");
    assert_eq!(text("{\\b700\\fs20}a{\\b400}b"), "<b>a</b>b");
    assert_eq!(
        text("{\\i1}a{\\r}b{\\i1}c{\\rOther}d"),
        "<i>a</i>b<i>c</i>d"
    );
    assert_eq!(text("{\\k20}Ka{\\k30}ra{\\iclip(0,0,1,1)}oke"), "Karaoke");
    assert_eq!(text("{a comment}a"), "a");
    assert_eq!(text("a { b"), "a { b");
    assert_eq!(
        text("a < b & <i>c</i>"),
        "a &lt; b &amp; &lt;i&gt;c&lt;/i&gt;"
    );
}

#[test]
fn lines_and_spaces() {
    assert_eq!(text("a\\Nb\\nc\\N\\Nd"), "a\nb\nc\nd");
    assert_eq!(text("a\\hb"), "a\u{a0}b");
    assert_eq!(text("C:\\dir\\"), "C:\\dir\\");
}

#[test]
fn drawings_are_passed_over() {
    assert_eq!(text("{\\p1}m 0 0 l 10 10{\\p0}a"), "a");
    let file = format!(
        "{HEAD}Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{{\\an7\\p4}}m 0 0 l 10 10\n\
         Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,a\n"
    );
    expect(&file, &[(1000, 2000, "", "a")]);
}

#[test]
fn places_above_are_kept() {
    assert_eq!(one("{\\an8}a"), ("a".to_owned(), "line:0".to_owned()));
    assert_eq!(one("{\\an7}a").1, "line:0 align:start");
    assert_eq!(one("{\\an9}a").1, "line:0 align:end");
    assert_eq!(one("{\\an1}a").1, "");
}

#[test]
fn shadows_are_one_cue() {
    let line = "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,";
    let file = format!("{HEAD}{line}{{\\blur2}}a\n{line}b\n{line}a\n");
    expect(&file, &[(1000, 2000, "", "a"), (1000, 2000, "", "b")]);
}

#[test]
fn files_without_cues_are_refused() {
    let error = |file: &str| read(Format::Ass, file.as_bytes()).unwrap_err();
    assert_eq!(error("[Script Info]\n"), SubtitleError::NoCue);
    assert_eq!(
        error("[Events]\nDialogue: 0,soon,later,Default,,0,0,0,,a\n").to_string(),
        "line 2: the times of a dialogue cannot be read, passed over; there is no other cue in it"
    );
}
