//! Conditional and range requests (RFC 9110 13 and 14), evaluated from the headers alone.

use std::ops::Range;
use std::time::SystemTime;

use axum::http::{HeaderMap, HeaderName, Method, header};

/// The validators of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validators {
    /// Strong entity tag with its quotes.
    pub etag: String,
    /// Time of the last change; compared in whole seconds.
    pub modified: SystemTime,
}

/// The result of evaluating a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// 200 with the whole representation.
    Whole,
    /// 206 with these bytes, never empty.
    Part(Range<u64>),
    /// 304.
    NotModified,
    /// 412.
    Failed,
    /// 416.
    Unsatisfiable,
}

/// Evaluates a GET or HEAD of a representation of `len` bytes, in the order of RFC 9110 13.2.2.
pub(crate) fn judge(
    method: &Method,
    headers: &HeaderMap,
    validators: &Validators,
    len: u64,
) -> Verdict {
    if let Some(tags) = text(headers, &header::IF_MATCH) {
        if !matches(&tags, &validators.etag, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if let Some(date) = date(headers, &header::IF_UNMODIFIED_SINCE)
        && seconds(validators.modified) > seconds(date)
    {
        return Verdict::Failed;
    }
    if let Some(tags) = text(headers, &header::IF_NONE_MATCH) {
        if matches(&tags, &validators.etag, Comparison::Weak) {
            return Verdict::NotModified;
        }
    } else if let Some(date) = date(headers, &header::IF_MODIFIED_SINCE)
        && seconds(validators.modified) <= seconds(date)
    {
        return Verdict::NotModified;
    }
    // Range is defined for GET only (14.2).
    if method != Method::GET || !range_applies(headers, validators) {
        return Verdict::Whole;
    }
    match text(headers, &header::RANGE).map(|range| parse_range(&range, len)) {
        None | Some(RequestedRange::Nothing) => Verdict::Whole,
        Some(RequestedRange::Part(range)) => Verdict::Part(range),
        Some(RequestedRange::Outside) => Verdict::Unsatisfiable,
    }
}

/// Whether a request may change a representation (PUT, DELETE) whose current entity tag is
/// `present` (RFC 9110 13.1.1 and 13.1.2); otherwise returns why not.
pub(crate) fn allows_change(
    headers: &HeaderMap,
    present: Option<&str>,
) -> Result<(), &'static str> {
    if let Some(tags) = text(headers, &header::IF_MATCH) {
        match present {
            Some(etag) if matches(&tags, etag, Comparison::Strong) => {}
            Some(_) => return Err("the film has changed (If-Match)"),
            None => return Err("there is no such film (If-Match)"),
        }
    }
    if let Some(tags) = text(headers, &header::IF_NONE_MATCH)
        && present.is_some_and(|etag| matches(&tags, etag, Comparison::Weak))
    {
        return Err("there is such a film already (If-None-Match)");
    }
    Ok(())
}

fn range_applies(headers: &HeaderMap, validators: &Validators) -> bool {
    let Some(if_range) = text(headers, &header::IF_RANGE) else {
        return true;
    };
    let if_range = if_range.trim();
    if if_range.starts_with('"') || if_range.starts_with("W/") {
        return if_range == validators.etag; // strong comparison (13.1.5)
    }
    httpdate::parse_http_date(if_range)
        .is_ok_and(|date| seconds(date) == seconds(validators.modified))
}

enum RequestedRange {
    /// Not understood, or several ranges: the whole representation is a valid answer (14.2).
    Nothing,
    Part(Range<u64>),
    Outside,
}

fn parse_range(header: &str, len: u64) -> RequestedRange {
    let Some((unit, set)) = header.split_once('=') else {
        return RequestedRange::Nothing;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return RequestedRange::Nothing;
    }
    let Some((first, last)) = set.trim().split_once('-') else {
        return RequestedRange::Nothing;
    };
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // A number that does not fit lies past any end.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (number(first.trim_end()), number(last.trim_start())) {
        (None, Some(suffix)) if first.is_empty() => match suffix.min(len) {
            0 => RequestedRange::Outside,
            suffix => RequestedRange::Part(len - suffix..len),
        },
        (Some(first), last_number) if last.is_empty() || last_number.is_some() => {
            let last = last_number.unwrap_or(u64::MAX);
            if last < first {
                RequestedRange::Nothing // not a valid range (14.1.1)
            } else if first >= len {
                RequestedRange::Outside
            } else {
                RequestedRange::Part(first..last.saturating_add(1).min(len))
            }
        }
        _ => RequestedRange::Nothing,
    }
}

#[derive(PartialEq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of entity tags, or `*`, contains this one.
fn matches(list: &str, etag: &str, comparison: Comparison) -> bool {
    list.trim() == "*"
        || list
            .split(',')
            .map(str::trim)
            .any(|tag| match tag.strip_prefix("W/") {
                Some(weak) => comparison == Comparison::Weak && weak == etag,
                None => tag == etag,
            })
}

