//! An RTSP control connection, with interleaved frames.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connect::connect;
use crate::trouble::Trouble;

/// Maximum length of an answer.
const MAX_ANSWER: usize = 256 * 1024;
/// Maximum number of media bytes that may arrive before an awaited answer.
const MAX_EARLY: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of redirects.
const MOST_REDIRECTS: usize = 5;

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    reason: String,
    headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
}

impl Answer {
    /// Returns the first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|header| header.0 == name)
            .map(|header| header.1.as_str())
    }
}

/// An item received from the server.
#[derive(Debug)]
pub enum Incoming {
    /// An interleaved frame: channel and bytes.
    Frame(u8, Vec<u8>),
    /// An answer.
    Answer(Answer),
    /// The server has closed the connection.
    Closed,
}

/// A film that a server has described.
#[derive(Debug)]
pub struct Described {
    /// Connection to the server that sends the film.
    pub connection: Connection,
    /// Its URL there.
    pub base: String,
    /// The description.
    pub sdp: String,
}

/// A control connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Number of bytes of `input` that have been consumed.
    taken: usize,
    /// Number of bytes after those that have been searched for the end of a head.
    sought: usize,
    cseq: u32,
    session: Option<String>,
    /// Frames that arrived before an awaited answer.
    early: std::collections::VecDeque<(u8, Vec<u8>)>,
}

impl Connection {
    /// Connects to the server of an `rtsp://` URL, from `source` if given.
    async fn open(url: &str, source: Option<IpAddr>) -> Result<Connection, Trouble> {
        let rest = url
            .strip_prefix("rtsp://")
            .ok_or_else(|| Trouble::Protocol(format!("{url}: not an rtsp:// URL")))?;
        let authority = rest.split('/').next().unwrap_or(rest);
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:554")
        };
        let stream = timeout(PATIENCE, connect(&authority, source))
            .await
            .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
            .map_err(|error| Trouble::Unreachable(authority, error))?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            input: Vec::new(),
            taken: 0,
            sought: 0,
            cseq: 0,
            session: None,
            early: Default::default(),
        })
    }

    /// Connects to the server that sends the film of this URL, which may be another one than in the
    /// URL (RFC 2326 section 11.3.3), and requests the film's description.
    pub async fn describe(url: &str) -> Result<Described, Trouble> {
        Connection::describe_from(url, None).await
    }

    /// Does the same from this source address.
    pub async fn describe_from(url: &str, source: Option<IpAddr>) -> Result<Described, Trouble> {
        let accept = "Accept: application/sdp";
        let mut url = url.to_owned();
        for _ in 0..MOST_REDIRECTS {
            let mut connection = Connection::open(&url, source).await?;
            let answer = connection.ask("DESCRIBE", &url, &[accept]).await?;
            match (answer.status, answer.header("location")) {
                (200, _) => {
                    let base = answer.header("content-base").unwrap_or(&url).to_owned();
                    let sdp = answer.body;
                    return Ok(Described {
                        connection,
                        base,
                        sdp,
                    });
                }
                (301 | 302, Some(location)) => url = location.to_owned(),
                (status, _) => {
                    return Err(Trouble::Refused {
                        method: "DESCRIBE",
                        status,
                        reason: answer.reason,
                    });
                }
            }
        }
        Err(Trouble::Protocol(format!(
            "sent on to another server {MOST_REDIRECTS} times"
        )))
    }

    /// Returns the local address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Returns the server's address.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// Sends a request without waiting for its answer.
    pub async fn send(&mut self, method: &str, url: &str, headers: &[&str]) -> Result<(), Trouble> {
        self.cseq += 1;
        let mut request = format!(
            "{method} {url} RTSP/1.0\r\nCSeq: {}\r\nUser-Agent: Reelway yardstick\r\n",
            self.cseq
        );
        if let Some(session) = &self.session {
            request.push_str(&format!("Session: {session}\r\n"));
        }
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        Ok(())
    }

    /// Sends a request and waits for its answer. Any status but 200 is an error.
    pub async fn request(
        &mut self,
        method: &'static str,
        url: &str,
        headers: &[&str],
    ) -> Result<Answer, Trouble> {
        let answer = self.ask(method, url, headers).await?;
        if answer.status != 200 {
            return Err(Trouble::Refused {
                method,
                status: answer.status,
                reason: answer.reason,
            });
        }
        if let Some(session) = answer.header("session") {
            self.session = session.split(';').next().map(str::to_owned);
        }
        Ok(answer)
    }

    /// Sends a request and waits for its answer with any status.
    async fn ask(
        &mut self,
        method: &'static str,
        url: &str,
        headers: &[&str],
    ) -> Result<Answer, Trouble> {
        self.send(method, url, headers).await?;
        let answer = timeout(PATIENCE, self.answer()).await;
        answer.map_err(|_| Trouble::Silence(PATIENCE.as_secs()))?
    }

    /// Waits for the answer to the latest request.
    async fn answer(&mut self) -> Result<Answer, Trouble> {
        let mut early: usize = self.early.iter().map(|(_, frame)| frame.len()).sum();
        loop {
            match self.read().await? {
                Incoming::Answer(answer) => {
                    let cseq = answer.header("cseq").and_then(|cseq| cseq.parse().ok());
                    if cseq == Some(self.cseq) {
                        return Ok(answer);
                    }
                }
                Incoming::Frame(channel, frame) => {
                    early += frame.len();
                    if early > MAX_EARLY {
                        return Err(Trouble::Protocol(format!(
                            "{MAX_EARLY} bytes of media and no answer to a request"
                        )));
                    }
                    self.early.push_back((channel, frame));
                }
                Incoming::Closed => {
                    return Err(Trouble::Protocol("the server closed the connection".into()));
                }
            }
        }
    }

    /// Returns the next item.
    pub async fn incoming(&mut self) -> Result<Incoming, Trouble> {
        if let Some((channel, frame)) = self.early.pop_front() {
            return Ok(Incoming::Frame(channel, frame));
        }
        self.read().await
    }

    /// Reads until a frame or answer is complete. Cancel-safe: nothing is lost if the future is
    /// dropped.
    async fn read(&mut self) -> Result<Incoming, Trouble> {
        loop {
            if let Some((incoming, used)) = parse(&self.input[self.taken..], self.sought)? {
                self.taken += used;
                self.sought = 0;
                return Ok(incoming);
            }
            self.input.drain(..std::mem::take(&mut self.taken));
            let new = self.input.get(self.sought..).unwrap_or_default();
            if !new.windows(4).any(|four| four == b"\r\n\r\n") {
                // The end may have begun in the last three bytes.
                self.sought = self.input.len().saturating_sub(3);
            }
            if self.input.len() > MAX_ANSWER {
                return Err(Trouble::Protocol(format!(
                    "an answer longer than {MAX_ANSWER} bytes"
                )));
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Ok(Incoming::Closed);
            }
        }
    }
}

