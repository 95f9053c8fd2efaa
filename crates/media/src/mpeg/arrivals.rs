//! Records which packets carry which bytes of a stream, and the time stamps of its next samples.

use std::collections::VecDeque;

use super::pes::Stamp;

/// A packet that carries the next bytes of a stream.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The bytes of the stream before it.
    pub stream: u64,
    /// The offset of the packet in the file.
    pub file: u64,
    /// The bytes of the packet that belong to no sample.
    pub head: usize,
    /// Whether a PES packet begins in it.
    pub starts: bool,
}

/// The time stamp of the next sample.
#[derive(Clone, Copy, Debug)]
struct Stamped {
    /// The bytes of the stream before the sample.
    stream: u64,
    stamp: Stamp,
    /// How often the programme's clock had gone back by then.
    turn: u32,
}

/// The packets whose bytes have not all been processed, and their time stamps.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    packets: VecDeque<At>,
    stamps: VecDeque<Stamped>,
}

impl Arrivals {
    /// Adds a packet that carries the next bytes of the stream.
    pub fn add(&mut self, packet: At) {
        self.packets.push_back(packet);
    }

    /// Adds the stamp of the sample that begins next after `stream` bytes. `turn`: how often the
    /// programme's clock has gone back.
    pub fn stamp(&mut self, stream: u64, stamp: Stamp, turn: u32) {
        self.stamps.pop_back_if(|last| last.stream == stream);
        self.stamps.push_back(Stamped {
            stream,
            stamp,
            turn,
        });
    }

    /// Returns the packet that contains this byte of the stream.
    pub fn packet_of(&self, byte: u64) -> Option<At> {
        let after = self.packets.partition_point(|at| at.stream <= byte);
        self.packets.get(after.checked_sub(1)?).copied()
    }

    /// Returns the stamp of the sample that begins at this byte of the stream, if it is the first
    /// of its PES packet; also how many bytes after the stamped position it begins, and how often
    /// the programme's clock had gone back.
    pub fn take_stamp(&mut self, start: u64) -> Option<(Stamp, u64, u32)> {
        let mut found = None;
        while let Some(next) = self.stamps.pop_front_if(|next| next.stream <= start) {
            found = Some((next.stamp, start - next.stream, next.turn));
        }
        found
    }

    /// Drops everything that concerns only the first `gone` bytes of the stream.
    pub fn forget(&mut self, gone: u64) {
        while self.stamps.get(1).is_some_and(|next| next.stream <= gone) {
            self.stamps.pop_front();
        }
        // The packet in which the remaining bytes begin is still needed.
        while self.packets.get(1).is_some_and(|at| at.stream <= gone) {
            self.packets.pop_front();
        }
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.packets.len() * size_of::<At>() + self.stamps.len() * size_of::<Stamped>()
    }
}
