//! The windows of a media answer: each covers what lies in one block of the store, or in several
//! adjacent blocks.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use reelway_package::Part;

/// Pieces shorter than this are copied together: below it, another entry in a system call costs
/// more than the copy. The audio of an interleaved film is in pieces of some hundred bytes.
const GATHERED: usize = 4096;
/// Maximum number of pieces in a window; a film interleaved sample by sample has this many in a 256
/// KiB block.
const MOST_PIECES: usize = 1024;

/// Pieces of an answer that need at most one contiguous range of the film.
#[derive(Debug, Default, PartialEq)]
pub struct Window {
    /// The range to read; `None` if all pieces are inline.
    pub film: Option<Range<u64>>,
    /// The pieces in order.
    pub parts: Vec<Part>,
}

impl Window {
    /// Returns the window's size in bytes, most or all of them film.
    pub fn bytes(&self) -> u64 {
        let bytes = |part: &Part| match part {
            Part::Inline(bytes) => bytes.len() as u64,
            Part::Film(range) => range.end - range.start,
        };
        self.parts.iter().map(bytes).sum()
    }
}

/// The next step of an answer.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// A window.
    Window(Window),
    /// More parts are needed before the next window is known: [`Windows::add`] or [`Windows::end`].
    Parts,
    /// The end of the answer.
    End,
}

/// The windows of an answer, in order.
#[derive(Debug)]
pub struct Windows {
    parts: VecDeque<Part>,
    /// Whether more parts follow.
    has_more: bool,
    /// The window being assembled, and how many of its bytes are film.
    window: Window,
    of_film: u64,
}

impl Windows {
    /// Creates the windows of an unmodified range of the file.
    pub fn of_file(range: Range<u64>) -> Windows {
        Windows {
            parts: VecDeque::from([Part::Film(range)]),
            has_more: false,
            window: Window::default(),
            of_film: 0,
        }
    }

    /// Creates windows of parts that are added one by one: a segment's fragments.
    pub fn of_parts() -> Windows {
        Windows {
            parts: VecDeque::new(),
            has_more: true,
            window: Window::default(),
            of_film: 0,
        }
    }

    /// Appends parts.
    pub fn add(&mut self, parts: impl IntoIterator<Item = Part>) {
        self.parts.extend(parts);
    }

    /// Marks the end of the parts.
    pub fn end(&mut self) {
        self.has_more = false;
    }

    /// Returns the next window: at most `size` bytes of film, not crossing a multiple of `size`.
    /// After [`Next::Parts`], call it again with the same size.
    pub fn next(&mut self, size: u64) -> Next {
        while self.window.parts.len() < MOST_PIECES {
            let range = match self.parts.pop_front() {
                Some(Part::Film(range)) => range,
                Some(inline) => {
                    self.window.parts.push(inline);
                    continue;
                }
                None if self.has_more => return Next::Parts,
                None => break,
            };
            let block = range.start / size;
            let here = range.start..range.end.min((block + 1) * size);
            let film = match &self.window.film {
                // In a film with overlapping samples, the block boundary does not limit the
                // window's size.
                Some(film)
                    if film.start / size != block
                        || self.of_film + (here.end - here.start) > size =>
                {
                    self.parts.push_front(Part::Film(range));
                    break;
                }
                Some(film) => film.start.min(here.start)..film.end.max(here.end),
                None => here.clone(),
            };
            self.window.film = Some(film);
            self.of_film += here.end - here.start;
            if here.end < range.end {
                self.parts.push_front(Part::Film(here.end..range.end));
            }
            self.window.parts.push(Part::Film(here));
        }
        self.of_film = 0;
        match std::mem::take(&mut self.window) {
            window if window.parts.is_empty() => Next::End,
            window => Next::Window(window),
        }
    }
}

