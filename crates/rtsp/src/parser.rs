//! Parses bytes into messages: requests and interleaved frames, however the bytes are split, within
//! limits.
//!
//! Not the `rtsp-types` crate, which starts over with each byte that arrives, has no limits,
//! insists on CRLF, on ASCII in URLs and on versions 1.0 and 2.0, and on failure reports neither
//! the CSeq to answer nor whether the next message can be found. This parser is lenient for
//! existing clients: CR, LF or both end lines (required by RFC 2326 section 4), and it accepts
//! empty lines between messages, folded headers, spaces before the colon, raw spaces and UTF-8 in
//! URLs, and unsolicited responses.

use crate::message::{Headers, Message, Method, Request, is_cseq};
use crate::response::Status;

/// Limits of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum size of a request line and its headers in bytes. A Linux path of 4,096 bytes, each
    /// percent-encoded, takes 12 KiB; headers of real clients take 1 or 2 KiB.
    pub head: usize,
    /// Maximum number of header lines.
    pub headers: usize,
    /// Maximum size of a body in bytes. Bodies contain names of parameters; 1 KiB is a lot.
    pub body: usize,
    /// Maximum size of an interleaved frame in bytes. Longer frames are skipped: compound RTCP
    /// packets of receivers have some hundred bytes.
    pub frame: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            head: 20 * 1024,
            headers: 100,
            body: 8 * 1024,
            frame: 2 * 1024,
        }
    }
}

/// Why the input is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {reason}")]
pub struct Malformed {
    /// Status of the response.
    pub status: Status,
    /// The message's CSeq, if it could be read.
    pub cseq: Option<String>,
    /// Reason in words.
    pub reason: String,
    /// Whether the end of the message is unknown, so that nothing after it can be parsed.
    pub lost: bool,
}

/// Turns bytes into messages.
#[derive(Debug, Default)]
pub struct Parser {
    bounds: Bounds,
    buffer: Vec<u8>,
    /// Number of bytes of `buffer` that are consumed.
    taken: usize,
    /// Number of bytes after `taken` that contain no end of the head.
    scanned: usize,
    /// Number of bytes still to arrive that are ignored: the rest of a long frame.
    skip: usize,
    /// Set after [`Malformed::lost`]: nothing more is returned.
    lost: bool,
}

/// Line ends of a head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// LF, or CRLF.
    Lf,
    /// CR alone.
    Cr,
}

impl Parser {
    /// Creates a parser with these limits.
    pub fn new(bounds: Bounds) -> Self {
        Parser {
            bounds,
            ..Parser::default()
        }
    }

