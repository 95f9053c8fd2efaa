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
use crate::places::{Place, Places, STEP, View};
use crate::samples::{Sample, SampleTable};
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
    marks: Vec<Mark>,
    /// The time that was stated last, and how many ticks have passed by then.
    latest: Option<(u64, i64)>,
    /// Packets with which pictures begin that decoders can start at.
    syncs: Vec<u64>,
    /// Bytes that belong to no packet: where they begin, and where they end.
    holes: Vec<(u64, u64)>,
    /// Where the last packet ends.
    end: u64,
}

impl Multiplex {
    /// Of a file in which packets lie like this, with a programme whose map has the PID `map`, and whose time is in packets of the
    /// PID `clock`.
    pub fn new(map: u16, clock: u16, layout: Layout) -> Multiplex {
        let table = |pid| Table {
            pid,
            ..Table::default()
        };
        Multiplex {
            layout,
            evenly: Vec::new(),
            clock,
            tables: [table(PAT), table(map)],
            marks: Vec::new(),
            latest: None,
            syncs: Vec::new(),
            holes: Vec::new(),
            end: 0,
        }
    }

    /// From here on, packets of this PID state the time.
    pub fn clock_moves_to(&mut self, clock: u16) {
        self.clock = clock;
    }

    /// Bytes of memory that it takes, about.
    pub fn memory(&self) -> usize {
        let marks = self.marks.capacity() * size_of::<Mark>();
        marks
            + self.evenly.capacity() * size_of::<Evenly>()
            + (self.syncs.capacity() + 2 * self.holes.capacity()) * size_of::<u64>()
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
        if self.syncs.last().is_none_or(|last| *last < at) {
            self.syncs.push(at);
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
        if (self.marks.last()).is_none_or(|last| time - last.time >= APART) {
            self.marks.push(Mark { file: at, time });
        }
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
        let mut apart = self.marks.array_windows();
        if apart.any(|marks| second(marks) > MOST_IN_A_SECOND) {
            return Err("it states its time too rarely, or wrongly");
        }
        let tables = self.tables.iter().flat_map(|table| table.packets.clone());
        let entry = Entry::of_transport_stream(tables.collect());
        let (table, first) = self.samples();
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
            track.places = self.places(&table);
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

    /// Where in the file the packets are, of a view of them.
    fn places(&self, table: &SampleTable) -> Places {
        let (mut samples, mut sample) = (table.iter().peekable(), 0);
        let mut evenly = self.evenly.iter().peekable();
        let mut last = Evenly { file: 0, place: 0 };
        let count = self.end.div_ceil(STEP);
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
                file: last.file_of(packet, self.layout),
                skip: 0,
                sample,
            }
        };
        (0..count).map(place).collect()
    }

    /// Where packets can be sent: from the first picture that decoders can start at on, or from anywhere, as long as the time is
    /// known, and a second beyond.
    fn sent(&self) -> Option<Range<u64>> {
        let (first, last) = (
            self.marks.first_chunk::<2>()?,
            self.marks.last_chunk::<2>()?,
        );
        let start = first[0].file.saturating_sub(second(first));
        let end = self.end.min(last[1].file.saturating_add(second(last)));
        let begin = match self.syncs.is_empty() {
            true => first[0].file,
            false => *self.syncs.iter().find(|at| **at >= start)?,
        };
        (begin < end).then_some(begin..end)
    }

    /// Runs of packets behind each other: each begins with a picture that decoders can start at, or behind a hole.
    fn runs(&self, sent: &Range<u64>) -> Vec<Run> {
        let behind = self.holes.iter().map(|(_, end)| (*end, false));
        let mut heads: Vec<(u64, bool)> = self.syncs.iter().map(|at| (*at, true)).collect();
        heads.extend(behind.chain([(sent.start, true)]));
        heads.retain(|(at, _)| sent.contains(at));
        heads.sort_unstable_by_key(|(at, sync)| (*at, !*sync));
        heads.dedup_by_key(|(at, _)| *at);
        let mut holes = self.holes.iter().peekable();
        let nexts = heads.iter().skip(1).map(|(at, _)| *at).chain([sent.end]);
        let run = |((start, sync), next): (&(u64, bool), u64)| {
            while holes.next_if(|(_, end)| end <= start).is_some() {}
            let end = holes.peek().map_or(next, |(from, _)| next.min(*from));
            // Where the end is cut off, too, packets are whole.
            let whole = (end - start) / PACKET as u64 * PACKET as u64;
            Run {
                bytes: *start..start + whole,
                sync: *sync || self.syncs.is_empty(),
            }
        };
        heads.iter().zip(nexts).map(run).collect()
    }

    /// The samples, and when the first of them is sent.
    fn samples(&self) -> (SampleTable, i64) {
        let Some(sent) = self.sent() else {
            return (SampleTable::default(), 0);
        };
        // Without pictures, decoders can start anywhere.
        let anywhere = self.syncs.is_empty();
        // Samples begin with runs, within them where the time is known, and where they would become too long.
        let mut cuts: Vec<(Range<u64>, bool)> = Vec::new();
        let mut marks = self.marks.iter().peekable();
        for Run { bytes: run, sync } in self.runs(&sent) {
            let (mut start, mut sync) = (run.start, sync);
            let mut cut_at = |at: u64| {
                while start < at {
                    let end = at.min(start + LONGEST);
                    cuts.push((start..end, sync));
                    (start, sync) = (end, anywhere);
                }
            };
            while let Some(mark) = marks.next_if(|mark| mark.file < run.end) {
                cut_at(run.start + mark.file.saturating_sub(run.start) / CUT * CUT);
            }
            cut_at(run.end);
        }
        let mut times = Times {
            marks: &self.marks,
            next: 1,
        };
        let mut table = SampleTable::with_capacity(cuts.len());
        let first = times.at(sent.start);
        let mut now = first;
        for (number, (bytes, sync)) in cuts.iter().enumerate() {
            let next = cuts
                .get(number + 1)
                .map_or(sent.end, |(next, _)| next.start);
            let then = times.at(next).max(now);
            table.push(Sample {
                offset: bytes.start,
                size: (bytes.end - bytes.start) as u32,
                duration: u32::try_from(then - now).unwrap_or(0),
                cts: 0,
                sync: *sync,
            });
            now = then;
        }
        (table, first)
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

/// Packets behind each other.
struct Run {
    bytes: Range<u64>,
    /// Decoders can start here.
    sync: bool,
}

/// Bytes that pass in a second as between these marks.
fn second([from, to]: &[Mark; 2]) -> u64 {
    let ticks = (to.time - from.time).max(1) as u64;
    (to.file - from.file).saturating_mul(RATE.into()) / ticks
}

/// When bytes of the file are sent, asked for one after the other.
struct Times<'a> {
    /// Two at least.
    marks: &'a [Mark],
    /// The mark up to which the last place was looked for.
    next: usize,
}

impl Times<'_> {
    /// When byte `at` of the file is sent: between two marks evenly, and before and behind all of them as between the two
    /// nearest.
    fn at(&mut self, at: u64) -> i64 {
        while self.next + 1 < self.marks.len() && self.marks[self.next].file <= at {
            self.next += 1;
        }
        let (from, to) = (self.marks[self.next - 1], self.marks[self.next]);
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
