//! Reads a packet capture: pcap with nanoseconds, Ethernet, IP, UDP and TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result, ensure};

/// A captured packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Time of capture, in nanoseconds since 1970. The times of packets that follow each other
    /// closely can be in another order than the packets.
    pub at: u64,
    /// Length of the IP packet in bytes.
    pub ip_len: usize,
    /// Whether it is a fragment of a longer IP packet.
    pub fragment: bool,
    /// Whether it is UDP rather than TCP.
    pub udp: bool,
    /// The source.
    pub from: SocketAddr,
    /// The destination.
    pub to: SocketAddr,
    /// The UDP or TCP payload.
    pub payload: Vec<u8>,
}

/// Returns all UDP and TCP packets of a capture file.
pub fn read(pcap: &[u8]) -> Result<Vec<Packet>> {
    let word = |at: usize| -> Result<u32> {
        Ok(u32::from_le_bytes(
            pcap.get(at..at + 4)
                .context("capture cut off")?
                .try_into()?,
        ))
    };
    ensure!(word(0)? == 0xa1b2_3c4d, "no pcap with nanoseconds");
    ensure!(word(20)? & 0xffff == 1, "no Ethernet capture");
    let mut packets = Vec::new();
    let mut at = 24;
    while at + 16 <= pcap.len() {
        let time = u64::from(word(at)?) * 1_000_000_000 + u64::from(word(at + 4)?);
        let len = word(at + 8)? as usize;
        let frame = pcap
            .get(at + 16..at + 16 + len)
            .context("capture cut off")?;
        packets.extend(ethernet(frame, time));
        at += 16 + len;
    }
    Ok(packets)
}

fn ethernet(frame: &[u8], at: u64) -> Option<Packet> {
    let ip = frame.get(14..)?;
    match frame.get(12..14)? {
        [0x08, 0x00] => {
            let address = |at: usize| {
                Some(IpAddr::V4(Ipv4Addr::from(
                    <[u8; 4]>::try_from(ip.get(at..at + 4)?).ok()?,
                )))
            };
            let ip_len = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
            let head = usize::from(ip.first()? & 15) * 4;
            let fragment = (u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff) != 0;
            transport(
                *ip.get(9)?,
                ip.get(head..ip_len)?,
                [address(12)?, address(16)?],
                (at, ip_len, fragment),
            )
        }
        [0x86, 0xdd] => {
            let address = |at: usize| {
                Some(IpAddr::V6(Ipv6Addr::from(
                    <[u8; 16]>::try_from(ip.get(at..at + 16)?).ok()?,
                )))
            };
            let ip_len = 40 + usize::from(u16::from_be_bytes([*ip.get(4)?, *ip.get(5)?]));
            // The fragment header (RFC 8200 section 4.5) has 8 bytes; the first is the next
            // header's type.
            let fragment = *ip.get(6)? == 44;
            let (next, head) = if fragment { (40, 48) } else { (6, 40) };
            transport(
                *ip.get(next)?,
                ip.get(head..ip_len)?,
                [address(8)?, address(24)?],
                (at, ip_len, fragment),
            )
        }
        _ => None,
    }
}

fn transport(
    protocol: u8,
    bytes: &[u8],
    [from, to]: [IpAddr; 2],
    (at, ip_len, fragment): (u64, usize, bool),
) -> Option<Packet> {
    let port = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let head = match protocol {
        17 => 8,
        6 => usize::from(bytes.get(12)? >> 4) * 4,
        _ => return None,
    };
    Some(Packet {
        at,
        ip_len,
        fragment,
        udp: protocol == 17,
        from: SocketAddr::new(from, port(0)?),
        to: SocketAddr::new(to, port(2)?),
        payload: bytes.get(head..)?.to_vec(),
    })
}
