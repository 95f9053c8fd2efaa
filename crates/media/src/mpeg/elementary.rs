//! Reassembles an elementary stream from packets and finds the samples in it.

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

/// Samples are searched for whenever this many bytes have arrived, or a PES packet begins.
const LOOK: usize = 16 << 10;
/// The maximum size of a sample in bytes.
pub const LONGEST: usize = 64 << 20;
/// Bytes that are no longer needed are discarded once there are this many, or once they are more
/// than half of the buffer.
const SPENT: usize = 256 << 10;
/// Audio is moved to the time of its stamp if that differs by more than 1/`OFF` of a second.
const OFF: u32 = 1000;
/// The same for uncompressed DVD audio: writers differ in what a stamp refers to.
const DVD_OFF: u32 = 50;
/// The duration of a picture if it is not known.
const PICTURE: u32 = RATE / 25;

/// A picture at which decoders can start and with which a packet begins.
#[derive(Clone, Copy, Debug)]
pub struct RandomAccess {
    /// The offset of that packet in the file.
    pub file: u64,
    /// The number of the picture.
    pub sample: u32,
    /// Equal for two pictures unless the stream's times jump between them.
    pub offset: i64,
}

/// A stream of the film.
#[derive(Clone, Debug)]
pub struct Elementary {
    pub stated: Stated,
    packets: Stream,
    finder: Finder,
    buffer: Vec<u8>,
    /// The number of bytes of the stream before the buffer.
    gone: u64,
    /// Bytes that have arrived since the last search for samples.
    fresh: usize,
    /// The offset in the file of the last packet that carried anything.
    latest: u64,
    arrivals: Arrivals,
    /// How often the programme's clock had gone back at the last stamp taken, and whether it went
    /// back since the last sample that follows all others.
    turn: u32,
    turned: bool,
    /// Whether a PES packet has begun, and a sample that can be decoded.
    started: bool,
    /// The number of missing packets.
    pub missing: u64,
    /// The number of scrambled packets.
    pub scrambled: u64,
    /// The number of packets of another form than the first one.
    pub changed: u64,
    /// The number of frames with another configuration than the first one, and the time of the
    /// first of them, in ticks since the stream's beginning.
    pub others: (u64, i64),
    pub table: SampleTable,
    pub places: Packing<Place>,
    /// The changes of its PID.
    pub moves: Vec<Move>,
    /// Random access points found since they were last taken.
    pub entries: Vec<RandomAccess>,
    /// The offset from picture stamps to the timeline, modulo 2^33.
    offset: i64,
    /// The times of the first and the last sample.
    pub first: i64,
    last: i64,
    /// The number of samples dropped before the first decodable one.
    pub dropped: u32,
    /// The number of pictures without a stated time.
    pub untimed: u32,
    group: Group,
    /// Present if the stream is a file of its own.
    bare: Option<Bare>,
    /// Whether its pictures state an impossible order.
    pub is_disordered: bool,
}

impl Elementary {
    /// Creates a stream of a supported coding. Its samples and places are stored in scratch space.
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

    /// Creates a stream that is a file of its own, with a default picture rate.
    pub fn bare(stated: Stated, frame_rate: (u32, u32), scratch: &Scratch) -> Option<Elementary> {
        let bare = Some(Bare::new(frame_rate, scratch));
        Elementary::new(stated, scratch).map(|stream| Elementary { bare, ..stream })
    }

    /// Returns whether it is video.
    pub fn is_picture(&self) -> bool {
        self.finder.is_picture()
    }

    /// Returns the ticks per second of its sample times.
    pub fn timescale(&self) -> u32 {
        match &self.finder {
            Finder::Sounds(_, _, Some(kind)) => kind.rate,
            _ => {
                let period = self.bare.as_ref().and_then(Bare::period);
                period.map_or(RATE, |period| period.timescale)
            }
        }
    }

    /// Returns the sample entry; `None` if the decoder configuration has not been found yet.
    pub fn entry(&self) -> Option<Vec<u8>> {
        self.finder.entry()
    }

    /// Returns the end time of its last sample.
    pub fn end(&self) -> i64 {
        self.last + self.table.last().map_or(0, |last| i64::from(last.duration))
    }

    /// Returns the PID of the packets that currently carry it.
    pub fn pid(&self) -> u16 {
        self.moves.last().map_or(self.stated.pid, |to| to.pid)
    }

    /// Changes its PID from byte `at` of the file on. Returns `false` if it has changed too often.
    pub fn moves_to(&mut self, at: u64, pid: u16) -> bool {
        let is_followed = self.moves.len() < MOST_MOVES;
        if is_followed {
            self.moves.push(Move { file: at, pid });
            self.packets = Stream::that_begins();
        }
        is_followed
    }