/// Assembles a window's bytes for sending: only pieces shorter than 4 KiB are copied, or
/// everything.
#[derive(Debug)]
pub struct Gather {
    copies: bool,
    out: VecDeque<Bytes>,
    gathered: BytesMut,
}

impl Gather {
    /// Creates an empty list. `copies`: whether everything is copied.
    pub fn new(copies: bool) -> Gather {
        Gather {
            copies,
            out: VecDeque::new(),
            gathered: BytesMut::new(),
        }
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: Bytes) {
        if self.copies || bytes.len() < GATHERED {
            self.gathered.extend_from_slice(&bytes);
        } else {
            self.cut();
            self.out.push_back(bytes);
        }
    }

    fn cut(&mut self) {
        if !self.gathered.is_empty() {
            self.out.push_back(self.gathered.split().freeze());
        }
    }

    /// Returns the bytes to send.
    pub fn done(mut self) -> VecDeque<Bytes> {
        self.cut();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_block_by_block() {
        let mut windows = Windows::of_file(100..600);
        let mut ranges = Vec::new();
        while let Next::Window(window) = windows.next(256) {
            ranges.push(window.film.unwrap());
        }
        assert_eq!(ranges, [100..256, 256..512, 512..600]);
        assert_eq!(windows.next(256), Next::End);
    }

    #[test]
    fn pieces_of_one_block_are_read_at_once_whatever_their_order() {
        let mut windows = Windows::of_parts();
        assert_eq!(windows.next(256), Next::Parts);
        windows.add([
            Part::Inline(Bytes::from_static(b"head")),
            Part::Film(10..20),
            Part::Film(40..60),
        ]);
        // The parts that follow may be in the same block.
        assert_eq!(windows.next(256), Next::Parts);
        windows.add([Part::Film(30..35), Part::Film(250..300)]);
        windows.end();
        let Next::Window(first) = windows.next(256) else {
            panic!("there is a window");
        };
        assert_eq!(first.film, Some(10..256));
        assert_eq!(first.parts.len(), 5);
        assert_eq!(first.bytes(), 4 + 10 + 20 + 5 + 6);
        let second = Window {
            film: Some(256..300),
            parts: vec![Part::Film(256..300)],
        };
        assert_eq!(windows.next(256), Next::Window(second));
        assert_eq!(windows.next(256), Next::End);
    }

    #[test]
    fn a_window_has_a_bounded_number_of_pieces() {
        let mut windows = Windows::of_parts();
        windows.add((0..3000).map(|at| Part::Film(2 * at..2 * at + 1)));
        windows.end();
        let mut pieces = Vec::new();
        while let Next::Window(window) = windows.next(1 << 20) {
            pieces.push(window.parts.len());
        }
        assert_eq!(pieces, [1024, 1024, 952]);
    }

    #[test]
    fn a_window_of_pieces_on_top_of_each_other_is_no_longer_than_a_block() {
        let mut windows = Windows::of_parts();
        windows.add((0..100).map(|at| Part::Film(at..at + 100)));
        windows.end();
        let mut all = 0;
        while let Next::Window(window) = windows.next(256) {
            assert!(window.bytes() <= 256, "{window:?}");
            all += window.bytes();
        }
        assert_eq!(all, 100 * 100);
    }

    #[test]
    fn short_pieces_are_copied_together_and_long_ones_are_not() {
        let long = Bytes::from(vec![1; GATHERED]);
        let short = Bytes::from_static(b"short");
        let gather = |copies| {
            let mut gather = Gather::new(copies);
            for bytes in [&short, &short, &long, &short] {
                gather.put(bytes.clone());
            }
            gather.done()
        };
        let sent = gather(false);
        assert_eq!([0, 1, 2].map(|at| sent[at].len()), [10, GATHERED, 5]);
        assert_eq!(sent[1].as_ptr(), long.as_ptr());
        let copied = gather(true);
        assert_eq!((copied.len(), copied[0].len()), (1, GATHERED + 15));
    }
}
