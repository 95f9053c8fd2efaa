//! Reads SubRip. It has no specification; this reader understands what occurs in files.

use crate::cue::Cue;
use crate::gather::Gathered;
use crate::lines::{numbered, trim};
use crate::markup::{Look, Markup};
use crate::overrides;
use crate::times::{self, Times};

/// A longer tag, in bytes, is text.
const LONGEST_TAG: usize = 300;

/// What the text between two lines of times belongs to.
enum Head {
    /// Before the first cue.
    Before,
    /// The cue with these times, which are in this line.
    Cue { line: usize, start: u64, end: u64 },
    /// A cue that was skipped.
    PassedOver,
}

/// Reads all cues.
pub fn read(text: &str, gathered: &mut Gathered) {
    let mut head = Head::Before;
    // Lines since the last line of times, without blanks around them.
    let mut lines: Vec<&str> = Vec::new();
    let mut last = None;
    for (line, text) in numbered(text) {
        let text = trim(text);
        let times = times::line(text);
        if times.is_none() && !is_meant_as_times(text) {
            lines.push(text);
            continue;
        }
        let first = matches!(head, Head::Before);
        last = take_number(&mut lines, last, first);
        finish(head, &lines, gathered);
        if gathered.is_full() {
            return;
        }
        lines.clear();
        head = match times {
            Some(times) => begin(line, &times, gathered),
            None => {
                gathered.passed_over(line, "the times of a cue cannot be read");
                Head::PassedOver
            }
        };
    }
    finish(head, &lines, gathered);
}

/// Returns whether a line is meant as times, even if they cannot be read.
fn is_meant_as_times(line: &str) -> bool {
    line.starts_with(|char: char| char.is_ascii_digit())
        && line
            .split_once("-->")
            .is_some_and(|(start, _)| start.contains(':'))
}

fn begin(line: usize, times: &Times<'_>, gathered: &mut Gathered) -> Head {
    let Ok(end) = u64::try_from(times.end) else {
        gathered.passed_over(line, "the cue ends before the film begins");
        return Head::PassedOver;
    };
    let start = u64::try_from(times.start).unwrap_or_else(|_| {
        gathered.note(format!(
            "line {line}: the cue begins before the film does; now with it"
        ));
        0
    });
    Head::Cue { line, start, end }
}

/// Removes the next cue's number from the end of the lines before its times, and returns it. If
/// there is no number, returns the last one again.
///
/// Numbers may be missing, and text may end with one. So only a line that stands alone or continues
/// the count is a number. Before the `first` cue there is no text.
fn take_number(lines: &mut Vec<&str>, last: Option<u64>, first: bool) -> Option<u64> {
    let Some(at) = lines.iter().rposition(|line| !line.is_empty()) else {
        return last;
    };
    let Some(number) = number(lines[at]) else {
        return last;
    };
    let directly = at + 1 == lines.len();
    let alone = at == 0 || lines[at - 1].is_empty();
    let follows = last.is_some_and(|last| number == last + 1);
    if !(first || follows || directly && alone) {
        return last;
    }
    lines.truncate(at);
    Some(number)
}

fn number(line: &str) -> Option<u64> {
    // As many digits as certainly fit a `u64`.
    let is = line.len() <= 15 && line.bytes().all(|byte| byte.is_ascii_digit());
    is.then(|| line.parse().ok()).flatten()
}

fn finish(head: Head, lines: &[&str], gathered: &mut Gathered) {
    let Head::Cue { line, start, end } = head else {
        return;
    };
    let (settings, text) = markup(&lines.join("\n"));
    let cue = Cue {
        start,
        end,
        settings,
        text,
    };
    gathered.cue(line, cue);
}

/// Returns the settings and text of a cue.
fn markup(text: &str) -> (String, String) {
    let mut markup = Markup::default();
    let mut rest = text;
    // Without this, each opening brace would cause a search for a closing one up to the end.
    let last_brace = text.rfind('}').map_or(0, |at| text.len() - at);
    let mut drawing = false;
    while let Some(char) = rest.chars().next() {
        if char == '<'
            && let Some(length) = tag(rest, &mut markup)
        {
            rest = &rest[length..];
            continue;
        }
        if rest.starts_with("{\\")
            && rest.len() > last_brace
            && last_brace > 0
            && let Some(end) = rest.find('}')
        {
            drawing = overrides::apply(&rest[1..end], &mut markup).unwrap_or(drawing);
            rest = &rest[end + 1..];
            continue;
        }
        if !drawing {
            markup.push(char);
        }
        rest = &rest[char.len_utf8()..];
    }
    markup.finish()
}

/// Applies the tag at the beginning of a text and returns its length in bytes. `None`: it is text.
fn tag(text: &str, markup: &mut Markup) -> Option<usize> {
    let end = text
        .bytes()
        .take(LONGEST_TAG)
        .skip(1)
        .position(|byte| matches!(byte, b'<' | b'>'))?
        + 1;
    // With a blank after `<`, it is a comparison.
    let inside = &text[1..end];
    if !text[end..].starts_with('>') {
        return None;
    }
    let (closes, name) = match inside.strip_prefix('/') {
        Some(name) => (true, name),
        None => (false, inside),
    };
    let name = name
        .split([' ', '\t', '\n', '/'])
        .next()
        .unwrap_or_default();
    if let Some(look) = Look::of_tag(name) {
        markup.set(look, !closes);
    } else if name.eq_ignore_ascii_case("br") {
        markup.push('\n');
    } else if !name.eq_ignore_ascii_case("font") {
        return None;
    }
    Some(end + 1)
}
