//! The streams of the programme that is played.

use std::collections::BTreeSet;

use super::clock::Clock;
use super::date;
use super::elementary::{Elementary, LONGEST};
use super::multiplex::Multiplex;
use super::pes::Carried;
use super::ps;
use super::psi::{Coding, Completed, Programme, Programmes, Stated};
use super::ts::{self, Layout, PACKET, Packet};
use crate::Nanos;
use crate::index::IndexOptions;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::scratch::Scratch;

/// The maximum number of streams of a program stream that are played.
const MAX_STREAMS: usize = 32;
/// The maximum number of notes; beyond it, later streams that are not played are not noted.
const MOST_NOTES: usize = 64;
/// The PID of null packets (ISO/IEC 13818-1 table 2-3).
const NOWHERE: u16 = 0x1fff;
/// Denotes "no stream" in `by_pid`.
const NONE: u8 = u8::MAX;

/// The streams of the programme that is played.
#[derive(Clone, Debug)]
pub struct Streams {
    /// The PID of its map.
    map: u16,
    /// Its number at the beginning, and now.
    pub programme: u16,
    number: u16,
    pub all: Vec<Elementary>,
    /// The PID of the packets that carry the programme's clock.
    clock_at: u16,
    /// For each PID, the index in `all`.
    by_pid: Vec<u8>,
    clock: Clock,
    /// The first stated date, and its time on the streams' timeline.
    pub date: Option<(Nanos, Option<i64>)>,
    /// The size of the view so far, in bytes.
    pub view: u64,
    /// Notes on what was skipped or corrected.
    pub notes: Vec<String>,
    /// Streams that are not played; without a coding if no other can follow under their number.
    passed: BTreeSet<(u16, Option<Coding>)>,
    /// Video streams whose coding is not known yet.
    unknown: BTreeSet<u16>,
    /// All of them unmodified, if they can be sent so.
    pub multiplex: Option<Box<Multiplex>>,
    scratch: Scratch,
}

impl Streams {
    /// Creates the state for a program stream, whose streams are identified when they occur.
    pub fn of_program_stream(scratch: &Scratch) -> Streams {
        let none = Programme {
            map: 0,
            number: 0,
            streams: &[],
        };
        Streams::new(none, 0, scratch)
    }

    /// Creates the state for a file that is one elementary stream, with a default picture rate.
    pub fn bare(coding: Coding, frame_rate: (u32, u32), scratch: &Scratch) -> Streams {
        let stated = Stated {
            pid: 1,
            coding,
            language: None,
        };
        let mut streams = Streams::of_program_stream(scratch);
        let stream = Elementary::bare(stated, frame_rate, scratch);
        streams.all.extend(stream);
        streams
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        let of_multiplex = self.multiplex.as_ref().map_or(0, |all| all.memory());
        let streams = self.all.iter().map(Elementary::memory);
        streams.sum::<usize>() + of_multiplex
    }

    /// Returns the use of scratch space in bytes.
    pub fn aside(&self) -> u64 {
        let of_multiplex = self.multiplex.as_ref().map_or(0, |all| all.aside());
        self.all.iter().map(Elementary::aside).sum::<u64>() + of_multiplex
    }

    /// Takes the next bytes of an elementary stream, from byte `at` of the file on.
    pub fn take_bare(&mut self, at: u64, bytes: &[u8]) {
        let carried = Carried {
            bytes,
            head: 0,
            starts: at == 0,
            stamp: None,
            missing: false,
        };
        for stream in &mut self.all {
            stream.carry(at, carried, &mut self.clock, &mut self.view);
        }
    }

