//! What happens when a stream is late: frames are left out, the timetable is moved, or the reader
//! is disconnected.

use super::body::Stream;
use crate::effect::Effects;
use crate::error::StreamError;
use crate::host::{Host, Script};
use crate::play::State;

/// The multiple of `drop_after` from which a late picture is left out with all pictures that are
/// decoded from it.
const LOST: u64 = 8;

/// How long after the last packet BYE leaves at the earliest: players take BYE for the end even if
/// packets still wait in their other socket. ffmpeg reads the RTCP socket first, and loses packets
/// that arrived while it was not scheduled.
const BEFORE_BYE: u64 = 1_000_000_000;
/// How long after the last packet BYE leaves at the latest.
const BYE_LATEST: u64 = 5_000_000_000;

impl<H: Host> Stream<H> {
    /// Returns how far behind the stream is, by the first packet that should have left.
    pub(super) fn behind(&self, now: u64) -> u64 {
        now.saturating_sub(self.first_due().unwrap_or(now))
    }

    /// Returns how far behind the viewer is, by the first packet that should have left or by a
    /// group that should be in memory.
    pub(super) fn lag(&self, now: u64) -> u64 {
        let outline = self.script.outline();
        let tracks = self.tracks.iter();
        let missing = tracks.filter_map(|track| track.cursor.missing(outline));
        let since = missing.map(|due| self.wall_of(due)).min();
        self.behind(now)
            .max(now.saturating_sub(since.unwrap_or(now)))
    }

    /// Returns how much later than its timetable says the stream needs its next packets, ns: a
    /// stream that is this far behind continues from its position, with a moved timetable or as
    /// fast as the reader reads.
    pub(super) fn goes_on_later(&self, now: u64) -> u64 {
        let lag = self.lag(now);
        if lag > self.rules.catch_up { lag } else { 0 }
    }

    /// Moves the timetable by `nanos`: packets that were late are due now.
    pub(crate) fn shift(&mut self, nanos: u64) {
        self.wall += nanos;
        self.over_at = self.over_at.map(|at| at + nanos);
        self.shift_slow(nanos);
        self.report_first();
        self.mishap(|mishaps| mishaps.shifts += 1);
    }

    /// Leaves out very late frames that no other frame needs: such lateness means that this thread
    /// or the network path is overloaded. The other frames decode without errors, unlike after
    /// random loss. Frames left out take no sequence numbers, so receivers do not wait for them.
    /// TCP readers get everything, as only they themselves are slow.
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

    /// Leaves out the rest of a group of pictures that is [`LOST`] times as late, if the next one
    /// is already due: a stream that is this far behind would fall further behind, and a group that
    /// begins with a sync sample decodes without errors.
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

    /// Leaves out the current frame.
    fn skip(&mut self, track: usize) -> Result<(), StreamError> {
        self.mishap(|mishaps| mishaps.dropped += 1);
        self.tracks[track].cursor.skip()
    }

    /// Handles everything that is due besides packets. Lateness of `excused` ns does not count as a
    /// sign of overload.
    pub(crate) fn look_after(&mut self, now: u64, excused: u64, effects: &mut Effects<H>) {
        if self.state != State::Playing {
            return;
        }
        let behind = self.behind(now);
        // A longer stall moves the timetable, and no frame needs to be left out.
        if behind <= self.rules.catch_up {
            self.leave_out(now.saturating_sub(excused), effects);
        }
        self.want(now, effects);
        let behind = self.behind(now);
        self.tally.behind = behind;
        self.tally.position = self.position(now.saturating_sub(self.lag(now)));
        let starved =
            self.slow_since().is_none() && self.tracks.iter().any(|track| !track.cursor.is_ready());
        // A late plan is the server's fault, a connection that takes no more is the reader's.
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

    /// Returns whether the end of the range has been played.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.state == State::Playing && self.over_at.is_some_and(|at| at <= now)
    }
}
