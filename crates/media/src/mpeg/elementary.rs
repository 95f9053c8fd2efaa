//! A stream that is put together again of what packets carry, and the samples in it.

use super::arrivals::{Arrivals, At};
use super::bare::Bare;
use super::clock::{Clock, RATE, WRAP, wait};
use super::coded::Group;
use super::finder::{Finder, FoundSample};
use super::pes::{Carried, Stamp, Stream};
use super::psi::Stated;
use super::sounds::{Framing, GAP};
use crate::paged::Packing;
use crate::places::{MOST_MOVES, Move, Place, STEP};
use crate::samples::{Sample, SampleTable};
use crate::scratch::Scratch;
use crate::time::rescale;

/// Samples are looked for when so many bytes have come, or a PES packet begins.
const LOOK: usize = 16 << 10;
/// No sample is longer.
pub const LONGEST: usize = 64 << 20;
/// Bytes that are not needed any more are thrown away when they are so many.
const SPENT: usize = 256 << 10;
/// Sound whose stamp says that it is off by more than this part of a second begins when the stamp says.
const OFF: u32 = 1000;
/// The same of uncompressed sound of a DVD: a stamp is of some part of its packet, and writers differ in which.
const DVD_OFF: u32 = 50;
/// What a picture lasts while nothing is known.
const PICTURE: u32 = RATE / 25;

/// A picture that decoders can start at and that begins with a packet.
#[derive(Clone, Copy, Debug)]
pub struct RandomAccess {
    /// Where that packet lies in the file.
    pub file: u64,
    /// Number of the picture.
    pub sample: u32,
    /// It is the same for two pictures unless the stream's times jump between them.
    pub offset: i64,
}

/// A stream of the film.
#[derive(Clone, Debug)]
pub struct Elementary {
    pub stated: Stated,
    packets: Stream,
    finder: Finder,
    buffer: Vec<u8>,
    /// Bytes of the stream before the buffer.
    gone: u64,
    /// Bytes that came since samples were looked for.
    fresh: usize,
    /// Where in the file the packet lies that was the last to carry something.
    latest: u64,
    arrivals: Arrivals,
    /// How often the programme's clock had gone back at the stamp that was taken last, and whether it went back since the last
    /// sample that follows all others.
    turn: u32,
    turned: bool,
    /// Whether a PES packet has begun, and a sample that can be decoded.
    started: bool,
    /// Packets that are missing.
    pub missing: u64,
    /// Packets that are scrambled.
    pub scrambled: u64,
    /// Packets of another form than the first one.
    pub changed: u64,
    /// Frames of another configuration than the first one, and ticks of the stream before the first of them.
    pub others: (u64, i64),
    pub table: SampleTable,
    pub places: Packing<Place>,
    /// From where on other packets carry it.
    pub moves: Vec<Move>,
    /// Pictures that decoders can start at and that begin with a packet, which were found since they were taken last.
    pub entries: Vec<RandomAccess>,
    /// What is added to stamps of pictures to lay them on the line of times, modulo 2^33.
    offset: i64,
    /// Of the first sample, and of the last one.
    pub first: i64,
    last: i64,
    /// Samples before one that can be decoded.
    pub dropped: u32,
    /// Pictures whose time is not stated.
    pub untimed: u32,
    group: Group,
    /// Of a stream that is a file by itself.
    bare: Option<Bare>,
    /// Whether its pictures state an order that cannot be.
    pub is_disordered: bool,
}

impl Elementary {
    /// A stream of a known coding, whose samples and places go into scratch space.
    pub fn new(stated: Stated, scratch: &Scratch) -> Option<Elementary> {
        let finder = Finder::of(&stated.coding)?;
        Some(Elementary {
            stated,
            packets: Stream::default(),
            finder,
            buffer: Vec::new(),
            gone: 0,
            fresh: 0,
            latest: 0,
            arrivals: Arrivals::default(),
            turn: 0,
            turned: false,
            started: false,
            missing: 0,
            scrambled: 0,
            changed: 0,
            others: (0, 0),
            table: SampleTable::new(scratch),
            places: Packing::new(scratch),
            moves: Vec::new(),
            entries: Vec::new(),
            offset: 0,
            first: 0,
            last: 0,
            dropped: 0,
            untimed: 0,
            group: Group::default(),
            bare: None,
            is_disordered: false,
        })
    }

