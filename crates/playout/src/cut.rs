//! A plain file, cut into packets of equal size at equal intervals.

use std::ops::Range;

use reelway_media::Nanos;
use reelway_rtp::{Frame, Packet, Plan};

/// The most packets in a group of a plain file: limits its plan to some 20 KB.
const GROUP_PACKETS: u64 = 256;
/// The most bytes in a group of a plain file.
const GROUP_BYTES: u64 = 256 << 10;

/// How a plain file is cut.
#[derive(Clone, Debug)]
pub struct Cut {
    bytes: Range<u64>,
    packet_bytes: u64,
    interval: Nanos,
    timestamp_step: u32,
    group_packets: u64,
}

impl Cut {
    /// Cuts the file's bytes from `bytes.start` on into packets of `packet_bytes`, one every
    /// `interval` ns; the RTP timestamp grows by `timestamp_step` with each. The last packet
    /// may be shorter.
    pub fn new(bytes: Range<u64>, packet_bytes: u64, interval: Nanos, timestamp_step: u32) -> Cut {
        let packet_bytes = packet_bytes.max(1);
        Cut {
            bytes: bytes.start..bytes.end.max(bytes.start),
            packet_bytes,
            interval,
            timestamp_step,
            group_packets: (GROUP_BYTES / packet_bytes).clamp(1, GROUP_PACKETS),
        }
    }

    /// Returns the size of a packet, and the interval to the next one in ns.
    pub(crate) fn pace(&self) -> (u64, Nanos) {
        (self.packet_bytes, self.interval)
    }

    pub(crate) fn groups(&self) -> usize {
        self.packets().div_ceil(self.group_packets) as usize
    }

    /// Returns when a group's first packet is due.
    pub(crate) fn group_due(&self, group: usize) -> Nanos {
        self.due(group as u64 * self.group_packets)
    }

    /// Returns the group whose packets are due at `at`; `None` if there are no packets.
    pub(crate) fn group_at(&self, at: Nanos) -> Option<usize> {
        let packet = at.checked_div(self.interval).unwrap_or(0).max(0) as u64;
        let last = self.groups().checked_sub(1)?;
        Some(((packet / self.group_packets) as usize).min(last))
    }

    pub(crate) fn duration(&self) -> Nanos {
        self.due(self.packets())
    }

    /// Returns the RTP timestamp of a position, before the viewer's base is added.
    pub(crate) fn rtp_time(&self, at: Nanos) -> u32 {
        let steps = i128::from(at) * i128::from(self.timestamp_step);
        steps.checked_div(i128::from(self.interval)).unwrap_or(0) as u32
    }

    fn packets(&self) -> u64 {
        (self.bytes.end - self.bytes.start).div_ceil(self.packet_bytes)
    }

    fn due(&self, packet: u64) -> Nanos {
        self.interval
            .saturating_mul(packet.min(i64::MAX as u64) as i64)
    }

    fn group_packets(&self, group: usize) -> Range<u64> {
        let first = (group as u64)
            .saturating_mul(self.group_packets)
            .min(self.packets());
        first..(first + self.group_packets).min(self.packets())
    }

    fn bytes_of(&self, packets: Range<u64>) -> Range<u64> {
        let at = |packet: u64| (self.bytes.start + packet * self.packet_bytes).min(self.bytes.end);
        at(packets.start)..at(packets.end)
    }

    pub(crate) fn group_bytes(&self, group: usize) -> Range<u64> {
        self.bytes_of(self.group_packets(group))
    }

    pub(crate) fn plan(&self, group: usize) -> Plan {
        let mut plan = Plan::default();
        for packet in self.group_packets(group) {
            let bytes = self.bytes_of(packet..packet + 1);
            let len = (bytes.end - bytes.start) as u32;
            let number = plan.packets.len() as u32;
            let due = self.due(packet);
            plan.packets
                .push(Packet::of_film(bytes.start, len as u16, false));
            plan.frames.push(Frame {
                due,
                duration: self.interval,
                shown: due,
                rtp_time: (packet as u32).wrapping_mul(self.timestamp_step),
                packets: number..number + 1,
                sync: true,
                droppable: false,
            });
        }
        plan
    }
}
