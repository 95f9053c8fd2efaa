//! The packet plan of a run of samples: the content of each packet, and when it is due.

use std::ops::Range;

use reelway_media::{GroupPackets, Nanos};

use crate::error::Damage;
use crate::options::PayloadOptions;

/// Maximum number of NAL units or access units in one packet.
pub(crate) const MAX_AGGREGATED: usize = 16;

/// Maximum number of pieces in a packet, which limits the entries of a gathering send.
pub const MAX_PIECES: usize = 1 + 2 * MAX_AGGREGATED;

/// The packets of a run of samples of one track, the same for every viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Groups of packets that are due together, in decode order. Samples without anything to send
    /// have no frame.
    pub frames: Vec<Frame>,
    /// All packets, in the order of sending.
    pub packets: Vec<Packet>,
    /// Content of the packets that are not a [`Packet::run`].
    pub pieces: Vec<Piece>,
    /// Payload headers and parameter sets: the bytes that [`Piece::Inline`] points to.
    pub inline: Vec<u8>,
    /// The first part of the samples that is left out because it is damaged.
    pub damage: Option<Damage>,
}

/// One access unit, or the few audio access units that share a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Decode time on the film's timeline: the earliest time at which the frame's first packet
    /// should leave.
    pub due: Nanos,
    /// Duration of the frame: its packets are spread over `due..due + duration`. May be 0.
    pub duration: Nanos,
    /// Presentation time on the film's timeline (of the first access unit). Negative for data that
    /// only primes a decoder.
    pub shown: Nanos,
    /// Presentation time in ticks of the clock rate, 0 at film zero, wrapping: the RTP timestamp of
    /// all the frame's packets minus the viewer's base.
    pub rtp_time: u32,
    /// Range of the frame's packets in [`Plan::packets`]; never empty.
    pub packets: Range<u32>,
    /// Whether a decoder may start here.
    pub sync: bool,
    /// Whether no other frame is decoded from this one (H.264 nal_ref_idc 0). Such frames are left
    /// out first if not all can be sent.
    pub droppable: bool,
}

/// Most bytes ahead of the film's that a packet stores in itself.
const HEAD: usize = 4;

/// Value of `form` if the content is among the plan's pieces.
const PIECES: u8 = u8::MAX;

/// One RTP packet, without its RTP header. It is small, and most packets of video need no pieces:
/// plans are usually no longer in the processor's cache when senders walk them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Offset in the file of the bytes after the head; or the first piece in [`Plan::pieces`], with
    /// the number of pieces (1 to [`MAX_PIECES`]) in the upper half.
    at: u64,
    head: [u8; HEAD],
    /// Size of the payload in bytes; at most `PayloadOptions::max_payload`.
    pub len: u16,
    /// Length of the head in bytes, or [`PIECES`].
    form: u8,
    /// The RTP header's marker bit.
    pub marker: bool,
}

const _: () = assert!(size_of::<Packet>() == 16);

impl Packet {
    /// Creates a packet that contains only bytes of the film.
    pub fn of_film(offset: u64, len: u16, marker: bool) -> Packet {
        Packet {
            at: offset,
            head: [0; HEAD],
            len,
            form: 0,
            marker,
        }
    }

    /// Returns head and range of film bytes of a packet that consists of one run of the film after
    /// an optional short head. `None` if it consists of [`Plan::pieces_of`].
    #[inline]
    pub fn run(&self) -> Option<(&[u8], Range<u64>)> {
        let head = self.head.get(..usize::from(self.form))?;
        let len = u64::from(self.len) - head.len() as u64;
        Some((head, self.at..self.at + len))
    }
}

/// A part of a packet's payload, the same for all forms of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes stored in the plan.
    Kept(&'a [u8]),
    /// Range of bytes in the film file, the end excluded.
    Film(Range<u64>),
}

/// A part of a packet's payload, as the plan stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes stored in the plan: `Plan::inline[start..start + len]`.
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
    /// Returns the length in bytes.
    fn len(&self) -> usize {
        match *self {
            Piece::Inline { len, .. } => usize::from(len),
            Piece::Film { len, .. } => len as usize,
        }
    }
}

impl Plan {
    /// Returns the packets of a frame of this plan.
    pub fn packets_of(&self, frame: &Frame) -> &[Packet] {
        &self.packets[frame.packets.start as usize..frame.packets.end as usize]
    }

