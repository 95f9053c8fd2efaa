//! The words of texts that users read: docs/development/style.md rules some out, and this test
//! searches for them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Phrases that are ruled out, as whole words in any case, and what to write instead.
const RULED_OUT: &[(&str, &str)] = &[
    ("he", "they"),
    ("him", "them"),
    ("his", "their"),
    ("himself", "themselves"),
    ("she", "they"),
    ("is told", "say who learns what, and how"),
    ("are told", "say who learns what, and how"),
    ("was told", "say who learns what, and how"),
    ("be told", "say who learns what, and how"),
    ("who comes", "newcomers"),
    ("who came", "newcomers"),
    ("whoever", "a noun: viewers who, clients that"),
    ("all the same", "nevertheless"),
    ("is wanted", "must be, is required"),
    ("are wanted", "must be, are required"),
    ("is no place", "is not a place"),
    ("of his own", "of their own"),
    ("let in", "admitted"),
    ("had better", "should"),
    ("there was before", "name it"),
];

/// Those that are also ruled out in comments and tests.
const EVERYWHERE: &[&str] = &["he", "him", "his", "himself", "she"];

/// Texts of files of one kind: each with the line on which it begins.
type Texts = Vec<(usize, String)>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Finds all files below a folder whose names have these endings; those of tests only if `tests` is
/// set.
fn files(dir: &Path, endings: &[&str], tests: bool, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            // Installed and built files are not ours.
            let of_tests = ["tests", "test"].contains(&name.as_str());
            let of_others = ["target", "node_modules", "dist"].contains(&name.as_str());
            if !of_others && (tests || !of_tests) {
                files(&path, endings, tests, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending))
            && (tests || name != "tests.rs")
        {
            found.push(path);
        }
    }
}

/// Returns every line, for files that consist of text.
fn lines(text: &str) -> Texts {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.to_owned()))
        .collect()
}

/// Returns every line that is not a comment.
fn lines_of_code(text: &str) -> Texts {
    let is_comment = |line: &str| {
        let line = line.trim_start();
        ["//", "/*", "*"].iter().any(|mark| line.starts_with(mark))
    };
    let mut lines = lines(text);
    lines.retain(|(_, line)| !is_comment(line));
    lines
}

/// Returns doc comments, which clap shows as help.
fn doc_comments(text: &str) -> Texts {
    let mut lines = lines(text);
    lines.retain(|(_, line)| line.trim_start().starts_with("///"));
    lines
}

/// Returns the string literals of a Rust source before its tests.
fn literals(source: &str) -> Texts {
    let source = source
        .split_once("\n#[cfg(test)]")
        .map_or(source, |(code, _)| code);
    let mut found = Vec::new();
    let (mut rest, mut line) = (source, 1);
    let skip = |rest: &mut &str, line: &mut usize, bytes: usize| {
        let (passed, after) = rest.split_at(bytes);
        *line += passed.matches('\n').count();
        *rest = after;
    };
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let hashes = after.chars().take_while(|c| *c == '#').count();
        let bytes = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == 'r' && after[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let begin = hashes + 2;
            let length = rest[begin..].find(&close).unwrap_or(0);
            found.push((line, rest[begin..begin + length].to_owned()));
            begin + length + close.len()
        } else if first == '"' {
            let mut escaped = false;
            let end = after.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let length = end.unwrap_or(after.len());
            found.push((line, joined(&after[..length])));
            (length + 2).min(rest.len())
        } else if rest.starts_with("'\"'") {
            3
        } else if rest.starts_with("'\\") {
            // An escaped character, such as '\''.
            rest[3.min(rest.len())..]
                .find('\'')
                .map_or(rest.len(), |end| end + 4)
        } else {
            first.len_utf8()
        };
        skip(&mut rest, &mut line, bytes);
    }
    found
}

/// Joins the lines of a literal that end with a backslash.
fn joined(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + part.trim_start())
}

/// Returns the ruled-out phrases in a text.
fn ruled_out(text: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let text = format!(" {} ", words.join(" "));
    RULED_OUT
        .iter()
        .filter(move |(phrase, _)| text.contains(&format!(" {phrase} ")))
}

