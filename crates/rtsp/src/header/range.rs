//! `Range` (RFC 2326 sections 3.6 and 12.29).

use reelway_media::{Nanos, SECOND};

/// A requested part of a film, in normal play time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NptRange {
    /// Where it begins.
    pub start: NptStart,
    /// Where it ends; `None` is the film's end.
    pub end: Option<Nanos>,
}

/// Beginning of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NptStart {
    /// Not given: the current position.
    Unsaid,
    /// `now`: the current position, too, for a film.
    Now,
    /// At this presentation time.
    At(Nanos),
}

/// Why a range is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// A unit other than npt: 501 (RFC 2326 section 12.29).
    Unit(String),
    /// Malformed or empty: 457.
    Invalid(String),
}

impl NptRange {
    /// No range given.
    pub const UNSAID: NptRange = NptRange {
        start: NptStart::Unsaid,
        end: None,
    };

    /// Parses the header's value. Accepts beyond the RFC's grammar: no dash (`npt=10`), minutes and
    /// seconds (`1:02.5`), a comma as decimal point (from clients in such a locale), spaces.
    pub fn parse(value: &str) -> Result<NptRange, RangeError> {
        let invalid = || {
            RangeError::Invalid(format!(
                "'{}' is not a range such as npt=10-20",
                excerpt(value)
            ))
        };
        // `;time=` would delay the start to a time of the clock; it is ignored and playback starts
        // at once.
        let range = value.split(';').next().unwrap_or(value);
        let (unit, range) = range.split_once('=').ok_or_else(invalid)?;
        if !unit.trim().eq_ignore_ascii_case("npt") {
            return Err(RangeError::Unit(format!(
                "ranges must be in npt, not '{}'",
                excerpt(unit.trim())
            )));
        }
        let (start, end) = range.split_once('-').unwrap_or((range, ""));
        let start = match start.trim() {
            "" => NptStart::Unsaid,
            now if now.eq_ignore_ascii_case("now") => NptStart::Now,
            time => NptStart::At(parse_time(time).ok_or_else(invalid)?),
        };
        let end = match end.trim() {
            "" => None,
            time => Some(parse_time(time).ok_or_else(invalid)?),
        };
        if start == NptStart::Unsaid && end.is_none() {
            return Err(invalid());
        }
        Ok(NptRange { start, end })
    }
}

/// Formats `npt=START-END` for responses: exact, with three to nine decimals.
pub fn format(start: Nanos, end: Nanos) -> String {
    format!("npt={}-{}", seconds(start), seconds(end))
}

/// Formats the range being played, with an open end if that is the film's end, which the
/// description states.
///
/// GStreamer's jitter buffer (1.22) stops at an end by its own reckoning, which after a seek is
/// seconds too early (`update_estimated_eos` divides a running time that began anew by the time
/// elapsed since the response). Without an end it waits for BYE.
pub fn playing(start: Nanos, end: Nanos, duration: Nanos) -> String {
    match end < duration {
        true => format(start, end),
        false => format!("npt={}-", seconds(start)),
    }
}

/// Formats seconds with three to nine decimals.
fn seconds(at: Nanos) -> String {
    let at = at.max(0);
    let mut text = format!("{}.{:09}", at / SECOND, at % SECOND);
    let spare = text
        .bytes()
        .rev()
        .take(6)
        .take_while(|digit| *digit == b'0')
        .count();
    text.truncate(text.len() - spare);
    text
}

/// Longest accepted time: a century, far below where nanoseconds overflow.
const MOST_SECONDS: u64 = 100 * 366 * 86_400;

/// Parses `[[H:]M:]S[.fraction]`.
fn parse_time(text: &str) -> Option<Nanos> {
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(fraction) {
        return None;
    }
    let mut total: u64 = 0;
    let fields: Vec<&str> = whole.split(':').collect();
    if fields.len() > 3 {
        return None;
    }
    for field in fields {
        let number: u64 = field.parse().ok().filter(|_| digits(field))?;
        total = total
            .checked_mul(60)?
            .checked_add(number)
            .filter(|total| *total <= MOST_SECONDS)?;
    }
    let nanos = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = nanos.fold(0, |sum, digit| sum * 10 + Nanos::from(digit - b'0'));
    Some(total as Nanos * SECOND + nanos)
}

fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = SECOND / 1000;

    fn at(start: Nanos, end: Option<Nanos>) -> Result<NptRange, RangeError> {
        Ok(NptRange {
            start: NptStart::At(start),
            end,
        })
    }

    #[test]
    fn npt_is_understood_in_every_form() {
        for (text, wanted) in [
            ("npt=10-", at(10 * SECOND, None)),
            ("npt=10-20", at(10 * SECOND, Some(20 * SECOND))),
            ("npt=0.000-", at(0, None)),
            ("npt=123.45-125", at(123_450 * MS, Some(125 * SECOND))),
            ("npt=0:01:02.5-", at(62_500 * MS, None)),
            ("npt=12:05:35.3-", at(43_535_300 * MS, None)),
            ("npt=1:02.5-2:00", at(62_500 * MS, Some(120 * SECOND))),
            ("NPT = 10 - 20 ", at(10 * SECOND, Some(20 * SECOND))),
            ("npt=10", at(10 * SECOND, None)),
            ("npt=10.-", at(10 * SECOND, None)),
            ("npt=10,500-", at(10_500 * MS, None)),
            ("npt=0.1234567899-", at(123_456_789, None)),
            ("npt=5-;time=19970123T143720Z", at(5 * SECOND, None)),
            // The maximum is a century of leap years.
            ("npt=3162240000-", at(3_162_240_000 * SECOND, None)),
            ("npt=878400:00:00-", at(3_162_240_000 * SECOND, None)),
            (
                "npt=-5",
                Ok(NptRange {
                    start: NptStart::Unsaid,
                    end: Some(5 * SECOND),
                }),
            ),
            (
                "npt=now-",
                Ok(NptRange {
                    start: NptStart::Now,
                    end: None,
                }),
            ),
            (
                "npt=now-7.5",
                Ok(NptRange {
                    start: NptStart::Now,
                    end: Some(7_500 * MS),
                }),
            ),
        ] {
            assert_eq!(NptRange::parse(text), wanted, "{text}");
        }
    }

    #[test]
    fn other_units_are_not_implemented() {
        for text in [
            "smpte=0:10:20-",
            "smpte-30-drop=10:07:00-10:07:33:05.01",
            "clock=19961108T142300Z-",
            "bytes=0-1",
        ] {
            assert!(
                matches!(NptRange::parse(text), Err(RangeError::Unit(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn nonsense_is_an_invalid_range() {
        for text in [
            "",
            "npt",
            "npt=",
            "npt=-",
            "npt=x-",
            "npt=1e3-",
            "npt=--5",
            "npt=1-2-3",
            "npt=1:2:3:4-",
            "npt=:1-",
            "npt=+1-",
            "npt=.5-",
            "npt=99999999999999999999-",
            "npt=3162240001-",
            "npt=878400:00:01-",
            "npt=9999999999-",
            "npt=-x",
        ] {
            assert!(
                matches!(NptRange::parse(text), Err(RangeError::Invalid(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn times_are_said_exactly_and_shortly() {
        assert_eq!(format(0, 10_005 * MS), "npt=0.000-10.005");
        assert_eq!(format(8_008_333_333, 20 * SECOND), "npt=8.008333333-20.000");
        assert_eq!(format(1_500_100_000, 2 * SECOND), "npt=1.5001-2.000");
        assert_eq!(format(-1, 0), "npt=0.000-0.000");
        assert_eq!(playing(SECOND, 2 * SECOND, 3 * SECOND), "npt=1.000-2.000");
        assert_eq!(playing(SECOND, 3 * SECOND, 3 * SECOND), "npt=1.000-");
    }
}
