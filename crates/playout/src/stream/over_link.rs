//! A stream on limited links: how far ahead of its time it may send, and how much of the
//! links it uses.

use super::body::Stream;
use crate::frames::TCP_PACKETS;
use crate::host::Host;
use crate::play::State;

/// How long after its first packet may leave a play's timetable begins on a limited link, ns:
/// during that time pictures of other streams may go first without making anything late.
pub(super) const BEGINS_LATER: i64 = 300_000_000;

/// The size of a full packet on the wire, bytes.
const PACKET: u64 = 1538;

impl<H: Host> Stream<H> {
    /// Records that packets with this many bytes of payload, due at `due`, left at `after`.
    pub(crate) fn sent_over_link(&mut self, octets: u32, packets: u32, due: u64, after: u64) {
        if let Some(link) = &mut self.link {
            let bytes = self.carriage.wire(octets, packets);
            link.sent(octets, bytes, due, after);
        }
    }

    /// Returns when packets due at `due` may leave: at that time, or earlier on a limited link.
    pub(crate) fn released(&self, due: u64) -> u64 {
        self.link.as_ref().map_or(due, |link| link.released(due))
    }

    /// Returns what it may send over a limited link at `now` or in the current turn, once there is
    /// room: when that is due, and its bytes on the wire. `None` if there is nothing, or the link
    /// is not limited.
    pub(crate) fn next_on_link(&self, now: u64) -> Option<(u64, u64)> {
        let link = self.link.as_ref()?;
        if self.state != State::Playing {
            return None;
        }
        let slices = (0..self.tracks.len()).filter_map(|track| Some(self.slice(track)?.0));
        let due = slices.min_by_key(|due| due.at)?;
        if link.released(due.at) >= self.horizon(now) {
            return None;
        }
        let unit = self.unit_of(due.track)?;
        let end = if self.is_tcp() {
            (due.first + TCP_PACKETS).min(unit.packets.len() as u32)
        } else {
            due.end
        };
        let packets = unit.packets.get(due.first as usize..end as usize)?;
        let bytes = packets.iter().map(|packet| u32::from(packet.len)).sum();
        let bytes = self.carriage.wire(bytes, end - due.first);
        Some((due.at, bytes.into()))
    }

    /// Reserves room on its links for what it sends next; returns whether there is any.
    pub(crate) fn takes_room(&mut self, now: u64, (due, bytes): (u64, u64), lane: usize) -> bool {
        let link = self.link.as_mut();
        link.is_none_or(|link| link.take(now, bytes, due, lane))
    }

    /// Returns whether it may send something over its links now for which no room was reserved: it
    /// had nothing to send in its turn, and has begun since.
    pub(crate) fn has_no_room(&self, now: u64) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| !link.has_room()) && self.next_on_link(now).is_some()
    }

    /// Returns whether a packet to be sent again finds room on its links.
    pub(crate) fn link_has_room_again(&mut self, now: u64, lane: usize) -> bool {
        self.takes_room(now, (now, PACKET), lane)
    }
}
