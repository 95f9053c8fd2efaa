//! RTP packets (RFC 3550 section 5.1).

/// The RTP header fields that are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub seq: u16,
    pub rtp_time: u32,
    pub marker: bool,
    pub payload_type: u8,
    pub ssrc: u32,
}

/// Splits an RTP packet into header and payload.
pub(crate) fn parse(packet: &[u8]) -> Option<(Header, &[u8])> {
    let [
        first,
        second,
        seq_high,
        seq_low,
        t0,
        t1,
        t2,
        t3,
        s0,
        s1,
        s2,
        s3,
        ..,
    ] = *packet
    else {
        return None;
    };
    if first >> 6 != 2 {
        return None;
    }
    let mut start = 12 + 4 * usize::from(first & 15);
    if first & 0x10 != 0 {
        let words = packet.get(start + 2..start + 4)?;
        start += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
    }
    let mut end = packet.len();
    if first & 0x20 != 0 {
        end = end.checked_sub(usize::from(*packet.last()?))?;
    }
    let header = Header {
        seq: u16::from_be_bytes([seq_high, seq_low]),
        rtp_time: u32::from_be_bytes([t0, t1, t2, t3]),
        marker: second & 0x80 != 0,
        payload_type: second & 0x7f,
        ssrc: u32::from_be_bytes([s0, s1, s2, s3]),
    };
    packet.get(start..end).map(|payload| (header, payload))
}
