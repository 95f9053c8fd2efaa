//! Retransmission of packets that receivers miss: after all packets that are due, one stream
//! at a time.

use super::body::Lane;
use super::state::Current;
use crate::again::PacketPlace;
use crate::host::Host;
use crate::pacing::TURN;

/// A packet to be sent again.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// The stream's place.
    pub place: u32,
    /// Index into the stream's tracks.
    pub track: usize,
    /// The position of the packet.
    pub at: PacketPlace,
}

impl<H: Host> Lane<H> {
    /// Queues a stream whose receiver may miss packets that can be sent again.
    pub(super) fn will_resend(&mut self, place: u32) {
        if let Some(stream) = self.streams[place as usize].as_deref_mut()
            && stream.resends()
            && !std::mem::replace(&mut stream.is_resending, true)
        {
            self.resending.places.push_back(place);
        }
    }

    /// Returns the next packet to be sent again in this turn, if its millisecond has room. The
    /// outcome must be reported to [`Lane::resent`] before the next call.
    pub fn next_lost(&mut self, now: u64) -> Option<Lost> {
        loop {
            let current = match self.resending.current {
                Some(current) => current,
                None => self.next_who_lost(now)?,
            };
            self.resending.current = Some(current);
            if let Some(lost) = self.next_of(current, now) {
                return Some(lost);
            }
            self.resending.current = None;
            self.is_done_for_now(current.place, now);
        }
    }

    /// Returns the next stream that may retransmit.
    fn next_who_lost(&mut self, now: u64) -> Option<Current> {
        let resending = &mut self.resending;
        if resending.left == 0 {
            return None;
        }
        resending.streams = resending.streams.checked_sub(1)?;
        let place = resending.places.pop_front()?;
        let stream = self.streams[place as usize].as_deref();
        let room = stream.filter(|stream| stream.resends() && now >= stream.retry_at);
        let room = room.map_or(0, |stream| stream.window.room(now, stream.resend_cap()));
        Some(Current {
            place,
            track: 0,
            room,
        })
    }

    /// Returns the next packet of the current stream.
    fn next_of(&mut self, mut current: Current, now: u64) -> Option<Lost> {
        let (lane, left) = (self.number, self.resending.left);
        let stream = self.streams[current.place as usize].as_deref_mut()?;
        while current.track < stream.tracks.len() {
            let track = current.track;
            if current.room.min(left) > 0
                && stream.link_has_room_again(now, lane)
                && let Some(at) = stream.first_lost(track, now, &mut self.effects)
            {
                self.resending.current = Some(current);
                return Some(Lost {
                    place: current.place,
                    track,
                    at,
                });
            }
            current.track += 1;
        }
        None
    }

    /// Records that a packet was sent again by `after`, with this many bytes of RTP; `None`: the
    /// kernel had no room for it.
    pub fn resent(&mut self, lost: &Lost, bytes: Option<u32>, after: u64) {
        let Some(stream) = self.streams[lost.place as usize].as_deref_mut() else {
            return;
        };
        match bytes {
            Some(bytes) => stream.resent(lost.track, bytes, after),
            None => stream.retry_at = (after / TURN + 1) * TURN,
        }
        let resending = &mut self.resending;
        if let Some(current) = &mut resending.current {
            if bytes.is_some() {
                current.room -= 1;
                resending.left -= 1;
            } else {
                current.track += 1;
            }
        }
    }

    /// Ends the turn of a stream that has sent again all it may.
    fn is_done_for_now(&mut self, place: u32, now: u64) {
        // The stream may have left, and another one may have its place.
        let Some(stream) = self.streams[place as usize].as_deref_mut() else {
            return;
        };
        if let Some(link) = &mut stream.link {
            link.settle(now);
        }
        stream.is_resending &= stream.resends();
        if stream.is_resending {
            self.resending.places.push_back(place);
        }
    }
}
