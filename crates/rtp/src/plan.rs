//! The packet plan of a run of samples: what each packet is made of, and when it is due.

use std::ops::Range;

use reelway_media::{GroupPackets, Nanos};

use crate::error::Damage;
use crate::options::PayloadOptions;

/// Most NAL units or access units put into one packet.
pub(crate) const MAX_AGGREGATED: usize = 16;

/// Most pieces a packet is made of: bounds the entries of a gathering send.
pub const MAX_PIECES: usize = 1 + 2 * MAX_AGGREGATED;

/// The packets of a run of samples of one track, the same for every viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is due together, in decode order. Samples that hold nothing to send have no frame.
    pub frames: Vec<Frame>,
    /// All packets, in the order of sending.
    pub packets: Vec<Packet>,
    /// What those packets are made of that are no [`Packet::run`].
    pub pieces: Vec<Piece>,
    /// Payload headers and parameter sets: the bytes that [`Piece::Inline`] points to.
    pub inline: Vec<u8>,
    /// The first part of the samples that is left out, as it is damaged.
    pub damage: Option<Damage>,
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

/// Most bytes before the film's that a packet keeps in itself.
const HEAD: usize = 4;

/// In place of a packet's head: what it is made of is among the plan's pieces.
const PIECES: u8 = u8::MAX;

/// One RTP packet, without its RTP header. It is small, and a packet of a picture has all that it is made of in
/// itself: senders go through plans that the processor's cache has long forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where in the file the bytes behind the head begin; or the first piece in [`Plan::pieces`], and in the upper
    /// half their number: 1 to [`MAX_PIECES`].
    at: u64,
    head: [u8; HEAD],
    /// Bytes of the payload; at most `PayloadOptions::max_payload`.
    pub len: u16,
    /// Bytes of the head, or [`PIECES`].
    form: u8,
    /// The RTP header's marker bit.
    pub marker: bool,
}

const _: () = assert!(size_of::<Packet>() == 16);

impl Packet {
    /// A packet of bytes of the film only.
    pub fn of_film(offset: u64, len: u16, marker: bool) -> Packet {
        Packet {
            at: offset,
            head: [0; HEAD],
            len,
            form: 0,
            marker,
        }
    }

    /// What a packet is made of that is one run of the film's bytes behind a short head, or none: the head, and
    /// where the film's bytes lie. `None`: it is made of [`Plan::pieces_of`].
    #[inline]
    pub fn run(&self) -> Option<(&[u8], Range<u64>)> {
        let head = self.head.get(..usize::from(self.form))?;
        let len = u64::from(self.len) - head.len() as u64;
        Some((head, self.at..self.at + len))
    }
}

/// A part of a packet's payload, for those who want all packets alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes kept with the plan.
    Kept(&'a [u8]),
    /// Bytes of the film file, from the first up to but not with the last.
    Film(Range<u64>),
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
    fn len(&self) -> usize {
        match *self {
            Piece::Inline { len, .. } => usize::from(len),
            Piece::Film { len, .. } => len as usize,
        }
    }
}

impl Plan {
    /// The packets of a frame of this plan.
    pub fn packets_of(&self, frame: &Frame) -> &[Packet] {
        &self.packets[frame.packets.start as usize..frame.packets.end as usize]
    }

    /// The pieces of a packet of this plan, in order; none for a packet that is a [`Packet::run`].
    pub fn pieces_of(&self, packet: &Packet) -> &[Piece] {
        if packet.form != PIECES {
            return &[];
        }
        let (start, count) = (packet.at as u32 as usize, (packet.at >> 32) as usize);
        &self.pieces[start..start + count]
    }