/// Parses the first frame or answer in `input`, and returns it with its length; `None` if it is
/// incomplete. The first `sought` bytes do not contain the end of a head.
fn parse(input: &[u8], sought: usize) -> Result<Option<(Incoming, usize)>, Trouble> {
    if let [b'$', rest @ ..] = input {
        let [channel, high, low, body @ ..] = rest else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let frame = body.get(..length);
        return Ok(frame.map(|frame| (Incoming::Frame(*channel, frame.to_vec()), length + 4)));
    }
    let rest = input.get(sought..).unwrap_or_default();
    let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let end = sought + end;
    let wrong = |what: &str| Trouble::Protocol(format!("{what} in the server's answer"));
    let head = std::str::from_utf8(&input[..end]).map_err(|_| wrong("bytes that are not text"))?;
    let mut lines = head.split("\r\n");
    let mut status = lines.next().unwrap_or_default().splitn(3, ' ');
    let protocol = status.next().unwrap_or_default();
    if protocol.starts_with("HTTP/") {
        return Err(Trouble::Protocol(
            "a web server answers there (HTTP), not RTSP: is it the right port?".into(),
        ));
    }
    if !protocol.starts_with("RTSP/1.") {
        return Err(wrong("no RTSP/1.0 status line"));
    }
    let code = status
        .next()
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| wrong("no status"))?;
    let reason = status.next().unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|header| header.0 == "content-length")
        .map_or(Ok(0), |header| header.1.parse());
    let length: usize = length.map_err(|_| wrong("a Content-Length that is no number"))?;
    if length > MAX_ANSWER {
        return Err(wrong("too long a body"));
    }
    let Some(body) = input.get(end + 4..end + 4 + length) else {
        return Ok(None);
    };
    let body = String::from_utf8_lossy(body).into_owned();
    Ok(Some((
        Incoming::Answer(Answer {
            status: code,
            reason,
            headers,
            body,
        }),
        end + 4 + length,
    )))
}
