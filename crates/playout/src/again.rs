//! What a track keeps in order to send lost packets again (RFC 4588): not the packets, only where
//! on the timetable its sequence numbers lie. Everything else is in the film.
//!
//! A receiver may ask for any packet, as often as it likes. What it gets is limited: packets of the
//! last two seconds, and in total a quarter of what the track sends. The memory that old groups of
//! all viewers pin is limited as well: when it is used up, packets of groups that the track has
//! left are not sent again.

use std::collections::VecDeque;
use std::sync::Arc;

use reelway_rtp::Header;

use crate::group::Group;

/// The number of runs of sequence numbers that are remembered: a group is one run, and each frame
/// left out begins another. This covers 16 s at 4 Mb/s and 2 s at 32 Mb/s.
const RUNS: usize = 32;
/// The most packets that wait to be sent again.
const WAITING: usize = 64;
/// One part in this many of the track's own bytes may be sent again.
const SHARE: u32 = 4;
/// The most bytes that can be saved up for later losses; available from the beginning.
const SAVED: u32 = 64 << 10;

/// The RTP stream that carries a track's retransmissions (RFC 4588, SSRC multiplexing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// RTP payload type, below 128; differs from the track's.
    pub payload_type: u8,
    /// RTP synchronisation source; differs from all others.
    pub ssrc: u32,
    /// Sequence number of the first retransmitted packet.
    pub seq: u16,
}

/// The position of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketPlace {
    /// Number of the group in its track.
    pub group: u32,
    /// Number of the packet in the group's plan; for a packet of the preface, of the first packet
    /// of the frame that follows.
    pub packet: u32,
    /// Number in the preface.
    pub preface: Option<u16>,
}

/// Packets that left in sequence: some of the preface, then those of a group in the order
/// of its plan.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the first packet.
    first: u32,
    group: u32,
    /// The first packet after the preface.
    packet: u32,
    /// The number of packets of the preface.
    preface: u16,
}

impl Run {
    fn place(&self, number: u32) -> PacketPlace {
        let nth = number.wrapping_sub(self.first);
        let preface = u32::from(self.preface);
        PacketPlace {
            group: self.group,
            packet: self.packet.wrapping_add(nth.saturating_sub(preface)),
            preface: (nth < preface).then_some(nth as u16),
        }
    }
}

/// Positions of the packets last sent, by number: how many packets the track had
/// sent before, wrapping.
#[derive(Debug, Default)]
pub struct Trail(VecDeque<Run>);

impl Trail {
    /// Records that packet `number` was at `place`; `preface` is the number of packets in the whole
    /// preface. Numbers only grow.
    pub fn note(&mut self, number: u32, place: PacketPlace, preface: u16) {
        if self.find(number) == Some(place) {
            return;
        }
        if self.0.len() == RUNS {
            self.0.pop_front();
        }
        let nth = place.preface.unwrap_or(0);
        self.0.push_back(Run {
            first: number.wrapping_sub(u32::from(nth)),
            group: place.group,
            packet: place.packet,
            preface: place.preface.map_or(0, |_| preface),
        });
    }