    /// What a packet of this plan is made of, in order, whatever its form.
    pub fn parts_of<'a>(&'a self, packet: &'a Packet) -> impl Iterator<Item = Part<'a>> {
        let (head, film) = packet.run().unzip();
        let head = head.filter(|head| !head.is_empty()).map(Part::Kept);
        let pieces = self.pieces_of(packet).iter().map(|piece| match *piece {
            Piece::Inline { .. } => Part::Kept(self.inline_of(piece)),
            Piece::Film { offset, len } => Part::Film(offset..offset + u64::from(len)),
        });
        head.into_iter().chain(film.map(Part::Film)).chain(pieces)
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

    /// What is kept of it with the film's index, where it is the plan of a whole group.
    pub fn counted(&self) -> GroupPackets {
        let of = |packets: &[Packet]| {
            let bytes = packets.iter().map(|packet| u32::from(packet.len));
            (packets.len() as u32, bytes.sum())
        };
        let (packets, bytes) = of(&self.packets);
        let sync = self.frames.first().filter(|frame| frame.sync);
        let (sync_packets, sync_bytes) = of(sync.map_or(&[], |frame| self.packets_of(frame)));
        GroupPackets {
            packets,
            bytes,
            sync_packets,
            sync_bytes,
        }
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

/// A frame of `size` bytes in as few parts of at most `room` bytes as it needs: where each begins, its length, and whether it is
/// the last. They are of one size, as some receivers take the shortest packets for broken ones.
pub(crate) fn parts(size: u32, room: u32) -> impl Iterator<Item = (u32, u32, bool)> {
    let mut at = 0;
    (1..=size.div_ceil(room)).rev().map(move |left| {
        let (begin, len) = (at, (size - at).div_ceil(left));
        at += len;
        (begin, len, left == 1)
    })
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

    /// A part of the samples is left out.
    pub fn leaves_out(&mut self, damage: Damage) {
        self.plan.damage.get_or_insert(damage);
    }

    /// Ends the packet being made.
    pub fn end_packet(&mut self, marker: bool) {
        let pieces = &self.plan.pieces[self.first_piece..];
        debug_assert!(!pieces.is_empty() && pieces.len() <= MAX_PIECES);
        let len = pieces.iter().map(Piece::len).sum::<usize>();
        debug_assert!(len <= PayloadOptions::MOST);
        self.plan.packets.push(Packet {
            at: self.first_piece as u64 | (pieces.len() as u64) << 32,
            head: [0; HEAD],
            len: len as u16,
            form: PIECES,
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
        self.plan.make_runs();
        self.plan.frames.shrink_to_fit();
        self.plan.packets.shrink_to_fit();
        self.plan.pieces.shrink_to_fit();
        self.plan.inline.shrink_to_fit();
        self.plan
    }

    /// The plan of a film that consists of these bytes, which are kept with it.
    pub fn finish_with(mut self, film: &[u8]) -> Plan {
        let base = self.plan.inline.len() as u32;
        for piece in &mut self.plan.pieces {
            if let Piece::Film { offset, len } = *piece {
                *piece = Piece::Inline {
                    start: base + offset as u32,
                    len: len as u16,
                };
            }
        }
        self.plan.inline.extend_from_slice(film);
        self.plan
    }
}

impl Plan {
    /// Puts what a packet is made of into itself where it has room for it.
    fn make_runs(&mut self) {
        let mut kept = 0;
        for packet in &mut self.packets {
            let (start, count) = (packet.at as u32 as usize, (packet.at >> 32) as usize);
            let (head, film) = match self.pieces[start..start + count] {
                [Piece::Film { offset, .. }] => (&[][..], Some(offset)),
                [Piece::Inline { start, len }, Piece::Film { offset, .. }] => {
                    let start = start as usize;
                    (&self.inline[start..start + usize::from(len)], Some(offset))
                }
                _ => (&[][..], None),
            };
            match (film, packet.head.get_mut(..head.len())) {
                (Some(offset), Some(into)) => {
                    into.copy_from_slice(head);
                    (packet.at, packet.form) = (offset, head.len() as u8);
                }
                _ => {
                    self.pieces.copy_within(start..start + count, kept);
                    packet.at = kept as u64 | (count as u64) << 32;
                    kept += count;
                }
            }
        }
        self.pieces.truncate(kept);
    }
}
