//! Reads WebVTT as browsers do, and a little more.

mod common;

use common::subtitles;
use reelway_subtitles::{Format, SubtitleError, read};

/// Compares the cues, and returns the notes.
#[track_caller]
fn expect(file: &str, cues: &[common::Short<'_>]) -> Vec<String> {
    common::expect(Format::WebVtt, file, cues)
}

#[test]
fn a_file_as_it_should_be() {
    let file = "WEBVTT - of something\nKind: captions\n\nNOTE\na note\n\n1\n00:01.000 --> 00:02.000\nOne\n\n\
                two\n01:00:03.000 --> 01:00:04.500 line:0 align:start\n<v Bob>Two</v>\n<c.red>&amp; &lrm;lines</c>\n";
    let cues = [
        (1000, 2000, "", "One"),
        (
            3_603_000,
            3_604_500,
            "line:0 align:start",
            "<v Bob>Two</v>\n<c.red>&amp; &lrm;lines</c>",
        ),
    ];
    for ends in ["\n", "\r\n", "\r"] {
        let file = file.replace('\n', ends);
        assert_eq!(expect(&file, &cues), Vec::<String>::new());
        assert_eq!(
            expect(&format!("\u{feff}{file}"), &cues),
            Vec::<String>::new()
        );
    }
}

#[test]
fn styles_and_regions_are_left_out() {
    let notes = expect(
        "WEBVTT\n\nSTYLE\n::cue { color: red }\n\nREGION\nid:a\n\n00:01.000 --> 00:02.000 region:a\nOne\n",
        &[(1000, 2000, "region:a", "One")],
    );
    assert_eq!(notes, ["line 3: STYLE left out", "line 6: REGION left out"]);
}

#[test]
fn a_line_with_an_arrow_begins_a_cue() {
    let notes = expect(
        "WEBVTT\n00:01.000 --> 00:02.000\nOne\n00:02.000 --> 00:03.000\nTwo\nGo --> there\nlost\n\n\
         NOTE a\n00:03.000 --> 00:04.000\nThree",
        &[
            (1000, 2000, "", "One"),
            (2000, 3000, "", "Two"),
            (3000, 4000, "", "Three"),
        ],
    );
    assert_eq!(
        notes,
        ["line 6: the times of a cue cannot be read, passed over"]
    );
}

#[test]
fn only_settings_of_the_specification_are_kept() {
    let notes = expect(
        "WEBVTT\n\n00:01.000 --> 00:02.000 line:5%,end T:1 align: \tposition:50%  size:40% vertical:rl line:0 a\nOne\n",
        &[(
            1000,
            2000,
            "position:50% size:40% vertical:rl line:0",
            "One",
        )],
    );
    assert_eq!(
        notes,
        ["line 3: settings that WebVTT does not have, left out"]
    );
}

#[test]
fn the_first_line_may_be_missing_and_times_be_those_of_subrip() {
    let notes = expect(
        "1\n00:00:01,000 --> 00:00:02,000\nOne\n",
        &[(1000, 2000, "", "One")],
    );
    assert_eq!(notes, ["line 1: it is not WEBVTT"]);
}

#[test]
fn blanks_and_lines_of_blanks_are_left_out() {
    expect(
        "WEBVTT\n\n00:01.000 --> 00:02.000\n  One \n \t\ntwo\n\n00:02.000 --> 00:03.000\n\n00:03.000 --> 00:04.000\n \n",
        &[(1000, 2000, "", "One\ntwo")],
    );
}

#[test]
fn a_map_of_times_is_told_unless_it_is_ours() {
    let file =
        |map: &str| format!("WEBVTT\nX-TIMESTAMP-MAP={map}\n\n00:01.000 --> 00:02.000\nOne\n");
    let cues = [(1000, 2000, "", "One")];
    let ours = "MPEGTS:0,LOCAL:00:00:00.000";
    assert_eq!(expect(&file(ours), &cues), Vec::<String>::new());
    assert_eq!(
        expect(&file("LOCAL:00:00:00.000,MPEGTS:0"), &cues),
        Vec::<String>::new()
    );
    let notes = expect(&file("LOCAL:00:00:00.000,MPEGTS:900000"), &cues);
    assert_eq!(
        notes,
        ["line 2: X-TIMESTAMP-MAP left out; times are taken for those of the film"]
    );
}

#[test]
fn what_is_written_is_the_same_file() {
    let file = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n\n\
                00:00:01.000 --> 00:00:02.000 line:0\n<i>One</i>\ntwo\n";
    assert_eq!(subtitles(Format::WebVtt, file).to_web_vtt(), file);
}

#[test]
fn files_without_cues_are_refused() {
    let error = |file: &str| read(Format::WebVtt, file.as_bytes()).unwrap_err();
    assert_eq!(error("WEBVTT\n"), SubtitleError::NoCue);
    assert_eq!(
        error("WEBVTT\n\n00:00:0x.000 --> 1\na\n").to_string(),
        "line 3: the times of a cue cannot be read, passed over; there is no other cue in it"
    );
}