    /// Takes the packet of a program stream at byte `at` of the file.
    pub fn take_program(&mut self, at: u64, packet: &ps::Packet) {
        let known = |stream: &Elementary| stream.stated.pid == packet.stream;
        let number = match self.all.iter().position(known) {
            Some(number) => number,
            None if self.passed.contains(&(packet.stream, None)) => return,
            None => match packet.coding().map(|coding| self.add(packet, coding)) {
                Some(Some(number)) => number,
                Some(None) => {
                    self.passed.insert((packet.stream, None));
                    return;
                }
                // No decoder could start here either.
                None => {
                    self.unknown.insert(packet.stream);
                    return;
                }
            },
        };
        let stream = &mut self.all[number];
        if matches!(stream.stated.coding, Coding::Dvd(sound) if packet.is_other(sound)) {
            stream.changed += 1;
            return;
        }
        if packet.scrambled {
            stream.scrambled += 1;
            return;
        }
        let carried = Carried {
            bytes: packet.body(),
            head: packet.head,
            starts: true,
            stamp: packet.stamp,
            missing: false,
        };
        stream.carry(at, carried, &mut self.clock, &mut self.view);
    }

    /// Adds a stream once a packet reveals its coding. Returns `None` if it is not played.
    fn add(&mut self, packet: &ps::Packet, coding: Coding) -> Option<usize> {
        self.unknown.remove(&packet.stream);
        let stated = Stated {
            pid: packet.stream,
            coding,
            language: None,
        };
        let words = match &stated.coding {
            Coding::Other(words) => *words,
            coding if coding.is_picture() && self.all.iter().any(Elementary::is_picture) => {
                "a second picture"
            }
            _ if self.all.len() >= MAX_STREAMS => "too many streams",
            _ => {
                self.all.extend(Elementary::new(stated, &self.scratch));
                return self.all.len().checked_sub(1);
            }
        };
        let note = format!("track {} ({words}) skipped", packet.stream);
        self.notes.push(note);
        None
    }

    /// Creates the state for a programme of a file with `others` more. Data that grows with the
    /// file is stored in scratch space.
    pub fn new(programme: Programme, others: usize, scratch: &Scratch) -> Streams {
        let Programme {
            map,
            number: programme,
            streams: stated,
            ..
        } = programme;
        let mut notes = Vec::new();
        if others > 0 {
            notes.push(format!(
                "programme {programme} is played; {others} others are not"
            ));
        }
        let (mut all, mut passed): (Vec<Elementary>, _) = (Vec::new(), BTreeSet::new());
        let mut by_pid = vec![NONE; 1 << 13];
        for stream in stated {
            let words = match &stream.coding {
                Coding::Other(words) => *words,
                coding if coding.is_picture() && all.iter().any(Elementary::is_picture) => {
                    "a second picture"
                }
                _ => {
                    by_pid[usize::from(stream.pid)] = all.len() as u8;
                    all.extend(Elementary::new(stream.clone(), scratch));
                    continue;
                }
            };
            notes.push(format!("track {} ({words}) skipped", stream.pid));
            passed.insert((stream.pid, Some(stream.coding.clone())));
        }
        Streams {
            map,
            programme,
            number: programme,
            all,
            clock_at: NOWHERE,
            by_pid,
            clock: Clock::default(),
            date: None,
            view: 0,
            notes,
            passed,
            unknown: BTreeSet::new(),
            multiplex: None,
            scratch: scratch.clone(),
        }
    }

    /// Also records the packets unmodified; they have this layout in the file.
    pub fn multiplexed(self, layout: Layout, programmes: &Programmes) -> Streams {
        let multiplex = Multiplex::new(self.map, programmes, layout, &self.scratch);
        Streams {
            clock_at: programmes.clock(self.map).unwrap_or(NOWHERE),
            multiplex: Some(Box::new(multiplex)),
            ..self
        }
    }

    /// Takes the packet at byte `at` of the file.
    pub fn take(&mut self, at: u64, packet: &[u8; PACKET], programmes: &mut Programmes) {
        let is_clock = ts::pid(packet) == self.clock_at;
        let stated = is_clock.then(|| ts::clock_reference(packet)).flatten();
        if let Some(stated) = stated {
            self.clock.state(stated);
        }
        if let Some(multiplex) = &mut self.multiplex {
            multiplex.take(at, packet, stated);
        }
        if let Some(packet) = Packet::parse(packet) {
            self.take_payload(at, &packet, programmes);
        }
    }

