//! Building blocks of answers: plain text, errors, compression, headers.

use std::io::Write;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use flate2::{Compression, write::GzEncoder};

pub(crate) use reelway_pages::accepts_gzip;

/// An HTTP response.
pub(crate) type Answer = Response<Body>;

/// Texts shorter than this are not worth compressing: they fit into one packet.
const COMPRESSED: usize = 1000;

/// Makes an answer with a complete body.
pub(crate) fn with(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// Makes an answer without a body.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// Makes an error answer in plain text, for people and players.
pub(crate) fn error(status: StatusCode, words: impl std::fmt::Display) -> Answer {
    let mut answer = with(status, "text/plain; charset=utf-8", format!("{words}\n"));
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Makes an error answer in JSON, for the API.
pub(crate) fn api_error(status: StatusCode, words: impl std::fmt::Display) -> Answer {
    let json = serde_json::json!({ "error": words.to_string() });
    let mut answer = with(status, "application/json", json.to_string());
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Sets `Retry-After`.
pub(crate) fn retry_after(answer: &mut Answer, after: Duration) {
    // Rounded up: a client that returns too early is refused again.
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    answer
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
}

/// Sets a header to a value made by this server.
pub(crate) fn set(answer: &mut Answer, name: header::HeaderName, value: &str) {
    // Entity tags, dates and numbers are visible ASCII; anything else is a bug here and left out.
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// Compresses a text if the client `accepts` that and it pays off. Returns the bytes, and whether
/// they are compressed.
pub(crate) fn compressed(text: String, accepts: bool) -> (Vec<u8>, bool) {
    match accepts && text.len() >= COMPRESSED {
        true => (gzip(text.as_bytes()), true),
        false => (text.into_bytes(), false),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    reelway_clock::reactor::worked_on(bytes.len());
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::default());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    let mut packed = encoder.finish().unwrap_or_default();
    // Answers kept until they are read are counted by their length.
    packed.shrink_to_fit();
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay_as_they_are() {
        assert!(!compressed("x".repeat(999), true).1);
        assert!(compressed("x".repeat(1000), true).1);
        assert!(!compressed("x".repeat(1000), false).1);
    }
}
