//! Films generated from a seed (a video and an audio track, interleaved and divided into groups),
//! and films in files. Their demand, beginnings and packets come from the server's own crates.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use reelway_admission::Wants;
use reelway_cache::FilmId;
use reelway_demand::{BINS, Carriage, Demand, Reading};
use reelway_determinism::Random;
use reelway_media::{
    Codec, Filling, Group, H264Config, Kind, Nanos, OpusConfig, SECOND, Sample, SampleTable,
    Samples, SamplesError, Title, Track,
};
use reelway_package::{Options, Package, PackageError};
use reelway_playout::{GroupId, GroupPlan, Kept, StreamError};
use reelway_rtp::{Bytes, PayloadOptions};

use crate::files::{self, File};
use crate::packets::{self, MadeUp};
use crate::receiver;
use crate::stream::Script;
use crate::world::LEAD;

/// Ticks per second of both tracks: milliseconds.
const TICKS: u32 = 1000;
/// Sound consists of frames of 60 ms, the longest of Opus.
const SOUND_FRAME: u32 = 60;

/// A group as a viewer needs it.
#[derive(Clone, Debug)]
pub(crate) struct FilmGroup {
    /// When it begins on the film's timeline.
    pub begins: Nanos,
    /// When the next one begins, or the film ends.
    pub ends: Nanos,
    /// The blocks of the file that it needs.
    pub blocks: Range<u32>,
}

/// A film.
pub(crate) struct Film {
    pub name: String,
    /// Distinguishes the files of this name.
    pub version: String,
    /// The content to be sent.
    pub script: Arc<Script>,
    /// The content to be fetched, and its samples.
    pub package: Package,
    pub samples: Arc<Vec<SampleTable>>,
    pub title: Arc<Title>,
    block: u64,
    /// The groups of each track.
    pub parts: Vec<Vec<FilmGroup>>,
    /// The film's needs.
    demand: Arc<Demand>,
    /// Blocks of a viewer who shares none, for each quarter second: these are booked for them.
    pub booked: Vec<u64>,
    /// Its file; `None` if its bytes are generated.
    pub file: Option<Arc<File>>,
    /// Its number in the pool.
    pub number: FilmId,
    /// The number of its file, if its content is a view of the file.
    pub file_number: FilmId,
    /// The most blocks of the file from which one of its own is made; 1 if they are the same.
    made_of: u32,
    /// Whether its reads fail from now on, as the file was truncated.
    pub cut: bool,
}

/// A sample to be put into the file.
struct Frame {
    track: usize,
    size: u32,
    duration: u32,
    sync: bool,
}

/// A track that is being created.
#[derive(Default)]
struct Making {
    table: SampleTable,
    groups: Vec<Group>,
    /// The first and last byte of the last group.
    span: (u64, u64),
    samples: u32,
    bytes: u64,
    dts: i64,
}

impl Making {
    /// Appends a sample. Groups end as in the index: before a sync sample (sound: after a second),
    /// and where their span or number of samples would exceed the limit.
    fn add(&mut self, frame: &Frame, offset: u64) {
        let end = offset + u64::from(frame.size);
        let least = [0, i64::from(TICKS)][frame.track];
        let open = self.groups.last_mut().filter(|group| {
            let ends = frame.sync && self.dts - group.dts >= least;
            let span = self.span.1.max(end) - self.span.0.min(offset);
            !ends && group.count < Group::MAX_SAMPLES && span <= Group::MAX_SPAN
        });
        match open {
            Some(group) => {
                group.count += 1;
                group.bytes += frame.size;
                self.span = (self.span.0.min(offset), self.span.1.max(end));
            }
            None => {
                self.groups.push(Group {
                    first: self.samples,
                    count: 1,
                    dts: self.dts,
                    cts: 0,
                    bytes: frame.size,
                    sync: frame.sync,
                });
                self.span = (offset, end);
            }
        }
        self.table.push(Sample {
            offset,
            size: frame.size,
            duration: frame.duration,
            cts: 0,
            sync: frame.sync,
        });
        self.samples += 1;
        self.bytes += u64::from(frame.size);
        self.dts += i64::from(frame.duration);
    }