    /// Takes received bytes. Call [`Parser::next`] until it returns `None` before the next call:
    /// then no more than these bytes and one message within its limits is stored.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if self.lost {
            return;
        }
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        bytes = &bytes[skipped..];
        if self.taken == self.buffer.len() {
            self.buffer.clear();
        } else {
            self.buffer.drain(..self.taken);
        }
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns whether a message has begun and not ended.
    pub fn is_within_message(&self) -> bool {
        self.skip > 0 || self.taken < self.buffer.len()
    }

    /// Returns the next message; `None` if more bytes are needed.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would end; this goes on after None"
    )]
    pub fn next(&mut self) -> Result<Option<Message>, Malformed> {
        loop {
            if self.lost {
                return Ok(None);
            }
            self.pass_blank();
            let rest = &self.buffer[self.taken..];
            match rest.first() {
                None => {
                    self.shrink();
                    return Ok(None);
                }
                Some(b'$') => match self.frame() {
                    Frame::Whole(message) => return Ok(Some(message)),
                    Frame::Passed => {}
                    Frame::Partial => return Ok(None),
                },
                Some(_) => match self.text()? {
                    Text::Request(request) => return Ok(Some(Message::Request(request))),
                    Text::Answer => {}
                    Text::Partial => return Ok(None),
                },
            }
        }
    }

    /// Skips empty lines, which may precede a request line (RFC 2068 section 4.1).
    fn pass_blank(&mut self) {
        if self.scanned == 0 {
            let blank = |byte: &&u8| matches!(byte, b'\r' | b'\n');
            self.taken += self.buffer[self.taken..].iter().take_while(blank).count();
        }
    }

    /// Frees the buffer, so that idle connections have none.
    fn shrink(&mut self) {
        self.buffer = Vec::new();
        self.taken = 0;
    }

    fn frame(&mut self) -> Frame {
        let rest = &self.buffer[self.taken..];
        let &[_, channel, high, low, ref data @ ..] = rest else {
            return Frame::Partial;
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > self.bounds.frame {
            let here = length.min(data.len());
            self.skip = length - here;
            self.taken += 4 + here;
            return Frame::Passed;
        }
        let Some(data) = data.get(..length) else {
            return Frame::Partial;
        };
        let message = Message::Frame {
            channel,
            data: data.to_vec(),
        };
        self.taken += 4 + length;
        Frame::Whole(message)
    }

    fn text(&mut self) -> Result<Text, Malformed> {
        let rest = &self.buffer[self.taken..];
        let (head, ending) = match head_end(rest, self.scanned) {
            Some(found) => found,
            None if rest.len() > self.bounds.head => return Err(self.too_long()),
            None => {
                // The last three bytes may be the start of the end: CR LF CR.
                self.scanned = rest.len().saturating_sub(3);
                return Ok(Text::Partial);
            }
        };
        if head > self.bounds.head {
            return Err(self.too_long());
        }
        let parsed = parse_head(&rest[..head], ending, &self.bounds);
        let length = match &parsed {
            Ok(head) => content_length(&head.headers),
            Err(bad) if bad.lost => return Err(self.give_up(bad.clone())),
            // The end of the head is known. Malformed heads without Content-Length are taken to
            // have no body.
            Err(_) => Ok(0),
        };
        let cseq = || parsed.as_ref().ok().and_then(|head| cseq(&head.headers));
        let length = match length {
            Ok(length) if length <= self.bounds.body as u64 => length as usize,
            Ok(length) => {
                let reason = format!("a body of {length} bytes, {} are taken", self.bounds.body);
                let bad = Malformed {
                    status: Status::ENTITY_TOO_LARGE,
                    cseq: cseq(),
                    reason,
                    lost: true,
                };
                return Err(self.give_up(bad));
            }
            Err(reason) => {
                let bad = Malformed {
                    status: Status::BAD_REQUEST,
                    cseq: cseq(),
                    reason,
                    lost: true,
                };
                return Err(self.give_up(bad));
            }
        };
        if rest.len() < head + length {
            return Ok(Text::Partial);
        }
        let body = rest[head..head + length].to_vec();
        self.taken += head + length;
        self.scanned = 0;
        let head = parsed?;
        Ok(match head.first {
            FirstLine::Answer => Text::Answer,
            FirstLine::Request {
                method,
                url,
                version,
            } => Text::Request(Request {
                method,
                url,
                version,
                headers: head.headers,
                body,
            }),
        })
    }

    fn too_long(&mut self) -> Malformed {
        let rest = &self.buffer[self.taken..];
        let within_first_line = !rest.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        let (status, what) = match within_first_line {
            true => (Status::URI_TOO_LARGE, "request line"),
            false => (Status::ENTITY_TOO_LARGE, "request line and headers"),
        };
        let reason = format!("{what} of more than {} bytes", self.bounds.head);
        // The CSeq is among the first lines, as in all real requests.
        let text = String::from_utf8_lossy(&rest[..rest.len().min(self.bounds.head)]).into_owned();
        let lines = text.split(['\r', '\n']);
        let cseq = lines
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("cseq"));
        let cseq = cseq
            .map(|(_, value)| value.trim().to_owned())
            .filter(|value| is_cseq(value));
        self.give_up(Malformed {
            status,
            cseq,
            reason,
            lost: true,
        })
    }

    fn give_up(&mut self, bad: Malformed) -> Malformed {
        self.lost = true;
        self.scanned = 0;
        self.shrink();
        bad
    }
}

enum Frame {
    Whole(Message),
    Passed,
    Partial,
}

enum Text {
    Request(Request),
    /// An unsolicited response.
    Answer,
    Partial,
}

struct Head {
    first: FirstLine,
    headers: Headers,
}

enum FirstLine {
    Request {
        method: Method,
        url: String,
        version: (u8, u8),
    },
    Answer,
}

/// Returns the length of the head with its empty line, and how its lines end; the first `scanned`
/// bytes contain no end of it.
fn head_end(bytes: &[u8], scanned: usize) -> Option<(usize, Ending)> {
    let first = bytes
        .iter()
        .position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let ending = match (bytes[first], bytes.get(first + 1)) {
        (b'\n', _) | (b'\r', Some(b'\n')) => Ending::Lf,
        (_, Some(_)) => Ending::Cr,
        (_, None) => return None,
    };
    let end = match ending {
        Ending::Cr => bytes[scanned..]
            .windows(2)
            .position(|two| two == b"\r\r")
            .map(|at| scanned + at + 2),
        Ending::Lf => (scanned..bytes.len()).find_map(|at| match bytes[at..] {
            [b'\n', b'\n', ..] => Some(at + 2),
            [b'\n', b'\r', b'\n', ..] => Some(at + 3),
            _ => None,
        }),
    };
    end.map(|end| (end, ending))
}

