//! Splits a text into lines with any line endings.

/// Byte order marks occur inside files that were joined from several. The others are WebVTT's white
/// space.
fn blank(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\x0c' | '\u{feff}')
}

/// Returns the line without blanks around it. No-break spaces stay.
pub fn trim(line: &str) -> &str {
    line.trim_matches(blank)
}

/// Returns the lines, numbered from one, without their endings (LF, CR LF or CR) and without byte
/// order marks at their beginning.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r']) else {
            rest = None;
            return (!text.is_empty()).then_some(text);
        };
        let after = &text[end..];
        let length = if after.starts_with("\r\n") { 2 } else { 1 };
        rest = Some(&after[length..]);
        Some(&text[..end])
    })
    .enumerate()
    .map(|(index, line)| (index + 1, line.trim_start_matches('\u{feff}')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ends_of_lines_are_the_same() {
        let lines: Vec<(usize, &str)> = numbered("a\nb\r\n\r\n\u{feff}c\r\rd").collect();
        let expected = [(1, "a"), (2, "b"), (3, ""), (4, "c"), (5, ""), (6, "d")];
        assert_eq!(lines, expected);
        assert_eq!(numbered("a\n").count(), 1);
        assert_eq!(numbered("").count(), 0);
    }
}
