//! The part of a film that a `PUT` carries (`Content-Range`, RFC 9110 14.4 and 14.5).

use axum::http::{HeaderMap, StatusCode, header};

use super::refused::{Refused, refuse};

/// A part of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole film.
    Whole { len: u64 },
    /// Bytes from `start` on, of a film of `len` bytes.
    Piece { start: u64, len: u64 },
    /// No bytes: a question about the upload's progress.
    Question { len: u64 },
}

impl Part {
    /// Returns the size of the whole film in bytes.
    pub fn len(self) -> u64 {
        match self {
            Part::Whole { len } | Part::Piece { len, .. } | Part::Question { len } => len,
        }
    }

    /// Returns the offset of the part.
    pub fn start(self) -> Option<u64> {
        match self {
            Part::Whole { .. } => Some(0),
            Part::Piece { start, .. } => Some(start),
            Part::Question { .. } => None,
        }
    }
}

/// Returns the part that a request with these headers carries.
pub(super) fn of(headers: &HeaderMap) -> Result<Part, Refused> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if text(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        let words = "films must be uploaded uncompressed (Content-Encoding)";
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    let body = text(header::CONTENT_LENGTH).map(number);
    let range = text(header::CONTENT_RANGE);
    let bad = |words: &str| Err(refuse(StatusCode::BAD_REQUEST, words));
    if headers.contains_key(header::TRANSFER_ENCODING) || body.is_none() {
        let is_question = range.is_some_and(|range| range.starts_with("bytes */"));
        if !is_question || headers.contains_key(header::TRANSFER_ENCODING) {
            let words = "Content-Length is required, to reserve space for the film";
            return Err(refuse(StatusCode::LENGTH_REQUIRED, words));
        }
    }
    let body = body.flatten().unwrap_or(0);
    let Some(range) = range else {
        if body == 0 {
            return bad("an empty body is not a film");
        }
        return Ok(Part::Whole { len: body });
    };
    match parse(range) {
        Some((None, len)) if body == 0 => Ok(Part::Question { len }),
        Some((Some((first, last)), len)) if body > 0 && last - first == body - 1 => {
            Ok(Part::Piece { start: first, len })
        }
        Some(_) => bad("Content-Range and Content-Length contradict each other"),
        None => bad(
            "Content-Range must be `bytes FIRST-LAST/LENGTH`, or `bytes */LENGTH` to ask how much has arrived",
        ),
    }
}

/// Returns first and last byte, and the total length.
fn parse(range: &str) -> Option<(Option<(u64, u64)>, u64)> {
    let (range, len) = range
        .trim()
        .strip_prefix("bytes ")?
        .trim()
        .split_once('/')?;
    let len = number(len)?;
    if range == "*" {
        return (len > 0).then_some((None, len));
    }
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last < len).then_some((Some((first, last)), len))
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(header::HeaderName, &str)]) -> Result<Part, u16> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect();
        of(&headers).map_err(|answer| answer.status().as_u16())
    }

    #[test]
    fn a_film_comes_whole_or_in_parts() {
        use header::{CONTENT_LENGTH, CONTENT_RANGE};
        assert_eq!(read(&[(CONTENT_LENGTH, "10")]), Ok(Part::Whole { len: 10 }));
        let piece = [(CONTENT_LENGTH, "10"), (CONTENT_RANGE, "bytes 90-99/100")];
        assert_eq!(
            read(&piece),
            Ok(Part::Piece {
                start: 90,
                len: 100
            })
        );
        let question = [(CONTENT_LENGTH, "0"), (CONTENT_RANGE, "bytes */100")];
        assert_eq!(read(&question), Ok(Part::Question { len: 100 }));
        assert_eq!(read(&question[1..]), Ok(Part::Question { len: 100 }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        use header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, TRANSFER_ENCODING};
        assert_eq!(read(&[]), Err(411));
        assert_eq!(read(&[(TRANSFER_ENCODING, "chunked")]), Err(411));
        assert_eq!(read(&[(CONTENT_LENGTH, "0")]), Err(400));
        let compressed = [(CONTENT_LENGTH, "10"), (CONTENT_ENCODING, "gzip")];
        assert_eq!(read(&compressed), Err(415));
        for range in [
            "bytes 0-9",
            "bytes 0-9/*",
            "bytes 0-8/100",
            "bytes 95-104/100",
            "bytes 9-0/100",
            "bytes -1-8/100",
            "lines 0-9/100",
            "bytes */100",
            "bytes 0-9/99999999999999999999999",
            "",
        ] {
            let headers = [(CONTENT_LENGTH, "10"), (CONTENT_RANGE, range)];
            assert_eq!(read(&headers), Err(400), "{range}");
        }
        let empty = [(CONTENT_LENGTH, "0"), (CONTENT_RANGE, "bytes */0")];
        assert_eq!(read(&empty), Err(400));
    }
}
