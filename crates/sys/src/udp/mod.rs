//! UDP sockets; all packets of a turn are sent in one call.
//!
//! A [`Turn`] gathers messages: runs of packets for one viewer, each packet in any number of
//! borrowed slices. `Turn::send` hands them to the kernel in as few calls as possible, each run
//! either as one datagram that the kernel divides into equal segments (GSO, udp(7) `UDP_SEGMENT`)
//! or packet by packet, and records the outcome in each message.

mod address;
mod socket;
mod turn;

pub use address::Destination;
pub use socket::UdpSocket;
pub use turn::{Batch, MAX_RUN_BYTES, MAX_RUN_PACKETS, Message, Segmentation, Sent, Turn};

#[cfg(test)]
mod tests;
