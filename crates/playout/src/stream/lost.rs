//! Retransmission: packets that a receiver misses are looked up in the timetable and sent again.

use std::sync::Arc;

use reelway_rtp::{Header, sdp::RTX_TIME};

use super::body::Stream;
use super::track::Track;
use crate::again::PacketPlace;
use crate::cursor::Unit;
use crate::effect::{Effect, Effects, Want};
use crate::group::Group;
use crate::host::{Host, Script, Share};
use crate::play::State;

/// How long after the request a group that the track has left is due: streams that are on
/// time come first.
const DUE: u64 = 200_000_000;

/// What happens to the first packet that waits to be sent again.
enum Next {
    /// It is sent, from this position.
    Send(PacketPlace),
    /// It cannot be sent, or need not.
    Drop,
    /// There is none, or its group is not in memory yet.
    Nothing,
}

impl<H: Host> Stream<H> {
    /// Records that the receiver of a track misses packets with these sequence numbers.
    pub(crate) fn miss(&mut self, track: usize, lost: &[u16]) {
        if self.state != State::Playing {
            return;
        }
        let Some(track) = self.tracks.get_mut(track) else {
            return;
        };
        let (next, sent) = (track.seq, track.packets);
        if let Some(resend) = &mut track.resend {
            lost.iter().for_each(|seq| resend.miss(*seq, next, sent));
        }
    }

    /// Returns whether packets wait to be sent again.
    pub(crate) fn resends(&self) -> bool {
        let waiting = |track: &Track<H>| {
            let resend = track.resend.as_ref();
            resend.is_some_and(|resend| resend.is_waiting())
        };
        self.state == State::Playing && self.tracks.iter().any(waiting)
    }

    /// Returns how many packets may leave in a millisecond, including retransmissions, by the burst
    /// rule. A stream whose rate uses all of that has an extra share, as otherwise it
    /// could never retransmit.
    pub(crate) fn resend_cap(&self) -> u32 {
        let burst = u32::from(self.rules.burst);
        let needed = (0..self.tracks.len()).filter_map(|track| Some(self.slice(track)?.1));
        match needed.max() {
            Some(needed) if needed > burst => needed + needed.div_ceil(4),
            _ => burst,
        }
    }

    /// Returns the plan and bytes of a group if they are in memory.
    fn here(&self, track: usize, group: u32) -> Option<&Arc<Group<H::Bytes>>> {
        let track = self.tracks.get(track)?;
        let fetched = || track.resend.as_ref()?.fetched(group);
        track.cursor.group(group as usize).or_else(fetched)
    }

    /// Returns the packets around `place`, and the number of the packet at `place`.
    pub fn unit_at(&self, track: usize, place: PacketPlace) -> Option<(Unit<'_, H::Bytes>, u32)> {
        let bytes = self.here(track, place.group)?;
        let plan = &*bytes.plan;
        let after = plan
            .frames
            .partition_point(|frame| frame.packets.start <= place.packet);
        let frame = plan.frames.get(after.checked_sub(1)?)?;
        let (plan, number) = match place.preface {
            None => (plan, place.packet),
            Some(number) => {
                let outline = self.script.outline();
                let payload = outline.payload(self.tracks[track].cursor.track);
                (payload.ok().flatten()?.preface(), u32::from(number))
            }
        };
        plan.packets.get(number as usize)?;
        let unit = Unit {
            plan,
            bytes,
            packets: &plan.packets,
            due: frame.due,
            duration: frame.duration,
            rtp_time: frame.rtp_time,
        };
        Some((unit, number))
    }

    /// Returns the first packet of a track that waits to be sent again and can be; `None` if its
    /// group must be fetched first.
    pub(crate) fn first_lost(
        &mut self,
        track: usize,
        now: u64,
        effects: &mut Effects<H>,
    ) -> Option<PacketPlace> {
        loop {
            match self.next_lost(track, now, effects) {
                Next::Send(at) => return Some(at),
                Next::Drop => {
                    let resend = self.tracks[track].resend.as_mut();
                    resend.into_iter().for_each(|resend| resend.done());
                }
                Next::Nothing => return None,
            }
        }
    }

    /// Decides about the first packet of a track that waits to be sent again. Requests its group if
    /// that is not in memory.
    fn next_lost(&mut self, track: usize, now: u64, effects: &mut Effects<H>) -> Next {
        let resend = self.tracks[track].resend.as_ref();
        let Some(resend) = resend.filter(|resend| resend.is_waiting()) else {
            return Next::Nothing;
        };
        let Some(place) = resend.first() else {
            return Next::Drop;
        };
        if self.here(track, place.group).is_none() {
            return self.fetch(track, place.group, now, effects);
        }
        let Some((unit, number)) = self.unit_at(track, place) else {
            return Next::Drop;
        };
        // No player waits for older packets, and packets beyond the track's share are not sent.
        let late = self.wall_of(unit.due).saturating_add_signed(RTX_TIME) < now;
        if late || !resend.affords(u32::from(unit.packets[number as usize].len)) {
            return Next::Drop;
        }
        Next::Send(place)
    }

    /// Requests a group that the track has left.
    fn fetch(&mut self, track: usize, group: u32, now: u64, effects: &mut Effects<H>) -> Next {
        let cursor = &self.tracks[track].cursor;
        // If all packets of the group would be too late, it is not read.
        let ended = self
            .script
            .outline()
            .group_due(cursor.track, group as usize + 1);
        if self.wall_of(ended).saturating_add_signed(RTX_TIME) < now {
            return Next::Drop;
        }
        // It is about as large as the current one.
        let Some(part) = self.rules.again.take(cursor.blocks().max(1)) else {
            return Next::Drop;
        };
        if let Some(resend) = self.tracks[track].resend.as_mut() {
            resend.ask(group, part);
        }
        let want = Want {
            epoch: self.epoch,
            track,
            group: group as usize,
            deadline: now + DUE,
            urgent: true,
            // It lies behind the viewer's position.
            leads: false,
        };
        self.does(Effect::Want(want), effects);
        Next::Nothing
    }

    /// Records that the first waiting packet of a track was sent by `after`, with this many bytes
    /// of RTP.
    pub(crate) fn resent(&mut self, track: usize, bytes: u32, after: u64) {
        self.window.note(after, 1);
        self.sent_over_link(bytes.saturating_sub(Header::BYTES as u32), 1, 0, after);
        let resend = self.tracks[track].resend.as_mut();
        resend.into_iter().for_each(|resend| resend.sent(bytes));
        self.mishap(|mishaps| mishaps.resent += 1);
    }
}
