//! What a media answer consists of, window by window: as much as lies in one block of the store, or in some blocks side
//! by side.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use reelway_media::SamplesError;
use reelway_package::{Part, Slices};
use reelway_store::Span;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::films::Show;

/// Pieces shorter than this are copied together: below it, a system call's entry costs more than
/// the copy. Sound of an interleaved film lies in pieces of some hundred bytes.
const GATHERED: usize = 4096;
/// Most pieces of a window; a film that is interleaved sample by sample has this many in a block of 256 KiB.
const MOST_PIECES: usize = 1024;

/// Pieces of an answer that need at most one contiguous part of the film, inside one window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// What to read; `None` where all is inline.
    pub film: Option<Range<u64>>,
    parts: Vec<Part>,
}

/// The windows of an answer, in order.
pub(crate) struct Windows {
    parts: VecDeque<Part>,
    /// Where more parts come from: a segment's fragments.
    more: Option<(Arc<Show>, usize, Slices)>,
}

impl Windows {
    /// Bytes of the film as they are.
    pub fn of_file(range: Range<u64>) -> Windows {
        Windows {
            parts: VecDeque::from([Part::Film(range)]),
            more: None,
        }
    }

    /// A part of a segment of the show's `track`th packaged track.
    pub fn of_segment(show: Arc<Show>, track: usize, slices: Slices) -> Windows {
        Windows {
            parts: VecDeque::new(),
            more: Some((show, track, slices)),
        }
    }

    /// The next window: nothing longer than `size`, nothing across a multiple of it. Blocks for a
    /// read of the index file when a fragment begins.
    pub fn next(&mut self, size: u64) -> Result<Option<Window>, SamplesError> {
        let mut window = Window::default();
        while window.parts.len() < MOST_PIECES {
            if self.parts.is_empty() && !self.refill()? {
                break;
            }
            let Some(part) = self.parts.pop_front() else {
                break;
            };
            let Part::Film(range) = part else {
                window.parts.push(part);
                continue;
            };
            let block = range.start / size;
            let here = range.start..range.end.min((block + 1) * size);
            let film = match &window.film {
                Some(film) if film.start / size != block => {
                    self.parts.push_front(Part::Film(range));
                    break;
                }
                Some(film) => film.start.min(here.start)..film.end.max(here.end),
                None => here.clone(),
            };
            window.film = Some(film);
            if here.end < range.end {
                self.parts.push_front(Part::Film(here.end..range.end));
            }
            window.parts.push(Part::Film(here));
        }
        Ok((!window.parts.is_empty()).then_some(window))
    }

    fn refill(&mut self) -> Result<bool, SamplesError> {
        let Some((show, track, slices)) = &mut self.more else {
            return Ok(false);
        };
        let mut read = || slices.next(&show.package.tracks()[*track], &*show.film.samples);
        // A few kilobytes of the index file, in memory mostly; where not, others go on meanwhile.
        let pieces = match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => block_in_place(read),
            _ => read(),
        };
        match pieces? {
            Some(pieces) => {
                self.parts.extend(pieces.parts);
                Ok(true)
            }
            None => {
                self.more = None;
                Ok(false)
            }
        }
    }
}

impl Window {
    /// Its bytes, of which most or all are the film's.
    pub fn len(&self) -> u64 {
        let len = |part: &Part| match part {
            Part::Inline(bytes) => bytes.len() as u64,
            Part::Film(range) => range.end - range.start,
        };
        self.parts.iter().map(len).sum()
    }

    /// The bytes to send: slices of the store's blocks, nothing copied but what is shorter than
    /// [`GATHERED`], or all of it where `copy` is asked for. `span` covers [`Window::film`].
    pub fn bytes(self, span: Option<&Span>, copy: bool) -> VecDeque<Bytes> {
        let mut out = VecDeque::new();
        let mut gathered = BytesMut::new();
        let mut put = |bytes: Bytes| {
            if copy || bytes.len() < GATHERED {
                gathered.extend_from_slice(&bytes);
            } else {
                if !gathered.is_empty() {
                    out.push_back(gathered.split().freeze());
                }
                out.push_back(bytes);
            }
        };
        for part in self.parts {
            match part {
                Part::Inline(bytes) => put(bytes),
                Part::Film(range) => {
                    span.into_iter()
                        .flat_map(|span| span.bytes(range.clone()))
                        .for_each(&mut put);
                }
            }
        }
        if !gathered.is_empty() {
            out.push_back(gathered.freeze());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_block_by_block() {
        let mut windows = Windows::of_file(100..600);
        let mut ranges = Vec::new();
        while let Some(window) = windows.next(256).unwrap() {
            ranges.push(window.film.unwrap());
        }
        assert_eq!(ranges, [100..256, 256..512, 512..600]);
    }

    #[test]
    fn pieces_of_one_block_are_read_at_once_whatever_their_order() {
        let header = Part::Inline(Bytes::from_static(b"head"));
        let parts = [
            header,
            Part::Film(10..20),
            Part::Film(40..60),
            Part::Film(30..35),
            Part::Film(250..300),
        ];
        let mut windows = Windows {
            parts: parts.into(),
            more: None,
        };
        let first = windows.next(256).unwrap().unwrap();
        assert_eq!(first.film, Some(10..256));
        assert_eq!(first.parts.len(), 5);
        let second = windows.next(256).unwrap().unwrap();
        assert_eq!((second.film, second.parts.len()), (Some(256..300), 1));
        assert!(windows.next(256).unwrap().is_none());
    }
}
