//! Parameters of a plan besides the film.

use crate::header::{Header, RTX_BYTES};

/// Parameters of a plan besides the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayloadOptions {
    /// Maximum size of a packet after the 12-byte RTP header, including the payload header, in
    /// bytes. Clamped to [`PayloadOptions::LEAST`]..=[`PayloadOptions::MOST`].
    pub max_payload: usize,
}

impl PayloadOptions {
    /// Smallest payload that the formats work with, in bytes.
    pub const LEAST: usize = 16;
    /// Largest payload in bytes: the limit of a UDP datagram over IPv4, less the RTP header.
    pub const MOST: usize = 65_507 - Header::BYTES;

    /// Returns the options for links that carry IP packets of up to `mtu` bytes. Only this function
    /// computes them.
    ///
    /// One plan serves IPv4 and IPv6, original packets and retransmissions, so the largest headers
    /// are subtracted: 40 bytes of IPv6 (RFC 8200 section 3; IPv4 has 20), 8 of UDP, 12 of RTP, and
    /// two of the retransmission payload header (RFC 4588 section 4).
    pub fn for_mtu(mtu: usize) -> Self {
        const IPV6: usize = 40;
        const UDP: usize = 8;
        let headers = IPV6 + UDP + Header::BYTES + RTX_BYTES;
        PayloadOptions {
            max_payload: mtu.saturating_sub(headers),
        }
    }
}

/// Ethernet: IP packets of 1500 bytes, payloads of 1438 bytes.
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
