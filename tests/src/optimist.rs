//! A TCP client that acknowledges bytes before they arrive (optimistic acknowledgements): the
//! server's kernel believes that they have arrived while they still wait in a queue. It speaks just
//! enough TCP (RFC 9293) over a raw socket. So it needs root and a separate host, whose kernel must
//! not respond in its place.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::wait::Deadline;

/// Bytes of a header without options.
const TCP: usize = 20;
/// Flags.
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// Bytes of data per segment, as on Ethernet.
const SEGMENT: u32 = 1460;
/// How many segments beyond the received ones are acknowledged. The server ignores acknowledgements
/// of what it has not sent yet.
const AHEAD: [u32; 8] = [0, 2, 8, 16, 32, 64, 128, 256];
/// The initial sequence number.
const FIRST: u32 = 1_000_000;

/// A piece of a response: its offset in the response, headers included, and its bytes.
pub type Piece = (usize, Vec<u8>);

/// A segment that was received.
struct Segment<'a> {
    port: u16,
    seq: u32,
    flags: u8,
    data: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Parses a packet with its IP header; `None` if it is not from this server.
    fn of(packet: &'a [u8], server: SocketAddrV4) -> Option<Segment<'a>> {
        let head = usize::from(packet.first()? & 15) * 4;
        let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        let tcp = packet.get(head..length.min(packet.len()))?;
        let word = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
        let long = |at: usize| Some(u32::from(word(at)?) << 16 | u32::from(word(at + 2)?));
        let of_server = packet.get(12..16)? == server.ip().octets() && word(0)? == server.port();
        let offset = usize::from(tcp.get(12)? >> 4) * 4;
        of_server.then_some(Segment {
            port: word(2)?,
            seq: long(4)?,
            flags: *tcp.get(13)?,
            data: tcp.get(offset..)?,
        })
    }
}

/// A connection from a port of this host.
struct Client {
    socket: Socket,
    from: SocketAddrV4,
    to: SocketAddrV4,
}

impl Client {
    fn send(&mut self, (seq, ack): (u32, u32), flags: u8, options: &[u8], data: &[u8]) {
        let mut segment = Vec::with_capacity(TCP + options.len() + data.len());
        segment.extend(self.from.port().to_be_bytes());
        segment.extend(self.to.port().to_be_bytes());
        segment.extend(seq.to_be_bytes());
        segment.extend(ack.to_be_bytes());
        segment.extend([(((TCP + options.len()) / 4) << 4) as u8, flags]);
        // The window, the checksum, and no urgent data.
        segment.extend([0xFF, 0xFF, 0, 0, 0, 0]);
        segment.extend(options);
        segment.extend(data);
        let sum = checksum(*self.from.ip(), *self.to.ip(), &segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        // A raw socket does not wait for buffer space. Acknowledgements that find none are lost, as
        // on a network.
        match self.socket.write_all(&segment) {
            Err(error)
                if error.raw_os_error() == Some(Errno::ENOBUFS as i32)
                    && flags == ACK
                    && data.is_empty() => {}
            sent => sent.expect("a segment is sent"),
        }
    }
}

/// Computes the TCP checksum (RFC 9293, section 3.1).
fn checksum(from: Ipv4Addr, to: Ipv4Addr, segment: &[u8]) -> u16 {
    let pseudo = [from.octets(), to.octets()].concat();
    let of = |bytes: &[u8]| -> u32 {
        let words = bytes.chunks(2);
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        words.map(word).sum()
    };
    let mut sum = of(&pseudo) + 6 + segment.len() as u32 + of(segment);
    while sum >> 16 > 0 {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// Requests a path from a server. Returns the pieces of the response that arrived until nothing
/// more arrived for a second, or the limit was over; lost pieces are missing.
///
/// # Panics
/// Panics if raw sockets are not available or the server does not respond.
#[track_caller]
pub fn get(from: SocketAddrV4, server: SocketAddrV4, path: &str, limit: Duration) -> Vec<Piece> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)).expect("a raw socket");
    socket
        .bind(&SocketAddrV4::new(*from.ip(), 0).into())
        .expect("an address");
    socket
        .connect(&SocketAddrV4::new(*server.ip(), 0).into())
        .expect("an address");
    socket.set_recv_buffer_size(64 << 20).expect("room");
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .expect("a limit");
    let mut client = Client {
        socket,
        from,
        to: server,
    };
    // The maximum segment size, and a window of 65535 times 128 bytes.
    let [high, low] = (SEGMENT as u16).to_be_bytes();
    client.send((FIRST, 0), SYN, &[2, 4, high, low, 3, 3, 7, 0], &[]);

    let (mut pieces, mut packet) = (Vec::new(), vec![0; 1 << 16]);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    // The sequence number of the response's first byte, and how much of the response has arrived.
    let (mut first, mut end) = (None, 0u32);
    let deadline = Deadline::after(limit);
    while !deadline.over() {
        let Ok(bytes) = client.socket.read(&mut packet) else {
            break;
        };
        let segment = Segment::of(&packet[..bytes], server);
        let Some(segment) = segment.filter(|segment| segment.port == from.port()) else {
            continue;
        };
        if segment.flags & RST != 0 {
            break;
        }
        if segment.flags & SYN != 0 {
            let answer = segment.seq.wrapping_add(1);
            first = Some(answer);
            client.send((FIRST + 1, answer), ACK, &[], request.as_bytes());
            continue;
        }
        let Some(first) = first.filter(|_| !segment.data.is_empty()) else {
            continue;
        };
        let at = segment.seq.wrapping_sub(first);
        pieces.push((at as usize, segment.data.to_vec()));
        end = end.max(at + segment.data.len() as u32);
        let next = FIRST + 1 + request.len() as u32;
        for segments in AHEAD {
            let ack = first.wrapping_add(end + segments * SEGMENT);
            client.send((next, ack), ACK, &[], &[]);
        }
    }
    assert!(first.is_some(), "{server} does not answer");
    pieces
}