/// Turns the name of a function that the line declares into words.
fn with_words_of_functions(line: &str) -> String {
    match line.trim_start().starts_with("fn ") {
        true => line.replace("he_aac", "HE-AAC").replace(['_', '('], " "),
        false => line.to_owned(),
    }
}

#[test]
fn texts_for_users_keep_to_the_style() {
    let root = root();
    let mut all: Vec<(PathBuf, Texts)> = Vec::new();
    let mut take = |paths: &[&str], endings: &[&str], read: fn(&str) -> Texts| {
        let mut found = Vec::new();
        for path in paths {
            let path = root.join(path);
            match path.is_dir() {
                true => files(&path, endings, false, &mut found),
                false => found.push(path),
            }
        }
        for path in found {
            let text = std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            all.push((path, read(&text)));
        }
    };
    take(
        &["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs"],
        &[".md"],
        lines,
    );
    take(&["crates/node/src/config.toml"], &[], lines);
    take(&["web/src"], &[".tsx", ".ts", ".html"], lines_of_code);
    take(&["crates"], &[".rs"], literals);
    take(
        &["crates/reelway/src", "crates/node/src", "crates/bench/src"],
        &[".rs"],
        doc_comments,
    );
    assert!(all.len() > 300, "only {} files found", all.len());

    let mut findings = String::new();
    for (path, texts) in &all {
        // The style guide names what it rules out, and benchmark pages are as they were printed.
        if path.ends_with("development/style.md")
            || path
                .parent()
                .is_some_and(|dir| dir.ends_with("docs/benchmarks"))
        {
            continue;
        }
        for (line, text) in texts {
            for (phrase, instead) in ruled_out(text) {
                let path = path.strip_prefix(&root).unwrap_or(path);
                let _ = writeln!(
                    findings,
                    "{}:{line}: \"{phrase}\" (rather: {instead}) in: {}",
                    path.display(),
                    text.trim()
                );
            }
        }
    }
    assert!(
        findings.is_empty(),
        "see docs/development/style.md:\n{findings}"
    );
}

#[test]
fn no_comment_and_no_test_calls_a_viewer_he() {
    let root = root();
    let mut found = Vec::new();
    for dir in ["crates", "tests", "web/src", "lab", "scripts"] {
        files(
            &root.join(dir),
            &[".rs", ".ts", ".tsx", ".js", ".py", ".sh", ".c", ".h", ".md"],
            true,
            &mut found,
        );
    }
    // This file names what it rules out.
    found.retain(|path| !path.ends_with("tests/tests/words.rs"));
    assert!(found.len() > 500, "only {} files found", found.len());
    let mut findings = String::new();
    for path in &found {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (line, text) in lines(&text) {
            for (phrase, instead) in ruled_out(&with_words_of_functions(&text)) {
                if EVERYWHERE.contains(phrase) {
                    let path = path.strip_prefix(&root).unwrap_or(path);
                    let _ = writeln!(
                        findings,
                        "{}:{line}: \"{phrase}\" (rather: {instead})",
                        path.display()
                    );
                }
            }
        }
    }
    assert!(
        findings.is_empty(),
        "see docs/development/style.md:\n{findings}"
    );
}

#[test]
fn literals_are_found_as_the_compiler_sees_them() {
    let source = r##"
// "a comment"
let a = "one \"two\"\
         three"; /* "not" */
let b = r#"raw "quoted""#;
let c = '"'; let d = '\''; let e = 'x'; let life: &'static str = "last";
#[cfg(test)]
mod tests { const X: &str = "his test"; }
"##;
    let texts: Vec<String> = literals(source).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["one \\\"two\\\"three", "raw \"quoted\"", "last"]);
}

#[test]
fn a_phrase_counts_as_whole_words_only() {
    let found = |text| {
        ruled_out(text)
            .map(|(phrase, _)| *phrase)
            .collect::<Vec<_>>()
    };
    assert_eq!(found("The history of this shell"), [""; 0]);
    assert_eq!(found("He said so"), ["he"]);
    assert_eq!(found("the viewer (his film)"), ["his"]);
    assert_eq!(found("HE-AAC, heb:he"), [""; 0]);
    assert_eq!(found("a rate is\nwanted"), ["is wanted"]);
    let function = with_words_of_functions("    fn a_viewer_and_his_film() {");
    assert_eq!(found(&function), ["his"]);
}
