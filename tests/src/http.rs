//! A small HTTP client, with just what tests need to see of a response.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers by lower-case name.
    pub headers: HashMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }
}

/// GETs a path.
pub fn get(server: SocketAddr, path: &str) -> Result<Response> {
    request(server, "GET", path, &[])
}

/// Sends a request with a body on a new connection. Also reads a response that the server sends
/// before it has received the whole body.
pub fn send(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Response> {
    let mut stream = begin(server, method, path, headers, body.len() as u64)?;
    // If this fails, the response explains why.
    let _ = stream.write_all(body);
    read(&mut BufReader::new(stream), false)
}

/// Begins a request with a body of `length` bytes, which the caller writes.
pub fn begin(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    length: u64,
) -> Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {server}\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("Content-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes())?;
    Ok(stream)
}

/// Sends a request without a body on a new connection.
pub fn request(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Response> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        text += &format!("Host: {server}\r\n");
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "Connection: close\r\n\r\n";
    stream.write_all(text.as_bytes())?;
    read(&mut BufReader::new(stream), method == "HEAD")
}

/// Reads one response.
pub fn read(from: &mut impl BufRead, head: bool) -> Result<Response> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    ensure!(
        !line.is_empty(),
        "the connection was closed without an answer"
    );
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("no status line: {line:?}"))?;
    let mut headers = HashMap::new();
    loop {
        line.clear();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = Vec::new();
    if head || status == 204 || status == 304 {
        return Ok(Response {
            status,
            headers,
            body,
        });
    }
    if headers
        .get("transfer-encoding")
        .is_some_and(|coding| coding.contains("chunked"))
    {
        loop {
            line.clear();
            from.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16)
                .with_context(|| format!("chunk size {line:?}"))?;
            let read = from.by_ref().take(size).read_to_end(&mut body)?;
            ensure!(read as u64 == size, "chunk cut off");
            from.by_ref().take(2).read_to_end(&mut Vec::new())?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = headers.get("content-length") {
        let length: u64 = length.parse()?;
        let read = from.by_ref().take(length).read_to_end(&mut body)?;
        ensure!(
            read as u64 == length,
            "body of {read} bytes, {length} announced"
        );
    } else {
        from.read_to_end(&mut body)?;
    }
    Ok(Response {
        status,
        headers,
        body,
    })
}
