//! A minimal HTTP/1.1 client for a player: GET over a persistent connection. Everything it receives
//! is bounded.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connect::connect;
use crate::trouble::Trouble;

/// Maximum length of an answer's head.
const MOST_HEAD: usize = 64 * 1024;
/// Maximum length of a segment.
const MOST_BODY: u64 = 512 << 20;
/// Maximum length of a playlist or manifest.
const MOST_TEXT: u64 = 16 << 20;
/// Maximum duration of a whole answer, in multiples of the timeout for silence.
const LONGEST: u32 = 6;
/// Maximum number of redirects.
const MOST_REDIRECTS: u32 = 5;

/// An answer with its body.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// The body; empty if it was only counted.
    pub body: Vec<u8>,
    /// Length of the body in bytes.
    pub bytes: u64,
    /// The URL after redirects.
    pub url: String,
}

/// A client that keeps its connection for requests to the same server.
#[derive(Debug)]
pub(super) struct Client {
    connection: Option<(String, TcpStream, Vec<u8>)>,
    /// Timeout for silence of the server.
    patience: Duration,
    /// Source address of its connections.
    source: Option<IpAddr>,
}

struct Head {
    status: u16,
    reason: String,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    location: Option<String>,
}

fn protocol(words: impl Into<String>) -> Trouble {
    Trouble::Protocol(words.into())
}

impl Client {
    /// Creates a client with this timeout for silence.
    pub fn new(patience: Duration, source: Option<IpAddr>) -> Client {
        Client {
            connection: None,
            patience,
            source,
        }
    }

    /// Fetches a playlist or manifest.
    pub async fn text(&mut self, url: &str) -> Result<(String, String), Trouble> {
        let fetched = self.bounded(url, None, true, MOST_TEXT).await?;
        let text = String::from_utf8_lossy(&fetched.body).into_owned();
        Ok((text, fetched.url))
    }

    /// Fetches a range of bytes (first, count) of `url`, or all of it. The body is returned only if
    /// `keep` is set.
    pub async fn get(
        &mut self,
        url: &str,
        range: Option<(u64, u64)>,
        keep: bool,
    ) -> Result<Fetched, Trouble> {
        self.bounded(url, range, keep, MOST_BODY).await
    }

    /// Fetches at most `most` bytes, within a bounded time.
    async fn bounded(
        &mut self,
        url: &str,
        range: Option<(u64, u64)>,
        keep: bool,
        most: u64,
    ) -> Result<Fetched, Trouble> {
        let longest = self.patience * LONGEST;
        let fetched = timeout(longest, self.fetch(url, range, keep, most)).await;
        fetched.unwrap_or_else(|_| {
            self.connection = None;
            Err(protocol(format!(
                "an answer that does not end within {} s",
                longest.as_secs_f64()
            )))
        })
    }

