//! Lost packets, sent again: what receivers say they miss, found on the timetable and put into packets.

use std::sync::Arc;

use reelway_clock::Monotonic;
use reelway_playout::{PacketPlace, TURN};
use reelway_rtp::{Header, RTX_BYTES, sdp::RTX_TIME};
use reelway_sys::udp::{Batch, Segmentation, Sent};

use crate::active::{Active, Path, Track};
use crate::planner::Waiter;
use crate::plans::{Planned, Unit};
use crate::send::{CELL, next_cell, payload};
use crate::shared::add;
use crate::stream::State;
use crate::thread::{Thread, now};

/// How long after it is asked for a group is due that was left behind: those who are on time come first.
const DUE: u64 = 200_000_000;

/// What is to be done with the packet that was asked for first.
enum Next {
    /// It is to be sent, from there.
    Send(PacketPlace),
    /// It cannot be sent, or need not.
    Drop,
    /// Its group is to be fetched.
    Fetch(u32),
    /// There is none, or it waits for its group.
    Nothing,
}

impl Active {
    /// The receiver of a track misses packets with these sequence numbers.
    pub fn miss(&mut self, track: usize, lost: &[u16]) {
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

    /// Whether packets wait to be sent again.
    pub fn resends(&self) -> bool {
        let waiting = |track: &Track| {
            track
                .resend
                .as_ref()
                .is_some_and(|resend| resend.is_waiting())
        };
        self.state == State::Playing && self.tracks.iter().any(waiting)
    }

    /// How many packets may leave in a millisecond, those sent again included: by the burst rule. A
    /// stream whose rate fills that has its share on top, or it would never get anything again.
    pub fn resend_cap(&self) -> u32 {
        let burst = u32::from(self.rules.burst);
        let needed = (0..self.tracks.len()).filter_map(|track| Some(self.slice(track)?.1));
        match needed.max() {
            Some(needed) if needed > burst => needed + needed.div_ceil(4),
            _ => burst,
        }
    }

    /// The plan and bytes of a group that are here.
    fn here(&self, track: usize, group: u32) -> Option<&Arc<Planned>> {
        let track = self.tracks.get(track)?;
        let fetched = || track.resend.as_ref()?.fetched(group);
        track.cursor.group(group as usize).or_else(fetched)
    }

    /// The packets around `place`, and the number of the one there.
    fn unit_at(&self, track: usize, place: PacketPlace) -> Option<(Unit<'_>, u32)> {
        let bytes = self.here(track, place.group)?;
        let plan = &*bytes.plan;
        let after = plan
            .frames
            .partition_point(|frame| frame.packets.start <= place.packet);
        let frame = plan.frames.get(after.checked_sub(1)?)?;
        let (plan, number) = match place.preface {
            None => (plan, place.packet),
            Some(number) => {
                let payload = self.script.outline.payload(self.tracks[track].cursor.track);
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

    /// What is to be done with the packet of a track that was asked for first.
    fn next_resend(&mut self, track: usize, now: u64) -> Next {
        let resend = self.tracks[track].resend.as_ref();
        let Some(resend) = resend.filter(|resend| resend.is_waiting()) else {
            return Next::Nothing;
        };
        let Some(place) = resend.first() else {
            return Next::Drop;
        };
        if self.here(track, place.group).is_none() {
            let cursor = &self.tracks[track].cursor;
            // A group of which nothing can be in time any more is not read for it.
            let ended = self
                .script
                .outline
                .group_due(cursor.track, place.group as usize + 1);
            if self.wall_of(ended).saturating_add_signed(RTX_TIME) < now {
                return Next::Drop;
            }
            // It is about as large as the one at hand.
            let Some(part) = self.rules.again.take(cursor.blocks().max(1)) else {
                return Next::Drop;
            };
            if let Some(resend) = self.tracks[track].resend.as_mut() {
                resend.ask(place.group, part);
            }
            return Next::Fetch(place.group);
        }
        let Some((unit, number)) = self.unit_at(track, place) else {
            return Next::Drop;
        };
        // What is older no player waits for; what is more than its share is not sent.
        let late = self.wall_of(unit.due).saturating_add_signed(RTX_TIME) < now;
        if late || !resend.affords(u32::from(unit.packets[number as usize].len)) {
            return Next::Drop;
        }
        Next::Send(place)
    }

    /// Asks for a group that has been left behind.
    fn fetch(&self, track: usize, group: u32, now: u64) {
        let waiter = Waiter {
            inbox: self.inbox.clone(),
            stream: self.id(),
            epoch: self.epoch,
            track,
            group: group as usize,
            urgent: true,
            told: false,
            // It lies behind where the viewer is.
            watcher: None,
        };
        let id = (self.tracks[track].cursor.track, group as usize);
        self.planner
            .request(&self.script, id, Monotonic::from_nanos(now + DUE), waiter);
    }
}

impl Thread {
    /// The receiver of a stream may miss packets that can be sent again.
    pub fn will_resend(&mut self, place: u32) {
        if let Some(stream) = self.streams[place as usize].as_deref_mut()
            && stream.resends()
            && !std::mem::replace(&mut stream.is_resending, true)
        {
            self.resending.places.push_back(place);
        }
    }

    /// Sends again what receivers miss, behind all that is due.
    pub fn resend(&mut self) {
        if !self.resending.anyone() {
            return;
        }
        self.resending.begin(now() / TURN);
        for _ in 0..self.resending.places.len() {
            if self.resending.left == 0 {
                return;
            }
            let Some(place) = self.resending.places.pop_front() else {
                return;
            };
            self.resend_stream(place);
            // The stream may have left, and another one may have its place.
            let Some(stream) = self.streams[place as usize].as_deref_mut() else {
                continue;
            };
            if let Some(link) = &mut stream.link {
                link.settle(now());
            }
            stream.is_resending &= stream.resends();
            if stream.is_resending {
                self.resending.places.push_back(place);
            }
        }
    }

    /// Sends again what the receiver of a stream misses, as far as its millisecond has room. Packet by
    /// packet: they are few.
    fn resend_stream(&mut self, place: u32) {
        let Some(stream) = self.streams[place as usize].as_deref_mut() else {
            return;
        };
        let now = now();
        if !stream.resends() || now < stream.retry_at {
            return;
        }
        let room = stream.window.room(now, stream.resend_cap());
        let mut room = room.min(self.resending.left);
        for track in 0..stream.tracks.len() {
            while room > 0
                && self.link_has_room_again(place, now)
                && self.resend_first(place, track, now)
            {
                room -= 1;
                self.resending.left -= 1;
            }
        }
    }

    fn link_has_room_again(&mut self, place: u32, now: u64) -> bool {
        let stream = self.streams[place as usize].as_deref_mut();
        stream.is_some_and(|stream| stream.link_has_room_again(now, self.number))
    }

    /// Sends again the packet of a track that was asked for first of those that can be sent; false if
    /// there is none now.
    fn resend_first(&mut self, place: u32, track: usize, now: u64) -> bool {
        let Some(stream) = self.streams[place as usize].as_deref_mut() else {
            return false;
        };
        let at = loop {
            match stream.next_resend(track, now) {
                Next::Send(at) => break at,
                Next::Drop => {
                    let resend = stream.tracks[track].resend.as_mut();
                    resend.into_iter().for_each(|resend| resend.done());
                }
                Next::Fetch(group) => {
                    stream.fetch(track, group, now);
                    return false;
                }
                Next::Nothing => return false,
            }
        };
        let mut batch = self.turn.begin();
        let mut cells = &mut *self.cells.0;
        let Some(bytes) = fill(stream, track, at, &mut cells, &mut batch) else {
            return false;
        };
        self.backend.send(batch, &self.sockets);
        let gone = match self.turn.messages().first().map(|message| message.sent) {
            Some(Sent::Packets(packets)) => packets > 0,
            // It is lost once more.
            Some(Sent::Failed { .. }) => true,
            _ => false,
        };
        let after = crate::thread::now();
        if gone {
            stream.window.note(after, 1);
            stream.sent_over_link(bytes - Header::BYTES as u32, 1, 0, after);
            let resend = stream.tracks[track].resend.as_mut();
            resend.into_iter().for_each(|resend| resend.sent(bytes));
            add(&stream.shared.resent, 1);
            add(&self.counters.resent, 1);
        } else {
            stream.retry_at = (after / TURN + 1) * TURN;
        }
        gone
    }
}

/// Puts a packet of a track into the batch as it is sent again: the lost one's header with the SSRC, the
/// payload type and the sequence number of the stream beside, and its sequence number before its
/// payload (RFC 4588 section 4). Its bytes of RTP.
fn fill<'d>(
    stream: &'d Active,
    track: usize,
    place: PacketPlace,
    cells: &mut &'d mut [[u8; CELL]],
    batch: &mut Batch<'_, 'd>,
) -> Option<u32> {
    let (unit, number) = stream.unit_at(track, place)?;
    let track = stream.tracks.get(track)?;
    let resend = track.resend.as_ref()?;
    let Path::Udp(udp) = &track.path else {
        return None;
    };
    let cell = next_cell(cells)?;
    let packet = &unit.packets[number as usize];
    let header = Header {
        payload_type: resend.payload_type,
        marker: packet.marker,
        seq: resend.seq,
        timestamp: track.rtp_base.wrapping_add(unit.rtp_time),
        ssrc: resend.ssrc,
    };
    cell[..Header::BYTES].copy_from_slice(&header.to_bytes());
    let before = track.packets.wrapping_sub(resend.number()?) as u16;
    let lost = track.seq.wrapping_sub(before);
    let used = Header::BYTES + RTX_BYTES;
    cell[Header::BYTES..used].copy_from_slice(&lost.to_be_bytes());
    payload(&unit, number, cell, 0, used, batch);
    batch.end_message(udp.socket, &udp.rtp, Segmentation::None, 0, 0);
    Some(used as u32 + u32::from(packet.len))
}
