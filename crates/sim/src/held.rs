//! Bytes of a film that were read into pages.

use reelway_pool::Pin;
use reelway_rtp::Bytes;

use crate::film::Film;
use crate::world::{BLOCK, Page};

/// Consecutive blocks of a film in a file.
pub(crate) struct InPages<'a> {
    pub film: &'a Film,
    /// The first block.
    pub first: u32,
    pub pins: &'a [Pin<Page>],
}

impl InPages<'_> {
    /// Returns the bytes that the page holds from this offset of the film on.
    fn from(&self, offset: u64) -> Option<&[u8]> {
        let nth = (offset / BLOCK).checked_sub(u64::from(self.first))?;
        let page = self.pins.get(usize::try_from(nth).ok()?)?.memory();
        let bytes = match self.film.has_view() {
            true => &page.made,
            false => self.film.file_block(page.holds?.block),
        };
        bytes.get((offset % BLOCK) as usize..)
    }

    /// Returns whether the film has these bytes at `offset`.
    pub fn are(&self, mut offset: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some(held) = self.from(offset) else {
                return false;
            };
            let size = held.len().min(bytes.len());
            if size == 0 || held[..size] != bytes[..size] {
                return false;
            }
            (offset, bytes) = (offset + size as u64, &bytes[size..]);
        }
        true
    }
}

impl Bytes for InPages<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool {
        let mut done = 0;
        while done < buf.len() {
            let Some(held) = self.from(offset + done as u64) else {
                return false;
            };
            let size = held.len().min(buf.len() - done);
            if size == 0 {
                return false;
            }
            buf[done..done + size].copy_from_slice(&held[..size]);
            done += size;
        }
        true
    }
}
