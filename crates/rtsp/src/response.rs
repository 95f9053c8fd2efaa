//! Responses.

use std::fmt;

/// A status code with its name (RFC 2326 section 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident = $code:literal $words:literal;)*) => {
        #[allow(missing_docs, reason = "they are called as in the RFC")]
        impl Status {
            $(pub const $name: Status = Status($code);)*

            /// Returns the words that belong to the code.
            pub fn words(self) -> &'static str {
                match self.0 {
                    $($code => $words,)*
                    _ => "Unknown",
                }
            }
        }
    };
}

statuses! {
    OK = 200 "OK";
    MOVED_TEMPORARILY = 302 "Moved Temporarily";
    BAD_REQUEST = 400 "Bad Request";
    UNAUTHORIZED = 401 "Unauthorized";
    FORBIDDEN = 403 "Forbidden";
    NOT_FOUND = 404 "Not Found";
    METHOD_NOT_ALLOWED = 405 "Method Not Allowed";
    NOT_ACCEPTABLE = 406 "Not Acceptable";
    REQUEST_TIMEOUT = 408 "Request Timeout";
    ENTITY_TOO_LARGE = 413 "Request Entity Too Large";
    URI_TOO_LARGE = 414 "Request-URI Too Large";
    UNSUPPORTED_MEDIA = 415 "Unsupported Media Type";
    PARAMETER_NOT_UNDERSTOOD = 451 "Parameter Not Understood";
    NOT_ENOUGH_BANDWIDTH = 453 "Not Enough Bandwidth";
    SESSION_NOT_FOUND = 454 "Session Not Found";
    NOT_VALID_IN_THIS_STATE = 455 "Method Not Valid in This State";
    INVALID_RANGE = 457 "Invalid Range";
    AGGREGATE_NOT_ALLOWED = 459 "Aggregate Operation Not Allowed";
    ONLY_AGGREGATE_ALLOWED = 460 "Only Aggregate Operation Allowed";
    UNSUPPORTED_TRANSPORT = 461 "Unsupported Transport";
    INTERNAL_ERROR = 500 "Internal Server Error";
    NOT_IMPLEMENTED = 501 "Not Implemented";
    UNAVAILABLE = 503 "Service Unavailable";
    VERSION_NOT_SUPPORTED = 505 "RTSP Version Not Supported";
    OPTION_NOT_SUPPORTED = 551 "Option Not Supported";
}

impl Status {
    /// Returns the number.
    pub fn code(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.words())
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: Status,
    reason: Option<String>,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// Name of this server.
pub(crate) const SERVER: &str = concat!("Reelway/", env!("CARGO_PKG_VERSION"));

/// Maximum length of a reason in a status line: ffmpeg keeps 256 bytes of the line.
const REASON_BYTES: usize = 180;

impl Response {
    /// Creates a response with this status.
    pub fn new(status: Status) -> Self {
        Response {
            status,
            reason: None,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Creates a response with status 200.
    pub fn ok() -> Self {
        Self::new(Status::OK)
    }

    /// Creates a refusal with its reason in words. The reason follows the status' own words in the
    /// status line, which players show to users.
    pub fn refuse(status: Status, reason: impl Into<String>) -> Self {
        Response {
            reason: Some(reason.into()),
            ..Self::new(status)
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the body, its type and its length.
    pub fn body(self, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut answer = self.header("Content-Type", kind);
        answer.body = body.into();
        let length = answer.body.len().to_string();
        answer.header("Content-Length", length)
    }

    /// Returns the status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the reason given for a refusal.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns the response in wire format, to the request with this CSeq.
    pub fn to_bytes(&self, cseq: Option<&str>) -> Vec<u8> {
        let mut head = format!("RTSP/1.0 {}", self.status);
        if let Some(reason) = &self.reason {
            head.push_str(" (");
            head.extend(
                reason
                    .chars()
                    .take(REASON_BYTES)
                    .map(|c| if (' '..='~').contains(&c) { c } else { '?' }),
            );
            head.push(')');
        }
        head.push_str("\r\n");
        let cseq = cseq.map(|cseq| ("CSeq", cseq));
        let own = self
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        for (name, value) in cseq.into_iter().chain([("Server", SERVER)]).chain(own) {
            head.push_str(name);
            head.push_str(": ");
            // Values may echo what clients sent; a line break would let them inject headers.
            head.extend(value.chars().map(|c| if c.is_control() { ' ' } else { c }));
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_echoes_the_sequence_number_first() {
        let bytes = Response::ok()
            .header("Public", "OPTIONS")
            .to_bytes(Some("7"));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("RTSP/1.0 200 OK\r\nCSeq: 7\r\nServer: Reelway/"));
        assert!(text.ends_with("\r\nPublic: OPTIONS\r\n\r\n"));
    }

    #[test]
    fn a_reason_stands_in_the_status_line_and_cannot_break_it() {
        let bytes = Response::refuse(Status::NOT_FOUND, "no film 'ü\r\nX: y'").to_bytes(None);
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with("RTSP/1.0 404 Not Found (no film '???X: y')\r\n"),
            "{text}"
        );
    }

    #[test]
    fn a_header_cannot_be_smuggled_in_by_a_value() {
        let bytes = Response::ok().header("Session", "a\r\nX: y").to_bytes(None);
        assert!(
            String::from_utf8(bytes)
                .unwrap()
                .contains("Session: a  X: y\r\n")
        );
    }

    #[test]
    fn a_body_comes_with_its_length() {
        let bytes = Response::ok()
            .body("text/parameters", "a\r\n")
            .to_bytes(Some("1"));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with("Content-Type: text/parameters\r\nContent-Length: 3\r\n\r\na\r\n"));
    }
}
