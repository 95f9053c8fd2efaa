//! Checks whether an answer matches its request (RFC 9110 14 and 15), by status and headers alone,
//! before a byte of it is used.

use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use reqwest::StatusCode;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED,
    RETRY_AFTER,
};

use crate::fault::Fault;
use crate::recording::{self, Recording};
use crate::version::Version;

/// Longest `Retry-After` that is respected.
const MOST_PATIENCE: Duration = Duration::from_secs(60);

/// A `Content-Range`: which bytes, and of how many.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ContentRange {
    /// `None` in `bytes */LEN`.
    range: Option<Range<u64>>,
    /// `None` in `bytes a-b/*`.
    len: Option<u64>,
}

fn parse_content_range(text: &str) -> Option<ContentRange> {
    let (unit, rest) = text.trim().split_once(' ')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (range, len) = rest.trim().split_once('/')?;
    let len = match len.trim() {
        "*" => None,
        digits => Some(number(digits)?),
    };
    let range = match range.trim() {
        "*" => None,
        range => {
            let (first, last) = range.split_once('-')?;
            let (first, last) = (number(first)?, number(last)?);
            if last < first || len.is_some_and(|len| last >= len) {
                return None;
            }
            Some(first..last.checked_add(1)?)
        }
    };
    Some(ContentRange { range, len })
}

fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The entity tag of an answer.
pub(crate) fn etag(headers: &HeaderMap) -> Option<&str> {
    text(headers, &ETAG).filter(|tag| !tag.is_empty())
}

/// `Last-Modified` of an answer in seconds since 1970.
pub(crate) fn modified(headers: &HeaderMap) -> Option<i64> {
    let time = httpdate::parse_http_date(text(headers, &LAST_MODIFIED)?).ok()?;
    time.duration_since(UNIX_EPOCH)
        .ok()
        .map(|since| since.as_secs() as i64)
}

/// An answer's description of a recording.
pub(crate) fn recording(headers: &HeaderMap) -> Option<Recording> {
    recording::parse(headers.get(recording::NAME)?.to_str().ok()?)
}

/// The version of an index whose answer has these headers: this one, or a longer one of a
/// recording.
pub(crate) fn indexed(headers: &HeaderMap, version: &Version) -> Result<Version, Fault> {
    if version.edition.is_none() {
        return Ok(version.clone());
    }
    Ok(Version {
        len: same_recording(headers, version)?.size,
        etag: etag(headers).map(str::to_owned),
        modified: modified(headers),
        edition: version.edition.clone(),
    })
}

/// An answer's description of the recording of this version, which may have grown since.
fn same_recording(headers: &HeaderMap, version: &Version) -> Result<Recording, Fault> {
    let current =
        recording(headers).filter(|current| Some(&current.edition) == version.edition.as_ref());
    let current = current.ok_or_else(|| Fault::Changed("it is another recording".into()))?;
    match current.size < version.len {
        true => Err(Fault::Changed(format!(
            "{} bytes long, it was {}",
            current.size, version.len
        ))),
        false => Ok(current),
    }
}

/// The fault for a status that is not a success.
pub(crate) fn refusal(status: StatusCode, headers: &HeaderMap) -> Fault {
    match status.as_u16() {
        status @ (404 | 410) => Fault::Gone(status),
        status @ (401 | 403 | 407) => Fault::Forbidden(status),
        412 => Fault::Changed("status 412".into()),
        status @ (429 | 503) => Fault::SlowDown {
            status,
            after: text(headers, &RETRY_AFTER)
                .and_then(number)
                .map(|seconds| Duration::from_secs(seconds).min(MOST_PATIENCE)),
        },
        status @ (408 | 500..=599) => Fault::Broken(format!("the origin failed (status {status})")),
        status => Fault::Wrong(format!("status {status}")),
    }
}