    fn track(&self, index: usize) -> Track {
        let (kind, codec) = match index {
            0 => (
                Kind::Video,
                Codec::H264(H264Config {
                    fourcc: *b"avc1",
                    length_size: 4,
                    profile: [100, 0, 30],
                    sps: Vec::new(),
                    pps: Vec::new(),
                }),
            ),
            _ => (
                Kind::Audio,
                Codec::Opus(OpusConfig {
                    channels: 2,
                    pre_skip: 0,
                    input_rate: 48_000,
                }),
            ),
        };
        Track {
            samples: self.samples,
            bytes: self.bytes,
            duration: self.dts as u64,
            groups: self.groups.iter().copied().collect(),
            ..Track::new(index as u32 + 1, kind, codec, TICKS)
        }
    }
}

/// Returns the sizes and durations of the film's samples, in the order of the file.
fn frames(random: &mut Random, seconds: u64) -> Vec<Frame> {
    // 1 to 5 Mb/s, at 10 to 25 pictures per second.
    let rate = random.within(125_000, 625_000);
    let picture = *random.one_of(&[40, 50, 100]);
    let gop = random.within(10, 60);
    let interleave = *random.one_of(&[1, 200, 500, 1000]);
    let mean = rate * u64::from(picture) / 1000;
    let (mut all, mut pictures) = (Vec::new(), 0u64);
    let (mut seen, mut heard) = (0u64, 0u64);
    // Scenes of some seconds have their own rates.
    let mut scene = 100;
    while seen < seconds * 1000 {
        let until = seen + interleave;
        while seen < until {
            if pictures.is_multiple_of(100) {
                scene = random.within(40, 160);
            }
            let sync = pictures.is_multiple_of(gop);
            let weight = if sync { 400 } else { random.within(40, 140) };
            let size = mean * scene * weight / 10_000;
            all.push(Frame {
                track: 0,
                size: size.clamp(64, 200 << 10) as u32,
                duration: picture,
                sync,
            });
            (seen, pictures) = (seen + u64::from(picture), pictures + 1);
        }
        while heard < seen {
            all.push(Frame {
                track: 1,
                size: random.within(400, 900) as u32,
                duration: SOUND_FRAME,
                sync: true,
            });
            heard += u64::from(SOUND_FRAME);
        }
    }
    all
}

impl Film {
    /// Generates a film of `seconds`, file `nth` of title `title_number`, to be read by `reading`.
    ///
    /// # Errors
    /// Never with tables in memory.
    pub fn make(
        random: &mut Random,
        (title_number, nth): (usize, usize),
        seconds: u64,
        reading: Reading,
    ) -> Result<Film, PackageError> {
        let mut making = [Making::default(), Making::default()];
        let mut offset = random.within(0, 2 * reading.block);
        for frame in frames(random, seconds) {
            making[frame.track].add(&frame, offset);
            offset += u64::from(frame.size);
        }
        let tracks = vec![making[0].track(0), making[1].track(1)];
        let title = Arc::new(Title::new(tracks));
        let tables = Arc::new(making.map(|making| making.table).to_vec());
        Film::of((title, tables, None), (title_number, nth), reading)
    }

    /// Returns one of the films in files.
    ///
    /// # Errors
    /// Fails if its index does not have the known content.
    pub fn in_a_file(
        random: &mut Random,
        number: (usize, usize),
        reading: Reading,
    ) -> Result<Film, String> {
        let file = random.one_of(files::all());
        if let Some(what) = &file.differs {
            return Err(what.clone());
        }
        let of = (
            Arc::clone(&file.title),
            Arc::clone(&file.samples),
            Some(Arc::clone(file)),
        );
        Film::of(of, number, reading).map_err(|error| error.to_string())
    }

