//! Newcomers at admission: clients that ask to watch over RTSP or HTTP from any address of this
//! machine, and the responses they get.

use std::io::{BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::http;
use crate::rtsp::{Client, Response, Rtp};
use crate::server::Server;

/// Connects from this address.
fn connect(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::new(from, 0).into())
        .unwrap_or_else(|error| panic!("{from}: {error}"));
    socket.connect(&to.into()).expect("a connection");
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).expect("TCP_NODELAY");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a limit");
    stream
}

/// Plays all tracks of a film over RTSP on one connection. Returns the connection, or the response
/// that refused the viewer.
#[track_caller]
pub fn watch(server: &Server, title: &str, from: IpAddr) -> Result<Client, Response> {
    let url = server.rtsp_url(title);
    let mut client = Client::from_stream(connect(from, server.rtsp));
    let (_, media) = client.describe(&url).expect("DESCRIBE");
    for (number, control) in media.iter().enumerate() {
        let first = 2 * number;
        let transport = format!("RTP/AVP/TCP;unicast;interleaved={first}-{}", first + 1);
        let answer = client.request("SETUP", control, &[("Transport", &transport)]);
        let answer = answer.expect("an answer to SETUP");
        if answer.status != 200 {
            return Err(answer);
        }
    }
    let answer = client
        .request("PLAY", &url, &[])
        .expect("an answer to PLAY");
    match answer.status {
        200 => Ok(client),
        _ => Err(answer),
    }
}

/// GETs a path from this address.
#[track_caller]
pub fn get(server: &Server, path: &str, from: IpAddr) -> http::Response {
    let mut stream = connect(from, server.http);
    let text = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.http
    );
    stream.write_all(text.as_bytes()).expect("a request");
    http::read(&mut BufReader::new(stream), false)
        .unwrap_or_else(|error| panic!("GET {path}: {error:#}\n{}", server.log()))
}

/// Receives this many packets of the first track, and returns the number of packets missing between
/// them.
#[track_caller]
pub fn missing(client: &mut Client, packets: usize) -> usize {
    let (mut missing, mut last) = (0, None::<u16>);
    for _ in 0..packets {
        let frame = loop {
            let frame = client.frame(Duration::from_secs(20)).expect("frames");
            let frame = frame.expect("the film goes on");
            if frame.channel == 0 {
                break frame;
            }
        };
        let seq = Rtp::parse(&frame.data).expect("RTP").seq;
        if let Some(last) = last {
            missing += usize::from(seq.wrapping_sub(last).wrapping_sub(1));
        }
        last = Some(seq);
    }
    missing
}

/// Parses the value of `Retry-After`, in seconds.
#[track_caller]
pub fn retry_after(header: &str) -> u64 {
    let seconds = header.parse();
    seconds.unwrap_or_else(|_| panic!("Retry-After: {header:?}"))
}
