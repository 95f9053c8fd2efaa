//! The view of an unmodified transport stream in a file with other bytes between packets: all
//! packets, one after the other.

use std::ops::Range;

use super::ts::{Layout, PACKET, Walker};
use crate::places::{Filled, Place, STEP, View};
use crate::title::Title;

/// The process of making some bytes of such a view.
#[derive(Debug)]
pub struct Filling {
    /// The packet layout of the file; `None` if the index is invalid.
    layout: Option<Layout>,
    len: u64,
    range: Range<u64>,
    /// Bytes of the view before the first packet that is read.
    before: u64,
    wanted: Range<u64>,
}

impl Filling {
    /// Starts making these bytes of the view of a film.
    pub fn new(title: &Title, view: View, range: Range<u64>) -> Filling {
        let place = |nth: u64| -> Option<Place> {
            let track = title.tracks.first()?;
            track.places.get(usize::try_from(nth).ok()?)
        };
        let step = range.start / STEP;
        let from = place(step);
        let layout = Layout::of(view.packet).filter(|_| from.is_some());
        let start = from.map_or(0, |from| from.file).min(view.file);
        let before = step * STEP / PACKET as u64 * PACKET as u64;
        let packets = range.end.saturating_sub(before).div_ceil(PACKET as u64);
        // Include the first byte of the packet after them, if there is one.
        let bytes = (packets + 1).saturating_mul(view.packet.into());
        let end = start.saturating_add(bytes).min(view.file);
        Filling {
            layout,
            len: view.file,
            range,
            before,
            wanted: start..end,
        }
    }

    /// Returns the byte range of the file that is needed.
    pub fn wanted(&self) -> Range<u64> {
        self.wanted.clone()
    }

    /// Makes the bytes from the requested bytes of the file.
    pub fn fill(&mut self, file: &[u8], into: &mut [u8]) -> Filled {
        let size = self.wanted.end - self.wanted.start;
        let is_asked = into.len() as u64 == self.range.end - self.range.start;
        let Some(layout) = self
            .layout
            .filter(|_| is_asked && file.len() as u64 == size)
        else {
            return Filled::Different;
        };
        let is_end = self.wanted.end == self.len;
        let (mut at, mut done) = (self.before, self.range.start);
        Walker::new(layout).walk_all(file, is_end, |_, packet| {
            let next = at + PACKET as u64;
            let (from, to) = (at.max(self.range.start), next.min(self.range.end));
            if from < to {
                let within = |byte: u64, start: u64| (byte - start) as usize;
                let bytes = &packet[within(from, at)..within(to, at)];
                let start = self.range.start;
                into[within(from, start)..within(to, start)].copy_from_slice(bytes);
                done = to;
            }
            at = next;
        });
        match done == self.range.end {
            true => Filled::Whole,
            false if is_end => Filled::Different,
            false => {
                // Other bytes lie between the packets. Doubling the range keeps attempts few.
                let more = size.max(STEP);
                self.wanted.end = self.wanted.end.saturating_add(more).min(self.len);
                Filled::More
            }
        }
    }
}
