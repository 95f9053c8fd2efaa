//! The windows of a media answer, connected to the film's index and the store.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use reelway_media::SamplesError;
use reelway_package::{Part, Slices, StreamSlices};
use reelway_store::{BlockPart, Source, Span};
use reelway_viewing::{Gather, Next, Window, Windows};

use crate::blocking::in_place;
use crate::films::Show;

/// An answer, window by window.
pub(crate) struct Pieces {
    windows: Windows,
    /// The source of a segment's parts.
    segment: Option<(Arc<Show>, Parts)>,
}

/// The parts of a show that make up a segment.
enum Parts {
    /// Fragments of one of its packaged tracks.
    Fragments(usize, Slices),
    /// Packets of its transport stream.
    Packets(StreamSlices),
}

impl Pieces {
    /// Creates the pieces of an unmodified range of the file.
    pub fn of_file(range: Range<u64>) -> Pieces {
        Pieces {
            windows: Windows::of_file(range),
            segment: None,
        }
    }

    /// Creates the pieces of a part of a segment of the show's `track`th packaged track.
    pub fn of_segment(show: Arc<Show>, track: usize, slices: Slices) -> Pieces {
        Pieces {
            windows: Windows::of_parts(),
            segment: Some((show, Parts::Fragments(track, slices))),
        }
    }

    /// Creates the pieces of a part of a segment of the show's transport stream.
    pub fn of_stream(show: Arc<Show>, slices: StreamSlices) -> Pieces {
        Pieces {
            windows: Windows::of_parts(),
            segment: Some((show, Parts::Packets(slices))),
        }
    }

    /// Returns the source from which its windows are read.
    pub fn source<'a>(&self, show: &'a Show) -> &'a Arc<Source> {
        match &self.segment {
            None => &show.file,
            Some(_) => &show.source,
        }
    }

    /// Returns the next window: at most `size` bytes, not crossing a multiple of `size`. Blocks for
    /// a read of the index file when a fragment begins.
    pub fn next(&mut self, size: u64) -> Result<Option<Window>, SamplesError> {
        loop {
            match self.windows.next(size) {
                Next::Window(window) => return Ok(Some(window)),
                Next::End => return Ok(None),
                Next::Parts => self.refill()?,
            }
        }
    }

    fn refill(&mut self) -> Result<(), SamplesError> {
        let Some((show, parts)) = &mut self.segment else {
            self.windows.end();
            return Ok(());
        };
        let samples = &*show.film.samples;
        // A few kilobytes of the index file, usually in memory.
        let fragment = in_place(|| match parts {
            Parts::Fragments(track, slices) => slices.next(&show.package.tracks()[*track], samples),
            Parts::Packets(slices) => slices.next(samples),
        });
        match fragment? {
            Some(fragment) => self.windows.add(fragment.parts),
            None => {
                self.segment = None;
                self.windows.end();
            }
        }
        Ok(())
    }
}

/// Returns a window's bytes: slices of the store's blocks, converted by `sent`. Only short pieces
/// are copied, or everything if `copy` is set. `span` covers [`Window::film`].
pub(crate) fn bytes(
    window: Window,
    span: Option<&Span>,
    copy: bool,
    sent: impl Fn(BlockPart) -> Bytes,
) -> VecDeque<Bytes> {
    let mut gather = Gather::new(copy);
    for part in window.parts {
        match part {
            Part::Inline(bytes) => gather.put(bytes),
            Part::Film(range) => {
                let parts = span
                    .into_iter()
                    .flat_map(|span| span.block_parts(range.clone()));
                parts.for_each(|part| gather.put(sent(part)));
            }
        }
    }
    gather.done()
}
