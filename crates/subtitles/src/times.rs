//! Times of cues: `00:00:01,000 --> 00:00:02.500`, and common variants.

use crate::lines::trim;

/// Maximum number of digits in a number; no film has more hours.
const DIGITS: usize = 4;

/// Beginning and end in milliseconds, negative if a file was shifted too far, and the rest of the
/// line.
pub struct Times<'a> {
    pub start: i64,
    pub end: i64,
    pub rest: &'a str,
}

/// Parses a line of SubRip or WebVTT that consists of times. Hours may be missing, blanks may be
/// anywhere, and the arrow may be shorter or contain another dash.
pub fn line(line: &str) -> Option<Times<'_>> {
    let (start, rest) = time(line)?;
    let arrow = rest.trim_start_matches(|char: char| blank(char) || "-–—".contains(char));
    if arrow.len() == rest.trim_start_matches(blank).len() {
        return None;
    }
    let (end, rest) = time(arrow.strip_prefix('>')?)?;
    // `00:00:02.000x` is not a time.
    (rest.is_empty() || rest.starts_with(blank)).then_some(Times {
        start,
        end,
        rest: trim(rest),
    })
}

/// Parses the time at the beginning of a text. Returns it in milliseconds, and the text after it.
pub fn time(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start_matches(blank);
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (mut seconds, mut rest) = number(text)?;
    // Minutes and seconds above 59 occur where a program has rounded.
    let mut numbers = 1;
    while numbers < 3
        && let Some(after) = rest.trim_start_matches(blank).strip_prefix(':')
    {
        let (next, after) = number(after)?;
        seconds = seconds * 60 + next;
        rest = after;
        numbers += 1;
    }
    if numbers == 1 {
        return None;
    }
    let (milliseconds, rest) = fraction(rest).unwrap_or((0, rest));
    let time = seconds * 1000 + milliseconds;
    Some((if negative { -time } else { time }, rest))
}

/// Parses the fraction of a second at the beginning of a text, including its separator, in
/// milliseconds.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start_matches(blank);
    let sign = text.chars().next()?;
    let text = text
        .strip_prefix(['.', ',', ':'])?
        .trim_start_matches(blank);
    let length = digits(text);
    let (digits, rest) = text.split_at(length);
    // After a comma, as in SubRip, short fractions are milliseconds whose leading zeros a program
    // has lost, and players read them so. After a dot they are decimal fractions: ASS has
    // hundredths.
    let padded = match (sign, length) {
        (_, 0) => return None,
        ('.', _) | (_, 3..) => format!("{digits:0<3}"),
        (',', _) => format!("{digits:0>3}"),
        // Perhaps frame numbers.
        _ => return None,
    };
    Some((padded[..3].parse().ok()?, rest))
}

/// Parses the number at the beginning of a text.
fn number(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start_matches(blank);
    let length = digits(text);
    if length == 0 || length > DIGITS {
        return None;
    }
    let (digits, rest) = text.split_at(length);
    Some((digits.parse().ok()?, rest))
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn blank(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Option<(i64, i64, &str)> {
        line(text).map(|times| (times.start, times.end, times.rest))
    }

    #[test]
    fn times_of_subrip_and_webvtt() {
        let expected = Some((3_723_004, 3_724_500, ""));
        assert_eq!(times("01:02:03,004 --> 01:02:04,500"), expected);
        assert_eq!(times("01:02:03.004 --> 01:02:04.500"), expected);
        assert_eq!(times(" 1:02:03,004-->1:02:04,500 "), expected);
        assert_eq!(times("62:03.004 --> 62:04.500"), expected);
        assert_eq!(times("01:02:03, 004 -> 01 : 02 : 04 ,500"), expected);
        assert_eq!(times("01:02:03:004 –> 01:02:04:500"), expected);
        let rest = Some((3_723_004, 3_724_500, "X1:10 X2:20"));
        assert_eq!(times("01:02:03,004 --> 01:02:04,500  X1:10 X2:20"), rest);
    }

    #[test]
    fn fractions_may_be_short_long_or_missing() {
        let time = |text| time(text).map(|(time, _)| time);
        assert_eq!(time("0:00:01.5"), Some(1500));
        assert_eq!(time("0:00:01.50"), Some(1500));
        assert_eq!(time("0:00:01,50"), Some(1050));
        assert_eq!(time("0:00:01,5000000"), Some(1500));
        assert_eq!(time("0:00:01"), Some(1000));
        assert_eq!(time("0:00:60,000"), Some(60_000));
        assert_eq!(time("-0:00:01,000"), Some(-1000));
        assert_eq!(time("9999:59:59.999"), Some(35_999_999_999));
    }

    #[test]
    fn other_lines_are_no_times() {
        for text in [
            "",
            "1",
            "00:00:01,000",
            "Go --> there",
            "00:00:01,000 --> ",
            "00:00:01,000 > 00:00:02,000",
            "00:00:01,000 --> 00:00:02,000x",
            "00:00:01,000 --> 00:00:xx,000",
            "99999:00:01,000 --> 00:00:02,000",
        ] {
            assert_eq!(times(text), None, "{text}");
        }
    }
}
