//! Represents a transport stream as one track: runs of its packets as they lie in the file, each
//! with the time that the stream states for it. It is sent to receivers that take an unmodified
//! transport stream. If other bytes lie between the packets, positions do not count these, and the
//! stream is sent from a view ([`super::packets`]).

use super::clock::RATE;
use super::elementary;
use super::psi::{Coding, PAT, Programmes};
use super::sending::{Mark, Sending, Sync, second};
use super::ts::{self, Layout, PACKET};
use crate::codec::Codec;
use crate::entry_points::{EntryPoint, EntryPoints, StreamTables};
use crate::index::Index;
use crate::mp4::Entry;
use crate::paged::Packing;
use crate::places::{Place, Places, STEP, View};
use crate::samples::SampleTable;
use crate::scratch::Scratch;
use crate::ticks_to_nanos;
use crate::title::{Kind, Title, Track};
use crate::track_head::TrackHead;

/// The minimum distance of recorded times: about that of stated times (ETSI TS 101 154 4.1.5).
const APART: i64 = RATE as i64 / 28;
/// The maximum advance of the time in ticks; beyond it, the time has jumped.
const MOST_AHEAD: i64 = 10 * RATE as i64;
/// The assumed duration of a jump, in ticks.
const JUMP: i64 = RATE as i64 / 25;
/// The maximum bytes per second; beyond it, the stated times are wrong.
const MOST_IN_A_SECOND: u64 = 125_000_000;
/// The maximum number of gaps between packets of a stream that is offered unmodified.
const MOST_HOLES: usize = 10_000;
const APART_TOO_OFTEN: &str = "its packets lie apart in too many places";
/// The maximum number of packets kept per table: a section of PAT and PMT has 1,024 bytes.
const MOST_TABLE: usize = 6;
/// The maximum number of changes of the streams for slices to be offered.
pub const MOST_CHANGES: usize = 256;
/// A stream counts as scrambled if one in this many packets is.
const SCRAMBLED: u64 = 100;
/// The maximum bytes of PAT and PMT that are kept.
pub const MOST_TABLES: usize = 2 * MOST_TABLE * PACKET;

/// A packet from which on all packets are evenly spaced.
#[derive(Clone, Copy, Debug)]
struct Evenly {
    /// Its offset in the file.
    file: u64,
    place: u64,
}

impl Evenly {
    /// Returns the offset in the file of the packet at a position.
    fn file_of(&self, place: u64, layout: Layout) -> u64 {
        self.file + (place - self.place) / PACKET as u64 * layout.stride as u64
    }

    /// Returns the position of the packet at byte `at` of the file.
    fn place(&self, at: u64, layout: Layout) -> u64 {
        self.place + (at - self.file) / layout.stride as u64 * PACKET as u64
    }
}

/// The packets of the first PAT or PMT of the stream.
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

/// The contents of a programme's map that matter for playback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Mapped {
    map: u16,
    clock: u16,
    streams: Vec<(u16, Coding)>,
}

impl Mapped {
    fn of(map: u16, programmes: &Programmes) -> Mapped {
        let streams = programmes.streams(map).iter();
        Mapped {
            map,
            clock: programmes.clock(map).unwrap_or(0),
            streams: streams
                .map(|stream| (stream.pid, stream.coding.clone()))
                .collect(),
        }
    }
}

/// A transport stream that is being read. Positions are file offsets if the file consists of
/// packets only, otherwise offsets in the concatenation of all packets.
#[derive(Clone, Debug)]
pub struct Multiplex {
    layout: Layout,
    /// If other bytes lie between packets: the evenly spaced ranges.
    evenly: Vec<Evenly>,
    tables: [Table; 2],
    marks: Packing<Mark>,
    last_mark: Option<Mark>,
    /// Whether more bytes lie between two marks than possible.
    is_too_fast: bool,
    /// The last stated time, and the ticks that had passed by then.
    latest: Option<(u64, i64)>,
    syncs: Packing<Sync>,
    last_sync: Option<u64>,
    entries: Packing<EntryPoint>,
    /// The [`elementary::RandomAccess::offset`] of the last entry point.
    last_offset: Option<i64>,
    /// The current programme map, and the tables from each change on.
    mapped: Mapped,
    changes: Vec<StreamTables>,
    /// Whether some tables are missing in `changes`.
    is_unsettled: bool,
    programmes: u32,
    /// The number of scrambled packets.
    scrambled: u64,
    /// The beginning and end of each range of bytes that belong to no packet.
    holes: Vec<(u64, u64)>,
    /// The end of the last packet.
    end: u64,
    scratch: Scratch,
}