/// Reads the version from the answer to a request for the first byte (`Range: bytes=0-0`), and
/// checks that the server supports ranges.
pub(crate) fn probed(status: StatusCode, headers: &HeaderMap) -> Result<Version, Fault> {
    let len = match status {
        StatusCode::PARTIAL_CONTENT => {
            let given = content_range(headers)?;
            match (given.range, given.len) {
                (Some(Range { start: 0, end: 1 }), Some(len)) => len,
                _ => return Err(wrong_range(headers, &(0..1))),
            }
        }
        // The answer for an empty film.
        StatusCode::RANGE_NOT_SATISFIABLE => match content_range(headers)? {
            ContentRange {
                range: None,
                len: Some(0),
            } => 0,
            _ => return Err(wrong_range(headers, &(0..1))),
        },
        status if status.is_success() => return Err(Fault::NoRanges),
        status => return Err(refusal(status, headers)),
    };
    Ok(Version {
        len,
        etag: etag(headers).map(str::to_owned),
        modified: modified(headers),
        edition: recording(headers).map(|current| current.edition),
    })
}

/// Checks the answer to a request for `wanted` of this version of a film. Returns how many bytes
/// will come, at least one: a server may send fewer than requested; the caller then requests the
/// rest.
pub(crate) fn part(
    status: StatusCode,
    headers: &HeaderMap,
    wanted: &Range<u64>,
    version: &Version,
) -> Result<u64, Fault> {
    let changed = |what: String| Err(Fault::Changed(what));
    match status {
        StatusCode::PARTIAL_CONTENT => {}
        StatusCode::OK => return Err(Fault::NoRanges),
        StatusCode::RANGE_NOT_SATISFIABLE => {
            return match content_range(headers)?.len {
                Some(len) if len != version.len => {
                    changed(format!("{len} bytes long, it was {}", version.len))
                }
                _ => Err(wrong_range(headers, wanted)),
            };
        }
        status => return Err(refusal(status, headers)),
    }
    let given = content_range(headers)?;
    if version.edition.is_some() {
        same_recording(headers, version)?;
    } else if let Some(len) = given.len.filter(|len| *len != version.len) {
        return changed(format!("{len} bytes long, it was {}", version.len));
    } else if !version.fits(etag(headers), modified(headers)) {
        return changed(match (&version.etag, etag(headers)) {
            (Some(was), now) => format!("its ETag was {was} and is {}", now.unwrap_or("missing")),
            _ => "its Last-Modified is another".into(),
        });
    }
    let range = given
        .range
        .filter(|range| range.start == wanted.start && range.end <= wanted.end)
        .ok_or_else(|| wrong_range(headers, wanted))?;
    if let Some(encoding) = text(headers, &CONTENT_ENCODING)
        && !encoding.eq_ignore_ascii_case("identity")
    {
        return Err(Fault::Wrong(format!("Content-Encoding: {encoding}")));
    }
    let len = range.end - range.start;
    match text(headers, &CONTENT_LENGTH).map(number) {
        Some(length) if length != Some(len) => Err(Fault::Wrong(format!(
            "Content-Length: {} for {len} bytes",
            text(headers, &CONTENT_LENGTH).unwrap_or_default()
        ))),
        _ => Ok(len),
    }
}

fn content_range(headers: &HeaderMap) -> Result<ContentRange, Fault> {
    text(headers, &CONTENT_RANGE)
        .and_then(parse_content_range)
        .ok_or_else(|| Fault::Wrong(said_range(headers)))
}

fn said_range(headers: &HeaderMap) -> String {
    match headers.get(CONTENT_RANGE) {
        Some(value) => {
            let text: String = String::from_utf8_lossy(value.as_bytes())
                .chars()
                .take(100)
                .collect();
            format!("Content-Range: {text}")
        }
        None => "no Content-Range".into(),
    }
}

