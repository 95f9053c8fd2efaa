//! A representation of a film or a part of it, evaluated against a request's conditions.

use std::ops::Range;

use axum::http::{StatusCode, header, request::Parts};

use crate::answer::{self, Answer};
use crate::conditional::{Validators, Verdict, judge};

/// A file, a segment or an initialisation segment.
pub(crate) struct Media {
    pub validators: Validators,
    pub media_type: &'static str,
    pub len: u64,
    /// Its `Cache-Control`.
    pub cache: &'static str,
}

impl Media {
    /// Returns the answer's head and the byte range to send; or the complete answer if it sends no
    /// media.
    pub fn judge(&self, request: &Parts) -> Result<(Answer, Range<u64>), Box<Answer>> {
        let verdict = judge(
            &request.method,
            &request.headers,
            &self.validators,
            self.len,
        );
        let (status, range) = match verdict {
            Verdict::Whole => (StatusCode::OK, 0..self.len),
            Verdict::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
            Verdict::NotModified => (StatusCode::NOT_MODIFIED, 0..0),
            Verdict::Failed => {
                return Err(Box::new(answer::error(
                    StatusCode::PRECONDITION_FAILED,
                    "it has changed (If-Match, If-Unmodified-Since)",
                )));
            }
            Verdict::Unsatisfiable => {
                let words = format!("it has {} bytes", self.len);
                let mut answer = answer::error(StatusCode::RANGE_NOT_SATISFIABLE, words);
                answer::set(
                    &mut answer,
                    header::CONTENT_RANGE,
                    &format!("bytes */{}", self.len),
                );
                return Err(Box::new(answer));
            }
        };
        let mut answer = answer::empty(status);
        answer::set(&mut answer, header::ETAG, &self.validators.etag);
        let modified = httpdate::fmt_http_date(self.validators.modified);
        answer::set(&mut answer, header::LAST_MODIFIED, &modified);
        // Also with 304 (RFC 9110 section 15.4.5).
        answer::set(&mut answer, header::CACHE_CONTROL, self.cache);
        if status == StatusCode::NOT_MODIFIED {
            return Err(Box::new(answer));
        }
        answer::set(&mut answer, header::CONTENT_TYPE, self.media_type);
        answer::set(&mut answer, header::ACCEPT_RANGES, "bytes");
        if status == StatusCode::PARTIAL_CONTENT {
            let value = format!("bytes {}-{}/{}", range.start, range.end - 1, self.len);
            answer::set(&mut answer, header::CONTENT_RANGE, &value);
        }
        Ok((answer, range))
    }
}

/// Makes an answer to HEAD: it has the length, but no body.
pub(crate) fn bodiless(mut answer: Answer, range: Range<u64>) -> Answer {
    answer::set(
        &mut answer,
        header::CONTENT_LENGTH,
        &(range.end - range.start).to_string(),
    );
    answer
}
