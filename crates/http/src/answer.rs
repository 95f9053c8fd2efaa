//! Answers as they are put together everywhere: plain text, errors, compression, headers.

use std::io::Write;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use flate2::{Compression, write::GzEncoder};

pub(crate) use reelway_pages::accepts_gzip;

/// Any answer.
pub(crate) type Answer = Response<Body>;

/// Texts shorter than this are not worth compressing: they fit into one packet.
const COMPRESSED: usize = 1000;

/// An answer with a body that is all there.
pub(crate) fn with(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// What went wrong, for people and players.
pub(crate) fn error(status: StatusCode, words: impl std::fmt::Display) -> Answer {
    let mut answer = with(status, "text/plain; charset=utf-8", format!("{words}\n"));
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// The same for the API.
pub(crate) fn api_error(status: StatusCode, words: impl std::fmt::Display) -> Answer {
    let json = serde_json::json!({ "error": words.to_string() });
    let mut answer = with(status, "application/json", json.to_string());
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Come again after this long.
pub(crate) fn retry_after(answer: &mut Answer, after: Duration) {
    // Rounded up: too early is refused again.
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    answer
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
}

/// Sets a header to a value that we made ourselves.
pub(crate) fn set(answer: &mut Answer, name: header::HeaderName, value: &str) {
    // Entity tags, dates and numbers are visible ASCII; anything else is a mistake of ours and left out.
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// A text, compressed where the client `accepts` that and it pays; and whether it is.
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
    // What is kept until it is read is counted by its length.
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