fn parse_head(head: &[u8], ending: Ending, bounds: &Bounds) -> Result<Head, Malformed> {
    let text = String::from_utf8_lossy(head);
    let separator = match ending {
        Ending::Lf => '\n',
        Ending::Cr => '\r',
    };
    let mut lines = text
        .split(separator)
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut trouble = None;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        if line.starts_with([' ', '\t'])
            && let Some((_, value)) = headers.last_mut()
        {
            if !value.is_empty() {
                value.push(' ');
            }
            value.push_str(line.trim());
        } else if let Some((name, value)) = line.split_once(':') {
            if headers.len() == bounds.headers {
                let reason = format!("more than {} headers", bounds.headers);
                let cseq = cseq(&Headers(headers));
                return Err(Malformed {
                    status: Status::ENTITY_TOO_LARGE,
                    cseq,
                    reason,
                    lost: true,
                });
            }
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        } else {
            trouble.get_or_insert_with(|| format!("a header without a colon: '{}'", excerpt(line)));
        }
    }
    let headers = Headers(headers);
    let bad = |status, reason, lost| Malformed {
        status,
        cseq: cseq(&headers),
        reason,
        lost,
    };
    if first
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("RTSP/"))
    {
        return Ok(Head {
            first: FirstLine::Answer,
            headers,
        });
    }
    let first = match first_line(first) {
        Ok(first) => first,
        Err((status, reason, lost)) => return Err(bad(status, reason, lost)),
    };
    match trouble {
        // A body may follow; without Content-Length the next message begins here.
        Some(reason) => Err(bad(
            Status::BAD_REQUEST,
            reason,
            headers.get("Content-Length").is_some(),
        )),
        None => Ok(Head { first, headers }),
    }
}

/// Parses `METHOD URL RTSP/1.0`; the URL is everything between the first and the last space.
fn first_line(line: &str) -> Result<FirstLine, (Status, String, bool)> {
    let line = line.trim();
    let parts = line.split_once(' ').and_then(|(method, rest)| {
        let (url, version) = rest.trim().rsplit_once(' ')?;
        Some((method, url.trim(), version))
    });
    let Some((method, url, version)) = parts else {
        return Err((
            Status::BAD_REQUEST,
            format!("not a request line: '{}'", excerpt(line)),
            true,
        ));
    };
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if method.len() > 32 || !method.bytes().all(token) {
        return Err((
            Status::BAD_REQUEST,
            format!("not a method: '{}'", excerpt(method)),
            true,
        ));
    }
    let version = version.split_once('/').and_then(|(name, number)| {
        let (major, minor) = number.split_once('.')?;
        Some((name, major.parse().ok()?, minor.parse().ok()?))
    });
    match version {
        Some((name, major, minor)) if name.eq_ignore_ascii_case("RTSP") => Ok(FirstLine::Request {
            method: Method::parse(method),
            url: url.to_owned(),
            version: (major, minor),
        }),
        // HTTP requests have the same shape: a malicious web page may make a browser post here.
        Some((name, ..)) => Err((
            Status::VERSION_NOT_SUPPORTED,
            format!("this is an RTSP server, not {}", excerpt(name)),
            true,
        )),
        None => Err((
            Status::BAD_REQUEST,
            format!("not a request line: '{}'", excerpt(line)),
            true,
        )),
    }
}

fn cseq(headers: &Headers) -> Option<String> {
    headers
        .get("CSeq")
        .filter(|value| is_cseq(value))
        .map(str::to_owned)
}

/// Returns the length of the body. If values differ or are not numbers, the end of the message is
/// unknown.
fn content_length(headers: &Headers) -> Result<u64, String> {
    let mut length = None;
    for value in headers.all("Content-Length") {
        let number = match value.parse::<u64>() {
            Ok(number) => number,
            // Digits, but more than 64 bits can hold: too large anyway.
            Err(_) if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                u64::MAX
            }
            Err(_) => return Err(format!("Content-Length '{}' is no number", excerpt(value))),
        };
        if length
            .replace(number)
            .is_some_and(|before| before != number)
        {
            return Err("two Content-Length headers that differ".to_owned());
        }
    }
    Ok(length.unwrap_or(0))
}

/// Returns a few characters that are safe to show in messages.
fn excerpt(text: &str) -> String {
    text.chars()
        .take(40)
        .map(|c| if c.is_control() { '.' } else { c })
        .collect()
}
