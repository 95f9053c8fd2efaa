//! A stream on limited links: how far ahead of its time it may send there, and what it takes of them.

use std::sync::Arc;

use super::body::Stream;
use crate::frames::TCP_PACKETS;
use crate::host::Host;
use crate::link::Way;
use crate::play::State;

/// How much later than its first packet may leave a play's timetable begins on a limited link, ns: for that long pictures of
/// other streams may go first, and nothing is late.
pub(super) const BEGINS_LATER: i64 = 300_000_000;

/// How many times as fast as its densest group a stream sends that is ahead of its time, in percent. Little more than it
/// needs: a newcomer fills its receiver's buffer over some seconds instead of at the speed of the link.
const PACE: u64 = 125;

/// Bytes of a full packet on the wire.
const PACKET: u64 = 1538;

/// What a stream has to do with the limited links that its packets pass.
pub struct OnLink {
    pub(crate) way: Arc<Way>,
    /// How far ahead of its time anything may leave, ns.
    ahead: u64,
    /// Bytes a second at which it sends while it is ahead.
    rate: u64,
    /// Nothing that is ahead of its time leaves before this.
    ahead_after: u64,
    /// Bytes for which room was taken, and those handed over since.
    reserved: u64,
    handed: u64,
    /// The deadline by which it waits in line.
    pub(crate) in_line_for: u64,
}

impl OnLink {
    /// A stream whose densest group has `peak` bytes a second, and which may leave up to `ahead` ns before its time.
    pub fn new(way: Arc<Way>, ahead: u64, peak: u64) -> OnLink {
        OnLink {
            way,
            ahead,
            rate: (peak.saturating_mul(PACE) / 100).max(1),
            ahead_after: 0,
            reserved: 0,
            handed: 0,
            in_line_for: 0,
        }
    }

    /// When what is due at `due` may leave.
    fn released(&self, due: u64) -> u64 {
        due.saturating_sub(self.ahead)
            .max(self.ahead_after)
            .min(due)
    }

    /// Notes that packets have left at `after` which are due at `due`: `octets` of payload, and so many bytes on the wire.
    fn sent(&mut self, octets: u32, bytes: u32, due: u64, after: u64) {
        self.handed += u64::from(bytes);
        if due > after {
            let gap = u128::from(octets) * 1_000_000_000 / u128::from(self.rate);
            self.ahead_after = self.ahead_after.max(after) + gap as u64;
        }
    }

    /// Takes room for `bytes` that are due at `due`; false if there is none.
    fn take(&mut self, now: u64, bytes: u64, due: u64, lane: usize) -> bool {
        let has = self.way.take(now, bytes, due, lane);
        if has {
            self.reserved += bytes;
        }
        has
    }

    /// Sets right what was taken of the links, after a walk.
    pub(crate) fn settle(&mut self, now: u64) {
        let (reserved, handed) = (
            std::mem::take(&mut self.reserved),
            std::mem::take(&mut self.handed),
        );
        if reserved != handed {
            self.way.settle(now, reserved, handed);
        }
    }
}

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

    /// Whether a packet that is asked for again finds room on its links.
    pub(crate) fn link_has_room_again(&mut self, now: u64, lane: usize) -> bool {
        self.takes_room(now, (now, PACKET), lane)
    }
}