    fn take_payload(&mut self, at: u64, packet: &Packet, programmes: &mut Programmes) {
        let number = self.by_pid[usize::from(packet.pid)];
        let Some(stream) = self.all.get_mut(usize::from(number)) else {
            if self.date.is_none() {
                self.date = date::stated(packet).map(|date| (date, self.clock.now()));
            }
            match programmes.take(packet) {
                Some(Completed::List) => self.leave_maps(programmes, at),
                Some(Completed::Map(map)) if programmes.number(map) == Some(self.number) => {
                    self.map = map;
                    self.look_at(programmes, at);
                }
                Some(Completed::Map(map)) if self.goes_on_as(map, programmes) => {
                    self.change_to(map, programmes, at);
                }
                Some(Completed::Map(_)) | None => {}
            }
            return;
        };
        stream.take(at, packet, &mut self.clock, &mut self.view);
    }

    /// Handles a new PAT: from byte `at` on, the PIDs of its maps carry no streams.
    fn leave_maps(&mut self, programmes: &Programmes, at: u64) {
        for (_, map) in programmes.listed().into_iter().flatten() {
            self.frees(map, at);
        }
    }

    /// Returns whether the film continues in the programme of a new map: its own is no longer
    /// listed (recordings of several stations were joined), and this one has suitable streams.
    fn goes_on_as(&self, map: u16, programmes: &Programmes) -> bool {
        let Some(listed) = programmes.listed() else {
            return false;
        };
        let listed: Vec<u16> = listed.map(|(number, _)| number).collect();
        let is_listed = |number: u16| listed.contains(&number);
        let has_picture = self.all.iter().any(Elementary::is_picture);
        let mut codings = programmes.streams(map).iter().map(|stream| &stream.coding);
        !is_listed(self.number)
            && programmes.number(map).is_some_and(is_listed)
            && match has_picture {
                true => codings.any(Coding::is_picture),
                false => codings.any(Coding::is_known),
            }
    }

    /// Plays the programme with this map from byte `at` of the file on.
    fn change_to(&mut self, map: u16, programmes: &Programmes, at: u64) {
        let Some(number) = programmes.number(map) else {
            return;
        };
        if self.notes.len() < MOST_NOTES {
            self.notes.push(format!(
                "from byte {at} on programme {number} is played: programme {} is not listed any more",
                self.number
            ));
        }
        (self.map, self.number) = (map, number);
        self.look_at(programmes, at);
        // Streams that it does not have must not continue in packets of other programmes.
        let is_stated = |stream: &Elementary| {
            let stated = programmes.streams(map).iter();
            stated.clone().any(|now| now.pid == stream.pid())
        };
        let others = self.all.iter().filter(|stream| !is_stated(stream));
        let others: Vec<u16> = others.map(Elementary::pid).collect();
        others.into_iter().for_each(|pid| self.frees(pid, at));
    }

    /// Handles a repeated programme map. A stream that it no longer has continues in a new one of
    /// the same coding, as in joined recordings.
    fn look_at(&mut self, programmes: &Programmes, at: u64) {
        self.clock_at = programmes.clock(self.map).unwrap_or(NOWHERE);
        if let Some(multiplex) = &mut self.multiplex {
            multiplex.map_came(self.map, programmes);
        }
        let stated = programmes.streams(self.map);
        for new in stated.iter().filter(|new| new.coding.is_known()) {
            let is = |stream: &Elementary, now: &Stated| {
                stream.pid() == now.pid && stream.stated.coding == now.coding
            };
            let own = (new.pid, Some(new.coding.clone()));
            if self.all.iter().any(|stream| is(stream, new)) || self.passed.contains(&own) {
                continue;
            }
            let went = |stream: &Elementary| !stated.iter().any(|now| is(stream, now));
            let alike = |stream: &Elementary| stream.stated.coding == new.coding && went(stream);
            let places = 0..self.all.len();
            let found = places
                .filter(|place| alike(&self.all[*place]))
                .min_by_key(|place| self.all[*place].stated.language != new.language);
            if found.is_some_and(|place| self.goes_on(place, new.pid, at)) {
                continue;
            }
            self.passed.insert(own);
            self.frees(new.pid, at);
            if self.notes.len() < MOST_NOTES {
                self.notes.push(format!(
                    "from byte {at} on the programme has another stream, {}, which is not played",
                    new.pid
                ));
            }
        }
    }

