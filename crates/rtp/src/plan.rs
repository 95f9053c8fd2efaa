//! The packet plan of a run of samples: what each packet is made of, and when it is due.

use std::ops::Range;

use reelway_media::Nanos;

/// Most pieces a packet is made of: bounds the entries of a gathering send.
pub const MAX_PIECES: usize = 1 + 2 * crate::payload::MAX_AGGREGATED;

/// The packets of a run of samples of one track, the same for every viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is due together, in decode order. Samples that hold nothing to send have no frame.
    pub frames: Vec<Frame>,
    /// All packets, in the order of sending.
    pub packets: Vec<Packet>,
    /// What the packets are made of.
    pub pieces: Vec<Piece>,
    /// Payload headers and parameter sets: the bytes that [`Piece::Inline`] points to.
    pub inline: Vec<u8>,
}

/// One access unit, or the few sound access units that share a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Decode time on the film's timeline: when the frame's first packet should leave, not before.
    pub due: Nanos,
    /// How long the frame takes: its packets are spread over `due..due + duration`. 0 is possible.
    pub duration: Nanos,
    /// Presentation time on the film's timeline (of the first access unit). Negative for what only
    /// primes a decoder.
    pub shown: Nanos,
    /// Presentation time in clock-rate ticks, film zero being 0, wrapping. The RTP timestamp of all
    /// the frame's packets less the viewer's base.
    pub rtp_time: u32,
    /// The frame's packets in [`Plan::packets`]; never empty.
    pub packets: Range<u32>,
    /// A decoder may start here.
    pub sync: bool,
    /// No other frame is decoded from this one (H.264 nal_ref_idc 0): the first to leave out when
    /// not all can be sent.
    pub droppable: bool,
}

/// One RTP packet, without its RTP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// First piece in [`Plan::pieces`].
    pub start: u32,
    /// Number of pieces: 1 to [`MAX_PIECES`].
    pub count: u16,
    /// Bytes of all pieces together; at most `PayloadOptions::max_payload`.
    pub len: u16,
    /// The RTP header's marker bit.
    pub marker: bool,
}

/// A part of a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes kept with the plan: `Plan::inline[start..start + len]`.
    Inline {
        /// First byte.
        start: u32,
        /// Length in bytes, not 0.
        len: u16,
    },
    /// Bytes of the film file.
    Film {
        /// First byte in the file.
        offset: u64,
        /// Length in bytes, not 0.
        len: u32,
    },
}

impl Piece {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match *self {
            Piece::Inline { len, .. } => usize::from(len),
            Piece::Film { len, .. } => len as usize,
        }
    }

    /// Never true of a piece of a plan.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Plan {
    /// The packets of a frame of this plan.
    pub fn packets_of(&self, frame: &Frame) -> &[Packet] {
        &self.packets[frame.packets.start as usize..frame.packets.end as usize]
    }

    /// The pieces of a packet of this plan, in order.
    pub fn pieces_of(&self, packet: &Packet) -> &[Piece] {
        let start = packet.start as usize;
        &self.pieces[start..start + usize::from(packet.count)]
    }

    /// The bytes of an inline piece of this plan; empty for a piece of the film.
    pub fn inline_of(&self, piece: &Piece) -> &[u8] {
        match *piece {
            Piece::Inline { start, len } => {
                &self.inline[start as usize..start as usize + usize::from(len)]
            }
            Piece::Film { .. } => &[],
        }
    }

    /// Payload bytes of a frame of this plan, RTP headers not counted.
    pub fn payload_bytes(&self, frame: &Frame) -> u64 {
        self.packets_of(frame)
            .iter()
            .map(|packet| u64::from(packet.len))
            .sum()
    }

    /// Bytes of memory the plan takes.
    pub fn memory(&self) -> usize {
        size_of::<Plan>()
            + self.frames.capacity() * size_of::<Frame>()
            + self.packets.capacity() * size_of::<Packet>()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.inline.capacity()
    }
}

/// Puts a plan together piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    plan: Plan,
    /// First piece of the packet being made.
    first_piece: usize,
    /// First packet of the frame being made.
    first_packet: usize,
}

/// What a frame says of itself besides its packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameInfo {
    pub due: Nanos,
    pub duration: Nanos,
    pub shown: Nanos,
    pub rtp_time: u32,
    pub sync: bool,
    pub droppable: bool,
}

impl Builder {
    /// Keeps bytes with the plan; the piece can be used in any number of packets.
    pub fn keep(&mut self, bytes: &[u8]) -> Piece {
        let start = self.plan.inline.len() as u32;
        self.plan.inline.extend_from_slice(bytes);
        Piece::Inline {
            start,
            len: bytes.len() as u16,
        }
    }

    /// Adds a kept piece to the packet being made.
    pub fn add(&mut self, piece: Piece) {
        self.plan.pieces.push(piece);
    }

    /// Keeps bytes and adds them to the packet being made.
    pub fn inline(&mut self, bytes: &[u8]) {
        let piece = self.keep(bytes);
        self.add(piece);
    }

    /// Adds bytes of the film to the packet being made; what follows the last piece in the film is
    /// joined to it.
    pub fn film(&mut self, offset: u64, len: u32) {
        if len == 0 {
            return;
        }
        if self.plan.pieces.len() > self.first_piece
            && let Some(Piece::Film {
                offset: start,
                len: before,
            }) = self.plan.pieces.last_mut()
            && *start + u64::from(*before) == offset
        {
            *before += len;
            return;
        }
        self.plan.pieces.push(Piece::Film { offset, len });
    }

    /// Ends the packet being made.
    pub fn end_packet(&mut self, marker: bool) {
        let pieces = &self.plan.pieces[self.first_piece..];
        debug_assert!(!pieces.is_empty() && pieces.len() <= MAX_PIECES);
        let len = pieces.iter().map(Piece::len).sum::<usize>();
        debug_assert!(len <= crate::PayloadOptions::MOST);
        self.plan.packets.push(Packet {
            start: self.first_piece as u32,
            count: pieces.len() as u16,
            len: len as u16,
            marker,
        });
        self.first_piece = self.plan.pieces.len();
    }

    /// Sets the marker of the last packet of the frame being made.
    pub fn mark_last(&mut self) {
        if let Some(packet) = self.plan.packets[self.first_packet..].last_mut() {
            packet.marker = true;
        }
    }

    /// Ends the frame being made; one without packets vanishes.
    pub fn end_frame(&mut self, info: FrameInfo) {
        let packets = self.first_packet as u32..self.plan.packets.len() as u32;
        self.first_packet = self.plan.packets.len();
        if packets.is_empty() {
            return;
        }
        let FrameInfo {
            due,
            duration,
            shown,
            rtp_time,
            sync,
            droppable,
        } = info;
        self.plan.frames.push(Frame {
            due,
            duration,
            shown,
            rtp_time,
            packets,
            sync,
            droppable,
        });
    }

    /// The plan, taking no more memory than it needs.
    pub fn finish(mut self) -> Plan {
        self.plan.frames.shrink_to_fit();
        self.plan.packets.shrink_to_fit();
        self.plan.pieces.shrink_to_fit();
        self.plan.inline.shrink_to_fit();
        self.plan
    }
}
