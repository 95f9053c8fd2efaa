//! The fixed RTP header.

/// The fixed header of an RTP packet without padding, extension or contributing sources
/// (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Marker bit: [`crate::Packet::marker`].
    pub marker: bool,
    /// Sequence number.
    pub seq: u16,
    /// Timestamp: the viewer's base plus [`crate::Frame::rtp_time`], wrapping.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

impl Header {
    /// Size of the header in bytes.
    pub const BYTES: usize = 12;

    /// Returns the header in wire format.
    pub fn to_bytes(self) -> [u8; Header::BYTES] {
        let mut out = [0; Header::BYTES];
        out[0] = 2 << 6;
        out[1] = (u8::from(self.marker) << 7) | (self.payload_type & 0x7f);
        out[2..4].copy_from_slice(&self.seq.to_be_bytes());
        out[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        out[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        out
    }
}

/// Bytes of the retransmission payload header: the original sequence number in network order, ahead
/// of the original payload (RFC 4588 section 4).
pub const RTX_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_laid_out_as_rfc_3550_says() {
        let header = Header {
            payload_type: 96,
            marker: true,
            seq: 0x1234,
            timestamp: 0x89ab_cdef,
            ssrc: 0x0102_0304,
        };
        assert_eq!(
            header.to_bytes(),
            [0x80, 0xe0, 0x12, 0x34, 0x89, 0xab, 0xcd, 0xef, 1, 2, 3, 4]
        );
    }
}
