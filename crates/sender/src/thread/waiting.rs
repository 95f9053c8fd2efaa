//! Streams that could send and wait for room on a limited link: the earliest deadline goes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::{AT_WORK, PART, Thread};
use crate::link::Way;

/// A stream that waits for a link.
pub(super) const IN_LINE: u64 = AT_WORK - 1;

/// Those who wait for one way.
struct Line {
    way: Arc<Way>,
    /// Streams by deadline.
    streams: BinaryHeap<Reverse<(u64, u32)>>,
}

/// All who wait, by the numbers of their ways.
#[derive(Default)]
pub(super) struct Waiting(Vec<Option<Line>>);

impl Waiting {
    /// Whether any stream waits.
    pub fn anyone(&self) -> bool {
        self.0.iter().flatten().any(|line| !line.streams.is_empty())
    }

    /// Nobody waits on thread number `thread` any more.
    pub fn forget(&mut self, thread: usize) {
        for line in self.0.drain(..).flatten() {
            line.way.waits(thread, None);
        }
    }

    fn put(&mut self, way: &Arc<Way>, due: u64, place: u32) {
        if self.0.len() <= way.number {
            self.0.resize_with(way.number + 1, || None);
        }
        let line = self.0[way.number].get_or_insert_with(|| Line {
            way: way.clone(),
            streams: BinaryHeap::new(),
        });
        line.streams.push(Reverse((due, place)));
    }
}

impl Thread {
    /// Has a stream wait for room on its limited links; false: it may send nothing over any now.
    pub(super) fn line_up(&mut self, place: u32, now: u64) -> bool {
        let Some(stream) = self.streams[place as usize].as_deref() else {
            return false;
        };
        let Some((link, (due, _))) = stream.link.as_ref().zip(stream.next_on_link(now)) else {
            return false;
        };
        self.waiting.put(&link.way, due, place);
        self.armed[place as usize] = IN_LINE;
        true
    }

    /// Has those streams walked now for which their links have room, the earliest deadline first.
    pub(super) fn serve_waiting(&mut self, now: u64) {
        let mut lines = std::mem::take(&mut self.waiting.0);
        for line in lines.iter_mut().flatten() {
            while let Some(Reverse((due, place))) = line.streams.peek().copied() {
                let stream = self.streams[place as usize].as_deref_mut();
                // A stream that has left, or another one in its place, does not wait.
                let waits = self.armed[place as usize] == IN_LINE;
                if let Some(stream) = stream.filter(|_| waits) {
                    if let Some(next) = stream.next_on_link(now)
                        && !stream.takes_room(now, next, self.number)
                    {
                        break;
                    }
                    self.armed[place as usize] = AT_WORK;
                    self.served.push((due / PART, place));
                }
                line.streams.pop();
            }
            let first = line.streams.peek().map(|Reverse((due, _))| *due);
            line.way.waits(self.number, first);
        }
        self.waiting.0 = lines;
    }
}
