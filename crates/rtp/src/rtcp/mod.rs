//! RTCP (RFC 3550 section 6): writes sender reports and parses the packets of receivers.

mod numbers;
mod read;
mod write;

pub use read::{Nack, Packet, ReceptionReport, RtcpError, read};
pub use write::{SenderReport, write};