    /// One that is a file by itself, and has so many pictures a second if it does not state it.
    pub fn bare(stated: Stated, frame_rate: (u32, u32), scratch: &Scratch) -> Option<Elementary> {
        let bare = Some(Bare::new(frame_rate, scratch));
        Elementary::new(stated, scratch).map(|stream| Elementary { bare, ..stream })
    }

    /// Whether it is picture.
    pub fn is_picture(&self) -> bool {
        self.finder.is_picture()
    }

    /// Ticks a second of its samples' times.
    pub fn timescale(&self) -> u32 {
        match &self.finder {
            Finder::Sounds(_, _, Some(kind)) => kind.rate,
            _ => {
                let period = self.bare.as_ref().and_then(Bare::period);
                period.map_or(RATE, |period| period.timescale)
            }
        }
    }

    /// The sample entry; `None`: what it is set up by has not come.
    pub fn entry(&self) -> Option<Vec<u8>> {
        self.finder.entry()
    }

    /// When its last sample ends.
    pub fn end(&self) -> i64 {
        self.last + self.table.last().map_or(0, |last| i64::from(last.duration))
    }

    /// The packets that carry it now.
    pub fn pid(&self) -> u16 {
        self.moves.last().map_or(self.stated.pid, |to| to.pid)
    }

    /// From byte `at` of the file on, other packets carry it. False: it has moved too often.
    pub fn moves_to(&mut self, at: u64, pid: u16) -> bool {
        let is_followed = self.moves.len() < MOST_MOVES;
        if is_followed {
            self.moves.push(Move { file: at, pid });
            self.packets = Stream::that_begins();
        }
        is_followed
    }

    /// Takes a packet at byte `at` of the file; what is whole then goes to the end of the view, which is `view` bytes long.
    pub fn take(&mut self, at: u64, packet: &super::ts::Packet, clock: &mut Clock, view: &mut u64) {
        if packet.scrambled {
            self.scrambled += 1;
        } else if let Some(carried) = self.packets.take(packet) {
            self.carry(at, carried, clock, view);
        }
    }

    /// Takes what a packet at byte `at` of the file carries; see [`Elementary::take`].
    pub fn carry(&mut self, at: u64, carried: Carried, clock: &mut Clock, view: &mut u64) {
        if !carried.bytes.is_empty() {
            self.rest(at, clock, view);
            self.latest = at;
        }
        if self.add_packet(at, carried, clock.turns) {
            self.look(clock, view, false);
        }
    }

    /// Ends what has come of sound, where that is long before byte `now` of the file.
    pub fn rest(&mut self, now: u64, clock: &mut Clock, view: &mut u64) {
        if self.buffer.is_empty() || now <= self.latest + GAP || self.is_picture() {
            return;
        }
        self.look(clock, view, true);
        if let Finder::Sounds(frames, ..) = &mut self.finder {
            *frames = frames.anew();
        }
        self.gone += self.buffer.len() as u64;
        self.buffer.clear();
        self.arrivals = Arrivals::default();
    }

    /// Adds what a packet carries, before which the programme's clock has gone back so often. Whether samples should be looked for.
    fn add_packet(&mut self, at: u64, carried: Carried, turn: u32) -> bool {
        let Carried {
            bytes,
            head,
            starts,
            stamp,
            missing,
        } = carried;
        self.missing += u64::from(missing);
        self.started |= starts;
        if !self.started {
            return false;
        }
        let here = self.gone + self.buffer.len() as u64;
        if !bytes.is_empty() {
            self.arrivals.add(At {
                stream: here,
                file: at,
                head,
                starts,
            });
        }
        if let Some(stamp) = stamp {
            self.arrivals.stamp(here, stamp, turn);
        }
        self.buffer.extend_from_slice(bytes);
        self.fresh += bytes.len();
        starts || self.fresh >= LOOK
    }

    /// Bytes of memory that it takes, about.
    pub fn memory(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<RandomAccess>();
        self.table.memory() + self.places.memory() + entries + self.waiting()
    }