    /// Returns the position of packet `number`, which was sent; only packets of the last
    /// runs are known.
    pub fn find(&self, number: u32) -> Option<PacketPlace> {
        let begun = |run: &&Run| number.wrapping_sub(run.first) as i32 >= 0;
        Some(self.0.iter().rev().find(begun)?.place(number))
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// A track's retransmissions. `P` is the permission to pin a group that the track has left.
#[derive(Debug)]
pub struct Resend<B, P> {
    /// RTP payload type of retransmissions.
    pub payload_type: u8,
    /// Their RTP synchronisation source.
    pub ssrc: u32,
    /// Sequence number of the next retransmission.
    pub seq: u16,
    /// The number of packets retransmitted, and of their payload bytes (including the lost packet's
    /// sequence number), for sender reports; wrapping.
    pub packets: u32,
    /// See `packets`.
    pub octets: u32,
    /// Positions of the packets last sent.
    pub trail: Trail,
    /// Numbers of the packets to be sent again, in the order of the requests.
    waiting: VecDeque<u32>,
    /// Bytes that may be sent again now.
    credit: u32,
    /// A group that the track has left, fetched again for waiting packets.
    fetched: Option<(u32, Arc<Group<B>>, P)>,
    /// The group that was requested.
    asked: Option<(u32, P)>,
}

impl<B, P> Resend<B, P> {
    /// Creates the state of a track that has sent nothing yet.
    pub fn new(again: Again) -> Resend<B, P> {
        Resend {
            payload_type: again.payload_type & 0x7f,
            ssrc: again.ssrc,
            seq: again.seq,
            packets: 0,
            octets: 0,
            trail: Trail(VecDeque::with_capacity(RUNS)),
            waiting: VecDeque::new(),
            credit: SAVED,
            fetched: None,
            asked: None,
        }
    }

    /// Abandons the current position: packets sent so far are not sent again.
    pub fn leave(&mut self) {
        self.let_go();
        self.trail.clear();
    }

    /// Releases all memory, and drops the packets that wait.
    pub fn let_go(&mut self) {
        self.waiting.clear();
        self.fetched = None;
        self.asked = None;
    }

    /// Forgets the pending request: the answer would go to a thread that the track has left.
    pub fn ask_again(&mut self) {
        self.asked = None;
    }

    /// Records that the track has sent this many bytes.
    pub fn earn(&mut self, bytes: u32) {
        self.credit = (self.credit + bytes / SHARE).min(SAVED);
    }

    /// Returns whether this many bytes may be sent again.
    pub fn affords(&self, bytes: u32) -> bool {
        self.credit >= bytes
    }

    /// Records that the first waiting packet was sent, with this many bytes of RTP.
    pub fn sent(&mut self, bytes: u32) {
        self.packets = self.packets.wrapping_add(1);
        let payload = bytes.saturating_sub(Header::BYTES as u32);
        self.octets = self.octets.wrapping_add(payload);
        self.credit = self.credit.saturating_sub(bytes);
        self.seq = self.seq.wrapping_add(1);
        self.done();
    }

    /// Records that the receiver misses the packet with sequence number `seq`, when `sent` packets
    /// have been sent and `next` is the next sequence number.
    pub fn miss(&mut self, seq: u16, next: u16, sent: u32) {
        let before = next.wrapping_sub(seq);
        // Not sent yet, or too long ago to be identified.
        if before == 0 || before > u16::MAX / 2 {
            return;
        }
        let number = sent.wrapping_sub(u32::from(before));
        let known = self.trail.find(number).is_some();
        if known && self.waiting.len() < WAITING && !self.waiting.contains(&number) {
            self.waiting.push_back(number);
        }
    }

    /// Returns the packet to be sent again next.
    pub fn first(&self) -> Option<PacketPlace> {
        self.trail.find(*self.waiting.front()?)
    }

    /// Returns whether a packet waits, and no group has to be fetched first.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() && self.asked.is_none()
    }

    /// Returns the number of the first waiting packet.
    pub fn number(&self) -> Option<u32> {
        self.waiting.front().copied()
    }

    /// Drops the first waiting packet: it was sent, or will not be.
    pub fn done(&mut self) {
        self.waiting.pop_front();
        if self.waiting.is_empty() {
            self.fetched = None;
        }
    }

    /// Returns a group that was fetched.
    pub fn fetched(&self, group: u32) -> Option<&Arc<Group<B>>> {
        let (number, planned, _) = self.fetched.as_ref()?;
        (*number == group).then_some(planned)
    }

    /// Records that a group was requested, with permission to pin it.
    pub fn ask(&mut self, group: u32, part: P) {
        self.fetched = None;
        self.asked = Some((group, part));
    }

    /// Accepts a group that was requested. If it is not available, its packets are not sent again.
    /// Returns whether packets are waiting.
    pub fn give(&mut self, group: usize, planned: Option<&Arc<Group<B>>>) -> bool {
        let Some((asked, part)) = self.asked.take_if(|(asked, _)| *asked as usize == group) else {
            return false;
        };
        match planned {
            Some(planned) if !self.waiting.is_empty() => {
                self.fetched = Some((asked, Arc::clone(planned), part));
            }
            _ => {
                let trail = &self.trail;
                let elsewhere =
                    |number: &u32| trail.find(*number).is_some_and(|at| at.group != asked);
                self.waiting.retain(elsewhere);
            }
        }
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resend() -> Resend<(), ()> {
        Resend::new(Again {
            payload_type: 112,
            ssrc: 7,
            seq: 9,
        })
    }

    fn place(group: u32, packet: u32) -> PacketPlace {
        PacketPlace {
            group,
            packet,
            preface: None,
        }
    }

    #[test]
    fn what_was_never_sent_and_what_is_asked_for_again_is_not_sent() {
        let mut resend = resend();
        resend.trail.note(0, place(3, 40), 0);
        let (sent, next) = (10, 5u16);
        for seq in [
            next,
            next + 1,
            next.wrapping_sub(11),
            next.wrapping_add(30_000),
        ] {
            resend.miss(seq, next, sent);
        }
        assert_eq!(resend.waiting.len(), 0);
        for _ in 0..1000 {
            resend.miss(next.wrapping_sub(10), next, sent);
            resend.miss(next - 1, next, sent);
        }
        assert_eq!(resend.waiting, [0, 9]);
        assert_eq!(resend.first(), Some(place(3, 40)));
    }

    #[test]
    fn no_more_is_sent_again_than_a_share_of_what_is_sent() {
        let mut resend = resend();
        let mut again = 0;
        for _ in 0..10_000 {
            resend.earn(1000);
            while resend.affords(1400) {
                resend.sent(1400);
                again += 1400;
            }
        }
        let most = 10_000 * 1000 / SHARE + SAVED;
        assert!(
            again <= most && again > most - 1400,
            "{again} of {most} bytes"
        );
    }

    #[test]
    fn a_group_that_cannot_be_had_leaves_only_its_own_packets_out() {
        let mut resend = resend();
        resend.trail.note(0, place(0, 0), 0);
        resend.trail.note(10, place(1, 0), 0);
        (0..20).for_each(|seq| resend.miss(seq, 20, 20));
        resend.ask(0, ());
        assert!(!resend.is_waiting());
        assert!(!resend.give(1, None), "nobody asked for it");
        assert!(resend.give(0, None) && resend.is_waiting());
        assert_eq!(resend.waiting, (10..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_packet_is_found_by_a_number_of_the_last_half_of_all_and_64_wait_at_most() {
        let mut resend = resend();
        resend.trail.note(0, place(0, 0), 0);
        let (sent, next) = (40_000, 40_000u16);
        resend.miss(next.wrapping_sub(32_768), next, sent);
        assert_eq!(resend.number(), None);
        resend.miss(next.wrapping_sub(32_767), next, sent);
        assert_eq!(resend.number(), Some(40_000 - 32_767));
        (0..100).for_each(|ago| resend.miss(next - 1 - ago, next, sent));
        assert_eq!(resend.waiting.len(), 64);
        for _ in 0..64 {
            assert!(resend.is_waiting());
            resend.done();
        }
        assert!(!resend.is_waiting() && resend.first().is_none());
    }

    #[test]
    fn what_is_sent_again_is_counted_and_paid() {
        let mut resend = resend();
        assert_eq!((resend.payload_type, resend.ssrc, resend.seq), (112, 7, 9));
        assert!(
            resend.affords(65_536) && !resend.affords(65_537),
            "64 KiB at first"
        );
        resend.sent(1412);
        assert_eq!((resend.packets, resend.octets, resend.seq), (1, 1400, 10));
        assert!(resend.affords(64_124) && !resend.affords(64_125));
        // A quarter of what is sent is added, and no more than 64 KiB are saved up.
        resend.earn(4_003);
        assert!(resend.affords(65_124) && !resend.affords(65_125));
        resend.earn(1_000_000);
        assert!(resend.affords(65_536) && !resend.affords(65_537));
        resend.seq = u16::MAX;
        resend.sent(100_000);
        assert_eq!((resend.packets, resend.seq), (2, 0));
        assert!(resend.affords(0) && !resend.affords(1));
    }

    #[test]
    fn a_group_that_was_fetched_is_kept_until_nothing_waits_for_it() {
        let group = || {
            let plan = crate::making::GroupPlan {
                plan: Arc::new(reelway_rtp::Plan::default()),
                leaving: Arc::new([]),
                range: 0..0,
            };
            Arc::new(Group::new(plan, ()))
        };
        let mut resend = resend();
        resend.trail.note(0, place(4, 0), 0);
        resend.miss(1, 20, 20);
        resend.miss(2, 20, 20);
        resend.ask(4, ());
        let planned = group();
        assert!(resend.give(4, Some(&planned)));
        assert!(Arc::ptr_eq(
            resend.fetched(4).expect("it was fetched"),
            &planned
        ));
        assert!(resend.fetched(5).is_none());
        resend.sent(10);
        assert!(resend.fetched(4).is_some());
        resend.sent(10);
        assert!(resend.fetched(4).is_none());
        // A group that arrives when no packet waits any more is not kept; neither is one whose
        // request was forgotten.
        resend.ask(4, ());
        assert!(!resend.give(4, Some(&planned)) && resend.fetched(4).is_none());
        resend.miss(1, 20, 20);
        resend.ask(4, ());
        resend.ask_again();
        assert!(resend.is_waiting() && !resend.give(4, Some(&planned)));
        resend.leave();
        resend.miss(1, 20, 20);
        assert_eq!(resend.number(), None, "nothing of before is known");
    }

    /// Groups of packets, some left out and some with a preface, as they would be sent.
    fn story() -> impl Strategy<Value = Vec<(u16, Vec<bool>)>> {
        let group = (
            0u16..3,
            proptest::collection::vec(proptest::bool::weighted(0.97), 1..80),
        );
        proptest::collection::vec(group, 1..12)
    }

    proptest! {
        #[test]
        fn a_number_is_found_where_it_was_or_not_at_all(story in story(), first in any::<u32>()) {
            let mut trail = Trail::default();
            let (mut number, mut sent, mut runs) = (first, Vec::new(), 0usize);
            for (group, (preface, packets)) in story.into_iter().enumerate() {
                let mut goes_on = false;
                for (packet, there) in packets.into_iter().enumerate() {
                    if !there {
                        goes_on = false;
                        continue;
                    }
                    let at = place(group as u32, packet as u32);
                    let before = if packet == 0 { preface } else { 0 };
                    for nth in 0..before {
                        let at = PacketPlace { preface: Some(nth), ..at };
                        trail.note(number, at, preface);
                        sent.push((number, at));
                        number = number.wrapping_add(1);
                        runs += usize::from(nth == 0);
                        goes_on = true;
                    }
                    trail.note(number, at, preface);
                    sent.push((number, at));
                    number = number.wrapping_add(1);
                    runs += usize::from(!goes_on);
                    goes_on = true;
                }
            }
            for (number, at) in &sent {
                let found = trail.find(*number);
                prop_assert!(found == Some(*at) || found.is_none() && runs > RUNS, "{number}: {found:?}, {at:?}");
            }
            prop_assert_eq!(trail.find(first.wrapping_sub(1)), None);
        }

        #[test]
        fn whatever_is_asked_for_little_waits(
            asked in proptest::collection::vec(any::<u16>(), 0..2000), next in any::<u16>(), sent in 0u32..100_000,
        ) {
            let mut resend = resend();
            resend.trail.note(0, place(0, 0), 0);
            asked.into_iter().for_each(|seq| resend.miss(seq, next, sent));
            prop_assert!(resend.waiting.len() <= WAITING);
            prop_assert!(resend.waiting.iter().all(|number| *number < sent));
        }
    }
}
