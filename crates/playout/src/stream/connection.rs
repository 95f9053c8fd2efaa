//! A TCP stream whose connection takes no more, because the reader is slow or does not read at all.
//! The stream keeps the film's bytes for a moment, within the memory that all such streams may pin
//! together; then it releases them and keeps only its position. Once the connection has room again,
//! it waits for its turn to get them back.
//!
//! A partly written packet is copied by the connection's writer, so no film bytes are
//! needed until then.

use super::body::Stream;
use super::slow::{Has, Slow};
use crate::cursor::Cursor;
use crate::effect::Effects;
use crate::frames::{Frame, TCP_PACKETS};
use crate::host::{Host, Share};
use crate::pacing::TURN;
use crate::play::State;
use crate::rules::Due;

/// How long a stream keeps film bytes that its connection does not take: a large picture may fill
/// the connection for as long as the network needs to carry it.
const KEEPS: u64 = 200_000_000;

/// The longest wait of a stream that is behind between two frames, ns.
const MOST_BETWEEN: u64 = 50_000_000;

/// How long after the request such a stream is due to get its bytes back: after all streams that
/// are on time.
pub(super) const LAST: u64 = 1_000_000_000;

impl<H: Host> Stream<H> {
    /// Returns whether it has released the film's bytes.
    pub(super) fn has_let_go(&self) -> bool {
        let slow = self.slow.as_deref();
        slow.is_some_and(|slow| matches!(slow.has, Has::Place(_)))
    }

    /// Returns whether its connection took no more when it was last tried.
    pub(super) fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// Returns when the next packet was due, if its plan is not in memory because the
    /// reader is slow.
    pub(super) fn slow_since(&self) -> Option<u64> {
        let slow = self.slow.as_deref()?;
        let away = matches!(slow.has, Has::Place(_) | Has::BytesAgain { .. });
        away.then_some(slow.due)
    }

    /// Moves the timetable by `nanos`.
    pub(super) fn shift_slow(&mut self, nanos: u64) {
        if let Some(slow) = &mut self.slow {
            slow.due += nanos;
        }
    }

    /// Returns what it may hand to its connection now, of the packets due before `horizon`.
    pub(crate) fn frame(&self, now: u64, horizon: u64) -> Frame {
        if self.state != State::Playing || now < self.retry_at || now < self.not_before {
            return Frame::Nothing;
        }
        if self.has_let_go() {
            return Frame::Look;
        }
        let slices = (0..self.tracks.len()).filter_map(|track| Some(self.slice(track)?.0));
        let due = slices
            .filter(|due| self.released(due.at) < horizon)
            .min_by_key(|due| due.at);
        let Some((mut due, unit)) = due.and_then(|due| Some((due, self.unit_of(due.track)?)))
        else {
            return Frame::Nothing;
        };
        // TCP does its own pacing, so the frame is written as a whole.
        let rest = unit.packets.len() as u32 - due.first;
        due.end = due.first + rest.min(TCP_PACKETS);
        Frame::Write(due)
    }

    /// Records that the connection took the first `taken` of these packets, by `after`. Returns the
    /// bytes of RTP sent.
    pub(crate) fn wrote(
        &mut self,
        due: &Due,
        taken: u32,
        after: u64,
        effects: &mut Effects<H>,
    ) -> u64 {
        let Some(unit) = self.unit_of(due.track) else {
            return 0;
        };
        let whole = taken == unit.packets.len() as u32 - due.first;
        let bytes = self.gone(due, (taken, 0), after, effects);
        // It is behind, and catches up at twice the speed of the film.
        if whole && due.at + 2 * TURN < after {
            let next = self.first_due().unwrap_or(due.at);
            self.not_before = after + (next.saturating_sub(due.at) / 2).min(MOST_BETWEEN);
        }
        if taken < due.end - due.first {
            self.is_full(taken, after);
        } else if whole {
            self.slow = None;
        }
        bytes
    }

    /// Records that the connection took `taken` packets and has no room for more.
    fn is_full(&mut self, taken: u32, now: u64) {
        if self.state != State::Playing {
            return;
        }
        let cursors = self.tracks.iter().map(|track| &track.cursor);
        let blocks = cursors.map(Cursor::blocks).sum::<usize>();
        let (has, tries) = match self.slow.take().map(|slow| *slow) {
            None => (None, 0),
            Some(slow) => (Some(slow.has), slow.tries),
        };
        let has = match has {
            Some(Has::BytesAgain { part }) => Some(Has::Bytes {
                since: now,
                _part: part,
            }),
            Some(Has::Bytes { since, _part }) => {
                (now.saturating_sub(since) < KEEPS).then_some(Has::Bytes { since, _part })
            }
            Some(Has::Place(_)) | None => {
                let part = self.rules.behind.take(blocks);
                part.map(|_part| Has::Bytes { since: now, _part })
            }
        };
        let lets_go = has.is_none();
        let mut slow = Slow {
            has: has.unwrap_or(Has::Place(None)),
            tries: if taken > 0 { 0 } else { tries },
            due: self.first_due().unwrap_or(now),
            blocks,
        };
        self.retry_at = slow.wait(now);
        self.slow = Some(Box::new(slow));
        if lets_go {
            // Groups that were requested and arrive now are not kept.
            self.epoch += 1;
            for track in &mut self.tracks {
                track.cursor.let_go();
            }
        }
    }

    /// Records whether the connection of a stream that released its bytes has room again, as found
    /// by the caller. If so, checks whether it is the stream's turn to get them back.
    pub(crate) fn connection(&mut self, has_room: bool, now: u64, effects: &mut Effects<H>) {
        let Some(mut slow) = self.slow.take() else {
            return;
        };
        if has_room && let Has::Place(ticket) = &mut slow.has {
            let part = self.rules.behind.take_in_turn(ticket, slow.blocks);
            // It looks again soon even if it has to wait for its turn.
            slow.tries = 0;
            if let Some(part) = part {
                slow.has = Has::BytesAgain { part };
            }
        } else if let Has::Place(ticket) = &mut slow.has {
            *ticket = None;
        }
        self.retry_at = match slow.has {
            Has::Place(_) => slow.wait(now),
            _ => now,
        };
        self.slow = Some(slow);
        self.want(now, effects);
    }
}
