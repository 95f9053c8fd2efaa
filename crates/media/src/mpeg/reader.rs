//! A file is read once, from its first byte to its last.

use std::ops::Range;

use super::film;
use super::psi::Programmes;
use super::streams::Streams;
use super::ts::{Layout, Walker};
use crate::index::{IndexOptions, Step, check_whole};
use crate::index_error::{IndexError, IndexErrorKind};

/// Bytes that are read at once.
const CHUNK: u64 = 1 << 20;
/// In so many bytes the programmes should be known.
const MOST_BEFORE_PROGRAMMES: u64 = 16 << 20;

/// What is done next.
#[derive(Debug)]
enum Phase {
    /// Which streams there are is found out.
    Looking,
    /// They are read.
    Reading(Streams),
    Done,
}

/// Reads a transport stream: it says which bytes it needs, and is fed them.
#[derive(Debug)]
pub struct Reader {
    len: u64,
    packet: u8,
    layout: Layout,
    options: IndexOptions,
    phase: Phase,
    programmes: Programmes,
    walker: Walker,
    /// Bytes that were read but not dealt with, and where they lie.
    rest: Vec<u8>,
    at: u64,
    wanted: Range<u64>,
}

impl Reader {
    /// For a file of `len` bytes whose packets lie `packet` bytes apart; `None`: they cannot.
    pub fn new(len: u64, packet: u8, options: IndexOptions) -> Option<Reader> {
        let layout = Layout::of(packet)?;
        Some(Reader {
            len,
            packet,
            layout,
            options,
            phase: Phase::Looking,
            programmes: Programmes::default(),
            walker: Walker::new(layout),
            rest: Vec::new(),
            at: 0,
            wanted: 0..CHUNK.min(len),
        })
    }

    /// See [`crate::Indexer::step`].
    pub fn step(&mut self) -> Result<Step, IndexError> {
        if self.wanted.is_empty()
            && let Phase::Reading(streams) = std::mem::replace(&mut self.phase, Phase::Done)
        {
            return film::index(streams, self.packet, self.len).map(Step::Done);
        }
        Ok(Step::Need(self.wanted.clone()))
    }

    /// See [`crate::Indexer::feed`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        check_whole(&self.wanted, bytes)?;
        let end = self.wanted.end;
        let is_end = end == self.len;
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let at = self.at;
        let mut walker = self.walker.clone();
        let taken = match &mut self.phase {
            Phase::Looking => {
                let programmes = &mut self.programmes;
                walker.walk(&rest, is_end, |_, packet| {
                    programmes.take(&packet);
                })
            }
            Phase::Reading(streams) => {
                let programmes = &mut self.programmes;
                walker.walk(&rest, is_end, |within, packet| {
                    streams.take(at + within as u64, &packet, programmes);
                })
            }
            Phase::Done => return Ok(()),
        };
        self.walker = walker;
        self.rest = rest;
        self.rest.drain(..taken);
        self.at += taken as u64;
        self.wanted = end..(end + CHUNK).min(self.len);
        match &mut self.phase {
            Phase::Looking
                if self.programmes.are_known() || is_end || end >= MOST_BEFORE_PROGRAMMES =>
            {
                self.begin()
            }
            Phase::Reading(streams) => {
                streams.check(&self.options)?;
                if is_end {
                    streams.end(self.walker.lost, self.len);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Which streams there are is known: they are read from the beginning.
    fn begin(&mut self) -> Result<(), IndexError> {
        let Some((map, programme, stated)) = self.programmes.chosen() else {
            return Err(IndexError {
                path: String::new(),
                offset: 0,
                problem: "the transport stream does not say which streams it has (no PAT and PMT)"
                    .into(),
                kind: IndexErrorKind::Unplayable,
            });
        };
        let others = self.programmes.count() - 1;
        self.phase = Phase::Reading(Streams::new(map, programme, stated, others));
        self.walker = Walker::new(self.layout);
        self.rest.clear();
        self.at = 0;
        self.wanted = 0..CHUNK.min(self.len);
        Ok(())
    }
}
