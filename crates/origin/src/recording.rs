//! The header [`NAME`], in which another Reelway describes a film that may grow; it is sent with
//! the film's file and its index. Pure.
//!
//! `edition=0123456789abcdef, size=1880000, began=1790000000000, grows, soon`: the recording's name
//! for as long as it only grows; its size in bytes; when its first picture was recorded, in
//! milliseconds since 1970; that it grows; that it may soon be longer. Other words are ignored, and
//! the order does not matter.

use reelway_catalogue::RecordingReport;
use reelway_clock::Real;

/// The header's name.
pub(crate) const NAME: &str = "reelway-recording";

/// Maximum length of the header, in bytes.
const LONGEST: usize = 1024;
/// Maximum number of characters in an edition.
const LONGEST_EDITION: usize = 64;

/// A film that may grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    /// Its name for as long as it only grows.
    pub edition: String,
    /// Size in bytes of the version that the answer belongs to.
    pub size: u64,
    pub status: RecordingStatus,
}

/// The part of it that may change from one request to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordingStatus {
    pub report: RecordingReport,
    /// It may soon be longer.
    pub soon: bool,
}

/// Parses the header; `None` if it is invalid.
pub(crate) fn parse(header: &str) -> Option<Recording> {
    if header.len() > LONGEST {
        return None;
    }
    let words = || header.split(',').map(str::trim);
    let value = |key: &str| {
        words().find_map(|word| {
            let (name, value) = word.split_once('=')?;
            (name == key).then_some(value)
        })
    };
    let is = |key: &str| words().any(|word| word == key);
    let edition = value("edition")?;
    let is_sound = (1..=LONGEST_EDITION).contains(&edition.len())
        && edition.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let began = match value("began") {
        Some(millis) => {
            let nanos = millis.parse::<u64>().ok()?.checked_mul(1_000_000)?;
            Some(Real::from_nanos(i64::try_from(nanos).ok()? as u64))
        }
        None => None,
    };
    is_sound.then_some(Recording {
        edition: edition.to_owned(),
        size: value("size")?.parse().ok()?,
        status: RecordingStatus {
            report: RecordingReport {
                began,
                grows: is("grows"),
            },
            soon: is("soon"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_recording_is_read_in_any_order() {
        let plain = parse("edition=1f, size=7").unwrap();
        assert_eq!((plain.edition.as_str(), plain.size), ("1f", 7));
        assert_eq!(plain.status, RecordingStatus::default());
        let all = parse("grows,began=1500, new=x, soon , size=7,edition=1f").unwrap();
        let report = RecordingReport {
            began: Some(Real::from_nanos(1_500_000_000)),
            grows: true,
        };
        assert_eq!(all.status, RecordingStatus { report, soon: true });
        assert_eq!(all.edition, "1f");
    }

    #[test]
    fn what_cannot_be_one_is_none() {
        let long = format!("edition={}, size=7", "a".repeat(65));
        let longer = format!("edition=1, size=7, {}", "a".repeat(1024));
        for wrong in [
            "",
            "grows",
            "size=7",
            "edition=1f",
            "edition=, size=7",
            "edition=1/f, size=7",
            "edition=1f, size=-7",
            "edition=1f, size=18446744073709551616",
            "edition=1f, size=7, began=x",
            "edition=1f, size=7, began=18446744073709551",
            &long,
            &longer,
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