    fn of(
        (title, tables, file): (Arc<Title>, Arc<Vec<SampleTable>>, Option<Arc<File>>),
        (title_number, nth): (usize, usize),
        reading: Reading,
    ) -> Result<Film, PackageError> {
        let demand = Arc::new(Demand::of(
            &title,
            &*tables,
            PayloadOptions::default(),
            reading,
        )?);
        let parts = (0..title.tracks.len())
            .map(|track| parts(&title, track, &*tables, reading.block))
            .collect::<Result<Vec<_>, _>>()?;
        let memory = demand.memory();
        let level = |bin: &u32| u64::from(*bin) * BINS as u64 / reading.block;
        let package = Package::new(title.clone(), &*tables, Options::default())?;
        let mut film = Film {
            name: format!("film {title_number}"),
            version: nth.to_string(),
            package,
            samples: tables.clone(),
            booked: memory.bins().iter().map(level).collect(),
            demand,
            script: Arc::new(Script::new(nth, title.clone(), tables)),
            block: reading.block,
            title,
            parts,
            file,
            number: 0,
            file_number: 0,
            made_of: 1,
            cut: false,
        };
        film.made_of = film.most_of_a_block();
        Ok(film)
    }

    /// Opens the film as number `nth`: `open` returns the number of a file in the pool.
    pub fn is_opened(&mut self, nth: usize, mut open: impl FnMut(u32) -> FilmId) {
        self.number = open(nth as u32);
        if self.has_view() {
            self.file_number = open(file_of(nth));
        }
    }

