//! Messages as they come in.

use std::fmt;

/// A method of RFC 2326 section 10, or another word.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are called as in the RFC")]
pub enum Method {
    Options,
    Describe,
    Setup,
    Play,
    Pause,
    Teardown,
    GetParameter,
    SetParameter,
    Announce,
    Record,
    Redirect,
    /// A method that RTSP 1.0 does not know.
    Other(String),
}

impl Method {
    /// Methods are case-sensitive by the RFC; sloppy clients are understood all the same.
    pub(crate) fn parse(word: &str) -> Method {
        match word.to_ascii_uppercase().as_str() {
            "OPTIONS" => Method::Options,
            "DESCRIBE" => Method::Describe,
            "SETUP" => Method::Setup,
            "PLAY" => Method::Play,
            "PAUSE" => Method::Pause,
            "TEARDOWN" => Method::Teardown,
            "GET_PARAMETER" => Method::GetParameter,
            "SET_PARAMETER" => Method::SetParameter,
            "ANNOUNCE" => Method::Announce,
            "RECORD" => Method::Record,
            "REDIRECT" => Method::Redirect,
            _ => Method::Other(word.to_owned()),
        }
    }

    /// The word on the wire.
    pub fn name(&self) -> &str {
        match self {
            Method::Options => "OPTIONS",
            Method::Describe => "DESCRIBE",
            Method::Setup => "SETUP",
            Method::Play => "PLAY",
            Method::Pause => "PAUSE",
            Method::Teardown => "TEARDOWN",
            Method::GetParameter => "GET_PARAMETER",
            Method::SetParameter => "SET_PARAMETER",
            Method::Announce => "ANNOUNCE",
            Method::Record => "RECORD",
            Method::Redirect => "REDIRECT",
            Method::Other(word) => word,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Headers in the order in which they came; names are compared without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub(crate) Vec<(String, String)>);

impl Headers {
    /// The first header of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let of_name = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.0.iter().find(of_name).map(|(_, value)| value.as_str())
    }

    /// All headers of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name = move |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.0
            .iter()
            .filter(of_name)
            .map(|(_, value)| value.as_str())
    }

    /// All headers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A request, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// Of what: an absolute URL, `*`, or what sloppy clients put there.
    pub url: String,
    /// Major and minor version.
    pub version: (u8, u8),
    /// Headers.
    pub headers: Headers,
    /// Body, as long as Content-Length said.
    pub body: Vec<u8>,
}

impl Request {
    /// `CSeq`, which every answer echoes.
    pub fn cseq(&self) -> Option<&str> {
        self.headers.get("CSeq").filter(|value| is_cseq(value))
    }

    /// The identifier in `Session`, without its parameters.
    pub fn session(&self) -> Option<&str> {
        let value = self.headers.get("Session")?;
        Some(value.split(';').next().unwrap_or(value).trim())
    }
}

/// A sequence number: digits, and not more of them than a number has.
pub(crate) fn is_cseq(value: &str) -> bool {
    (1..=20).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// What comes in on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request.
    Request(Request),
    /// A frame of an interleaved channel (RFC 2326 section 10.12): RTCP of the client's.
    Frame {
        /// Its channel.
        channel: u8,
        /// What it carries; at most `Bounds::frame` bytes, longer ones are passed over.
        data: Vec<u8>,
    },
}
