//! A stream while it plays: which packets may leave now, and when to look at it again.

use reelway_media::Nanos;
use reelway_rtp::Header;

use super::body::Stream;
use super::connection::LAST;
use crate::cursor::Unit;
use crate::effect::{Effect, Effects, Want};
use crate::host::{Host, Script};
use crate::pacing::{HOLD, TURN};
use crate::play::State;
use crate::rules::Due;

/// The longest time from the first sender report to the second: clients that missed or discarded
/// the first one then know how sound and picture are synchronised before the first picture is
/// shown. It must not be later: within two seconds GStreamer's jitter buffer notices that pictures
/// come before their time (by decode time, because of reordering), mistakes that for a skewed
/// clock, and a report in between would make it jump.
const SECOND_REPORT: u64 = 100_000_000;

/// How long after the request a new viewer's first group is due. Viewers who are on time ask at
/// least as long ahead ([`Script::lead`]): so both are served in the order of their requests, and a
/// crowd of newcomers does not take memory and disks from viewers who already watch.
const NEWCOMER: u64 = 200_000_000;

impl<H: Host> Stream<H> {
    /// Requests groups that will be needed soon.
    pub(crate) fn want(&mut self, now: u64, effects: &mut Effects<H>) {
        if self.has_let_go() {
            return;
        }
        let playing = self.state == State::Playing;
        let ahead = if playing {
            self.film_at(now)
                .saturating_add(self.reads_ahead())
                .saturating_add(self.most_ahead())
        } else {
            Nanos::MIN
        };
        for number in 0..self.tracks.len() {
            let wanted = self.tracks[number]
                .cursor
                .want(self.script.outline(), ahead);
            let Some((group, due)) = wanted else {
                continue;
            };
            let deadline = match playing {
                // The reader is late, not the film: streams that are on time come first.
                true if self.is_slow() => now + LAST,
                true => self.wall_of(self.leaves(due)) + self.goes_on_later(now),
                false => now + NEWCOMER,
            };
            let want = Want {
                epoch: self.epoch,
                track: number,
                group,
                deadline,
                urgent: !self.tracks[number].cursor.is_ready(),
                leads: number == self.leader,
            };
            self.does(Effect::Want(want), effects);
        }
    }

    /// Returns how long before its deadline a group is requested.
    fn reads_ahead(&self) -> Nanos {
        Nanos::try_from(self.script.lead())
            .map_or(self.rules.ahead, |lead| lead.min(self.rules.ahead))
    }

    /// Returns when packets due at `due` leave, in film time.
    fn leaves(&self, due: Nanos) -> Nanos {
        match &self.schedule {
            Some(schedule) => schedule.leaves(due),
            None => due,
        }
    }