    /// Returns whether its content is a view of the file.
    pub fn has_view(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.has_view())
    }

    /// Returns the bytes of a block of the content.
    pub fn block_bytes(&self, block: u32) -> Range<u64> {
        let all = self.file.as_ref().map(|file| file.played().len() as u64);
        let start = u64::from(block) * self.block;
        start..(start + self.block).min(all.unwrap_or(u64::MAX)).max(start)
    }

    /// Returns the expected bytes of a range of the content.
    pub fn played(&self, range: Range<u64>) -> Option<&[u8]> {
        let played = self.file.as_ref()?.played();
        played.get(range.start as usize..range.end as usize)
    }

    /// Returns a block of its file.
    pub fn file_block(&self, block: u32) -> &[u8] {
        let bytes = self.file.as_ref().map_or(&[][..], |file| &file.bytes);
        let start = block as usize * self.block as usize;
        let end = (start + self.block as usize).min(bytes.len());
        bytes.get(start..end).unwrap_or_default()
    }

    /// Begins to make a block of its view.
    pub fn filling(&self, block: u32) -> Option<Filling> {
        let len = self.file.as_ref()?.bytes.len() as u64;
        let range = self.block_bytes(block);
        Filling::new(&self.title, &*self.samples, len, range).ok()?
    }

    /// Returns the most blocks of the disk that are read for `blocks` of its own.
    pub fn reads(&self, blocks: u32) -> u32 {
        blocks * self.made_of
    }

    fn most_of_a_block(&self) -> u32 {
        let view = self.title.view.map_or(0, |view| view.bytes);
        let blocks = view.div_ceil(self.block) as u32;
        let fillings = (0..blocks).filter_map(|block| self.filling(block));
        let spans = fillings.map(|filling| {
            let wanted = filling.wanted();
            (wanted.end.div_ceil(self.block) - wanted.start / self.block) as u32
        });
        // A span that ends too early is requested again, with more.
        spans.max().map_or(1, |most| most + 1)
    }

    /// Returns what a viewer takes of it over `carriage`.
    pub fn wants(&self, carriage: Carriage) -> Wants {
        Wants {
            demand: self.demand.clone(),
            tracks: Vec::new(),
            carriage,
            is_remote: false,
            goes_on: false,
            eager: None,
        }
    }

    /// Returns the blocks booked for a viewer at this film time.
    pub fn booked_at(&self, at: Nanos) -> u64 {
        let bin = (at.max(0) / (SECOND / BINS as Nanos)) as usize;
        let last = self.booked.len().saturating_sub(1);
        self.booked.get(bin.min(last)).copied().unwrap_or(0)
    }

    /// Returns how many different blocks a viewer holds at any time within these film times.
    pub fn held_within(&self, times: Range<Nanos>) -> u64 {
        let mut blocks = BTreeSet::new();
        for parts in &self.parts {
            let mut before = 0;
            for part in parts {
                let read = (part.begins - LEAD).max(before);
                before = part.begins;
                if read < times.end && part.ends > times.start {
                    blocks.extend(part.blocks.clone());
                }
            }
        }
        blocks.len() as u64
    }

    /// Returns the plan of a group, and the result of the checks if it is new. `held` has the bytes
    /// that were read; without it, the expected bytes are used.
    ///
    /// # Errors
    /// Fails if it cannot be planned.
    pub fn plan(
        &self,
        kept: &mut Kept,
        (track, group): GroupId,
        held: Option<&dyn Bytes>,
    ) -> Result<(GroupPlan, Result<(), String>), StreamError> {
        let id = (self.script.film as u64, (track, group));
        if let Some(plan) = kept.get(id) {
            return Ok((plan, Ok(())));
        }
        let (of, part) = (&self.title.tracks[track], &self.parts[track][group]);
        let wanted = self.script.outline.wanted((track, group))?;
        let made_up = MadeUp(&wanted.samples);
        let played = self.file.as_ref().map(|file| file.played());
        let known = played.as_ref().map(|played| played as &dyn Bytes);
        let bytes = held.or(known).unwrap_or(&made_up);
        let plan = self
            .script
            .plan((track, group), &wanted.samples, bytes, wanted.range)?;
        kept.put(id, plan.clone());
        let blocks = u64::from(part.blocks.start)..u64::from(part.blocks.end);
        let bytes = blocks.start * self.block..blocks.end * self.block;
        let time = part.begins..part.ends;
        // For films in files, the contents of packets are compared with the known content.
        let kind = self.file.is_none().then_some(of.kind);
        let checked = packets::check(&plan.plan, kind, &wanted.samples, time, bytes);
        Ok((plan, checked))
    }

    /// Checks that a receiver gets the known content of a group from the packets of its plan and
    /// these bytes; always true for a film that is not in a file.
    ///
    /// # Errors
    /// Describes what the receiver gets instead.
    pub fn receives(
        &self,
        plan: &GroupPlan,
        (track, group): GroupId,
        held: &dyn Bytes,
    ) -> Result<(), String> {
        let of = &self.title.tracks[track];
        let (Some(file), Some(group)) = (&self.file, of.groups.get(group)) else {
            return Ok(());
        };
        let put = file.put(track, group.first..group.first + group.count);
        receiver::check(&plan.plan, &of.codec, put, held)
    }

    /// Returns the mean rate, bytes per second.
    pub fn rate(&self) -> u64 {
        let bytes: u64 = self.title.tracks.iter().map(|track| track.bytes).sum();
        let millis = (self.length() / 1_000_000).max(1) as u64;
        (bytes * 1000 / millis).max(1)
    }

    /// Returns the numbers of its tracks.
    pub fn tracks(&self) -> Vec<usize> {
        (0..self.title.tracks.len()).collect()
    }

    /// Returns its duration.
    pub fn length(&self) -> Nanos {
        self.title.duration
    }
}

/// Returns the number of the nth film's file among the pool's files.
pub(crate) fn file_of(nth: usize) -> u32 {
    1 << 16 | nth as u32
}

/// Returns the groups of a track.
fn parts(
    title: &Title,
    index: usize,
    tables: &dyn Samples,
    block: u64,
) -> Result<Vec<FilmGroup>, SamplesError> {
    let track = &title.tracks[index];
    let begins: Vec<Nanos> = track
        .groups
        .iter()
        .map(|group| track.decode(group.dts))
        .collect();
    let mut all = Vec::with_capacity(begins.len());
    for (number, begin) in begins.iter().enumerate() {
        let samples = track.read_group(index, number, tables)?;
        let bytes = || samples.iter().map(|timed| timed.sample.bytes());
        let low = bytes().map(|bytes| bytes.start).min().unwrap_or(0);
        let high = bytes().map(|bytes| bytes.end).max().unwrap_or(low);
        all.push(FilmGroup {
            begins: *begin,
            ends: begins.get(number + 1).copied().unwrap_or(title.duration),
            blocks: (low / block) as u32..high.div_ceil(block) as u32,
        });
    }
    Ok(all)
}
