//! Cuts an unmodified transport stream into samples and determines when these are sent.

use std::ops::Range;

use super::clock::RATE;
use super::ts::PACKET;
use crate::paged::{self, Paged, Record, WORDS};
use crate::samples::{Sample, SampleTable};
use crate::scratch::Scratch;

/// Samples are cut at multiples of this size, which an RTP packet carries on Ethernet (RFC 2250
/// section 2), so that only the last packet of a run is shorter.
const CUT: u64 = 7 * PACKET as u64;
/// The maximum sample size in bytes: no more is read at once.
const LONGEST: u64 = (256 << 10) / CUT * CUT;

/// A position with a known time.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub file: u64,
    /// Ticks since the first mark.
    pub time: i64,
}

impl Record for Mark {
    const USED: usize = 2;

    fn words(&self) -> [i64; WORDS] {
        [self.file as i64, self.time, 0, 0, 0, 0, 0, 0]
    }

    fn of(words: &[i64; WORDS]) -> Mark {
        Mark {
            file: words[0] as u64,
            time: words[1],
        }
    }
}

/// The position of a packet that begins a picture at which decoders can start.
#[derive(Clone, Copy, Debug)]
pub struct Sync(pub u64);

impl Record for Sync {
    const USED: usize = 1;

    fn words(&self) -> [i64; WORDS] {
        [self.0 as i64, 0, 0, 0, 0, 0, 0, 0]
    }

    fn of(words: &[i64; WORDS]) -> Sync {
        Sync(words[0] as u64)
    }
}

/// A complete transport stream.
pub struct Sending {
    pub marks: Paged<Mark>,
    pub syncs: Paged<Sync>,
    /// The beginning and end of each range of bytes that belong to no packet.
    pub holes: Vec<(u64, u64)>,
    /// The end of the last packet.
    pub end: u64,
}

impl Sending {
    /// Returns the range that can be sent: from the first picture at which decoders can start, or
    /// from anywhere if there are none, as far as times are known, plus one second.
    fn sent(&self) -> Option<Range<u64>> {
        let count = self.marks.len();
        let mark = |number: Option<usize>| self.marks.get(number?);
        let first = (mark(Some(0))?, mark(Some(1))?);
        let last = (mark(count.checked_sub(2))?, mark(count.checked_sub(1))?);
        let start = first.0.file.saturating_sub(second(first.0, first.1));
        let end = self
            .end
            .min(last.1.file.saturating_add(second(last.0, last.1)));
        let begin = match self.syncs.is_empty() {
            true => first.0.file,
            false => self.syncs.iter().find(|Sync(at)| *at >= start)?.0,
        };
        (begin < end).then_some(begin..end)
    }

    /// Iterates over the starts of runs: pictures at which decoders can start, and ends of holes.
    fn heads(&self, sent: &Range<u64>) -> impl Iterator<Item = (u64, bool)> + '_ {
        let rest = sent.start + 1..sent.end;
        let within = rest.clone();
        let syncs = self.syncs.iter().map(|Sync(at)| at);
        let mut syncs = syncs.filter(move |at| within.contains(at)).peekable();
        let behind = self.holes.iter().map(|(_, end)| *end);
        let mut behind = behind.filter(move |at| rest.contains(at)).peekable();
        let rest = std::iter::from_fn(move || match (syncs.peek(), behind.peek()) {
            (Some(sync), Some(hole)) if hole < sync => behind.next().map(|at| (at, false)),
            (Some(sync), _) => {
                behind.next_if_eq(sync);
                syncs.next().map(|at| (at, true))
            }
            (None, _) => behind.next().map(|at| (at, false)),
        });
        std::iter::once((sent.start, true)).chain(rest)
    }

    /// Iterates over runs of contiguous packets. Each begins with such a picture or after a hole.
    fn runs(&self, sent: &Range<u64>) -> impl Iterator<Item = Run> + '_ {
        let mut heads = self.heads(sent).peekable();
        let mut holes = self.holes.iter().peekable();
        let sent_end = sent.end;
        std::iter::from_fn(move || {
            let (start, sync) = heads.next()?;
            let next = heads.peek().map_or(sent_end, |(at, _)| *at);
            while holes.next_if(|(_, end)| *end <= start).is_some() {}
            let end = holes.peek().map_or(next, |(from, _)| next.min(*from));
            // Even if the end is truncated, packets are whole.
            let whole = (end - start) / PACKET as u64 * PACKET as u64;
            Some(Run {
                bytes: start..start + whole,
                sync: sync || self.syncs.is_empty(),
            })
        })
    }

    /// Returns the samples, and the time at which the first one is sent.
    pub fn samples(&self, scratch: &Scratch) -> (SampleTable, i64) {
        let Some((sent, times)) = self.sent().zip(Times::of(&self.marks)) else {
            return (SampleTable::default(), 0);
        };
        // Without pictures, decoders can start anywhere.
        let anywhere = self.syncs.is_empty();
        let mut samples = Timed::new(sent.start, times, scratch);
        let first = samples.now;
        // Samples begin with runs, where times are known, and where they would become too long.
        let mut marks = self.marks.iter().peekable();
        for Run { bytes: run, sync } in self.runs(&sent) {
            let (mut start, mut sync) = (run.start, sync);
            let mut cut_at = |at: u64| {
                while start < at {
                    let end = at.min(start + LONGEST);
                    samples.add(start..end, sync);
                    (start, sync) = (end, anywhere);
                }
            };
            while let Some(mark) = marks.next_if(|mark| mark.file < run.end) {
                cut_at(run.start + mark.file.saturating_sub(run.start) / CUT * CUT);
            }
            cut_at(run.end);
        }
        samples.end(sent.end);
        (samples.table, first)
    }
}