fn wrong_range(headers: &HeaderMap, wanted: &Range<u64>) -> Fault {
    Fault::Wrong(format!(
        "{} where bytes {}-{} were asked for",
        said_range(headers),
        wanted.start,
        wanted.end.saturating_sub(1)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Version {
        Version {
            len: 1000,
            etag: Some("\"a\"".into()),
            modified: None,
            edition: None,
        }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn judge(status: u16, lines: &[(&'static str, &str)]) -> Result<u64, &'static str> {
        let status = StatusCode::from_u16(status).unwrap();
        part(status, &headers(lines), &(100..200), &version()).map_err(|fault| fault.kind())
    }

    #[test]
    fn the_bytes_asked_for_are_taken_or_the_first_of_them() {
        let etag = ("etag", "\"a\"");
        assert_eq!(
            judge(206, &[etag, ("content-range", "bytes 100-199/1000")]),
            Ok(100)
        );
        assert_eq!(
            judge(206, &[etag, ("content-range", "bytes 100-149/*")]),
            Ok(50)
        );
    }

    #[test]
    fn other_bytes_than_asked_for_are_a_wrong_answer() {
        let etag = ("etag", "\"a\"");
        for range in [
            "bytes 0-99/1000",
            "bytes 101-199/1000",
            "bytes 100-200/1000",
            "bytes 199-100/1000",
            "bytes 100-1000/1000",
            "bytes */1000",
            "100-199/1000",
            "bytes 100-18446744073709551615/1000",
            "bytes -1-5/1000",
            "",
        ] {
            assert_eq!(
                judge(206, &[etag, ("content-range", range)]),
                Err("wrong"),
                "{range}"
            );
        }
        assert_eq!(judge(206, &[etag]), Err("wrong"));
        let range = ("content-range", "bytes 100-199/1000");
        assert_eq!(
            judge(206, &[etag, range, ("content-length", "99")]),
            Err("wrong")
        );
        assert_eq!(
            judge(206, &[etag, range, ("content-encoding", "gzip")]),
            Err("wrong")
        );
    }

    #[test]
    fn another_version_is_found_out_by_tag_length_and_status() {
        let range = ("content-range", "bytes 100-199/1000");
        assert_eq!(judge(206, &[("etag", "\"b\""), range]), Err("changed"));
        assert_eq!(judge(206, &[range]), Err("changed"), "it had a tag before");
        let longer = ("content-range", "bytes 100-199/1001");
        assert_eq!(judge(206, &[("etag", "\"a\""), longer]), Err("changed"));
        assert_eq!(judge(412, &[]), Err("changed"));
        assert_eq!(
            judge(416, &[("content-range", "bytes */50")]),
            Err("changed")
        );
    }

    #[test]
    fn each_status_is_what_it_means() {
        for (status, kind) in [
            (200, "no_ranges"),
            (404, "gone"),
            (403, "forbidden"),
            (503, "slow_down"),
            (500, "broken"),
            (418, "wrong"),
        ] {
            assert_eq!(judge(status, &[]), Err(kind), "{status}");
        }
        let busy = refusal(
            StatusCode::TOO_MANY_REQUESTS,
            &headers(&[("retry-after", "7")]),
        );
        assert_eq!(
            busy,
            Fault::SlowDown {
                status: 429,
                after: Some(Duration::from_secs(7))
            }
        );
        let rude = refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            &headers(&[("retry-after", "99999999999")]),
        );
        assert!(
            matches!(rude, Fault::SlowDown { after: Some(after), .. } if after <= MOST_PATIENCE)
        );
    }

    #[test]
    fn a_probe_tells_length_tag_and_date() {
        let version = probed(
            StatusCode::PARTIAL_CONTENT,
            &headers(&[
                ("content-range", "bytes 0-0/77"),
                ("etag", "W/\"x\""),
                ("last-modified", "Thu, 01 Jan 1970 00:01:00 GMT"),
            ]),
        );
        let wanted = Version {
            len: 77,
            etag: Some("W/\"x\"".into()),
            modified: Some(60),
            edition: None,
        };
        assert_eq!(version, Ok(wanted));
        let empty = probed(
            StatusCode::RANGE_NOT_SATISFIABLE,
            &headers(&[("content-range", "bytes */0")]),
        );
        assert_eq!(empty.map(|version| version.len), Ok(0));
        assert_eq!(
            probed(StatusCode::OK, &HeaderMap::new()),
            Err(Fault::NoRanges)
        );
    }

    proptest::proptest! {
        #[test]
        fn any_content_range_is_read_without_harm(text in "(bytes )?[0-9*/ -]{0,40}|.{0,20}") {
            if let Some(ContentRange { range: Some(range), len }) = parse_content_range(&text) {
                proptest::prop_assert!(range.start < range.end);
                proptest::prop_assert!(len.is_none_or(|len| range.end <= len));
            }
        }
    }
}
