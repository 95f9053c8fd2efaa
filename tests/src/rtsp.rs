//! A small RTSP client that shows everything: responses with their headers, interleaved frames in
//! order of arrival, RTP headers as numbers.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::socket::{setsockopt, sockopt};

use crate::wait::Deadline;

/// Receive buffer of RTP sockets, in bytes, if this user may set so much.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A control connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    cseq: u32,
    /// The session's ID, once there is one.
    pub session: Option<String>,
    /// Interleaved frames that have arrived and were not taken yet.
    pub frames: VecDeque<Frame>,
}

/// An interleaved frame (RFC 2326 10.12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Channel.
    pub channel: u8,
    /// RTP or RTCP packet.
    pub data: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// Headers by lower-case name.
    pub headers: HashMap<String, String>,
    /// The body as text.
    pub body: String,
    /// Interleaved frames between the previous response and this one.
    pub frames_before: usize,
}

impl Response {
    /// A header's value; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(&name.to_ascii_lowercase())
            .map_or("", String::as_str)
    }
}

enum Message {
    Response(Response),
    Frame(Frame),
}

impl Client {
    /// Connects.
    pub fn connect(server: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect_timeout(&server, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        Ok(Client::from_stream(stream))
    }

    /// Uses an existing connection.
    pub fn from_stream(stream: TcpStream) -> Client {
        Client {
            stream,
            buffer: Vec::new(),
            cseq: 0,
            session: None,
            frames: VecDeque::new(),
        }
    }

    /// The client's address.
    pub fn local(&self) -> SocketAddr {
        self.stream.local_addr().expect("a connected socket")
    }

    /// The socket itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a request with CSeq and the session, and reads the response.
    pub fn request(
        &mut self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response> {
        self.send(method, url, headers)?;
        self.response(Duration::from_secs(10))
    }

    /// Sends a request with CSeq and the session.
    pub fn send(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) -> Result<()> {
        self.cseq += 1;
        let mut text = format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\n", self.cseq);
        if let Some(session) = &self.session {
            text += &format!("Session: {session}\r\n");
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        Ok(self.stream.write_all(text.as_bytes())?)
    }

    /// Reads the next response and keeps the frames before it.
    pub fn response(&mut self, limit: Duration) -> Result<Response> {
        let deadline = Deadline::after(limit);
        let mut frames_before = 0;
        loop {
            match self.message(deadline)?.context("no answer in time")? {
                Message::Frame(frame) => {
                    self.frames.push_back(frame);
                    frames_before += 1;
                }
                Message::Response(mut response) => {
                    response.frames_before = frames_before;
                    if let Some(session) = response.headers.get("session") {
                        self.session = session.split(';').next().map(|id| id.trim().to_owned());
                    }
                    return Ok(response);
                }
            }
        }
    }

    /// Returns the next interleaved frame; `None` if none arrives in time.
    pub fn frame(&mut self, limit: Duration) -> Result<Option<Frame>> {
        if let Some(frame) = self.frames.pop_front() {
            return Ok(Some(frame));
        }
        match self.message(Deadline::after(limit))? {
            Some(Message::Frame(frame)) => Ok(Some(frame)),
            Some(Message::Response(response)) => bail!("an answer to no request: {response:?}"),
            None => Ok(None),
        }
    }

    fn message(&mut self, deadline: Deadline) -> Result<Option<Message>> {
        loop {
            if let Some(message) = self.parse()? {
                return Ok(Some(message));
            }
            if deadline.over() {
                return Ok(None);
            }
            self.stream
                .set_read_timeout(Some(deadline.left().max(Duration::from_millis(1))))?;
            let mut bytes = [0; 65536];
            match self.stream.read(&mut bytes) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(read) => self.buffer.extend_from_slice(&bytes[..read]),
                Err(error) if is_timeout(&error) => return Ok(None),
                // Caused by an io_uring of a server in this process that is being closed.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn parse(&mut self) -> Result<Option<Message>> {
        if let [b'$', channel, high, low, rest @ ..] = &self.buffer[..] {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let Some(data) = rest.get(..length) else {
                return Ok(None);
            };
            let frame = Frame {
                channel: *channel,
                data: data.to_vec(),
            };
            self.buffer.drain(..4 + length);
            return Ok(Some(Message::Frame(frame)));
        }
        if self.buffer.first() == Some(&b'$') {
            return Ok(None);
        }
        let Some(end) = self
            .buffer
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
        else {
            return Ok(None);
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or_default();
        ensure!(first.starts_with("RTSP/1.0 "), "no status line: {first:?}");
        let mut words = first.splitn(3, ' ').skip(1);
        let code = words.next().and_then(|code| code.parse().ok());
        let status = code.context("no status")?;
        let reason = words.next().unwrap_or_default().to_owned();
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers
            .get("content-length")
            .map_or(Ok(0), |length| length.parse::<usize>())?;
        let Some(body) = self.buffer.get(end + 4..end + 4 + length) else {
            return Ok(None);
        };
        let body = String::from_utf8_lossy(body).into_owned();
        self.buffer.drain(..end + 4 + length);
        Ok(Some(Message::Response(Response {
            status,
            reason,
            headers,
            body,
            frames_before: 0,
        })))
    }

    /// DESCRIBEs a film: returns its SDP and the control addresses of its media.
    pub fn describe(&mut self, url: &str) -> Result<(String, Vec<String>)> {
        let answer = self.request("DESCRIBE", url, &[("Accept", "application/sdp")])?;
        ensure!(answer.status == 200, "DESCRIBE: {answer:?}");
        let base = answer.header("content-base").to_owned();
        let media = answer.body.split("m=").skip(1);
        let control = media.filter_map(|media| {
            media
                .lines()
                .find_map(|line| line.strip_prefix("a=control:"))
        });
        let control = control.map(|control| match control.starts_with("rtsp://") {
            true => control.to_owned(),
            false => format!("{base}{control}"),
        });
        Ok((answer.body.clone(), control.collect()))
    }

    /// SETs UP all media of a film over this connection: channels 0 and 1, 2 and 3, …
    pub fn setup_tcp(&mut self, url: &str) -> Result<usize> {
        let (_, media) = self.describe(url)?;
        for (n, control) in media.iter().enumerate() {
            let transport = format!("RTP/AVP/TCP;unicast;interleaved={}-{}", 2 * n, 2 * n + 1);
            let answer = self.request("SETUP", control, &[("Transport", &transport)])?;
            ensure!(answer.status == 200, "SETUP {control}: {answer:?}");
        }
        Ok(media.len())
    }

    /// SETs UP all media of a film over UDP.
    pub fn setup_udp(&mut self, url: &str) -> Result<Vec<UdpTrack>> {
        self.setup_udp_as("RTP/AVP", url)
    }

    /// The same with another profile: RTP/AVPF allows requests for lost packets (RFC 4585).
    pub fn setup_udp_as(&mut self, profile: &str, url: &str) -> Result<Vec<UdpTrack>> {
        let (_, media) = self.describe(url)?;
        let mut tracks = Vec::new();
        for control in &media {
            let (rtp, rtcp) = udp_pair(self.local())?;
            // More than a test's packets: none is lost while the machine is busy with other tests.
            if setsockopt(&rtp, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
                setsockopt(&rtp, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
            }
            let port = rtp.local_addr()?.port();
            let transport = format!("{profile};unicast;client_port={}-{}", port, port + 1);
            let answer = self.request("SETUP", control, &[("Transport", &transport)])?;
            ensure!(answer.status == 200, "SETUP {control}: {answer:?}");
            tracks.push(UdpTrack {
                rtp,
                rtcp,
                transport: answer.header("transport").to_owned(),
            });
        }
        Ok(tracks)
    }
}

/// A track received over UDP.
#[derive(Debug)]
pub struct UdpTrack {
    /// The socket that receives RTP.
    pub rtp: UdpSocket,
    /// The socket that receives RTCP.
    pub rtcp: UdpSocket,
    /// The server's `Transport` header.
    pub transport: String,
}

impl UdpTrack {
    /// A parameter of the server's `Transport` header.
    #[track_caller]
    fn parameter(&self, name: &str) -> &str {
        let mut fields = self
            .transport
            .split(';')
            .filter_map(|field| field.split_once('='));
        let found = fields.find(|(key, _)| *key == name);
        found
            .unwrap_or_else(|| panic!("{name} in {}", self.transport))
            .1
    }

    /// Reports over RTCP, to the server at this address, that this many packets of the track were
    /// lost (RFC 3550 section 6.4.2).
    #[track_caller]
    pub fn report_lost(&self, server: IpAddr, lost: u32) {
        let mut report = vec![0x81, 201, 0, 7];
        for word in [1, self.ssrc(), lost, 100, 0, 0, 0] {
            report.extend(word.to_be_bytes());
        }
        let sent = self.rtcp.send_to(&report, self.reports_to(server));
        sent.expect("sending");
    }

    /// Requests packets again from the server at this address (RFC 4585 section 6.2.1): each entry
    /// is a sequence number and a bit mask of the 16 numbers after it.
    #[track_caller]
    pub fn ask_again(&self, server: IpAddr, entries: &[(u16, u16)]) {
        let mut asked = vec![0x81, 205];
        asked.extend((2 + entries.len() as u16).to_be_bytes());
        asked.extend(1u32.to_be_bytes());
        asked.extend(self.ssrc().to_be_bytes());
        for (first, others) in entries {
            asked.extend(first.to_be_bytes());
            asked.extend(others.to_be_bytes());
        }
        let sent = self.rtcp.send_to(&asked, self.reports_to(server));
        sent.expect("sending");
    }

    #[track_caller]
    fn ssrc(&self) -> u32 {
        u32::from_str_radix(self.parameter("ssrc"), 16).expect("an SSRC")
    }

    /// The address at which the server receives reports.
    #[track_caller]
    fn reports_to(&self, server: IpAddr) -> SocketAddr {
        let ports = self.parameter("server_port").split_once('-');
        let (_, port) = ports.expect("two ports");
        SocketAddr::new(server, port.parse().expect("a port"))
    }
}

fn udp_pair(local: SocketAddr) -> Result<(UdpSocket, UdpSocket)> {
    for _ in 0..200 {
        let first = UdpSocket::bind((local.ip(), 0))?;
        let port = first.local_addr()?.port();
        if port % 2 == 1 || port == u16::MAX {
            continue;
        }
        if let Ok(second) = UdpSocket::bind((local.ip(), port + 1)) {
            return Ok((first, second));
        }
    }
    bail!("no pair of free UDP ports");
}

/// Whether a read ended because of a timeout.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// One entry of an `RTP-Info` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpInfo {
    /// The track's URL.
    pub url: String,
    /// Sequence number of the first packet.
    pub seq: u16,
    /// RTP time of the range's start.
    pub rtptime: u32,
}

/// Parses an `RTP-Info` header.
pub fn rtp_info(header: &str) -> Result<Vec<RtpInfo>> {
    let entry = |text: &str| -> Result<RtpInfo> {
        let field = |name: &str| {
            let found = text
                .split(';')
                .find_map(|part| part.trim().strip_prefix(name));
            found.with_context(|| format!("no {name} in {text:?}"))
        };
        Ok(RtpInfo {
            url: field("url=")?.to_owned(),
            seq: field("seq=")?.parse()?,
            rtptime: field("rtptime=")?.parse()?,
        })
    };
    header.split(',').map(entry).collect()
}

/// An RTP packet's header and payload (RFC 3550 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtp<'a> {
    /// Whether it is the last packet of an access unit.
    pub marker: bool,
    /// Payload type.
    pub payload_type: u8,
    /// Sequence number.
    pub seq: u16,
    /// Timestamp.
    pub time: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// What follows the header.
    pub payload: &'a [u8],
}

impl<'a> Rtp<'a> {
    /// Reads a packet without CSRCs and extensions, as the server sends them.
    pub fn parse(packet: &'a [u8]) -> Result<Rtp<'a>> {
        ensure!(
            packet.len() >= 12 && packet[0] == 0x80,
            "no plain RTP header: {:02x?}",
            &packet[..packet.len().min(12)]
        );
        let word =
            |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("four bytes"));
        Ok(Rtp {
            marker: packet[1] & 0x80 != 0,
            payload_type: packet[1] & 0x7f,
            seq: u16::from_be_bytes([packet[2], packet[3]]),
            time: word(4),
            ssrc: word(8),
            payload: &packet[12..],
        })
    }
}

/// The sender information of a sender report (RFC 3550 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// Synchronisation source.
    pub ssrc: u32,
    /// NTP time, a 32.32 fixed-point number.
    pub ntp: u64,
    /// The same moment in RTP time.
    pub rtp_time: u32,
    /// Packets sent.
    pub packets: u32,
    /// Payload bytes sent.
    pub bytes: u32,
}

/// Splits a compound RTCP packet: returns the type and bytes of each packet, header included.
pub fn rtcp_packets(mut compound: &[u8]) -> Result<Vec<(u8, &[u8])>> {
    let mut packets = Vec::new();
    while !compound.is_empty() {
        ensure!(
            compound.len() >= 4 && compound[0] >> 6 == 2,
            "no RTCP header: {compound:02x?}"
        );
        let length = 4 * (usize::from(u16::from_be_bytes([compound[2], compound[3]])) + 1);
        ensure!(
            length <= compound.len(),
            "RTCP packet longer than its datagram"
        );
        let (packet, rest) = compound.split_at(length);
        packets.push((packet[1], packet));
        compound = rest;
    }
    Ok(packets)
}

/// The sender report of a compound packet, if it has one.
pub fn sender_report(compound: &[u8]) -> Result<Option<SenderReport>> {
    let packets = rtcp_packets(compound)?;
    let Some((_, packet)) = packets.iter().find(|(kind, _)| *kind == 200) else {
        return Ok(None);
    };
    ensure!(packet.len() >= 28, "sender report cut off");
    let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("four bytes"));
    Ok(Some(SenderReport {
        ssrc: word(4),
        ntp: u64::from(word(8)) << 32 | u64::from(word(12)),
        rtp_time: word(16),
        packets: word(20),
        bytes: word(24),
    }))
}
