//! A TCP stream whose connection takes no more, because its reader is slow or does not read at all. It keeps the film's
//! bytes for a moment, within what all such streams may pin together; then it lets go of them and keeps only its place.
//! Once the connection has room again it waits for its turn to have them back.
//!
//! The packet that was half written is copied by the connection's writer, so nothing of the film is needed until then.

use super::{Active, Path};
use reelway_playout::StreamError;

use crate::plans::Cursor;
use crate::share::{Part, Ticket};
use crate::stream::State;

/// How long a stream keeps film bytes that its connection does not take: a large picture may fill the connection for
/// as long as the network needs for it.
const KEEPS: u64 = 200_000_000;

/// How long a connection that took nothing is left alone at first; twice as long each time, up to [`MOST_ALONE`].
/// When the kernel says that there is room, it still holds [`MOST_ALONE`] of a film of 2 Mb/s.
const ALONE: u64 = 10_000_000;
const MOST_ALONE: u64 = 250_000_000;

/// How long after the request such a stream is due to get its bytes back: after all viewers who are on time.
pub(super) const LAST: u64 = 1_000_000_000;

/// What a stream does whose connection takes no more.
pub(crate) struct Slow {
    has: Has,
    /// How often in a row the connection took nothing.
    tries: u32,
    /// When the next packet was due, while its plan is not here.
    due: u64,
    /// Blocks that it held, and needs again to go on.
    blocks: usize,
}

/// What such a stream has of the film.
enum Has {
    /// Its bytes, since this time.
    Bytes { since: u64, _part: Part },
    /// Its place, and perhaps a place in the line for its bytes.
    Place(Option<Ticket>),
    /// Its bytes, or they are on their way.
    BytesAgain { part: Part },
}

impl Slow {
    fn wait(&mut self, now: u64) -> u64 {
        let wait = (ALONE << self.tries.min(8)).min(MOST_ALONE);
        self.tries += 1;
        now + wait
    }
}

impl Active {
    /// Whether it has let go of the film's bytes.
    pub fn has_let_go(&self) -> bool {
        matches!(
            self.slow.as_deref(),
            Some(Slow {
                has: Has::Place(_),
                ..
            })
        )
    }

    /// Whether its connection took no more when it was last tried.
    pub(super) fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// When the next packet was due, if its reader is why its plan is not here.
    pub(super) fn slow_since(&self) -> Option<u64> {
        let slow = self.slow.as_deref()?;
        let away = matches!(slow.has, Has::Place(_) | Has::BytesAgain { .. });
        away.then_some(slow.due)
    }

    /// The timetable moves on.
    pub(super) fn shift_slow(&mut self, nanos: u64) {
        if let Some(slow) = &mut self.slow {
            slow.due += nanos;
        }
    }

    /// The connection took a whole frame.
    pub fn took_all(&mut self) {
        self.slow = None;
    }

    /// The connection took `taken` packets and has no room for more.
    pub fn is_full(&mut self, taken: u32, now: u64) {
        if self.state != State::Playing {
            return;
        }
        let cursors = self.tracks.iter().map(|track| &track.cursor);
        let blocks = cursors.map(Cursor::blocks).sum::<usize>();
        let slow = self.slow.take().map(|slow| *slow);
        let (has, tries) = match slow {
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
            // What was asked for and comes now is not kept.
            self.epoch += 1;
            for track in &mut self.tracks {
                track.cursor.let_go();
            }
        }
    }

    /// Looks whether the connection of a stream that let go of its bytes has room again, and whether it is its turn to
    /// have them back.
    pub fn look_at_connection(&mut self, now: u64) {
        let Some(mut slow) = self.slow.take() else {
            return;
        };
        let connection = self.tracks.iter().find_map(|track| match &track.path {
            Path::Tcp { conn, .. } => Some(conn),
            Path::Udp(_) => None,
        });
        let has_room = match connection.map(|conn| conn.has_room()) {
            Some(Ok(has_room)) => has_room,
            Some(Err(error)) => return self.fail(StreamError(error.to_string())),
            None => true,
        };
        if has_room && let Has::Place(ticket) = &mut slow.has {
            let part = self.rules.behind.take_in_turn(ticket, slow.blocks);
            // Also where it has to wait for its turn it looks soon.
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
        self.want(now);
    }
}
