//! A transport stream as one track: runs of its packets as they lie in the file, each with the time that the stream states for
//! it. Receivers that take a transport stream as it is are sent this. Where something lies between the packets, they are counted as
//! if nothing did: such a stream is sent from a view ([`super::packets`]).

use std::ops::Range;

use super::clock::RATE;
use super::psi::PAT;
use super::ts::{self, Layout, PACKET};
use crate::codec::Codec;
use crate::index::Index;
use crate::mp4::Entry;
use crate::paged::{self, Packing, Paged, Record, WORDS};
use crate::places::{Place, Places, STEP, View};
use crate::samples::{Sample, SampleTable};
use crate::scratch::Scratch;
use crate::ticks_to_nanos;
use crate::title::{Kind, Title, Track};
use crate::track_head::TrackHead;

/// Samples are cut behind multiples of so many bytes: what a packet of RTP carries on Ethernet (RFC 2250 section 2), so that none
/// but a run's last is shorter.
const CUT: u64 = 7 * PACKET as u64;
/// Places whose time is known lie so many ticks apart at least: a stream states it about as often (ETSI TS 101 154 4.1.5).
const APART: i64 = RATE as i64 / 28;
/// The time does not go forward by more ticks at once; beyond it, it has jumped.
const MOST_AHEAD: i64 = 10 * RATE as i64;
/// What passes at a jump, in ticks.
const JUMP: i64 = RATE as i64 / 25;
/// Longest sample: no more is read at once.
const LONGEST: u64 = (256 << 10) / CUT * CUT;
/// More bytes do not pass in a second: the time that such a stream states is wrong.
const MOST_IN_A_SECOND: u64 = 125_000_000;
/// Where bytes that belong to no packet lie in more places, the stream is not offered as it is.
const MOST_HOLES: usize = 10_000;
const APART_TOO_OFTEN: &str = "its packets lie apart in too many places";
/// Packets of a table beyond this are not kept: a section of PAT and PMT has 1,024 bytes.
const MOST_TABLE: usize = 6;
/// Bytes of PAT and PMT that are kept.
pub const MOST_TABLES: usize = 2 * MOST_TABLE * PACKET;

/// A place whose time is known.
#[derive(Clone, Copy, Debug)]
struct Mark {
    file: u64,
    /// Ticks since the first.
    time: i64,
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

/// A packet with which a picture begins that decoders can start at: where it lies in the file.
#[derive(Clone, Copy, Debug)]
struct Sync(u64);

impl Record for Sync {
    const USED: usize = 1;

    fn words(&self) -> [i64; WORDS] {
        [self.0 as i64, 0, 0, 0, 0, 0, 0, 0]
    }

    fn of(words: &[i64; WORDS]) -> Sync {
        Sync(words[0] as u64)
    }
}

/// From one packet on, all lie as far apart as they should.
#[derive(Clone, Copy, Debug)]
struct Evenly {
    /// Where the first begins in the file.
    file: u64,
    place: u64,
}

impl Evenly {
    /// Where in the file the packet at a place begins.
    fn file_of(&self, place: u64, layout: Layout) -> u64 {
        self.file + (place - self.place) / PACKET as u64 * layout.stride as u64
    }