    async fn fetch(
        &mut self,
        url: &str,
        range: Option<(u64, u64)>,
        keep: bool,
        most: u64,
    ) -> Result<Fetched, Trouble> {
        let mut url = url.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let (authority, path) = split(&url)?;
            let kept = self
                .connection
                .as_ref()
                .is_some_and(|(to, ..)| *to == authority);
            let answer = match self.ask(&authority, &path, range, keep, most).await {
                // A server may close a persistent connection at any time, so the request is
                // repeated on a new one.
                Err(Trouble::Io(_)) if kept => {
                    self.connection = None;
                    self.ask(&authority, &path, range, keep, most).await
                }
                answer => answer,
            };
            if answer.is_err() {
                self.connection = None;
            }
            let (head, body, bytes) = answer?;
            match head.status {
                200 | 206 => return Ok(Fetched { body, bytes, url }),
                301 | 302 | 303 | 307 | 308 if head.location.is_some() => {
                    url = join(&url, &head.location.unwrap_or_default());
                }
                status => {
                    return Err(Trouble::Refused {
                        method: "GET",
                        status,
                        reason: head.reason,
                    });
                }
            }
        }
        Err(protocol(format!("{url}: redirected again and again")))
    }

    async fn ask(
        &mut self,
        authority: &str,
        path: &str,
        range: Option<(u64, u64)>,
        keep: bool,
        most: u64,
    ) -> Result<(Head, Vec<u8>, u64), Trouble> {
        let (mut stream, mut input) = match self.connection.take() {
            Some((to, stream, input)) if to == authority => (stream, input),
            _ => {
                let with_port = match authority.rsplit_once(':') {
                    Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
                    _ => format!("{authority}:80"),
                };
                let stream = timeout(self.patience, connect(&with_port, self.source))
                    .await
                    .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
                    .map_err(|error| Trouble::Unreachable(with_port, error))?;
                stream.set_nodelay(true)?;
                (stream, Vec::new())
            }
        };
        let mut request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: Reelway yardstick\r\n"
        );
        if let Some((first, count)) = range {
            let last = first + count.max(1) - 1;
            request.push_str(&format!("Range: bytes={first}-{last}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let head = loop {
            if let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = read_head(&input[..end])?;
                input.drain(..end + 4);
                break head;
            }
            if input.len() > MOST_HEAD {
                return Err(protocol(format!("an answer's head over {MOST_HEAD} bytes")));
            }
            if self.read(&mut stream, &mut input).await? == 0 {
                // An I/O error, so that the request is repeated on a new connection.
                return Err(Trouble::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
        };
        let mut body = Body {
            kept: Vec::new(),
            bytes: 0,
            keep,
            most,
        };
        if head.chunked {
            self.chunks(&mut stream, &mut input, &mut body).await?;
        } else {
            let length = head.length.unwrap_or(most + 1);
            if head.length.is_some_and(|length| length > most) {
                return Err(protocol(format!("a body of {length} bytes")));
            }
            while body.bytes < length {
                if input.is_empty() && self.read(&mut stream, &mut input).await? == 0 {
                    if head.length.is_none() {
                        break;
                    }
                    return Err(protocol(format!(
                        "the server closed the connection after {} of {length} bytes",
                        body.bytes
                    )));
                }
                let some = input.len().min((length - body.bytes) as usize);
                body.take(&mut input, some)?;
            }
        }
        if !head.close && (head.chunked || head.length.is_some()) {
            self.connection = Some((authority.to_owned(), stream, input));
        }
        Ok((head, body.kept, body.bytes))
    }

    async fn chunks(
        &self,
        stream: &mut TcpStream,
        input: &mut Vec<u8>,
        body: &mut Body,
    ) -> Result<(), Trouble> {
        let cut = || protocol("the server closed the connection within a chunk");
        loop {
            let line = loop {
                if let Some(end) = input.windows(2).position(|two| two == b"\r\n") {
                    let line = String::from_utf8_lossy(&input[..end]).into_owned();
                    input.drain(..end + 2);
                    break line;
                }
                if input.len() > MOST_HEAD {
                    return Err(protocol("a chunk without a size"));
                }
                if self.read(stream, input).await? == 0 {
                    return Err(cut());
                }
            };
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16)
                .ok()
                .filter(|size| *size <= body.most)
                .ok_or_else(|| protocol(format!("a chunk of {size:?} bytes")))?;
            let mut left = size;
            while left > 0 {
                if input.is_empty() && self.read(stream, input).await? == 0 {
                    return Err(cut());
                }
                let some = input.len().min(left as usize);
                left -= some as u64;
                body.take(input, some)?;
            }
            // The line end after a chunk; after the last chunk, that of the (empty) trailer.
            while input.len() < 2 {
                if self.read(stream, input).await? == 0 {
                    return Err(cut());
                }
            }
            input.drain(..2);
            if size == 0 {
                return Ok(());
            }
        }
    }

    async fn read(&self, stream: &mut TcpStream, input: &mut Vec<u8>) -> Result<usize, Trouble> {
        input.reserve(128 * 1024);
        let read = timeout(self.patience, stream.read_buf(input)).await;
        Ok(read.map_err(|_| Trouble::Silence(self.patience.as_secs()))??)
    }
}

struct Body {
    kept: Vec<u8>,
    bytes: u64,
    keep: bool,
    most: u64,
}

impl Body {
    fn take(&mut self, input: &mut Vec<u8>, some: usize) -> Result<(), Trouble> {
        self.bytes += some as u64;
        if self.bytes > self.most {
            return Err(protocol(format!("a body over {} bytes", self.most)));
        }
        if self.keep {
            self.kept.extend_from_slice(&input[..some]);
        }
        input.drain(..some);
        Ok(())
    }
}