    /// Returns the current unit of track number `track`.
    pub fn unit_of(&self, track: usize) -> Option<Unit<'_, H::Bytes>> {
        let cursor = &self.tracks.get(track)?.cursor;
        cursor.unit(|| {
            let payload = self.script.outline().payload(cursor.track).ok().flatten();
            payload.map(|payload| payload.preface())
        })
    }

    /// Returns the next slice of a track, and how many packets may leave in its millisecond.
    pub(super) fn slice(&self, track: usize) -> Option<(Due, u32)> {
        let head = self.tracks.get(track)?.cursor.head()?;
        // Packets due before the play began (sound that shares a packet with earlier sound) are not
        // late at its beginning.
        let due = Due {
            track,
            first: head.packets.start,
            end: head.packets.end,
            departs: 0,
            at: self.wall_of(self.leaves(head.due).max(self.film)),
        };
        Some((due, head.cap))
    }

    /// Returns the time up to which due packets are handed over in a walk that began at `began`:
    /// the end of the turn, or of several turns if the kernel holds packets.
    pub(crate) fn horizon(&self, began: u64) -> u64 {
        let span = if self.held { HOLD } else { TURN };
        (began / span + 1) * span
    }

    /// Returns when the kernel should send a slice that may leave at `now` or later, with at most
    /// `cap` packets per millisecond.
    fn departure(&self, due: &Due, cap: u32, now: u64) -> u64 {
        let packets = due.end - due.first;
        self.window.opens_for(due.at.max(now), cap, packets)
    }

    /// Appends the slices due before `horizon` that may be handed over now: at most one per track,
    /// the earliest first, and no more than the burst rule allows.
    pub(crate) fn due(&self, now: u64, horizon: u64, out: &mut Vec<Due>) {
        if self.state != State::Playing || now < self.retry_at {
            return;
        }
        if self.held {
            // One slice at a time, so that the window records them in the order of their departure.
            let slices = (0..self.tracks.len()).filter_map(|track| self.slice(track));
            let first = slices
                .filter(|(due, _)| due.at < horizon)
                .min_by_key(|(due, _)| due.at);
            if let Some((mut due, cap)) = first {
                due.departs = self.departure(&due, cap, now);
                // Slices that leave after the next horizon are not handed to the kernel yet.
                if due.departs < horizon + HOLD {
                    out.push(due);
                }
            }
            return;
        }
        let first = out.len();
        let mut cap = u32::from(self.rules.burst);
        for track in 0..self.tracks.len() {
            let slice = self.slice(track);
            if let Some((due, needed)) = slice.filter(|(due, _)| self.released(due.at) < horizon) {
                cap = cap.max(needed);
                out.push(due);
            }
        }
        out[first..].sort_unstable_by_key(|due| due.at);
        let mut room = self.window.room(now, cap);
        let mut kept = first;
        for number in first..out.len() {
            let packets = out[number].end - out[number].first;
            // A slice waits until it can leave as a whole, unless its stream
            // needs every millisecond.
            let may = if packets <= room || cap > u32::from(self.rules.burst) {
                packets.min(room)
            } else {
                0
            };
            if may == 0 {
                break;
            }
            out[number].end = out[number].first + may;
            room -= may;
            out.swap(kept, number);
            kept += 1;
        }
        out.truncate(kept);
    }

    /// Returns when to look at the stream again; `None` if something else must happen first.
    /// Returns `now` if packets are due before `horizon` and may leave at `now`.
    pub(crate) fn next_look(&self, now: u64, horizon: u64) -> Option<u64> {
        if self.state != State::Playing {
            return None;
        }
        if self.has_let_go() {
            let report = if self.has_begun() {
                self.next_report
            } else {
                u64::MAX
            };
            return Some(self.retry_at.min(report).max(now));
        }
        let done = self.tracks.iter().all(|track| track.cursor.is_done());
        let mut next = match self.over_at {
            Some(at) => at,
            // The last packet has just left, and the end is not set yet.
            None if done => (now / TURN + 1) * TURN,
            None => u64::MAX,
        };
        if self.has_begun() {
            next = next.min(self.next_report);
        }
        let mut first: Option<Due> = None;
        let mut cap = u32::from(self.rules.burst);
        for (number, track) in self.tracks.iter().enumerate() {
            if !track.cursor.is_ready() {
                // Its plan is late, and the thread is not woken for a plan that was
                // requested in time.
                next = next.min((now / TURN + 1) * TURN);
            }
            if let Some((due, needed)) = self.slice(number) {
                if self.held || self.released(due.at) >= horizon {
                    next = next.min(self.look_for(&due, needed, now, horizon));
                } else {
                    cap = cap.max(needed);
                    first = first.filter(|first| first.at <= due.at).or(Some(due));
                }
            }
            if let Some(due) = track.cursor.asks(self.script.outline()) {
                let early = self.reads_ahead().saturating_add(self.most_ahead());
                let ask = self.wall_of(due.saturating_sub(early));
                next = next.min(ask.max((now / TURN + 1) * TURN));
            }
        }
        // Slices due later wait behind the first one, however little room they need.
        if let Some(due) = first {
            next = next.min(self.look_for(&due, cap, now, horizon));
        }
        (next < u64::MAX).then_some(next)
    }

    /// Returns when to look at the stream again for a slice.
    fn look_for(&self, due: &Due, cap: u32, now: u64, horizon: u64) -> u64 {
        let released = self.released(due.at);
        if released >= horizon {
            // If the kernel holds packets, those of several turns are handled in one look.
            return if self.held {
                due.at / HOLD * HOLD
            } else {
                released
            };
        }
        if self.held {
            let departs = self.departure(due, cap, now.max(self.retry_at));
            return if departs < horizon + HOLD {
                now.max(self.retry_at)
            } else {
                departs / HOLD * HOLD
            };
        }
        if self.is_tcp() {
            return self.retry_at.max(self.not_before).max(now);
        }
        let opens = self.window.opens_for(now, cap, due.end - due.first);
        // The next turn is early enough, unless the stream needs every millisecond.
        let needs_all = opens <= now || cap > u32::from(self.rules.burst);
        let at = if needs_all {
            opens
        } else {
            opens.next_multiple_of(TURN)
        };
        at.max(self.retry_at)
    }

    /// Returns when the first packet that has not left should leave.
    pub(super) fn first_due(&self) -> Option<u64> {
        let first = (0..self.tracks.len())
            .filter_map(|track| Some(self.slice(track)?.0.at))
            .min();
        first.or_else(|| self.slow_since())
    }

    /// Returns whether sender reports are due now; if so, they count as sent. At the beginning they
    /// follow the first packets.
    pub(crate) fn takes_report(&mut self, now: u64) -> bool {
        let due = self.state == State::Playing && self.next_report <= now && self.has_begun();
        if due {
            let first = !std::mem::replace(&mut self.reported, true);
            let after = if first { SECOND_REPORT } else { u64::MAX };
            self.next_report = now + self.rules.report_interval.min(after);
        }
        due
    }

    /// Records that packets of the current unit are gone: `taken` were sent and `refused` lost,
    /// handed over no later than `after`. Returns the bytes of RTP sent.
    pub(crate) fn gone(
        &mut self,
        due: &Due,
        (taken, refused): (u32, u32),
        after: u64,
        effects: &mut Effects<H>,
    ) -> u64 {
        let after = after.max(due.departs);
        let count = taken + refused;
        if count == 0 {
            return 0;
        }
        let Some(unit) = self.unit_of(due.track) else {
            return 0;
        };
        let octets_of = |packets: u32| {
            let packets = &unit.packets[due.first as usize..(due.first + packets) as usize];
            packets
                .iter()
                .map(|packet| u32::from(packet.len))
                .sum::<u32>()
        };
        let octets = octets_of(count);
        let bytes = u64::from(octets_of(taken)) + u64::from(taken) * Header::BYTES as u64;
        let track = &mut self.tracks[due.track];
        if let Some(resend) = track.resend.as_mut()
            && let Some((place, preface)) = track.cursor.at()
        {
            resend.trail.note(track.packets, place, preface);
            resend.earn(octets);
        }
        track.seq = track.seq.wrapping_add(count as u16);
        track.packets = track.packets.wrapping_add(count);
        track.octets = track.octets.wrapping_add(octets);
        let moved = track.cursor.advance(count);
        self.window.note(after, count);
        self.sent_over_link(octets, count, due.at, after);
        self.tally.late.note(after.saturating_sub(due.at), count);
        self.tally.packets += u64::from(taken);
        self.tally.bytes += bytes;
        if refused > 0 {
            self.mishap(|mishaps| mishaps.refused += u64::from(refused));
        }
        if let Err(error) = moved {
            self.fail(error, effects);
        }
        bytes
    }
}
