//! Reads WebVTT according to section 6.1 of its specification (<https://www.w3.org/TR/webvtt1/>),
//! and accepts some input that browsers refuse.

use crate::cue::Cue;
use crate::gather::Gathered;
use crate::lines::{numbered, trim};
use crate::times::{self, Times};

/// All cue settings of the specification.
const SETTINGS: [&str; 6] = ["vertical", "line", "position", "size", "align", "region"];
/// Longer setting values, in bytes, are left out.
const LONGEST_VALUE: usize = 100;
/// Prefix of the header line that maps times of the file to MPEG timestamps (RFC 8216, section
/// 3.5).
const MAP: &str = "X-TIMESTAMP-MAP=";

/// The block that a line belongs to.
enum Block<'a> {
    /// Between blocks.
    Between,
    /// The lines after the first one of the file.
    Header,
    /// A cue whose times are in this line.
    Cue {
        line: usize,
        cue: Cue,
        lines: Vec<&'a str>,
    },
    /// A block that is skipped.
    PassedOver,
}

/// Reads all cues.
pub fn read(text: &str, gathered: &mut Gathered) {
    let mut block = Block::Between;
    for (line, text) in numbered(text) {
        if line == 1 {
            if is_signature(text) {
                block = Block::Header;
                continue;
            }
            gathered.note("line 1: it is not WEBVTT".to_owned());
        }
        if text.contains("-->") {
            // A cue begins here, whatever the block.
            finish(block, gathered);
            block = begin(line, text, gathered);
        } else if text.is_empty() {
            finish(block, gathered);
            block = Block::Between;
        } else {
            block = go_on(block, line, text, gathered);
        }
        if gathered.is_full() {
            return;
        }
    }
    finish(block, gathered);
}

fn is_signature(line: &str) -> bool {
    line.strip_prefix("WEBVTT")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

fn begin<'a>(line: usize, text: &'a str, gathered: &mut Gathered) -> Block<'a> {
    let Some(Times { start, end, rest }) = times::line(text) else {
        gathered.passed_over(line, "the times of a cue cannot be read");
        return Block::PassedOver;
    };
    let (Ok(start), Ok(end)) = (u64::try_from(start), u64::try_from(end)) else {
        gathered.passed_over(line, "the cue begins before the film does");
        return Block::PassedOver;
    };
    let settings = settings(line, rest, gathered);
    let text = String::new();
    Block::Cue {
        line,
        cue: Cue {
            start,
            end,
            settings,
            text,
        },
        lines: Vec::new(),
    }
}

/// Returns the settings that are kept: the last one of each name, as in browsers.
fn settings(line: usize, text: &str, gathered: &mut Gathered) -> String {
    let mut kept: Vec<(&str, &str)> = Vec::new();
    let mut left_out = false;
    for setting in text
        .split([' ', '\t', '\x0c'])
        .filter(|setting| !setting.is_empty())
    {
        match setting.split_once(':') {
            Some((name, value))
                if SETTINGS.contains(&name)
                    && !value.is_empty()
                    && value.len() <= LONGEST_VALUE
                    && !value.contains("-->") =>
            {
                kept.retain(|(before, _)| *before != name);
                kept.push((name, value));
            }
            _ => left_out = true,
        }
    }
    if left_out {
        gathered.note(format!(
            "line {line}: settings that WebVTT does not have, left out"
        ));
    }
    let kept: Vec<String> = kept
        .iter()
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    kept.join(" ")
}

/// Adds a line to a block, or begins a new one.
fn go_on<'a>(block: Block<'a>, line: usize, text: &'a str, gathered: &mut Gathered) -> Block<'a> {
    match block {
        Block::Cue {
            line,
            cue,
            mut lines,
        } => {
            lines.push(text);
            Block::Cue { line, cue, lines }
        }
        Block::Header => {
            if text.starts_with(MAP) && !is_identity(text) {
                gathered.note(format!(
                    "line {line}: X-TIMESTAMP-MAP left out; times are taken for those of the film"
                ));
            }
            Block::Header
        }
        Block::PassedOver => Block::PassedOver,
        Block::Between => {
            // Other blocks without times are notes, or names without a cue.
            let name = trim(text);
            if name == "STYLE" || name == "REGION" {
                gathered.note(format!("line {line}: {name} left out"));
            }
            Block::PassedOver
        }
    }
}

/// Returns whether a map states that times are the film's.
fn is_identity(map: &str) -> bool {
    let mut parts: Vec<&str> = map[MAP.len()..].split(',').map(trim).collect();
    parts.sort_unstable();
    parts == ["LOCAL:00:00:00.000", "MPEGTS:0"]
}

fn finish(block: Block<'_>, gathered: &mut Gathered) {
    let Block::Cue {
        line,
        mut cue,
        lines,
    } = block
    else {
        return;
    };
    let lines: Vec<&str> = lines
        .into_iter()
        .map(trim)
        .filter(|line| !line.is_empty())
        .collect();
    cue.text = lines.join("\n");
    gathered.cue(line, cue);
}
