//! How a turn's packets get to the kernel.
//!
//! A backend takes everything that is due in a turn at once, sends what it can and notes in each
//! message what became of it; it keeps nothing when it returns. So the bytes it is given need only
//! live for the call, and one that submits to a ring (io_uring) reaps its completions before it
//! returns, as sends to UDP sockets complete at once. Messages carry their departure time: a backend
//! that lets the kernel hold packets (fq with SO_TXTIME) says with `horizon` how far ahead it wants
//! them, and gives the times on.

use std::time::Duration;

use reelway_sys::udp::{Batch, Segmentation, UdpSocket};

use crate::pacing::TURN;

/// A way to the kernel. One thread has it.
pub(crate) trait Backend: Send {
    /// Its name, for logs and metrics.
    fn name(&self) -> &'static str;

    /// Whether runs of packets are cut by the kernel.
    fn segmentation(&self) -> Segmentation;

    /// How far ahead of their departure packets are wanted. Without help from the kernel that is a turn:
    /// what is due within the coming turn leaves at its start.
    fn horizon(&self) -> Duration {
        Duration::from_nanos(TURN)
    }

    /// Sends a turn's packets through the thread's sockets.
    fn send(&mut self, batch: Batch<'_, '_>, sockets: &[UdpSocket]);
}

/// `sendmmsg` of runs that the kernel cuts (GSO).
pub(crate) struct Gso;

impl Backend for Gso {
    fn name(&self) -> &'static str {
        "gso"
    }

    fn segmentation(&self) -> Segmentation {
        Segmentation::Kernel
    }

    fn send(&mut self, batch: Batch<'_, '_>, sockets: &[UdpSocket]) {
        batch.send(sockets);
    }
}

/// `sendmmsg` of single packets.
pub(crate) struct Plain;

impl Backend for Plain {
    fn name(&self) -> &'static str {
        "sendmmsg"
    }

    fn segmentation(&self) -> Segmentation {
        Segmentation::None
    }

    fn send(&mut self, batch: Batch<'_, '_>, sockets: &[UdpSocket]) {
        batch.send(sockets);
    }
}
