//! What happens when a stream is late: frames are left out, the timetable is moved, or its reader is disconnected.

use super::body::Stream;
use crate::effect::Effects;
use crate::error::StreamError;
use crate::host::{Host, Script};
use crate::play::State;

/// How many times `drop_after` a picture is late that is left out with all that is decoded from it.
const LOST: u64 = 8;

/// How long after the last packet BYE leaves at the earliest: players take it for the end even when
/// packets are still waiting in their other socket. ffmpeg reads that of RTCP first, and loses what
/// came while it had no processor.
const BEFORE_BYE: u64 = 1_000_000_000;
/// How long after the last packet BYE leaves at the latest.
const BYE_LATEST: u64 = 5_000_000_000;

impl<H: Host> Stream<H> {
    /// How far behind the stream is: the first packet that should have left.
    pub(super) fn behind(&self, now: u64) -> u64 {
        now.saturating_sub(self.first_due().unwrap_or(now))
    }

    /// How far behind its viewer is: by the first packet that should have left, or by a group that should be here.
    pub(super) fn lag(&self, now: u64) -> u64 {
        let outline = self.script.outline();
        let tracks = self.tracks.iter();
        let missing = tracks.filter_map(|track| track.cursor.missing(outline));
        let since = missing.map(|due| self.wall_of(due)).min();
        self.behind(now)
            .max(now.saturating_sub(since.unwrap_or(now)))
    }

    /// How much later than by its timetable it needs what comes next, ns: a stream that is so far behind goes on from where it
    /// is, by a timetable that has been moved, or as fast as its reader reads.
    pub(super) fn goes_on_later(&self, now: u64) -> u64 {
        let lag = self.lag(now);
        if lag > self.rules.catch_up { lag } else { 0 }
    }

    /// Moves the timetable on by `nanos`: what was late is due now.
    pub(crate) fn shift(&mut self, nanos: u64) {
        self.wall += nanos;
        self.over_at = self.over_at.map(|at| at + nanos);
        self.shift_slow(nanos);
        self.report_first();
        self.mishap(|mishaps| mishaps.shifts += 1);
    }

    /// Leaves out frames that are so late that this thread, or the way of its packets, has too much to
    /// do, if no other frame needs them: what is left is decoded without a fault, as loss at random would
    /// not be. They take no sequence numbers, so that nobody waits for them. A TCP reader's slowness is
    /// their own, and they get everything.
    fn leave_out(&mut self, now: u64, effects: &mut Effects<H>) {
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
                if let Err(error) = self.skip(number) {
                    return self.fail(error, effects);
                }
            }
            if let Err(error) = self.leave_group_out(number, now) {
                return self.fail(error, effects);
            }
        }
    }

    /// Leaves out the rest of a group of pictures that is [`LOST`] times as late, if the next one is due
    /// already: who is that far behind would fall further, and what begins with a sync picture is decoded
    /// without a fault.
    fn leave_group_out(&mut self, number: usize, now: u64) -> Result<(), StreamError> {
        let limit = now.saturating_sub(self.rules.drop_after.saturating_mul(LOST));
        let cursor = &self.tracks[number].cursor;
        let late = cursor
            .untouched()
            .is_some_and(|due| self.wall_of(due) < limit);
        if !late || !self.script.outline().is_picture(cursor.track) {
            return Ok(());
        }
        let Some(sync) = cursor.next_sync().filter(|due| self.wall_of(*due) <= now) else {
            return Ok(());
        };
        while self.tracks[number]
            .cursor
            .untouched()
            .is_some_and(|due| due < sync)
        {
            self.skip(number)?;
        }
        Ok(())
    }

    /// Leaves out the frame at hand.
    fn skip(&mut self, track: usize) -> Result<(), StreamError> {
        self.mishap(|mishaps| mishaps.dropped += 1);
        self.tracks[track].cursor.skip()
    }

    /// Sees to what is due beside packets. So much lateness (`excused`, ns) is no sign that there is too much to do.
    pub(crate) fn look_after(&mut self, now: u64, excused: u64, effects: &mut Effects<H>) {
        if self.state != State::Playing {
            return;
        }
        let behind = self.behind(now);
        // A stall beyond this moves the timetable, and nothing need be left out.
        if behind <= self.rules.catch_up {
            self.leave_out(now.saturating_sub(excused), effects);
        }
        self.want(now, effects);
        let behind = self.behind(now);
        self.tally.behind = behind;
        self.tally.position = self.position(now.saturating_sub(self.lag(now)));
        let starved =
            self.slow_since().is_none() && self.tracks.iter().any(|track| !track.cursor.is_ready());
        // A plan that came late is our fault, a connection that takes no more is its reader's.
        let ours = std::mem::replace(&mut self.starved, starved) || !self.is_tcp();
        if ours && behind > self.rules.catch_up {
            self.shift(behind);
        } else if behind > self.rules.lag_limit {
            let words = format!(
                "the reader is {:.1} s behind and was disconnected",
                behind as f64 / 1e9
            );
            return self.fail(StreamError(words), effects);
        }
        if self.over_at.is_none() && self.tracks.iter().all(|track| track.cursor.is_done()) {
            let end = self.wall_of(self.end);
            let latest = now + BYE_LATEST + self.most_ahead() as u64;
            self.over_at = Some(end.clamp(now + BEFORE_BYE, latest));
        }
    }

    /// Whether the range's end has been played.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.state == State::Playing && self.over_at.is_some_and(|at| at <= now)
    }
}