    /// The place of the packet at byte `at` of the file.
    fn place(&self, at: u64, layout: Layout) -> u64 {
        self.place + (at - self.file) / layout.stride as u64 * PACKET as u64
    }
}

/// The packets that bring PAT or PMT, as the stream first has them.
#[derive(Clone, Debug, Default)]
struct Table {
    pid: u16,
    packets: Vec<u8>,
    is_whole: bool,
}

impl Table {
    fn take(&mut self, packet: &[u8; PACKET]) {
        if self.is_whole || ts::pid(packet) != self.pid {
            return;
        }
        let starts = packet[1] & 0x40 != 0;
        match (starts, self.packets.is_empty()) {
            (true, false) => self.is_whole = true,
            (false, true) => {}
            _ if self.packets.len() >= MOST_TABLE * PACKET => self.is_whole = true,
            _ => self.packets.extend_from_slice(packet),
        }
    }
}

/// A transport stream while it is read. Places are bytes of the file where it consists of nothing but packets, and otherwise of all
/// packets one after the other.
#[derive(Clone, Debug)]
pub struct Multiplex {
    layout: Layout,
    /// Where something lies between packets: packets that lie evenly.
    evenly: Vec<Evenly>,
    /// The PID of the packets that state the time.
    clock: u16,
    tables: [Table; 2],
    marks: Packing<Mark>,
    last_mark: Option<Mark>,
    /// More bytes lie between two marks than is possible.
    is_too_fast: bool,
    /// The time that was stated last, and how many ticks have passed by then.
    latest: Option<(u64, i64)>,
    syncs: Packing<Sync>,
    last_sync: Option<u64>,
    /// Bytes that belong to no packet: where they begin, and where they end.
    holes: Vec<(u64, u64)>,
    /// Where the last packet ends.
    end: u64,
    scratch: Scratch,
}

impl Multiplex {
    /// Of a file in which packets lie like this, with a programme whose map has the PID `map`, and whose time is in packets of the
    /// PID `clock`. What grows with the file goes into scratch space.
    pub fn new(map: u16, clock: u16, layout: Layout, scratch: &Scratch) -> Multiplex {
        let table = |pid| Table {
            pid,
            ..Table::default()
        };
        Multiplex {
            layout,
            evenly: Vec::new(),
            clock,
            tables: [table(PAT), table(map)],
            marks: Packing::new(scratch),
            last_mark: None,
            is_too_fast: false,
            latest: None,
            syncs: Packing::new(scratch),
            last_sync: None,
            holes: Vec::new(),
            end: 0,
            scratch: scratch.clone(),
        }
    }

    /// From here on, packets of this PID state the time.
    pub fn clock_moves_to(&mut self, clock: u16) {
        self.clock = clock;
    }

    /// Bytes of memory that it takes, about.
    pub fn memory(&self) -> usize {
        let holes = self.holes.capacity() * size_of::<(u64, u64)>();
        let evenly = self.evenly.capacity() * size_of::<Evenly>();
        self.marks.memory() + self.syncs.memory() + holes + evenly
    }

    /// Bytes of scratch space that it takes.
    pub fn aside(&self) -> u64 {
        self.marks.aside() + self.syncs.aside()
    }

    /// Takes the packet at byte `at` of the file.
    pub fn take(&mut self, at: u64, packet: &[u8; PACKET]) {
        let at = self.place(at);
        if at > self.end && self.holes.len() <= MOST_HOLES {
            self.holes.push((self.end, at));
        }
        self.end = at + PACKET as u64;
        self.tables.iter_mut().for_each(|table| table.take(packet));
        if ts::pid(packet) == self.clock
            && let Some(stated) = ts::clock_reference(packet)
        {
            self.state(at, stated);
        }
    }

    /// Says that a picture begins with the packet at byte `at` of the file, and that decoders can start there.
    pub fn sync(&mut self, at: u64) {
        let at = match self.evenly.partition_point(|evenly| evenly.file <= at) {
            0 => at,
            after => self.evenly[after - 1].place(at, self.layout),
        };
        if self.last_sync.is_none_or(|last| last < at) {
            self.last_sync = Some(at);
            self.syncs.push(Sync(at));
        }
    }

    /// The place of the packet at byte `at` of the file, which is the next.
    fn place(&mut self, at: u64) -> u64 {
        if self.layout.is_plain() {
            return at;
        }
        let follows = |last: &Evenly| last.file_of(self.end, self.layout) == at;
        if !self.evenly.last().is_some_and(follows) && self.evenly.len() <= MOST_HOLES {
            self.evenly.push(Evenly {
                file: at,
                place: self.end,
            });
        }
        self.end
    }

    /// Places that are kept.
    pub fn len(&self) -> usize {
        self.marks.len() + self.syncs.len()
    }

