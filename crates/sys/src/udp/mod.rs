//! UDP sockets, and a whole turn's packets in one call.
//!
//! A [`Turn`] gathers messages: runs of packets of one viewer, each packet in any number of slices of
//! memory that others own. `Turn::send` hands them to the kernel in as few calls as it takes, each
//! run either as one datagram that the kernel cuts into equal segments (GSO, udp(7) `UDP_SEGMENT`) or
//! packet by packet, and notes in each message what became of it.

mod address;
mod socket;
mod turn;

pub use address::Destination;
pub use socket::UdpSocket;
pub use turn::{Batch, MAX_RUN_BYTES, MAX_RUN_PACKETS, Message, Segmentation, Sent, Turn};

#[cfg(test)]
mod tests;