impl Multiplex {
    /// Creates the state for a file with this packet layout and a programme whose map has the PID
    /// `map`. Data that grows with the file is stored in scratch space.
    pub fn new(map: u16, programmes: &Programmes, layout: Layout, scratch: &Scratch) -> Multiplex {
        let table = |pid| Table {
            pid,
            ..Table::default()
        };
        let mut multiplex = Multiplex {
            layout,
            evenly: Vec::new(),
            tables: [table(PAT), table(map)],
            marks: Packing::new(scratch),
            last_mark: None,
            is_too_fast: false,
            latest: None,
            syncs: Packing::new(scratch),
            last_sync: None,
            entries: Packing::new(scratch),
            last_offset: None,
            mapped: Mapped::default(),
            changes: Vec::new(),
            is_unsettled: false,
            programmes: 0,
            scrambled: 0,
            holes: Vec::new(),
            end: 0,
            scratch: scratch.clone(),
        };
        multiplex.map_came(map, programmes);
        multiplex
    }

    /// Handles the programme map that came with the last packet taken; `map` is its current PID.
    pub fn map_came(&mut self, map: u16, programmes: &Programmes) {
        let mapped = Mapped::of(map, programmes);
        self.programmes = programmes.mapped() as u32;
        if mapped != self.mapped {
            self.mapped = mapped;
            match programmes.tables(map) {
                Some(packets) if self.changes.len() < MOST_CHANGES => {
                    let place = self.end.saturating_sub(PACKET as u64);
                    self.changes.push(StreamTables { place, packets });
                }
                _ => self.is_unsettled = true,
            }
        }
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        let holes = self.holes.capacity() * size_of::<(u64, u64)>();
        let evenly = self.evenly.capacity() * size_of::<Evenly>();
        let changes = self.changes.len() * MOST_TABLES;
        let points = self.syncs.memory() + self.entries.memory();
        self.marks.memory() + points + holes + evenly + changes
    }

    /// Returns the use of scratch space in bytes.
    pub fn aside(&self) -> u64 {
        self.marks.aside() + self.syncs.aside() + self.entries.aside()
    }

    /// Takes the packet at byte `at` of the file, which states this time.
    pub fn take(&mut self, at: u64, packet: &[u8; PACKET], stated: Option<u64>) {
        let at = self.place(at);
        if at > self.end && self.holes.len() <= MOST_HOLES {
            self.holes.push((self.end, at));
        }
        self.end = at + PACKET as u64;
        self.scrambled += u64::from(ts::is_scrambled(packet));
        self.tables.iter_mut().for_each(|table| table.take(packet));
        if let Some(stated) = stated {
            self.state(at, stated);
        }
    }

    /// Takes a picture at which decoders can start.
    pub fn enter(&mut self, entry: elementary::RandomAccess) {
        let at = entry.file;
        let at = match self.evenly.partition_point(|evenly| evenly.file <= at) {
            0 => at,
            after => self.evenly[after - 1].place(at, self.layout),
        };
        if self.last_sync.is_none_or(|last| last < at) {
            self.last_sync = Some(at);
            self.syncs.push(Sync(at));
            self.entries.push(EntryPoint {
                place: at,
                sample: entry.sample,
                jumps: self.last_offset.is_some_and(|last| last != entry.offset),
            });
            self.last_offset = Some(entry.offset);
        }
    }

    /// Returns the position of the next packet, which is at byte `at` of the file.
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

    /// Returns the number of recorded positions.
    pub fn len(&self) -> usize {
        self.marks.len() + self.syncs.len()
    }

    /// Records the time stated at byte `at` of the file.
    fn state(&mut self, at: u64, stated: u64) {
        let time = match self.latest {
            None => 0,
            Some((before, time)) => {
                // The time wraps after 2^33 ticks.
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

    /// Adds the track to the index of the film, whose file has `len` bytes; the error says why not.
    pub fn finish(self, index: &mut Index, len: u64) -> Result<(), &'static str> {
        if self.holes.len().max(self.evenly.len()) > MOST_HOLES {
            return Err(APART_TOO_OFTEN);
        }
        if self.marks.len() < 2 {
            return Err("it does not state its time");
        }
        // Blocks of a file's views are distinguished by the views' lengths.
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
            // The track begins with the first picture that can be decoded.
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
        if !self.is_unsettled {
            index.title.entry_points = Some(Box::new(EntryPoints {
                points: self.entries.finish(),
                tables: self.changes,
                programmes: self.programmes,
                is_scrambled: self.scrambled > self.end / PACKET as u64 / SCRAMBLED,
            }));
        }
        index.tables.push(table);
        Ok(())
    }
}

/// Returns the file positions of the packets for a view of them that has `end` bytes.
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

impl Entry {
    /// Returns the entry for a transport stream with these packets of its PAT and PMT.
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
    /// Returns the film as an unmodified transport stream; `None` if it is not one or cannot be
    /// sent so. Its only track's samples lie in the film's file or, if other bytes lie between
    /// packets, in a view of it. Their records are those of the track after all others.
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
            entry_points: None,
        })
    }
}