    /// The time is stated at byte `at` of the file.
    fn state(&mut self, at: u64, stated: u64) {
        let time = match self.latest {
            None => 0,
            Some((before, time)) => {
                // It begins again after 2^33 ticks.
                let passed = (stated.wrapping_sub(before) & ((1 << 33) - 1)) as i64;
                time + if passed <= MOST_AHEAD { passed } else { JUMP }
            }
        };
        self.latest = Some((stated, time));
        let mark = Mark { file: at, time };
        match self.last_mark {
            Some(last) if time - last.time < APART => return,
            Some(last) => self.is_too_fast |= second(last, mark) > MOST_IN_A_SECOND,
            None => {}
        }
        self.marks.push(mark);
        self.last_mark = Some(mark);
    }

    /// Adds the track to the index of the film, whose file has `len` bytes. Why it has none, in words.
    pub fn finish(self, index: &mut Index, len: u64) -> Result<(), &'static str> {
        if self.holes.len().max(self.evenly.len()) > MOST_HOLES {
            return Err(APART_TOO_OFTEN);
        }
        if self.marks.len() < 2 {
            return Err("it does not state its time");
        }
        // Blocks of a file's views are told apart by the views' lengths.
        if !self.layout.is_plain() && index.title.view.is_some_and(|view| view.bytes == self.end) {
            return Err("its streams are as long as its packets");
        }
        if self.is_too_fast {
            return Err("it states its time too rarely, or wrongly");
        }
        let tables = self.tables.iter().flat_map(|table| table.packets.clone());
        let entry = Entry::of_transport_stream(tables.collect());
        let sending = Sending {
            marks: self.marks.finish(),
            syncs: self.syncs.finish(),
            holes: self.holes,
            end: self.end,
        };
        let (table, first) = sending.samples(&self.scratch);
        if table.is_empty() {
            return Err("no picture begins with a packet of its own");
        }
        let head = TrackHead {
            id: 0,
            kind: Kind::Video,
            timescale: RATE,
            // It begins where the first picture does that can be decoded.
            shift: -first,
            language: None,
            name: None,
            enabled: true,
            dts: first,
            matrix: [0; 9],
            display: (0, 0),
            stripped: Vec::new(),
        };
        let (mut track, _) = head.track(entry, &table);
        if !self.layout.is_plain() {
            track.places = places(&self.evenly, self.layout, self.end, &table);
            index.title.multiplex_view = Some(View {
                bytes: self.end,
                file: len,
                packet: self.layout.stride as u8,
            });
        }
        index.title.multiplex = Some(Box::new(track));
        index.tables.push(table);
        Ok(())
    }
}

/// Where in the file the packets are, of a view of them that has `end` bytes.
fn places(evenly: &[Evenly], layout: Layout, end: u64, table: &SampleTable) -> Places {
    let (mut samples, mut sample) = (table.iter().peekable(), 0);
    let mut evenly = evenly.iter().peekable();
    let mut last = Evenly { file: 0, place: 0 };
    let place = |nth: u64| {
        let at = nth * STEP;
        while samples.next_if(|next| next.bytes().end <= at).is_some() {
            sample += 1;
        }
        let packet = at / PACKET as u64 * PACKET as u64;
        while let Some(next) = evenly.next_if(|next| next.place <= packet) {
            last = *next;
        }
        Place {
            file: last.file_of(packet, layout),
            skip: 0,
            sample,
        }
    };
    (0..end.div_ceil(STEP)).map(place).collect()
}

/// A transport stream that was read.
struct Sending {
    marks: Paged<Mark>,
    syncs: Paged<Sync>,
    holes: Vec<(u64, u64)>,
    end: u64,
}

impl Sending {
    /// Where packets can be sent: from the first picture that decoders can start at on, or from anywhere, as long as the time is
    /// known, and a second beyond.
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

    /// Where runs begin, in order: with pictures that decoders can start at, or behind holes.
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

