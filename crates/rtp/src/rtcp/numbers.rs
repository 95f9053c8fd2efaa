//! Assigned numbers.

/// Packet types (RFC 3550 section 12.1, RFC 4585 section 6.1).
pub mod kind {
    pub const SR: u8 = 200;
    pub const RR: u8 = 201;
    pub const SDES: u8 = 202;
    pub const BYE: u8 = 203;
    pub const RTPFB: u8 = 205;
}

/// SDES item of the canonical name (RFC 3550 section 6.5.1).
pub const CNAME: u8 = 1;
/// Feedback message type of a generic NACK (RFC 4585 section 6.2.1).
pub const GENERIC_NACK: u8 = 1;