    /// Takes a packet at byte `at` of the file; whole samples go to the end (`view`) of the view.
    pub fn take(&mut self, at: u64, packet: &super::ts::Packet, clock: &mut Clock, view: &mut u64) {
        if packet.scrambled {
            self.scrambled += 1;
        } else if let Some(carried) = self.packets.take(packet) {
            self.carry(at, carried, clock, view);
        }
    }

    /// Takes the payload of a packet at byte `at` of the file; see [`Elementary::take`].
    pub fn carry(&mut self, at: u64, carried: Carried, clock: &mut Clock, view: &mut u64) {
        if !carried.bytes.is_empty() {
            self.rest(at, clock, view);
            self.latest = at;
        }
        if self.add_packet(at, carried, clock.turns) {
            self.look(clock, view, false);
        }
    }

    /// Ends audio whose last bytes came long before byte `now` of the file.
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

    /// Adds the payload of a packet and returns whether to search for samples. `turn`: how often
    /// the programme's clock has gone back.
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

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<RandomAccess>();
        self.table.memory() + self.places.memory() + entries + self.waiting()
    }

    /// Returns the use of scratch space in bytes.
    pub fn aside(&self) -> u64 {
        self.table.aside() + self.places.aside()
    }

    /// Returns the memory used for incomplete samples, in bytes.
    pub fn waiting(&self) -> usize {
        self.buffer.len() + self.arrivals.memory()
    }

    /// Finds complete samples and appends them to the view, which is `view` bytes long. `is_end`:
    /// nothing follows.
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

    /// Returns the stamp of the sample that begins at this byte, if it is its PES packet's first.
    fn stamp(&mut self, start: u64) -> Option<Stamp> {
        let (stamp, behind, turn) = self.arrivals.take_stamp(start)?;
        self.turned |= std::mem::replace(&mut self.turn, turn) != turn;
        // Without frames of its own, a sample may begin anywhere after the stamped position.
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
            // The delays are known only after all pictures.
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

    /// Skips a frame of another configuration, which a decoder for the first one cannot play.
    fn pass_other(&mut self, stamp: Option<Stamp>, clock: &mut Clock) {
        let (count, from) = &mut self.others;
        if *count == 0 {
            *from = self.last - self.first
                + self.table.last().map_or(0, |last| i64::from(last.duration));
        }
        *count += 1;
        // The time still advances.
        if let Some(stamp) = stamp {
            self.sound_time(Some(stamp), clock);
        }
    }

    /// Returns the decode time of a picture and its delay until presentation.
    fn picture_time(
        &mut self,
        stamp: Option<Stamp>,
        found: &FoundSample,
        clock: &mut Clock,
    ) -> (i64, i32) {
        let (last, order) = (self.table.last(), found.order);
        if last.is_none() && stamp.is_none() {
            // Reference pictures are decoded one picture before their presentation time.
            self.group.shown = order.map_or(0, |order| order.period.into());
        }
        let number = order.map_or(0, |order| self.group.take(order));
        let Some(stamp) = stamp else {
            // Decoded after the previous one, and presented according to its position in the group.
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
        // A picture at which decoders can start is presented after all previous ones.
        let in_order = found.sync && std::mem::take(&mut self.turned);
        let stated = clock.place(stamp.decoded, own, in_order);
        self.offset = (stated - stamp.decoded as i64).rem_euclid(WRAP);
        let shown = stated + i64::from(wait(stamp));
        self.group.shown = shown - found.own.unwrap_or(number);
        // Decode times must differ, whatever is stated. The presentation time remains.
        let at = match last {
            Some(_) => stated.max(self.last + 1),
            None => stated,
        };
        (at, i32::try_from(shown - at).unwrap_or(0))
    }

    /// Returns the start time of an audio frame.
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
                // Audio times do not go back.
                stated.max(self.last)
            }
            _ => self.end(),
        }
    }

    /// Returns the maximum deviation of audio from its stamps, in samples.
    fn most_off(&self) -> i64 {
        let part = match &self.finder {
            Finder::Sounds(_, Framing::Dvd(_), _) => DVD_OFF,
            _ => OFF,
        };
        (self.timescale() / part).into()
    }

    /// Records the position of a sample that ends at byte `end` of the view.
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

    /// Finds the samples that are complete at the end of the file.
    pub fn finish(&mut self, clock: &mut Clock, view: &mut u64) {
        self.look(clock, view, true);
        if let (Finder::Pictures(_), Some(bare)) = (&self.finder, &mut self.bare) {
            match bare.waits() {
                Some(waits) => self.table.set_cts(waits.iter()),
                None => self.is_disordered = true,
            }
        }
    }

    /// Completes the places of a view of `view` bytes; the file has `len` bytes.
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
