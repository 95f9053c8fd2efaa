//! Where packets carry a stream on, and what they state of the samples that begin next.

use std::collections::VecDeque;

use super::pes::Stamp;

/// Where a packet carries the stream on.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Bytes of the stream before it.
    pub stream: u64,
    /// Where it lies in the file.
    pub file: u64,
    /// Bytes of it that belong to no sample.
    pub head: usize,
    /// Whether a PES packet begins in it.
    pub starts: bool,
}

/// What the sample that begins next is stamped with.
#[derive(Clone, Copy, Debug)]
struct Stamped {
    /// Bytes of the stream before it.
    stream: u64,
    stamp: Stamp,
    /// How often the programme's clock had gone back by then.
    turn: u32,
}

/// The packets whose bytes are not all dealt with, and their stamps.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    packets: VecDeque<At>,
    stamps: VecDeque<Stamped>,
}

impl Arrivals {
    /// A packet that carries the stream on.
    pub fn add(&mut self, packet: At) {
        self.packets.push_back(packet);
    }

    /// The sample that begins next after `stream` bytes is stamped, when the programme's clock has gone back so often.
    pub fn stamp(&mut self, stream: u64, stamp: Stamp, turn: u32) {
        self.stamps.pop_back_if(|last| last.stream == stream);
        self.stamps.push_back(Stamped {
            stream,
            stamp,
            turn,
        });
    }

    /// The packet that has this byte of the stream.
    pub fn packet_of(&self, byte: u64) -> Option<At> {
        let after = self.packets.partition_point(|at| at.stream <= byte);
        self.packets.get(after.checked_sub(1)?).copied()
    }

    /// The stamp of the sample that begins at this byte of the stream, if it is the first of its PES packet; how many bytes behind
    /// the stamped one it begins, and how often the programme's clock had gone back.
    pub fn take_stamp(&mut self, start: u64) -> Option<(Stamp, u64, u32)> {
        let mut found = None;
        while let Some(next) = self.stamps.pop_front_if(|next| next.stream <= start) {
            found = Some((next.stamp, start - next.stream, next.turn));
        }
        found
    }

    /// The first `gone` bytes of the stream are needed no more.
    pub fn forget(&mut self, gone: u64) {
        while self.stamps.get(1).is_some_and(|next| next.stream <= gone) {
            self.stamps.pop_front();
        }
        // The packet in which the rest begins is still needed.
        while self.packets.get(1).is_some_and(|at| at.stream <= gone) {
            self.packets.pop_front();
        }
    }

    /// Bytes of memory that they take.
    pub fn memory(&self) -> usize {
        self.packets.len() * size_of::<At>() + self.stamps.len() * size_of::<Stamped>()
    }
}
