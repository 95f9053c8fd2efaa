//! What a stream does while it plays: which packets may leave now, when to look at it again, how far
//! behind it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reelway_clock::Monotonic;
use reelway_media::Nanos;
use reelway_playout::{StreamError, TURN};
use reelway_rtp::Header;

use super::slow::LAST;
use super::{Active, BEFORE_BYE, BYE_LATEST, Due};
use crate::departure::HOLD;
use crate::planner::Waiter;
use crate::plans::Unit;
use crate::stream::State;

/// From the first sender report to the second, at most: who missed the first one, or threw it away,
/// knows how sound and picture belong together before what came first is shown. No later: GStreamer's
/// jitter buffer learns within two seconds that pictures come before their time (by decode time, which
/// reordering puts first), takes that for a skewed clock, and a report in between would make it jump.
const SECOND_REPORT: u64 = 100_000_000;

/// How long after it asks a newcomer's first group is due. A viewer who is on time asks at least as long ahead
/// ([`reelway_store::Lane::lead`]): so the two are served in the order in which they ask, and a crowd of newcomers does not
/// take its memory and its disks from those who watch.
const NEWCOMER: u64 = 200_000_000;

/// How many times `drop_after` a picture is late that is left out with all that is decoded from it.
const LOST: u64 = 8;

