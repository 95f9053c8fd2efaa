//! Path MTU to an edge. A tunnel makes viewers' packets larger. If a network on the path has a
//! smaller MTU than this machine's network, the largest packets are lost silently.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use reelway_ipvs::{Method, Tunnel};
use reelway_sys::path::is_too_large;
use socket2::{Domain, Protocol, Socket, Type};
use tracing::{info, warn};

/// Timeout for an answer.
const WAIT: Duration = Duration::from_millis(300);
/// Number of times that a packet is sent before it counts as too large for the path.
const TRIES: u32 = 2;
/// Size of the largest packet that is tried, in bytes.
const MOST: u32 = 9216;

/// Capacity of a path, in bytes per IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Size of the largest packet that this machine's network accepts.
    pub network: u32,
    /// Size of the largest packet that arrives.
    pub carries: u32,
}

/// Returns the number of bytes that a tunnel adds to each packet.
pub(crate) fn overhead(tunnel: Tunnel, is_v6: bool) -> u32 {
    let ip = if is_v6 { 40 } else { 20 };
    match tunnel {
        Tunnel::Ipip => ip,
        // The headers of UDP and GUE.
        Tunnel::Gue { .. } => ip + 8 + 4,
    }
}

/// Measures the path to an edge behind a tunnel, and logs the consequences for viewers. It runs in
/// a thread of its own, for up to a few seconds.
pub(crate) fn look(edge: IpAddr, method: Method) {
    let Method::Tunnel(tunnel) = method else {
        return;
    };
    let look = move || match measure(edge) {
        Ok(Some(Way { network, carries })) => {
            let fits = carries - overhead(tunnel, edge.is_ipv6());
            match carries < network {
                false => info!("the tunnel to edge {edge} carries packets of {fits} bytes"),
                true => warn!(
                    "the tunnel to edge {edge} carries packets of {fits} bytes at most: on its way is a network for \
                     packets of {carries} bytes, this machine's takes {network}; larger packets of viewers (uploads) are \
                     lost until the route to the edge has that MTU (ip route add {edge} … mtu {carries})"
                ),
            }
        }
        Ok(None) => {
            info!("edge {edge} does not answer echo requests: the tunnel's packet size is unknown")
        }
        Err(error) => {
            info!("the packet size of the tunnel to edge {edge} cannot be measured: {error}")
        }
    };
    // If the thread cannot be started, only a line of the log is missing.
    let _ = std::thread::Builder::new().name("mtu".into()).spawn(look);
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrived,
    /// This machine's network does not accept it.
    TooLarge,
    Lost,
}

/// Finds out the capacity of a path by sending packets of different sizes; `None` if not even a
/// small one is answered.
fn search(smallest: u32, mut send: impl FnMut(u32) -> io::Result<Fate>) -> io::Result<Option<Way>> {
    if send(smallest)? != Fate::Arrived {
        return Ok(None);
    }
    // Packets of `carries` bytes arrive, those of `too_large` do not leave, those of `lost` get
    // lost.
    let (mut carries, mut too_large, mut lost) = (smallest, MOST + 1, MOST + 1);
    while carries + 1 < too_large.min(lost) {
        // Most paths carry what the local network accepts, which is found without waiting.
        let size = carries.midpoint(too_large.min(lost));
        match send(size)? {
            Fate::Arrived => carries = size,
            Fate::TooLarge => too_large = size,
            Fate::Lost => lost = size,
        }
    }
    // If packets were lost, the local network accepts more than the path carries.
    let mut network = too_large.min(lost) - 1;
    while lost < too_large && network + 1 < too_large {
        let size = network.midpoint(too_large);
        match send(size)? {
            Fate::TooLarge => too_large = size,
            Fate::Arrived | Fate::Lost => network = size,
        }
    }
    Ok(Some(Way { network, carries }))
}

/// Measures the path with ICMP echo requests that must not be fragmented. Takes milliseconds if the
/// path carries what the local network accepts, else seconds. `None`: the edge does not answer.
///
/// # Errors
/// There is no route to the edge, or this program may not send such packets.
pub(crate) fn measure(edge: IpAddr) -> io::Result<Option<Way>> {
    let echo = Echo::open(edge)?;
    let smallest = if edge.is_ipv6() { 1280 } else { 576 };
    let mut sequence = 0;
    search(smallest, |size| {
        for _ in 0..TRIES {
            sequence += 1;
            match echo.send(size, sequence)? {
                Fate::Lost => {}
                fate => return Ok(fate),
            }
        }
        Ok(Fate::Lost)
    })
}

/// A socket for echo requests to an edge and their answers.
struct Echo {
    socket: Socket,
    is_v6: bool,
    identifier: u16,
}