    /// Returns the pieces of a packet of this plan, in order; none for a packet that is a
    /// [`Packet::run`].
    pub fn pieces_of(&self, packet: &Packet) -> &[Piece] {
        if packet.form != PIECES {
            return &[];
        }
        let (start, count) = (packet.at as u32 as usize, (packet.at >> 32) as usize);
        &self.pieces[start..start + count]
    }

    /// Returns the content of a packet of this plan, in order, whatever its form.
    pub fn parts_of<'a>(&'a self, packet: &'a Packet) -> impl Iterator<Item = Part<'a>> {
        let (head, film) = packet.run().unzip();
        let head = head.filter(|head| !head.is_empty()).map(Part::Kept);
        let pieces = self.pieces_of(packet).iter().map(|piece| match *piece {
            Piece::Inline { .. } => Part::Kept(self.inline_of(piece)),
            Piece::Film { offset, len } => Part::Film(offset..offset + u64::from(len)),
        });
        head.into_iter().chain(film.map(Part::Film)).chain(pieces)
    }

    /// Returns the bytes of an inline piece of this plan; empty for a piece of the film.
    pub fn inline_of(&self, piece: &Piece) -> &[u8] {
        match *piece {
            Piece::Inline { start, len } => {
                &self.inline[start as usize..start as usize + usize::from(len)]
            }
            Piece::Film { .. } => &[],
        }
    }

    /// Returns the payload size of a frame of this plan in bytes, without RTP headers.
    pub fn payload_bytes(&self, frame: &Frame) -> u64 {
        self.packets_of(frame)
            .iter()
            .map(|packet| u64::from(packet.len))
            .sum()
    }

    /// Returns the totals that are stored in the film's index, if this is the plan of a whole
    /// group.
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

    /// Returns the memory that the plan takes, in bytes.
    pub fn memory(&self) -> usize {
        size_of::<Plan>()
            + self.frames.capacity() * size_of::<Frame>()
            + self.packets.capacity() * size_of::<Packet>()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.inline.capacity()
    }
}

/// Builds a plan piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    plan: Plan,
    /// First piece of the packet being made.
    first_piece: usize,
    /// First packet of the frame being made.
    first_packet: usize,
}

/// The fields of a frame other than its packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameInfo {
    pub due: Nanos,
    pub duration: Nanos,
    pub shown: Nanos,
    pub rtp_time: u32,
    pub sync: bool,
    pub droppable: bool,
}

/// Splits a frame of `size` bytes into the fewest parts of at most `room` bytes: start, length and
/// whether it is the last. Sizes are balanced, as some receivers treat very short packets as
/// broken.
pub(crate) fn parts(size: u32, room: u32) -> impl Iterator<Item = (u32, u32, bool)> {
    let mut at = 0;
    (1..=size.div_ceil(room)).rev().map(move |left| {
        let (begin, len) = (at, (size - at).div_ceil(left));
        at += len;
        (begin, len, left == 1)
    })
}

impl Builder {
    /// Stores bytes in the plan; the piece can be used in any number of packets.
    pub fn keep(&mut self, bytes: &[u8]) -> Piece {
        let start = self.plan.inline.len() as u32;
        self.plan.inline.extend_from_slice(bytes);
        Piece::Inline {
            start,
            len: bytes.len() as u16,
        }
    }

    /// Adds a stored piece to the packet being made.
    pub fn add(&mut self, piece: Piece) {
        self.plan.pieces.push(piece);
    }

    /// Stores bytes and adds them to the packet being made.
    pub fn inline(&mut self, bytes: &[u8]) {
        let piece = self.keep(bytes);
        self.add(piece);
    }

    /// Adds bytes of the film to the packet being made, and joins them to the last piece if they
    /// follow it in the film.
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

    /// Records that a part of the samples is left out; only the first one is kept.
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

    /// Ends the frame being made; a frame without packets is dropped.
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

    /// Returns the plan, shrunk to the memory it needs.
    pub fn finish(mut self) -> Plan {
        self.plan.make_runs();
        self.plan.frames.shrink_to_fit();
        self.plan.packets.shrink_to_fit();
        self.plan.pieces.shrink_to_fit();
        self.plan.inline.shrink_to_fit();
        self.plan
    }

    /// Returns the plan of a film that consists of these bytes, which are stored in it.
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
    /// Moves the content of packets from the pieces into the packets where it fits.
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