    /// Runs of packets behind each other: each begins with a picture that decoders can start at, or behind a hole.
    fn runs(&self, sent: &Range<u64>) -> impl Iterator<Item = Run> + '_ {
        let mut heads = self.heads(sent).peekable();
        let mut holes = self.holes.iter().peekable();
        let sent_end = sent.end;
        std::iter::from_fn(move || {
            let (start, sync) = heads.next()?;
            let next = heads.peek().map_or(sent_end, |(at, _)| *at);
            while holes.next_if(|(_, end)| *end <= start).is_some() {}
            let end = holes.peek().map_or(next, |(from, _)| next.min(*from));
            // Where the end is cut off, too, packets are whole.
            let whole = (end - start) / PACKET as u64 * PACKET as u64;
            Some(Run {
                bytes: start..start + whole,
                sync: sync || self.syncs.is_empty(),
            })
        })
    }

    /// The samples, and when the first of them is sent.
    fn samples(&self, scratch: &Scratch) -> (SampleTable, i64) {
        let Some((sent, times)) = self.sent().zip(Times::of(&self.marks)) else {
            return (SampleTable::default(), 0);
        };
        // Without pictures, decoders can start anywhere.
        let anywhere = self.syncs.is_empty();
        let mut samples = Timed::new(sent.start, times, scratch);
        let first = samples.now;
        // Samples begin with runs, within them where the time is known, and where they would become too long.
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

/// Packets behind each other.
struct Run {
    bytes: Range<u64>,
    /// Decoders can start here.
    sync: bool,
}

/// Bytes that pass in a second as between these marks.
fn second(from: Mark, to: Mark) -> u64 {
    let ticks = (to.time - from.time).max(1) as u64;
    (to.file - from.file).saturating_mul(RATE.into()) / ticks
}

/// Samples that get their durations: each lasts until the next one is sent.
struct Timed<'a> {
    table: SampleTable,
    times: Times<'a>,
    /// The last one, and when it is sent.
    last: Option<(Range<u64>, bool)>,
    now: i64,
}

impl<'a> Timed<'a> {
    /// None yet; the first one is sent when byte `start` of the file is.
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

    /// The last one ends when byte `next` of the file is sent.
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

/// When bytes of the file are sent, asked for one after the other.
struct Times<'a> {
    from: Mark,
    to: Mark,
    /// Those behind.
    marks: paged::Iter<'a, Mark>,
}

impl<'a> Times<'a> {
    /// `None`: there are not two marks.
    fn of(marks: &'a Paged<Mark>) -> Option<Times<'a>> {
        let mut marks = marks.iter();
        let (from, to) = (marks.next()?, marks.next()?);
        Some(Times { from, to, marks })
    }

    /// When byte `at` of the file is sent: between two marks evenly, and before and behind all of them as between the two
    /// nearest.
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

impl Entry {
    /// Of a transport stream with these packets of its PAT and PMT.
    pub(crate) fn of_transport_stream(tables: Vec<u8>) -> Entry {
        Entry {
            codec: Codec::TransportStream(tables),
            size: (0, 0),
            pixel_aspect: (1, 1),
            sound: None,
            bytes: Vec::new(),
        }
    }
}

impl Title {
    /// The film as a transport stream that is sent as it is; `None`: it is none, or cannot be. Its only track's samples lie in the
    /// film's file or, where something lies between packets, in a view of it, and their records are those of the track behind all others.
    pub fn as_transport_stream(&self) -> Option<Title> {
        let track: &Track = self.multiplex.as_ref()?;
        let length = i64::try_from(track.duration).unwrap_or(i64::MAX);
        Some(Title {
            container: self.container,
            view: self.multiplex_view,
            name: self.name.clone(),
            tracks: vec![track.clone()],
            duration: ticks_to_nanos(length, track.timescale),
            recorded_at: self.recorded_at,
            chapters: self.chapters.clone(),
            texts: Vec::new(),
            notes: self.notes.clone(),
            multiplex: None,
            multiplex_view: None,
        })
    }
}
