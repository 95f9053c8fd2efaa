//! Reads a file once, from its first byte to its last.

use std::ops::Range;

use super::carrier::Carrier;
use super::film;
use super::ps;
use super::psi::Programmes;
use super::streams::Streams;
use super::ts::Walker;
use super::{bare, psi::Coding};
use crate::index::{IndexOptions, Step, check_whole};
use crate::index_error::{IndexError, IndexErrorKind};
use crate::scratch::Scratch;

/// The number of bytes read at once.
const CHUNK: u64 = 1 << 20;
/// The number of bytes within which the programmes must be known.
const MOST_BEFORE_PROGRAMMES: u64 = 16 << 20;

/// The current step.
#[derive(Clone, Debug)]
enum Phase {
    /// The streams are being identified.
    Looking,
    /// The streams are being read.
    Reading(Box<Streams>),
    Done,
}

/// Reads a stream: it requests the bytes it needs, and is fed them.
#[derive(Clone, Debug)]
pub struct Reader {
    len: u64,
    carrier: Carrier,
    options: IndexOptions,
    phase: Phase,
    programmes: Programmes,
    walker: Option<Walker>,
    /// The number of bytes that belong to no packet.
    lost: u64,
    /// Bytes that have been read but not processed, and their offset.
    rest: Vec<u8>,
    at: u64,
    wanted: Range<u64>,
    scratch: Scratch,
}

impl Reader {
    /// Creates a reader for a file of `len` bytes that begins with `head` and has this carrier.
    pub fn new(
        len: u64,
        carrier: Carrier,
        head: &[u8],
        options: IndexOptions,
        scratch: &Scratch,
    ) -> Reader {
        Reader {
            len,
            carrier,
            options,
            phase: match carrier {
                Carrier::Transport(_) => Phase::Looking,
                Carrier::Program => Phase::Reading(Box::new(Streams::of_program_stream(scratch))),
                Carrier::Nothing => {
                    let coding = bare::coding(head).unwrap_or(Coding::Other("no stream"));
                    let streams = Streams::bare(coding, options.frame_rate, scratch);
                    Phase::Reading(Box::new(streams))
                }
            },
            programmes: Programmes::default(),
            walker: walker(carrier),
            lost: 0,
            rest: Vec::new(),
            at: 0,
            wanted: 0..CHUNK.min(len),
            scratch: scratch.clone(),
        }
    }

    /// See [`crate::Indexer::step`].
    pub fn step(&mut self) -> Result<Step, IndexError> {
        if self.wanted.is_empty()
            && let Phase::Reading(streams) = std::mem::replace(&mut self.phase, Phase::Done)
        {
            return film::index(*streams, self.carrier, self.len).map(Step::Done);
        }
        Ok(Step::Need(self.wanted.clone()))
    }

    /// Returns whether only the last bytes of the file are still to be read, and the file may grow.
    pub fn is_at_the_last(&self) -> bool {
        let may_grow = self.carrier != Carrier::Nothing;
        may_grow && !self.wanted.is_empty() && self.wanted.end == self.len
    }

    /// Handles growth of the file to `len` bytes: requests the last range again, now extended.
    pub fn grow(&mut self, len: u64) {
        self.len = len.max(self.wanted.start);
        self.wanted.end = (self.wanted.start + CHUNK).min(self.len);
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        let streams = match &self.phase {
            Phase::Reading(streams) => streams.memory(),
            Phase::Looking | Phase::Done => 0,
        };
        self.rest.capacity() + streams
    }

    /// Returns the use of scratch space in bytes.
    pub fn aside(&self) -> u64 {
        match &self.phase {
            Phase::Reading(streams) => streams.aside(),
            Phase::Looking | Phase::Done => 0,
        }
    }

    /// See [`crate::Indexer::feed`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        check_whole(&self.wanted, bytes)?;
        let end = self.wanted.end;
        let is_end = end == self.len;
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let at = self.at;
        let programmes = &mut self.programmes;
        let taken = match (&mut self.phase, &mut self.walker) {
            (Phase::Looking, Some(walker)) => walker.walk(&rest, is_end, |_, packet| {
                programmes.take(&packet);
            }),
            (Phase::Reading(streams), Some(walker)) => {
                let taken = walker.walk_all(&rest, is_end, |within, packet| {
                    streams.take(at + within as u64, packet, programmes);
                });
                self.lost = walker.lost;
                taken
            }
            (Phase::Reading(streams), None) if self.carrier == Carrier::Nothing => {
                streams.take_bare(at, &rest);
                rest.len()
            }
            (Phase::Reading(streams), None) => {
                let (taken, lost) = ps::walk(&rest, is_end, |within, packet| {
                    streams.take_program(at + within as u64, &packet);
                });
                self.lost += lost;
                taken
            }
            (Phase::Looking | Phase::Done, _) => return Ok(()),
        };
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
                streams.check(self.at, &self.options)?;
                if is_end {
                    streams.end(self.lost, self.len);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Starts reading from the beginning, once the streams are known.
    fn begin(&mut self) -> Result<(), IndexError> {
        let Some(programme) = self.programmes.chosen() else {
            return Err(IndexError {
                path: "PAT and PMT".into(),
                offset: 0,
                problem: "are missing: the file does not say which streams it has".into(),
                kind: IndexErrorKind::Damaged,
            });
        };
        let others = self.programmes.count() - 1;
        let streams = Streams::new(programme, others, &self.scratch);
        let streams = match self.carrier {
            Carrier::Transport(layout) => streams.multiplexed(layout, &self.programmes),
            Carrier::Program | Carrier::Nothing => streams,
        };
        self.phase = Phase::Reading(Box::new(streams));
        self.programmes.follow();
        self.walker = walker(self.carrier);
        self.rest.clear();
        self.at = 0;
        self.wanted = 0..CHUNK.min(self.len);
        Ok(())
    }
}

fn walker(carrier: Carrier) -> Option<Walker> {
    match carrier {
        Carrier::Transport(layout) => Some(Walker::new(layout)),
        Carrier::Program | Carrier::Nothing => None,
    }
}
