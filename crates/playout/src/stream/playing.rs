//! What a stream does while it plays: which packets may leave now, and when to look at it again.

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

/// From the first sender report to the second, at most: who missed the first one, or threw it away,
/// knows how sound and picture belong together before what came first is shown. No later: GStreamer's
/// jitter buffer learns within two seconds that pictures come before their time (by decode time, which
/// reordering puts first), takes that for a skewed clock, and a report in between would make it jump.
const SECOND_REPORT: u64 = 100_000_000;

/// How long after it asks a newcomer's first group is due. A viewer who is on time asks at least as long ahead
/// ([`Script::lead`]): so the two are served in the order in which they ask, and a crowd of newcomers does not
/// take its memory and its disks from those who watch.
const NEWCOMER: u64 = 200_000_000;

impl<H: Host> Stream<H> {
    /// Asks for groups that will be needed soon.
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
                // Its reader is late, not the film: those who are on time come first.
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

    /// How long before it is due a group is asked for.
    fn reads_ahead(&self) -> Nanos {
        Nanos::try_from(self.script.lead())
            .map_or(self.rules.ahead, |lead| lead.min(self.rules.ahead))
    }

    /// When what is due at `due` leaves, in film time.
    fn leaves(&self, due: Nanos) -> Nanos {
        match &self.schedule {
            Some(schedule) => schedule.leaves(due),
            None => due,
        }
    }

    /// The unit track number `track` is at.
    pub fn unit_of(&self, track: usize) -> Option<Unit<'_, H::Bytes>> {
        let cursor = &self.tracks.get(track)?.cursor;
        cursor.unit(|| {
            let payload = self.script.outline().payload(cursor.track).ok().flatten();
            payload.map(|payload| payload.preface())
        })
    }

    /// The next slice of a track, and how many packets may leave in its millisecond.
    pub(super) fn slice(&self, track: usize) -> Option<(Due, u32)> {
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
    pub(crate) fn horizon(&self, began: u64) -> u64 {
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
    pub(crate) fn due(&self, now: u64, horizon: u64, out: &mut Vec<Due>) {
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
            // The last packet has just left: the end is yet to be set.
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
                // Its plan is late; nobody wakes the thread for a plan that was asked for in time.
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
        // What is due later waits behind what is due first, however little room it needs.
        if let Some(due) = first {
            next = next.min(self.look_for(&due, cap, now, horizon));
        }
        (next < u64::MAX).then_some(next)
    }

    /// When to look at the stream again for a slice.
    fn look_for(&self, due: &Due, cap: u32, now: u64, horizon: u64) -> u64 {
        let released = self.released(due.at);
        if released >= horizon {
            // Where the kernel holds packets, those of several turns are looked for at once.
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
        // The next turn will do, unless the stream needs every millisecond.
        let needs_all = opens <= now || cap > u32::from(self.rules.burst);
        let at = if needs_all {
            opens
        } else {
            opens.next_multiple_of(TURN)
        };
        at.max(self.retry_at)
    }

    /// When the first packet of those that have not left should leave.
    pub(super) fn first_due(&self) -> Option<u64> {
        let first = (0..self.tracks.len())
            .filter_map(|track| Some(self.slice(track)?.0.at))
            .min();
        first.or_else(|| self.slow_since())
    }

    /// Whether sender reports are due now; counts as sent then. At the beginning they follow the first
    /// packets.
    pub(crate) fn takes_report(&mut self, now: u64) -> bool {
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