/// Contiguous packets.
struct Run {
    bytes: Range<u64>,
    /// Whether decoders can start here.
    sync: bool,
}

/// Returns the byte rate per second between these marks.
pub fn second(from: Mark, to: Mark) -> u64 {
    let ticks = (to.time - from.time).max(1) as u64;
    (to.file - from.file).saturating_mul(RATE.into()) / ticks
}

/// Samples whose durations are being determined: each lasts until the next one is sent.
struct Timed<'a> {
    table: SampleTable,
    times: Times<'a>,
    /// The last sample, and the time at which it is sent.
    last: Option<(Range<u64>, bool)>,
    now: i64,
}

impl<'a> Timed<'a> {
    /// Creates an empty list whose first sample is sent with byte `start` of the file.
    fn new(start: u64, mut times: Times<'a>, scratch: &Scratch) -> Timed<'a> {
        Timed {
            table: SampleTable::new(scratch),
            now: times.at(start),
            times,
            last: None,
        }
    }

    fn add(&mut self, bytes: Range<u64>, sync: bool) {
        self.end(bytes.start);
        self.last = Some((bytes, sync));
    }

    /// Ends the last sample at the time when byte `next` of the file is sent.
    fn end(&mut self, next: u64) {
        let Some((bytes, sync)) = self.last.take() else {
            return;
        };
        let then = self.times.at(next).max(self.now);
        self.table.push(Sample {
            offset: bytes.start,
            size: (bytes.end - bytes.start) as u32,
            duration: u32::try_from(then - self.now).unwrap_or(0),
            cts: 0,
            sync,
        });
        self.now = then;
    }
}

/// The times at which bytes of the file are sent; must be queried in order.
struct Times<'a> {
    from: Mark,
    to: Mark,
    /// The marks after `to`.
    marks: paged::Iter<'a, Mark>,
}

impl<'a> Times<'a> {
    /// Returns `None` if there are fewer than two marks.
    fn of(marks: &'a Paged<Mark>) -> Option<Times<'a>> {
        let mut marks = marks.iter();
        let (from, to) = (marks.next()?, marks.next()?);
        Some(Times { from, to, marks })
    }

    /// Returns the time at which byte `at` of the file is sent: interpolated between two marks,
    /// extrapolated from the nearest two outside of them.
    fn at(&mut self, at: u64) -> i64 {
        while self.to.file <= at
            && let Some(next) = self.marks.next()
        {
            (self.from, self.to) = (self.to, next);
        }
        let (from, to) = (self.from, self.to);
        let passed = i128::from(at) - i128::from(from.file);
        let (ticks, bytes) = (to.time - from.time, to.file - from.file);
        from.time + (passed * i128::from(ticks) / i128::from(bytes.max(1))) as i64
    }
}