fn read_head(bytes: &[u8]) -> Result<Head, Trouble> {
    let text = std::str::from_utf8(bytes).map_err(|_| protocol("an answer that is not text"))?;
    let mut lines = text.split("\r\n");
    let mut status = lines.next().unwrap_or_default().splitn(3, ' ');
    let version = status.next().unwrap_or_default();
    if !version.starts_with("HTTP/1.") {
        let rtsp = version.starts_with("RTSP/");
        return Err(protocol(if rtsp {
            "an RTSP server answers there, not a web server: is it the right port?"
        } else {
            "no web server answers there: is it the right port?"
        }));
    }
    let code = status.next().and_then(|code| code.parse().ok());
    let mut head = Head {
        status: code.ok_or_else(|| protocol("an answer without a status"))?,
        reason: status.next().unwrap_or_default().to_owned(),
        length: None,
        chunked: false,
        close: version == "HTTP/1.0",
        location: None,
    };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = value.parse();
                head.length =
                    Some(length.map_err(|_| protocol("a Content-Length that is no number"))?);
            }
            "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => head.close = value.eq_ignore_ascii_case("close"),
            "location" => head.location = Some(value.to_owned()),
            _ => {}
        }
    }
    Ok(head)
}

/// Splits an `http://` URL into authority and path.
fn split(url: &str) -> Result<(String, String), Trouble> {
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| protocol(format!("{url}: only http:// is supported")))?;
    let rest = rest.split('#').next().unwrap_or(rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.is_empty() || authority.contains(char::is_whitespace) {
        return Err(protocol(format!("{url}: an address without a server")));
    }
    // URLs that users type may contain bytes that a request line may not.
    let mut escaped = String::new();
    for byte in path.bytes() {
        match byte {
            0x21..=0x7e => escaped.push(byte.into()),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    if !escaped.starts_with('/') {
        escaped.insert(0, '/');
    }
    Ok((authority.to_owned(), escaped))
}

/// Resolves a reference against a base URL (RFC 3986 section 5.2, as far as playlists need it).
pub(super) fn join(base: &str, reference: &str) -> String {
    let has_scheme = reference
        .split_once("://")
        .is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    if has_scheme {
        return reference.to_owned();
    }
    let base = base.split(['?', '#']).next().unwrap_or(base);
    let start = base.find("://").map_or(0, |at| at + 3);
    let root = base[start..].find('/').map_or(base.len(), |at| at + start);
    if let Some(rest) = reference.strip_prefix("//") {
        return format!("{}://{rest}", &base[..start.saturating_sub(3)]);
    }
    let (origin, path) = base.split_at(root);
    let (reference, query) = match reference.find(['?', '#']) {
        Some(at) => reference.split_at(at),
        None => (reference, ""),
    };
    let mut parts: Vec<&str> = Vec::new();
    if !reference.starts_with('/') {
        parts.extend(path.split('/').skip(1));
        if !reference.is_empty() {
            parts.pop();
        }
    }
    for part in reference.trim_start_matches('/').split('/') {
        match part {
            "." | "" if !reference.is_empty() && part == "." => {}
            ".." => {
                parts.pop();
            }
            "" if reference.is_empty() => {}
            part => parts.push(part),
        }
    }
    format!("{origin}/{}{query}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_relative_to_that_of_the_playlist() {
        let base = "http://h:8080/a/hls/main.m3u8?s=1";
        for (reference, absolute) in [
            ("1.m3u8?s=2", "http://h:8080/a/hls/1.m3u8?s=2"),
            (
                "../seg/1/init.mp4?v=1&s=T",
                "http://h:8080/a/seg/1/init.mp4?v=1&s=T",
            ),
            ("/x", "http://h:8080/x"),
            ("./x", "http://h:8080/a/hls/x"),
            ("http://o/x?u=http://p", "http://o/x?u=http://p"),
            ("//o/x", "http://o/x"),
            ("?s=2", "http://h:8080/a/hls/main.m3u8?s=2"),
            ("../../../../x", "http://h:8080/x"),
        ] {
            assert_eq!(join(base, reference), absolute);
        }
        assert_eq!(join("http://h", "x"), "http://h/x");
        assert_eq!(
            split("http://h/a film.m3u8").unwrap(),
            ("h".to_owned(), "/a%20film.m3u8".to_owned())
        );
        assert!(split("https://h/").is_err());
    }
}