    /// Bytes of scratch space that it takes.
    pub fn aside(&self) -> u64 {
        self.table.aside() + self.places.aside()
    }

    /// Bytes of memory that wait for their sample to be whole.
    pub fn waiting(&self) -> usize {
        self.buffer.len() + self.arrivals.memory()
    }

    /// Finds the samples that are whole, and adds them at the end of the view, which is `view` bytes long. `is_end`: nothing
    /// follows.
    fn look(&mut self, clock: &mut Clock, view: &mut u64, is_end: bool) {
        self.fresh = 0;
        while let Some(found) = self.finder.next(&self.buffer, is_end) {
            self.add(found, clock, view);
        }
        let needed = self.finder.needed();
        let spent = needed.unwrap_or_else(|| self.buffer.len().saturating_sub(2));
        if spent >= SPENT || (spent > 0 && spent * 2 > self.buffer.len()) {
            let spent = spent.min(self.buffer.len());
            self.buffer.drain(..spent);
            self.gone += spent as u64;
            self.finder.forget(spent);
            self.arrivals.forget(self.gone);
        }
    }

    /// The stamp of the sample that begins at this byte of the stream, if it is the first of its PES packet.
    fn stamp(&mut self, start: u64) -> Option<Stamp> {
        let (stamp, behind, turn) = self.arrivals.take_stamp(start)?;
        self.turned |= std::mem::replace(&mut self.turn, turn) != turn;
        // What has no frames of its own begins anywhere behind what the stamp is of.
        let late = match &self.finder {
            Finder::Sounds(_, Framing::Dvd(sound), _) => {
                rescale(sound.frames_of(behind), sound.rate, RATE) as u64
            }
            _ => 0,
        };
        Some(Stamp {
            decoded: stamp.decoded + late,
            shown: stamp.shown + late,
        })
    }

    fn add(&mut self, found: FoundSample, clock: &mut Clock, view: &mut u64) {
        let start = self.gone + found.start as u64;
        let stamp = self.stamp(start);
        if found.other {
            self.pass_other(stamp, clock);
            return;
        }
        if self.table.is_empty() && (!found.sync || (stamp.is_none() && self.bare.is_none())) {
            self.dropped += 1;
            return;
        }
        let (at, cts) = match (&self.finder, &mut self.bare, found.counted) {
            // How long each waits is known when all are.
            (Finder::Pictures(pictures), Some(bare), Some(counted)) => {
                (bare.take(counted, pictures.parameters.shape), 0)
            }
            (Finder::Sounds(..), ..) => (self.sound_time(stamp, clock), 0),
            _ => self.picture_time(stamp, &found, clock),
        };
        if self.table.is_empty() {
            self.first = at;
        } else {
            self.table.set_last_duration((at - self.last) as u32);
        }
        let usual = match &self.finder {
            Finder::Pictures(_) | Finder::Coded(_) | Finder::Visual(_) => match found.order {
                Some(order) => order.ticks,
                None => match self.bare.as_ref().and_then(Bare::period) {
                    Some(period) => period.ticks,
                    None => self.table.last().map_or(PICTURE, |last| last.duration),
                },
            },
            Finder::Sounds(_, _, kind) => {
                kind.as_ref().map_or(0, |kind| kind.length_of(found.size))
            }
        };
        self.last = at;
        if found.sync
            && self.is_picture()
            && let Some(packet) = self
                .arrivals
                .packet_of(start)
                .filter(|packet| packet.starts)
        {
            self.entries.push(RandomAccess {
                file: packet.file,
                sample: self.table.len(),
                offset: self.offset,
            });
        }
        self.mark(start, *view + u64::from(found.size));
        self.table.push(Sample {
            offset: *view,
            size: found.size,
            duration: usual,
            cts,
            sync: found.sync,
        });
        *view += u64::from(found.size);
    }

    /// Passes over a frame of another configuration, which no decoder that was set up for the first would play as it is.
    fn pass_other(&mut self, stamp: Option<Stamp>, clock: &mut Clock) {
        let (count, from) = &mut self.others;
        if *count == 0 {
            *from = self.last - self.first
                + self.table.last().map_or(0, |last| i64::from(last.duration));
        }
        *count += 1;
        // The time goes on meanwhile.
        if let Some(stamp) = stamp {
            self.sound_time(Some(stamp), clock);
        }
    }

