//! Packets that are lost in transit, and sent again.

use std::time::Duration;

use reelway_demand::Carriage;
use reelway_playout::{Lost, PacketPlace};

use crate::config::Rule;
use crate::events::Event;
use crate::node::Node;
use crate::trace::Line;

/// The number of packets per track whose positions are remembered.
const REMEMBERED: usize = 16 << 10;
/// Bytes before the payload of a retransmitted packet: the RTP header, and the original sequence
/// number (RFC 4588).
const BEFORE: u32 = 14;
/// The limit of a track's retransmissions: one part in this many of its own bytes, and what it has
/// saved up.
const SHARE: u64 = 4;
const SAVED: u64 = 64 << 10;

impl Node {
    /// Handles packets of a track that have left, from `first` on. Some are lost,
    /// and requested again.
    pub fn travel(&mut self, id: u64, track: usize, first: (u16, PacketPlace, u16), packets: u32) {
        if !self.wire.is_lossy() {
            return;
        }
        let (seq, at, preface) = first;
        for nth in 0..packets {
            let Some(viewer) = self.viewers.get_mut(&id) else {
                return;
            };
            let (epoch, seq) = (viewer.epoch, seq.wrapping_add(nth as u16));
            let remembered = &mut viewer.sent[track].places;
            if remembered.len() == REMEMBERED {
                remembered.pop_front();
            }
            remembered.push_back((seq, place(at, preface, nth)));
            let missed = if self.wire.loses(&mut self.random) {
                seq
            } else if self.random.once_in(5000) {
                // Receivers may ask for any packet.
                self.random.within(0, 1 << 16) as u16
            } else {
                continue;
            };
            let after = Duration::from_millis(self.random.within(10, 400));
            self.after(after, Event::Misses(id, epoch, track, missed));
        }
    }

    /// Handles a receiver's request for a packet.
    pub fn misses(&mut self, id: u64, epoch: u32, track: usize, seq: u16) {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        // A few requests are for packets that were sent before a seek.
        if viewer.epoch != epoch && !self.random.once_in(10) {
            return;
        }
        let sent = &mut viewer.sent[track];
        let known = sent.places.iter().rev().find(|(of, _)| *of == seq);
        if let Some((_, at)) = known {
            sent.missed.insert(order(*at));
        }
        self.note(&Line::Misses {
            viewer: id,
            track,
            seq,
        });
        self.counters.missed += 1;
        self.lane.missed(id, track, &[seq]);
        self.acts();
    }

    /// Retransmits what receivers miss, after all packets that are due.
    pub fn send_lost(&mut self) {
        let now = self.now.nanos();
        while let Some(lost) = self.lane.next_lost(now) {
            let bytes = self.send_again(&lost);
            self.lane.resent(&lost, bytes, now);
        }
        self.acts();
    }

    /// Retransmits a packet, and returns its bytes of RTP. `None`: the kernel has no room for it.
    fn send_again(&mut self, lost: &Lost) -> Option<u32> {
        let (track, at) = (lost.track, lost.at);
        let stream = self.lane.stream(lost.place)?;
        let (unit, number) = stream.unit_at(track, at)?;
        let bytes = BEFORE + u32::from(unit.packets[number as usize].len);
        let (id, octets) = (stream.id(), u64::from(stream.tracks[track].octets));
        let (taken, refused) = self.kernel.takes(self.now, 1, &mut self.random);
        if taken + refused == 0 {
            return None;
        }
        let viewer = self.viewers.get_mut(&id)?;
        let sent = &mut viewer.sent[track];
        sent.again += u64::from(bytes);
        let (was_missed, again) = (sent.missed.remove(&order(at)), sent.again);
        self.counters.resent += 1;
        self.note(&Line::Resends {
            viewer: id,
            track,
            group: at.group,
            packet: at.packet,
        });
        if !was_missed {
            let what =
                format!("viewer {id} is sent {at:?} of track {track} again without a request");
            self.broken(Rule::SentAgain, what);
        }
        if again > octets / SHARE + SAVED + u64::from(bytes) {
            let what = format!(
                "viewer {id} is sent {again} bytes of track {track} again, too many for {octets} bytes"
            );
            self.broken(Rule::SentAgain, what);
        }
        self.check_burst(id, 1, 0);
        self.hand_over(id, Carriage::UdpV4, (bytes, 1));
        Some(bytes)
    }

    /// Hands packets with this many bytes of RTP to the link.
    pub fn hand_over(&mut self, id: u64, carriage: Carriage, (bytes, packets): (u32, u32)) {
        let bytes = carriage.wire(bytes.saturating_sub(12 * packets), packets);
        let is_frame = carriage == Carriage::Tcp;
        self.flows.advance(&mut self.wire, self.now);
        if let Some(waits) = self.wire.takes(self.now.nanos(), bytes.into(), is_frame) {
            let what = format!(
                "packets of viewer {id} wait {:.3} ms in the link's queue",
                waits as f64 / 1e6
            );
            self.broken(Rule::WithinLink, what);
        }
    }
}

/// Returns the position of the nth packet from `at` on.
fn place(at: PacketPlace, preface: u16, nth: u32) -> PacketPlace {
    let first = at.preface.map_or(preface, |first| first);
    let of_preface = u32::from(preface.saturating_sub(first));
    if at.preface.is_some() && nth < of_preface {
        return PacketPlace {
            preface: Some(first + nth as u16),
            ..at
        };
    }
    let nth = match at.preface {
        Some(_) => nth - of_preface,
        None => nth,
    };
    PacketPlace {
        packet: at.packet + nth,
        preface: None,
        ..at
    }
}

/// Returns the key of a position in the order of the film.
fn order(at: PacketPlace) -> (u32, u32, Option<u16>) {
    (at.group, at.packet, at.preface)
}