/// Returns a header's value; several field lines are combined into one list (RFC 9110 5.3).
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut lines = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut all = lines.next()?.to_owned();
    for line in lines {
        all.push(',');
        all.push_str(line);
    }
    Some(all)
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
    const NEXT_DAY: &str = "Mon, 10 Sep 2001 01:46:40 GMT";

    #[test]
    fn changes_can_be_bound_to_what_is_there() {
        let allowed = |name: &'static str, value: &str, present: Option<&str>| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
            allows_change(&headers, present).is_ok()
        };
        assert!(allowed("if-match", "\"a\"", Some("\"a\"")));
        assert!(allowed("if-match", "*", Some("\"a\"")));
        assert!(!allowed("if-match", "\"a\"", Some("\"b\"")));
        assert!(!allowed("if-match", "*", None));
        assert!(allowed("if-none-match", "*", None));
        assert!(!allowed("if-none-match", "*", Some("\"a\"")));
        assert!(allowed("if-none-match", "\"b\"", Some("\"a\"")));
        assert!(allows_change(&HeaderMap::new(), None).is_ok());
    }

    fn judged(headers: &[(&'static str, &str)]) -> Verdict {
        judged_of(&Method::GET, headers, 1000)
    }

    fn judged_of(method: &Method, headers: &[(&'static str, &str)], len: u64) -> Verdict {
        let validators = Validators {
            etag: "\"a\"".into(),
            modified: SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_900),
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        judge(method, &map, &validators, len)
    }

    #[test]
    fn a_single_range_is_a_part() {
        assert_eq!(judged(&[("range", "bytes=0-0")]), Verdict::Part(0..1));
        assert_eq!(judged(&[("range", "bytes=10-")]), Verdict::Part(10..1000));
        assert_eq!(
            judged(&[("range", "bytes=900-5000")]),
            Verdict::Part(900..1000)
        );
        assert_eq!(judged(&[("range", "bytes=-1")]), Verdict::Part(999..1000));
        assert_eq!(judged(&[("range", "bytes=-5000")]), Verdict::Part(0..1000));
        assert_eq!(
            judged(&[("range", "bytes=0-99999999999999999999999")]),
            Verdict::Part(0..1000)
        );
    }

    #[test]
    fn a_range_past_the_end_cannot_be_satisfied() {
        assert_eq!(judged(&[("range", "bytes=1000-")]), Verdict::Unsatisfiable);
        assert_eq!(judged(&[("range", "bytes=-0")]), Verdict::Unsatisfiable);
        assert_eq!(
            judged_of(&Method::GET, &[("range", "bytes=0-")], 0),
            Verdict::Unsatisfiable
        );
    }

    #[test]
    fn what_is_no_range_or_several_is_answered_with_the_whole() {
        for odd in [
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "lines=1-2",
            "bytes=0-1,5-6",
            "bytes=+1-2",
            "1-2",
        ] {
            assert_eq!(judged(&[("range", odd)]), Verdict::Whole, "{odd}");
        }
        assert_eq!(
            judged_of(&Method::HEAD, &[("range", "bytes=0-1")], 1000),
            Verdict::Whole
        );
    }

    #[test]
    fn if_range_wants_exactly_this_representation() {
        let range = ("range", "bytes=0-1");
        assert_eq!(judged(&[range, ("if-range", "\"a\"")]), Verdict::Part(0..2));
        assert_eq!(judged(&[range, ("if-range", "W/\"a\"")]), Verdict::Whole);
        assert_eq!(judged(&[range, ("if-range", "\"b\"")]), Verdict::Whole);
        assert_eq!(judged(&[range, ("if-range", DAY)]), Verdict::Part(0..2));
        assert_eq!(judged(&[range, ("if-range", NEXT_DAY)]), Verdict::Whole);
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        assert_eq!(
            judged(&[("if-none-match", "\"b\", W/\"a\"")]),
            Verdict::NotModified
        );
        assert_eq!(
            judged(&[("if-none-match", "\"b\""), ("if-none-match", "\"a\"")]),
            Verdict::NotModified
        );
        assert_eq!(judged(&[("if-none-match", "*")]), Verdict::NotModified);
        assert_eq!(judged(&[("if-none-match", "\"b\"")]), Verdict::Whole);
        assert_eq!(judged(&[("if-modified-since", DAY)]), Verdict::NotModified);
        assert_eq!(
            judged(&[("if-none-match", "\"b\""), ("if-modified-since", DAY)]),
            Verdict::Whole
        );
    }

    #[test]
    fn preconditions_fail_first() {
        assert_eq!(
            judged(&[("if-match", "\"b\""), ("range", "bytes=0-1")]),
            Verdict::Failed
        );
        assert_eq!(
            judged(&[("if-match", "\"a\""), ("range", "bytes=0-1")]),
            Verdict::Part(0..2)
        );
        assert_eq!(
            judged(&[("if-unmodified-since", "Sat, 08 Sep 2001 01:46:40 GMT")]),
            Verdict::Failed
        );
        assert_eq!(judged(&[("if-unmodified-since", DAY)]), Verdict::Whole);
    }

    proptest::proptest! {
        #[test]
        fn any_header_gets_a_verdict_inside_the_file(range in ".*", if_range in ".*", len in 0u64..10_000) {
            let mut headers = HeaderMap::new();
            for (name, value) in [("range", format!("bytes={range}")), ("if-range", if_range)] {
                if let Ok(value) = value.parse() {
                    headers.insert(name, value);
                }
            }
            let validators = Validators { etag: "\"a\"".into(), modified: SystemTime::UNIX_EPOCH };
            if let Verdict::Part(part) = judge(&Method::GET, &headers, &validators, len) {
                proptest::prop_assert!(part.start < part.end && part.end <= len);
            }
        }

        #[test]
        fn every_range_of_numbers_is_cut_to_the_file(first: u64, last: u64, len in 1u64..10_000) {
            let verdict = judged_of(&Method::GET, &[("range", &format!("bytes={first}-{last}"))], len);
            let expected = match (last < first, first < len) {
                (true, _) => Verdict::Whole,
                (false, true) => Verdict::Part(first..last.saturating_add(1).min(len)),
                (false, false) => Verdict::Unsatisfiable,
            };
            proptest::prop_assert_eq!(verdict, expected);
        }
    }
}
