//! What a plan depends on besides the film.

use crate::header::{Header, RTX_BYTES};

/// What a plan depends on besides the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayloadOptions {
    /// Most bytes of a packet after the 12 bytes of RTP header, payload header included. Taken as
    /// the nearest value in [`PayloadOptions::LEAST`]..=[`PayloadOptions::MOST`].
    pub max_payload: usize,
}

impl PayloadOptions {
    /// Smallest payload the formats work with.
    pub const LEAST: usize = 16;
    /// Largest payload: what a UDP datagram over IPv4 holds, less the RTP header.
    pub const MOST: usize = 65_507 - Header::BYTES;

    /// For links that carry IP packets of up to `mtu` bytes. This is the only place that reckons it.
    ///
    /// One plan serves IPv4 and IPv6, first transmission and retransmission alike, so the largest
    /// headers are taken off: IPv6's 40 bytes (RFC 8200 section 3; IPv4 has 20), UDP's 8, RTP's 12, and
    /// the 2 of the retransmission payload header (RFC 4588 section 4).
    pub fn for_mtu(mtu: usize) -> Self {
        const IPV6: usize = 40;
        const UDP: usize = 8;
        let headers = IPV6 + UDP + Header::BYTES + RTX_BYTES;
        PayloadOptions {
            max_payload: mtu.saturating_sub(headers),
        }
    }
}

/// Ethernet: 1500 bytes of IP packet, 1438 of payload.
impl Default for PayloadOptions {
    fn default() -> Self {
        PayloadOptions::for_mtu(1500)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_most_payload_fills_the_link() {
        // 40 bytes of IPv6, 8 of UDP, 12 of RTP, 2 of retransmission.
        for (mtu, most) in [
            (1500, 1438),
            (1280, 1218),
            (9000, 8938),
            (63, 1),
            (62, 0),
            (0, 0),
        ] {
            assert_eq!(PayloadOptions::for_mtu(mtu).max_payload, most, "MTU {mtu}");
        }
        assert_eq!(PayloadOptions::default(), PayloadOptions::for_mtu(1500));
    }
}