    /// From byte `at` of the file on, packets with this PID carry none of the played streams, as
    /// their coding has changed.
    fn frees(&mut self, pid: u16, at: u64) {
        let had = &mut self.by_pid[usize::from(pid)];
        if let Some(stream) = self.all.get_mut(usize::from(*had))
            && stream.pid() == pid
            && stream.moves_to(at, NOWHERE)
        {
            *had = NONE;
        }
    }

    /// Makes packets with this PID carry the stream at `place` from byte `at` of the file on.
    /// Returns `false` if they cannot.
    fn goes_on(&mut self, place: usize, pid: u16, at: u64) -> bool {
        let had = self.by_pid[usize::from(pid)];
        // Another stream may have had this PID; its own one follows later or not at all.
        let is_free = match self.all.get_mut(usize::from(had)) {
            Some(other) => other.moves_to(at, NOWHERE),
            None => true,
        };
        let old = self.all[place].pid();
        if !is_free || !self.all[place].moves_to(at, pid) {
            return false;
        }
        if self.by_pid[usize::from(old)] == place as u8 {
            self.by_pid[usize::from(old)] = NONE;
        }
        self.by_pid[usize::from(pid)] = place as u8;
        true
    }

    /// Does periodic work after everything before byte `now` of the file has been read.
    ///
    /// # Errors
    /// The streams take too much memory.
    pub fn check(&mut self, now: u64, options: &IndexOptions) -> Result<(), IndexError> {
        for stream in &mut self.all {
            stream.rest(now, &mut self.clock, &mut self.view);
        }
        self.pass_entries();
        let kept = self
            .multiplex
            .as_ref()
            .map_or(0, |multiplex| multiplex.len());
        if kept > options.max_samples as usize {
            self.multiplex = None;
        }
        let samples: u64 = self
            .all
            .iter()
            .map(|stream| u64::from(stream.table.len()))
            .sum();
        let error = |stream: Option<&Elementary>, problem: String| IndexError {
            path: stream.map_or(String::new(), |stream| format!("PID {}", stream.stated.pid)),
            offset: 0,
            problem,
            kind: IndexErrorKind::TooLarge,
        };
        if samples > u64::from(options.max_samples) {
            let most = options.max_samples;
            return Err(error(
                None,
                format!("has more than the {most} samples that are allowed"),
            ));
        }
        let waiting: usize = self.all.iter().map(Elementary::waiting).sum();
        let longest = self.all.iter().max_by_key(|stream| stream.waiting());
        match longest.filter(|_| waiting > LONGEST) {
            Some(stream) => {
                let problem = format!("has no sample in {} MiB", LONGEST >> 20);
                Err(error(Some(stream), problem))
            }
            None => Ok(()),
        }
    }

    /// Passes the random access points to the multiplex.
    fn pass_entries(&mut self) {
        for stream in &mut self.all {
            let entries = stream.entries.drain(..);
            if let Some(multiplex) = &mut self.multiplex {
                entries.for_each(|entry| multiplex.enter(entry));
            }
        }
    }

    pub fn end(&mut self, lost: u64, len: u64) {
        let unknown = self.unknown.iter();
        self.notes.extend(unknown.map(|stream| {
            format!("track {stream} (picture that never says how it is coded) skipped")
        }));
        for stream in &mut self.all {
            stream.finish(&mut self.clock, &mut self.view);
        }
        self.pass_entries();
        for stream in &mut self.all {
            stream.close(self.view, len);
        }
        if lost > 0 {
            self.notes
                .push(format!("{lost} bytes between packets are passed over"));
        }
        if self.clock.jumps > 0 {
            let often = match self.clock.jumps {
                1 => "once".to_owned(),
                jumps => format!("{jumps} times"),
            };
            let words = format!("its time jumps {often}; it is played without gaps");
            self.notes.push(words);
        }
    }
}
