//! Incoming messages.

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
    /// A method that RTSP 1.0 does not define.
    Other(String),
}

impl Method {
    /// Parses a method. The RFC makes methods case-sensitive, but lax clients are accepted too.
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

    /// Returns the word on the wire.
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

/// Headers in the order of arrival; names are compared case-insensitively.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub(crate) Vec<(String, String)>);

impl Headers {
    /// Returns the value of the first header with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let of_name = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.0.iter().find(of_name).map(|(_, value)| value.as_str())
    }

    /// Returns the values of all headers with this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name = move |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.0
            .iter()
            .filter(of_name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns all headers as names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A complete request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The request URL: an absolute URL, `*`, or whatever lax clients send.
    pub url: String,
    /// Major and minor version.
    pub version: (u8, u8),
    /// Headers.
    pub headers: Headers,
    /// Body, as long as Content-Length states.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns `CSeq`, which every response echoes.
    pub fn cseq(&self) -> Option<&str> {
        self.headers.get("CSeq").filter(|value| is_cseq(value))
    }

    /// Returns the identifier in `Session`, without its parameters.
    pub fn session(&self) -> Option<&str> {
        let value = self.headers.get("Session")?;
        Some(value.split(';').next().unwrap_or(value).trim())
    }
}

/// Returns whether a value is a sequence number: digits, at most as many as a 64-bit number has.
pub(crate) fn is_cseq(value: &str) -> bool {
    (1..=20).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// A message received on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request.
    Request(Request),
    /// A frame of an interleaved channel (RFC 2326 section 10.12): RTCP from the client.
    Frame {
        /// The channel.
        channel: u8,
        /// The content; at most `Bounds::frame` bytes, as longer frames are skipped.
        data: Vec<u8>,
    },
}
