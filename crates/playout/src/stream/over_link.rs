//! A stream on limited links: how far ahead of its time it may send there, and what it takes of them.

use super::body::Stream;
use crate::frames::TCP_PACKETS;
use crate::host::Host;
use crate::play::State;

/// How much later than its first packet may leave a play's timetable begins on a limited link, ns: for that long pictures of
/// other streams may go first, and nothing is late.
pub(super) const BEGINS_LATER: i64 = 300_000_000;

/// Bytes of a full packet on the wire.
const PACKET: u64 = 1538;

impl<H: Host> Stream<H> {
    /// Notes that packets with so many bytes of payload, due at `due`, left at `after`.
    pub(crate) fn sent_over_link(&mut self, octets: u32, packets: u32, due: u64, after: u64) {
        if let Some(link) = &mut self.link {
            let bytes = self.carriage.wire(octets, packets);
            link.sent(octets, bytes, due, after);
        }
    }

    /// When what is due at `due` may leave: then, or ahead of its time on a limited link.
    pub(crate) fn released(&self, due: u64) -> u64 {
        self.link.as_ref().map_or(due, |link| link.released(due))
    }

    /// What it may send at `now` or in the turn at hand over a limited link, once there is room: when that is due, and its
    /// bytes on the wire. `None`: nothing, or the link is not limited.
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

    /// Takes room on its links for what it sends next; false if there is none.
    pub(crate) fn takes_room(&mut self, now: u64, (due, bytes): (u64, u64), lane: usize) -> bool {
        let link = self.link.as_mut();
        link.is_none_or(|link| link.take(now, bytes, due, lane))
    }

    /// Whether it may send something over its links now for which no room was taken: when its turn came it had nothing to
    /// send, and has begun since.
    pub(crate) fn has_no_room(&self, now: u64) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| !link.has_room()) && self.next_on_link(now).is_some()
    }

    /// Whether a packet that is asked for again finds room on its links.
    pub(crate) fn link_has_room_again(&mut self, now: u64, lane: usize) -> bool {
        self.takes_room(now, (now, PACKET), lane)
    }
}
