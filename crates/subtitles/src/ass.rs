//! Reads ASS and SSA: the dialogue of `[Events]`. Styles, effects and drawings are left out.

use crate::cue::Cue;
use crate::gather::Gathered;
use crate::lines::{numbered, trim};
use crate::markup::Markup;
use crate::overrides;
use crate::times;

/// Indices of the fields of a dialogue line, from 0.
struct Fields {
    count: usize,
    start: usize,
    end: usize,
    text: usize,
}

impl Fields {
    /// `Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text`. SSA begins with
    /// `Marked`.
    const USUAL: Fields = Fields {
        count: 10,
        start: 1,
        end: 2,
        text: 9,
    };

    /// Parses the names in a `Format:` line.
    fn named(format: &str) -> Option<Fields> {
        let names: Vec<&str> = format.split(',').map(str::trim).collect();
        let at = |wanted: &str| {
            names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(wanted))
        };
        Some(Fields {
            count: names.len(),
            start: at("Start")?,
            end: at("End")?,
            text: at("Text")?,
        })
    }
}

/// Reads all cues.
pub fn read(text: &str, gathered: &mut Gathered) {
    let mut fields = Fields::USUAL;
    let mut in_events = false;
    for (line, text) in numbered(text) {
        let text = trim(text);
        if text.starts_with('[') && text.ends_with(']') {
            in_events = text.eq_ignore_ascii_case("[Events]");
            continue;
        }
        let Some((kind, rest)) = text.split_once(':') else {
            continue;
        };
        if !in_events {
            continue;
        }
        if kind.eq_ignore_ascii_case("Format") {
            match Fields::named(rest) {
                Some(named) => fields = named,
                None => gathered.note(format!(
                    "line {line}: it does not name Start, End and Text; taken for the usual fields"
                )),
            }
        } else if kind.eq_ignore_ascii_case("Dialogue") {
            match dialogue(rest, &fields) {
                Some(cue) => gathered.cue(line, cue),
                None => gathered.passed_over(line, "the times of a dialogue cannot be read"),
            }
            if gathered.is_full() {
                break;
            }
        }
    }
    gathered.once_each();
}

fn dialogue(line: &str, fields: &Fields) -> Option<Cue> {
    // The last field may contain commas.
    let values: Vec<&str> = line.splitn(fields.count, ',').collect();
    let time = |at: usize| {
        let (time, rest) = times::time(values.get(at)?)?;
        trim(rest).is_empty().then_some(time)
    };
    let start = time(fields.start)?.max(0);
    let end = time(fields.end)?.max(0);
    let (settings, text) = markup(values.get(fields.text)?);
    Some(Cue {
        start: start.unsigned_abs(),
        end: end.unsigned_abs(),
        settings,
        text,
    })
}

/// Returns the settings and text of a cue.
fn markup(text: &str) -> (String, String) {
    let mut markup = Markup::default();
    let mut drawing = false;
    let mut rest = text;
    // Braces that are never closed are text.
    while let Some((before, (inside, after))) = rest
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        if !drawing {
            plain(before, &mut markup);
        }
        drawing = overrides::apply(inside, &mut markup).unwrap_or(drawing);
        rest = after;
    }
    if !drawing {
        plain(rest, &mut markup);
    }
    markup.finish()
}

/// Adds text without tags.
fn plain(text: &str, markup: &mut Markup) {
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let escaped = match (char, chars.peek()) {
            ('\\', Some('N' | 'n')) => Some('\n'),
            ('\\', Some('h')) => Some('\u{a0}'),
            _ => None,
        };
        if escaped.is_some() {
            chars.next();
        }
        markup.push(escaped.unwrap_or(char));
    }
}
