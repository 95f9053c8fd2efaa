//! RTCP (RFC 3550 section 6): sender reports are written, what receivers send is read.

mod numbers;
mod read;
mod write;

pub use read::{Nack, Packet, ReceptionReport, RtcpError, read};
pub use write::{SenderReport, write};
