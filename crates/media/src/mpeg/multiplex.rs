//! A transport stream as one track: runs of its packets as they lie in the file, each with the time that the stream states for
//! it. Receivers that take a transport stream as it is are sent this. Where something lies between the packets, they are counted as
//! if nothing did: such a stream is sent from a view ([`super::packets`]).

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

/// Places whose time is known lie so many ticks apart at least: a stream states it about as often (ETSI TS 101 154 4.1.5).
const APART: i64 = RATE as i64 / 28;
/// The time does not go forward by more ticks at once; beyond it, it has jumped.
const MOST_AHEAD: i64 = 10 * RATE as i64;
/// What passes at a jump, in ticks.
const JUMP: i64 = RATE as i64 / 25;
/// More bytes do not pass in a second: the time that such a stream states is wrong.
const MOST_IN_A_SECOND: u64 = 125_000_000;
/// Where bytes that belong to no packet lie in more places, the stream is not offered as it is.
const MOST_HOLES: usize = 10_000;
const APART_TOO_OFTEN: &str = "its packets lie apart in too many places";
/// Packets of a table beyond this are not kept: a section of PAT and PMT has 1,024 bytes.
const MOST_TABLE: usize = 6;
/// Where its streams change more often, slices of it are not offered.
pub const MOST_CHANGES: usize = 256;
/// Where one in so many packets is scrambled, they are not stray bits.
const SCRAMBLED: u64 = 100;
/// Bytes of PAT and PMT that are kept.
pub const MOST_TABLES: usize = 2 * MOST_TABLE * PACKET;

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

/// What a programme's map says that matters to those who play it.
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

/// A transport stream while it is read. Places are bytes of the file where it consists of nothing but packets, and otherwise of all
/// packets one after the other.
#[derive(Clone, Debug)]
pub struct Multiplex {
    layout: Layout,
    /// Where something lies between packets: packets that lie evenly.
    evenly: Vec<Evenly>,
    tables: [Table; 2],
    marks: Packing<Mark>,
    last_mark: Option<Mark>,
    /// More bytes lie between two marks than is possible.
    is_too_fast: bool,
    /// The time that was stated last, and how many ticks have passed by then.
    latest: Option<(u64, i64)>,
    syncs: Packing<Sync>,
    last_sync: Option<u64>,
    entries: Packing<EntryPoint>,
    /// [`elementary::RandomAccess::offset`] of the last of them.
    last_offset: Option<i64>,
    /// What the programme's map says, and the tables from where that changed on.
    mapped: Mapped,
    changes: Vec<StreamTables>,
    /// Some of them are not among these.
    is_unsettled: bool,
    programmes: u32,
    /// Packets that are scrambled.
    scrambled: u64,
    /// Bytes that belong to no packet: where they begin, and where they end.
    holes: Vec<(u64, u64)>,
    /// Where the last packet ends.
    end: u64,
    scratch: Scratch,
}

impl Multiplex {
    /// Of a file in which packets lie like this, with a programme whose map has the PID `map`. What grows with the file goes into
    /// scratch space.
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

    /// The map of the programme has come with the packet that was taken last; it has this PID now.
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

    /// Bytes of memory that it takes, about.
    pub fn memory(&self) -> usize {
        let holes = self.holes.capacity() * size_of::<(u64, u64)>();
        let evenly = self.evenly.capacity() * size_of::<Evenly>();
        let changes = self.changes.len() * MOST_TABLES;
        let points = self.syncs.memory() + self.entries.memory();
        self.marks.memory() + points + holes + evenly + changes
    }

    /// Bytes of scratch space that it takes.
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

    /// Takes a picture that decoders can start at.
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
            entry_points: None,
        })
    }
}