    /// When a picture is decoded, and how long it waits until it is shown.
    fn picture_time(
        &mut self,
        stamp: Option<Stamp>,
        found: &FoundSample,
        clock: &mut Clock,
    ) -> (i64, i32) {
        let (last, order) = (self.table.last(), found.order);
        if last.is_none() && stamp.is_none() {
            // Pictures that others wait for are decoded one picture earlier than they would be shown.
            self.group.shown = order.map_or(0, |order| order.period.into());
        }
        let number = order.map_or(0, |order| self.group.take(order));
        let Some(stamp) = stamp else {
            // Decoded after the one before, and shown where it stands in its group.
            let at = self.end();
            let own = match (order, found.own) {
                (Some(_), _) => Some(number),
                (None, own) => own,
            };
            let waits = match own {
                Some(own) => (self.group.shown + own - at).clamp(0, i64::from(RATE)) as i32,
                None => {
                    self.untimed += 1;
                    last.map_or(0, |last| last.cts)
                }
            };
            return (at, waits);
        };
        let own = last.map(|_| self.last);
        // All that came before a picture that decoders can start at is shown before it.
        let in_order = found.sync && std::mem::take(&mut self.turned);
        let stated = clock.place(stamp.decoded, own, in_order);
        self.offset = (stated - stamp.decoded as i64).rem_euclid(WRAP);
        let shown = stated + i64::from(wait(stamp));
        self.group.shown = shown - found.own.unwrap_or(number);
        // Two are not decoded at once, whatever is stated. When they are shown stays.
        let at = match last {
            Some(_) => stated.max(self.last + 1),
            None => stated,
        };
        (at, i32::try_from(shown - at).unwrap_or(0))
    }

    /// When a frame of sound begins.
    fn sound_time(&mut self, stamp: Option<Stamp>, clock: &mut Clock) -> i64 {
        let rate = self.timescale();
        let own = (!self.table.is_empty()).then(|| rescale(self.last, rate, RATE));
        let stated = stamp.map(|stamp| {
            let in_order = std::mem::take(&mut self.turned);
            rescale(clock.place(stamp.shown, own, in_order), RATE, rate)
        });
        match (stated, self.table.is_empty()) {
            (Some(stated), true) => stated,
            (Some(stated), false) if (stated - self.end()).abs() > self.most_off() => {
                // Sound does not go back.
                stated.max(self.last)
            }
            _ => self.end(),
        }
    }

    /// Samples that sound may be off by.
    fn most_off(&self) -> i64 {
        let part = match &self.finder {
            Finder::Sounds(_, Framing::Dvd(_), _) => DVD_OFF,
            _ => OFF,
        };
        (self.timescale() / part).into()
    }

    /// Notes where the sample begins, which ends at byte `end` of the view.
    fn mark(&mut self, start: u64, end: u64) {
        if self.places.len() as u64 * STEP >= end {
            return;
        }
        let Some(at) = self.arrivals.packet_of(start) else {
            return;
        };
        let within = start - at.stream;
        let (file, skip) = match self.bare {
            Some(_) => (at.file + within, 0),
            None => (at.file, within as u32 + at.head as u32),
        };
        let sample = self.table.len();
        let place = Place { file, skip, sample };
        while (self.places.len() as u64 * STEP) < end {
            self.places.push(place);
        }
    }

    /// Finds the samples that are whole at the end of the file.
    pub fn finish(&mut self, clock: &mut Clock, view: &mut u64) {
        self.look(clock, view, true);
        if let (Finder::Pictures(_), Some(bare)) = (&self.finder, &mut self.bare) {
            match bare.waits() {
                Some(waits) => self.table.set_cts(waits.iter()),
                None => self.is_disordered = true,
            }
        }
    }

    /// Ends the marks: nothing comes up to byte `view` of the view, where it ends; the file has `len` bytes.
    pub fn close(&mut self, view: u64, len: u64) {
        while (self.places.len() as u64 * STEP) < view {
            self.places.push(Place {
                file: len,
                skip: 0,
                sample: self.table.len(),
            });
        }
    }
}