impl Echo {
    fn open(edge: IpAddr) -> io::Result<Echo> {
        let (domain, protocol) = match edge {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
        socket.connect(&SocketAddr::new(edge, 0).into())?;
        socket.set_read_timeout(Some(WAIT))?;
        reelway_sys::path::forbid_fragments(socket.as_fd(), edge.is_ipv6())?;
        Ok(Echo {
            socket,
            is_v6: edge.is_ipv6(),
            identifier: std::process::id() as u16,
        })
    }

    /// Sends a packet of `size` bytes, and waits for its answer.
    fn send(&self, size: u32, sequence: u16) -> io::Result<Fate> {
        let request = request(self.is_v6, self.identifier, sequence, size);
        match self.socket.send(&request) {
            Err(error) if is_too_large(&error) => {
                return Ok(Fate::TooLarge);
            }
            result => result?,
        };
        let mut answer = [0; MOST as usize];
        // Answers to other programs arrive here, too.
        for _ in 0..100 {
            match (&self.socket).read(&mut answer) {
                Ok(bytes) if is_answer(self.is_v6, &answer[..bytes], self.identifier, sequence) => {
                    return Ok(Fate::Arrived);
                }
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Ok(Fate::Lost);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Fate::Lost)
    }
}

/// Returns an echo request (RFC 792, RFC 4443) that makes an IP packet of `size` bytes.
fn request(is_v6: bool, identifier: u16, sequence: u16, size: u32) -> Vec<u8> {
    let (kind, header) = if is_v6 { (128, 40) } else { (8, 20) };
    let mut message = vec![0; (size.max(header + 8) - header) as usize];
    message[0] = kind;
    message[4..6].copy_from_slice(&identifier.to_be_bytes());
    message[6..8].copy_from_slice(&sequence.to_be_bytes());
    if !is_v6 {
        // For IPv6, the kernel computes the checksum.
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// Returns the Internet checksum (RFC 1071).
fn checksum(message: &[u8]) -> u16 {
    let words = message.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Whether a packet is the answer to a request. For IPv4, a raw socket returns the IP header, too.
fn is_answer(is_v6: bool, packet: &[u8], identifier: u16, sequence: u16) -> bool {
    let (kind, skipped) = match (is_v6, packet.first()) {
        (true, _) => (129, 0),
        (false, Some(first)) => (0, usize::from(first & 15) * 4),
        (false, None) => return false,
    };
    let Some(message) = packet.get(skipped..) else {
        return false;
    };
    let expected = [identifier.to_be_bytes(), sequence.to_be_bytes()].concat();
    message.first() == Some(&kind) && message.get(4..8) == Some(&expected[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tunnels_have_their_headers() {
        let gue = Tunnel::Gue { port: 6080 };
        let all = [
            overhead(Tunnel::Ipip, false),
            overhead(Tunnel::Ipip, true),
            overhead(gue, false),
            overhead(gue, true),
        ];
        assert_eq!(all, [20, 40, 32, 52]);
    }

    #[test]
    fn where_nothing_is_lost_nothing_is_waited_for() {
        let way = search(576, |size| {
            Ok(if size <= 1500 {
                Fate::Arrived
            } else {
                Fate::TooLarge
            })
        });
        let (network, carries) = (1500, 1500);
        assert_eq!(way.unwrap(), Some(Way { network, carries }));
        assert_eq!(search(576, |_| Ok(Fate::Lost)).unwrap(), None);
    }

    proptest! {
        #[test]
        fn both_sizes_are_found(network in 1280u32..=MOST, less in 0u32..1280) {
            let carries = network.saturating_sub(less).max(576);
            let mut sent = 0;
            let way = search(576, |size| {
                sent += 1;
                Ok(match size {
                    size if size > network => Fate::TooLarge,
                    size if size > carries => Fate::Lost,
                    _ => Fate::Arrived,
                })
            });
            prop_assert_eq!(way.unwrap(), Some(Way { network, carries }));
            prop_assert!(sent <= 30, "{} packets", sent);
        }

        #[test]
        fn a_request_has_its_size_and_a_right_checksum(
            identifier: u16,
            sequence: u16,
            size in 60u32..2000,
        ) {
            let message = request(false, identifier, sequence, size);
            prop_assert_eq!(message.len() as u32, size - 20);
            prop_assert_eq!(checksum(&message), 0);
            prop_assert_eq!(request(true, identifier, sequence, size).len() as u32, size - 40);
        }

        #[test]
        fn only_the_answer_to_a_request_counts(packet in proptest::collection::vec(any::<u8>(), 0..64), is_v6: bool) {
            // No packet may cause a panic.
            let _ = is_answer(is_v6, &packet, 7, 1);
            let mut answer = vec![0x45; 20];
            answer.extend(request(false, 7, 1, 100));
            answer[20] = 0;
            prop_assert!(is_answer(false, &answer, 7, 1));
            prop_assert!(!is_answer(false, &answer, 7, 2) && !is_answer(false, &answer, 8, 1));
        }
    }
}