impl Active {
    /// Asks for groups that will be needed soon.
    pub fn want(&mut self, now: u64) {
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
            let Some((group, due)) = self.tracks[number].cursor.want(&self.script.outline, ahead)
            else {
                continue;
            };
            let deadline = match playing {
                // Its reader is late, not the film: those who are on time come first.
                true if self.is_slow() => now + LAST,
                true => self.wall_of(self.leaves(due)),
                false => now + NEWCOMER,
            };
            let waiter = Waiter {
                inbox: self.inbox.clone(),
                stream: self.id(),
                epoch: self.epoch,
                track: number,
                group,
                urgent: !self.tracks[number].cursor.is_ready(),
                told: false,
                watcher: (number == self.leader).then(|| Arc::clone(&self.watcher)),
            };
            let id = (self.tracks[number].cursor.track, group);
            self.planner
                .request(&self.script, id, Monotonic::from_nanos(deadline), waiter);
        }
    }

    /// How long before it is due a group is asked for: as long as where the film lies takes to give it.
    fn reads_ahead(&self) -> Nanos {
        let lead = self.script.source.lead().as_nanos();
        Nanos::try_from(lead).map_or(self.rules.ahead, |lead| lead.min(self.rules.ahead))
    }

    /// When what is due at `due` leaves, in film time.
    fn leaves(&self, due: Nanos) -> Nanos {
        match &self.schedule {
            Some(schedule) => schedule.leaves(due),
            None => due,
        }
    }

    /// The unit track number `track` is at.
    pub fn unit_of(&self, track: usize) -> Option<Unit<'_>> {
        let cursor = &self.tracks.get(track)?.cursor;
        cursor.unit(|| {
            let payload = self.script.outline.payload(cursor.track).ok().flatten();
            payload.map(|payload| payload.preface())
        })
    }

    /// The next slice of a track, and how many packets may leave in its millisecond.
    pub fn slice(&self, track: usize) -> Option<(Due, u32)> {
        let head = self.tracks.get(track)?.cursor.head()?;
        // What is due before the play began (sound packed with what comes before) is not late at its
        // beginning.
        let due = Due {
            track,
            first: head.packets.start,
            end: head.packets.end,
            departs: 0,
            at: self.wall_of(self.leaves(head.due).max(self.film)),
        };
        Some((due, head.cap))
    }

    /// Until when packets that are due are handed over in a walk that began at `began`: to the end of the
    /// turn, or of several where the kernel holds them.
    pub fn horizon(&self, began: u64) -> u64 {
        let span = if self.held { HOLD } else { TURN };
        (began / span + 1) * span
    }

    /// When the kernel is to let a slice go that may leave `now` or later and `cap` packets in a
    /// millisecond.
    fn departure(&self, due: &Due, cap: u32, now: u64) -> u64 {
        let packets = due.end - due.first;
        self.window.opens_for(due.at.max(now), cap, packets)
    }

    /// What may be handed over now of what is due before `horizon`: at most one slice a track, the
    /// earliest first, and no more than the rule of the millisecond allows.
    pub fn due(&self, now: u64, horizon: u64, out: &mut Vec<Due>) {
        if self.state != State::Playing || now < self.retry_at {
            return;
        }
        if self.held {
            // One after the other, so that the window sees them in the order of their departure.
            let slices = (0..self.tracks.len()).filter_map(|track| self.slice(track));
            let first = slices
                .filter(|(due, _)| due.at < horizon)
                .min_by_key(|(due, _)| due.at);
            if let Some((mut due, cap)) = first {
                due.departs = self.departure(&due, cap, now);
                // What comes later than the next horizon is not for the kernel yet.
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
            // A slice waits until it can leave whole, unless its stream needs every millisecond.
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

    /// When to look at the stream again; `None`: something must happen first. What is due before
    /// `horizon` and may leave at `now` gives `now`.
    pub fn next_look(&self, now: u64, horizon: u64) -> Option<u64> {
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
            // The last packet has just left: the end is yet to be set.
            None if done => (now / TURN + 1) * TURN,
            None => u64::MAX,
        };
        if self.has_begun() {
            next = next.min(self.next_report);
        }
        for (number, track) in self.tracks.iter().enumerate() {
            if !track.cursor.is_ready() {
                // Its plan is late; nobody wakes the thread for a plan that was asked for in time.
                next = next.min((now / TURN + 1) * TURN);
            }
            if let Some((due, cap)) = self.slice(number) {
                let released = self.released(due.at);
                let look = if released >= horizon {
                    // Where the kernel holds packets, those of several turns are looked for at once.
                    if self.held {
                        due.at / HOLD * HOLD
                    } else {
                        released
                    }
                } else if self.held {
                    let departs = self.departure(&due, cap, now.max(self.retry_at));
                    if departs < horizon + HOLD {
                        now.max(self.retry_at)
                    } else {
                        departs / HOLD * HOLD
                    }
                } else if self.is_tcp() {
                    self.retry_at.max(self.not_before).max(now)
                } else {
                    let opens = self.window.opens_for(now, cap, due.end - due.first);
                    // The next turn will do, unless the stream needs every millisecond.
                    let needs_all = opens <= now || cap > u32::from(self.rules.burst);
                    let at = if needs_all {
                        opens
                    } else {
                        opens.next_multiple_of(TURN)
                    };
                    at.max(self.retry_at)
                };
                next = next.min(look);
            }
            if let Some(due) = track.cursor.asks(&self.script.outline) {
                let early = self.reads_ahead().saturating_add(self.most_ahead());
                let ask = self.wall_of(due.saturating_sub(early));
                next = next.min(ask.max((now / TURN + 1) * TURN));
            }
        }
        (next < u64::MAX).then_some(next)
    }

    /// How far behind the stream is: the first packet that should have left.
    pub fn behind(&self, now: u64) -> u64 {
        now.saturating_sub(self.first_due().unwrap_or(now))
    }

    /// When the first packet of those that have not left should leave.
    pub(super) fn first_due(&self) -> Option<u64> {
        let first = (0..self.tracks.len())
            .filter_map(|track| Some(self.slice(track)?.0.at))
            .min();
        first.or_else(|| self.slow_since())
    }

    /// Moves the timetable on by `nanos`: what was late is due now.
    pub fn shift(&mut self, nanos: u64) {
        self.wall += nanos;
        self.over_at = self.over_at.map(|at| at + nanos);
        self.shift_slow(nanos);
        self.report_first();
        self.shared.shifts.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves out frames that are so late that this thread, or the way of its packets, has too much to
    /// do, if no other frame needs them: what is left is decoded without a fault, as loss at random would
    /// not be. They take no sequence numbers, so that nobody waits for them. A TCP reader's slowness is
    /// his own, and he gets everything.
    fn leave_out(&mut self, now: u64) {
        if self.is_tcp() {
            return;
        }
        let limit = now.saturating_sub(self.rules.drop_after);
        for number in 0..self.tracks.len() {
            while self.tracks[number]
                .cursor
                .droppable()
                .is_some_and(|due| self.wall_of(due) < limit)
            {
                crate::shared::add(&self.shared.dropped, 1);
                crate::shared::add(&self.counters.dropped, 1);
                if let Err(error) = self.tracks[number].cursor.skip() {
                    return self.fail(error);
                }
            }
            self.leave_group_out(number, now);
            if self.state != State::Playing {
                return;
            }
        }
    }

    /// Leaves out the rest of a group of pictures that is [`LOST`] times as late, if the next one is due
    /// already: who is that far behind would fall further, and what begins with a sync picture is decoded
    /// without a fault.
    fn leave_group_out(&mut self, number: usize, now: u64) {
        let limit = now.saturating_sub(self.rules.drop_after.saturating_mul(LOST));
        let cursor = &self.tracks[number].cursor;
        let late = cursor
            .untouched()
            .is_some_and(|due| self.wall_of(due) < limit);
        if !late || !self.script.outline.is_picture(cursor.track) {
            return;
        }
        let Some(sync) = cursor.next_sync().filter(|due| self.wall_of(*due) <= now) else {
            return;
        };
        while self.tracks[number]
            .cursor
            .untouched()
            .is_some_and(|due| due < sync)
        {
            crate::shared::add(&self.shared.dropped, 1);
            crate::shared::add(&self.counters.dropped, 1);
            if let Err(error) = self.tracks[number].cursor.skip() {
                return self.fail(error);
            }
        }
    }

    /// Sees to what is due beside packets. True if the timetable was moved.
    pub fn look_after(&mut self, now: u64) -> bool {
        if self.state != State::Playing {
            return false;
        }
        let behind = self.behind(now);
        // A stall beyond this moves the timetable, and nothing need be left out.
        if behind <= self.rules.catch_up {
            self.leave_out(now);
        }
        self.want(now);
        let behind = self.behind(now);
        self.shared.tally.behind.store(behind, Ordering::Relaxed);
        self.shared
            .tally
            .position
            .store(self.position(now.saturating_sub(behind)), Ordering::Relaxed);
        let starved =
            self.slow_since().is_none() && self.tracks.iter().any(|track| !track.cursor.is_ready());
        // A plan that came late is our fault, a connection that takes no more is its reader's.
        let ours = std::mem::replace(&mut self.starved, starved) || !self.is_tcp();
        let shift = ours && behind > self.rules.catch_up;
        if shift {
            self.shift(behind);
        } else if behind > self.rules.lag_limit {
            let words = format!(
                "the reader is {:.1} s behind and was disconnected",
                behind as f64 / 1e9
            );
            self.fail(StreamError(words));
            return false;
        }
        if self.over_at.is_none() && self.tracks.iter().all(|track| track.cursor.is_done()) {
            let end = self.wall_of(self.end);
            let latest = now + BYE_LATEST + self.most_ahead() as u64;
            self.over_at = Some(end.clamp(now + BEFORE_BYE, latest));
        }
        shift
    }

    /// Whether the range's end has been played.
    pub fn is_over(&self, now: u64) -> bool {
        self.state == State::Playing && self.over_at.is_some_and(|at| at <= now)
    }

    fn has_begun(&self) -> bool {
        self.tracks.iter().any(|track| track.packets > 0)
    }

    /// Sender reports begin anew, with the next packets.
    pub(super) fn report_first(&mut self) {
        self.next_report = self.wall;
        self.reported = false;
    }

    /// Whether sender reports are due now; counts as sent then. At the beginning they follow the first
    /// packets.
    pub fn takes_report(&mut self, now: u64) -> bool {
        let due = self.state == State::Playing && self.next_report <= now && self.has_begun();
        if due {
            let first = !std::mem::replace(&mut self.reported, true);
            let after = if first { SECOND_REPORT } else { u64::MAX };
            self.next_report = now + self.rules.report_interval.min(after);
        }
        due
    }

    /// Notes that packets of the unit at hand are gone: `taken` sent, `refused` lost, handed over at
    /// `after` the latest. The bytes of RTP sent.
    pub fn gone(&mut self, due: &Due, taken: u32, refused: u32, after: u64) -> u64 {
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
        let shared = &self.shared;
        shared.tally.late.note(after.saturating_sub(due.at), count);
        crate::shared::add(&shared.tally.packets, u64::from(taken));
        crate::shared::add(&shared.tally.bytes, bytes);
        if refused > 0 {
            crate::shared::add(&shared.refused, u64::from(refused));
        }
        if let Err(error) = moved {
            self.fail(error);
        }
        bytes
    }
}
