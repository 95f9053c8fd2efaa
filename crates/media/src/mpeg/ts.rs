//! Packets of a transport stream (ISO/IEC 13818-1 2.4.3.2): 188 bytes each, in files also 192 (with
//! a time before each, as on Blu-ray Discs) or 204 (with 16 bytes of error correction after each).

use std::ops::Range;

/// The size of a packet in bytes.
pub const PACKET: usize = 188;
const SYNC: u8 = 0x47;
/// The number of consecutive packets that identify a transport stream.
const ENOUGH: usize = 8;
/// The maximum offset of the first packet.
const MOST_BEFORE: usize = 4096;

/// The layout of packets in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The distance from one packet to the next, in bytes.
    pub stride: usize,
    /// The number of bytes before each packet.
    before: usize,
}

impl Layout {
    /// Returns the layout of packets with this distance.
    pub fn of(stride: u8) -> Option<Layout> {
        let before = match stride {
            188 | 204 => 0,
            192 => 4,
            _ => return None,
        };
        Some(Layout {
            stride: stride.into(),
            before,
        })
    }

    /// Returns whether nothing lies between packets.
    pub fn is_plain(self) -> bool {
        self.stride == PACKET
    }
}

/// Returns the distance of packets in a file of `len` bytes that begins with `head`; `None` if it
/// is not a transport stream.
pub fn packet_bytes(head: &[u8], len: u64) -> Option<u8> {
    [188u8, 192, 204].into_iter().find(|stride| {
        let Some(layout) = Layout::of(*stride) else {
            return false;
        };
        let most = MOST_BEFORE.min(head.len());
        // A short file has fewer packets.
        let enough = ENOUGH.min((len / layout.stride as u64) as usize).max(2);
        (0..most.min(layout.stride * 4)).any(|start| {
            let marks = head
                .get(start + layout.before..)
                .into_iter()
                .flat_map(|rest| rest.iter().step_by(layout.stride));
            marks.clone().count() >= enough && marks.take(enough).all(|mark| *mark == SYNC)
        })
    })
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The packet identifier of its stream.
    pub pid: u16,
    /// Whether a PES packet or a section begins in it.
    pub starts: bool,
    /// Whether its payload is scrambled.
    pub scrambled: bool,
    /// The counter of the stream's packets with payload, modulo 16.
    pub counter: u8,
    /// Whether the counter may jump here.
    pub jumps: bool,
    /// The payload, without the adaptation field.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet; `None` if it is damaged or has no payload.
    pub fn parse(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let [_, high, low, flags] = *head;
        if high & 0x80 != 0 || flags & 0x10 == 0 {
            return None;
        }
        let (mut payload, mut jumps) = (rest, false);
        if flags & 0x20 != 0 {
            let (length, rest) = rest.split_first()?;
            jumps = *length > 0 && rest[0] & 0x80 != 0;
            payload = rest.get(usize::from(*length)..)?;
        }
        Some(Packet {
            pid: u16::from(high & 0x1f) << 8 | u16::from(low),
            starts: high & 0x40 != 0,
            scrambled: flags & 0xc0 != 0,
            counter: flags & 0xf,
            jumps,
            payload,
        })
    }
}

/// Returns the PID of a packet.
pub fn pid(packet: &[u8; PACKET]) -> u16 {
    u16::from(packet[1] & 0x1f) << 8 | u16::from(packet[2])
}

/// Returns the program_clock_reference_base of a packet (90 kHz); `None` if there is none.
pub fn clock_reference(packet: &[u8; PACKET]) -> Option<u64> {
    let [_, high, _, flags, length, about, rest @ ..] = packet;
    let is_stated = high & 0x80 == 0 && flags & 0x20 != 0 && *length >= 7 && about & 0x10 != 0;
    let [first, second, third, fourth, last] = *rest.first_chunk::<5>()?;
    let upper = u64::from(u32::from_be_bytes([first, second, third, fourth]));
    is_stated.then_some(upper << 1 | u64::from(last >> 7))
}

/// Returns whether the payload of a packet is scrambled.
pub fn is_scrambled(packet: &[u8; PACKET]) -> bool {
    packet[1] & 0x80 == 0 && packet[3] & 0xc0 != 0
}

/// Packs a section into packets with this PID.
pub fn packets_of(pid: u16, section: &[u8]) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    // The pointer: the section begins immediately.
    let payload = [&[0], section].concat();
    let mut packets = Vec::new();
    for (nth, part) in payload.chunks(PACKET - 4).enumerate() {
        let starts = if nth == 0 { 0x40 } else { 0 };
        packets.extend([SYNC, starts | high, low, 0x10 | nth as u8 & 0xf]);
        packets.extend_from_slice(part);
        packets.resize((nth + 1) * PACKET, 0xff);
    }
    packets
}

/// Walks consecutive packets.
#[derive(Clone, Debug)]
pub struct Walker {
    layout: Layout,
    /// Whether a packet is expected at the next byte.
    in_step: bool,
    /// The number of bytes so far that belong to no packet.
    pub lost: u64,
}

impl Walker {
    /// Creates a walker that starts where a packet is expected, as at the places in an index.
    pub fn new(layout: Layout) -> Walker {
        Walker {
            layout,
            in_step: true,
            lost: 0,
        }
    }

    /// Passes every packet with payload in `bytes` to `sink`; see [`Walker::walk_all`].
    pub fn walk<'a>(
        &mut self,
        bytes: &'a [u8],
        is_end: bool,
        mut sink: impl FnMut(usize, Packet<'a>),
    ) -> usize {
        self.walk_all(bytes, is_end, |within, packet| {
            if let Some(packet) = Packet::parse(packet) {
                sink(within, packet);
            }
        })
    }

    /// Passes every packet in `bytes` to `sink`, with its position. Returns the number of processed
    /// bytes: unless `is_end`, the others must be passed again, followed by more bytes of the file.
    pub fn walk_all<'a>(
        &mut self,
        bytes: &'a [u8],
        is_end: bool,
        mut sink: impl FnMut(usize, &'a [u8; PACKET]),
    ) -> usize {
        let Layout { stride, before } = self.layout;
        let mut at = 0;
        loop {
            let body: Range<usize> = at + before..at + before + PACKET;
            let next = at + stride + before;
            // Without synchronisation, the next packet must confirm this one.
            let have = match is_end {
                true => body.end,
                false if self.in_step => at + stride,
                false => next + 1,
            };
            if bytes.len() < have {
                if is_end {
                    self.lost += (bytes.len() - at) as u64;
                    at = bytes.len();
                }
                return at;
            }
            let is_one = bytes[body.start] == SYNC
                && (self.in_step || bytes.get(next).is_none_or(|mark| *mark == SYNC));
            self.in_step = is_one;
            if !is_one {
                at += 1;
                self.lost += 1;
                continue;
            }
            if let Some(packet) = bytes[body].first_chunk() {
                sink(at, packet);
            }
            // After the last packet, there may be fewer bytes than between two packets.
            at = (at + stride).min(bytes.len());
        }
    }
}
