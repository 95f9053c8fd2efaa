//! The index format that servers exchange, so that an edge need not read a film to index it.
//!
//! ```text
//! 0   magic "RWSHARED"
//! 8   format version, u32            (all numbers little endian)
//! 12  bytes of the head, u32
//! 16  bytes of the film, u64
//! 24  head (postcard): what is known of the film and its tracks
//! …   sample records of every track in order, 18 bytes each
//! ```
//!
//! Received data is treated as untrusted: anything that can be derived from the samples and sample
//! entries (codecs, groups, lengths) is derived again, and every sample must lie within the film.

use serde::{Deserialize, Serialize};

use crate::chapters::{Chapter, MAX_CHAPTERS};
use crate::codec::Codec;
use crate::exchanged_entries::Entries;
use crate::index::{Index, IndexOptions};
use crate::mp4::{Entry, entry_of};
use crate::packets::{GroupPackets, Packets};
use crate::places::{MAX_STRIPPED, MOST_MOVES, Move, Place, STEP, View, WITH_HEADS};
use crate::samples::{RECORD_BYTES, Sample, SampleTable};
use crate::scratch::Scratch;
use crate::text::TextTrack;
use crate::texts::MOST_TEXTS;
use crate::time::{MAX_SECONDS, Nanos, ticks_to_nanos};
use crate::title::{Container, Title, Track};
use crate::track_head::TrackHead;

const MAGIC: [u8; 8] = *b"RWSHARED";
/// Incremented whenever the format or the meaning of any part changes.
pub const VERSION: u32 = 10;
const PREFIX: usize = 24;
/// The maximum length of a head: a hundred tracks with their sample entries take less.
const MOST_HEAD: usize = 16 << 20;
/// The maximum number of tracks.
const MOST_TRACKS: usize = 1024;
/// The maximum of a time in ticks, so that sums of several fit 64 bits.
const MOST_TICKS: i64 = 1 << 61;

/// The error for an invalid index from another server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index that the other server sent {0}")]
pub struct ExchangeError(String);

fn wrong(words: impl Into<String>) -> ExchangeError {
    ExchangeError(words.into())
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    container: Container,
    view: Option<View>,
    name: Option<String>,
    recorded_at: Option<Nanos>,
    chapters: Vec<Chapter>,
    texts: Vec<TextTrack>,
    notes: Vec<String>,
    tracks: Vec<Part>,
    /// [`Title::multiplex`]; `sample_entry` holds its codec configuration (the tables).
    multiplex: Option<Part>,
    multiplex_view: Option<View>,
    entries: Option<Entries>,
}

impl Head {
    /// Returns all parts that have sample records, in the order of these.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.tracks.iter().chain(&self.multiplex)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Part {
    head: TrackHead,
    samples: u32,
    sample_entry: Vec<u8>,
    /// The payload size for which packets were counted, and the counts per group, if any.
    packets: (u32, Vec<GroupPackets>),
    places: Vec<Place>,
    moves: Vec<Move>,
}

impl Part {
    fn of(track: &Track) -> Part {
        let picture = track.picture.as_ref();
        Part {
            head: TrackHead {
                id: track.id,
                kind: track.kind,
                timescale: track.timescale,
                shift: track.shift,
                language: track.language.clone(),
                name: track.name.clone(),
                enabled: track.enabled,
                dts: track.groups.get(0).map_or(0, |group| group.dts),
                matrix: picture.map_or([0; 9], |picture| picture.matrix),
                display: picture.map_or((0, 0), |picture| picture.display),
                stripped: track.stripped.clone(),
            },
            samples: track.samples,
            sample_entry: match &track.codec {
                Codec::TransportStream(tables) => tables.clone(),
                _ => track.sample_entry.clone(),
            },
            packets: (track.packets.payload, track.packets.groups.iter().collect()),
            places: track.places.iter().collect(),
            moves: track.moves.clone(),
        }
    }

    /// Returns what is wrong with this track, given the sizes of the view and of the file (`len`).
    fn problem(&self, view: u64, len: u64) -> Option<&'static str> {
        let TrackHead {
            timescale,
            shift,
            dts,
            ..
        } = self.head;
        let most = MAX_SECONDS.saturating_mul(2 * i64::from(timescale));
        let is_long = |ticks: i64| ticks.unsigned_abs() > most.min(MOST_TICKS) as u64;
        match self {
            _ if timescale == 0 => Some("a second without ticks"),
            _ if self.samples == 0 => Some("no samples"),
            _ if self.places.len() as u64 != view.div_ceil(STEP) => {
                Some("places that are not those of the view")
            }
            _ if self
                .places
                .iter()
                .any(|place| place.file > len || place.sample > self.samples) =>
            {
                Some("a place that is none")
            }
            _ if self.moves.len() > MOST_MOVES || !self.moves.is_sorted_by_key(|to| to.file) => {
                Some("packets that are none")
            }
            _ if self.head.stripped.len() > MAX_STRIPPED => Some("frames without their beginnings"),
            _ if is_long(shift) || is_long(dts) => Some("a time that is none"),
            _ => None,
        }
    }
}

/// Returns a copy with its document in memory.
fn here(text: &TextTrack) -> TextTrack {
    TextTrack {
        document: text.document.here(),
        ..text.clone()
    }
}

/// Encodes the head of the index of a film of `len` bytes; the records ([`record_bytes`]) follow.
pub fn head(title: &Title, len: u64) -> Vec<u8> {
    let head = Head {
        container: title.container,
        view: title.view,
        name: title.name.clone(),
        recorded_at: title.recorded_at,
        chapters: title.chapters.clone(),
        texts: title.texts.iter().map(here).collect(),
        notes: title.notes.clone(),
        tracks: title.tracks.iter().map(Part::of).collect(),
        multiplex: title.multiplex.as_deref().map(Part::of),
        multiplex_view: title.multiplex_view,
        entries: title.entry_points.as_deref().map(Entries::of),
    };
    // Cannot fail: the head consists of numbers, strings and lists of these.
    let head = postcard::to_stdvec(&head).unwrap_or_default();
    let mut bytes = Vec::with_capacity(PREFIX + head.len());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((head.len() as u32).to_le_bytes());
    bytes.extend(len.to_le_bytes());
    bytes.extend(head);
    bytes
}

/// Returns the number of bytes of the records that follow the head.
pub fn record_bytes(title: &Title) -> u64 {
    let samples = title.recorded().map(|track| u64::from(track.samples));
    samples.sum::<u64>() * RECORD_BYTES as u64
}

/// An index that is being received.
#[derive(Debug)]
pub struct Incoming {
    len: u64,
    options: IndexOptions,
    /// The received bytes of an incomplete prefix and head, or of an incomplete record.
    bytes: Vec<u8>,
    head: Option<Head>,
    tables: Vec<SampleTable>,
    scratch: Scratch,
}

impl Incoming {
    /// Creates a receiver for the index of a film of `len` bytes.
    pub fn new(len: u64, options: IndexOptions) -> Incoming {
        Incoming {
            len,
            options,
            bytes: Vec::new(),
            head: None,
            tables: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Stores the samples in this scratch space.
    pub fn with_scratch(self, scratch: Scratch) -> Incoming {
        Incoming { scratch, ..self }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// The bytes are no index, belong to another film or version, or exceed the declared length.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        let mut rest = bytes;
        if self.head.is_none() {
            rest = self.take_head(rest)?;
        }
        let Some(head) = &self.head else {
            return Ok(());
        };
        if !self.bytes.is_empty() {
            let missing = (RECORD_BYTES - self.bytes.len()).min(rest.len());
            self.bytes.extend(&rest[..missing]);
            rest = &rest[missing..];
            let Some(record) = self.bytes.first_chunk() else {
                return Ok(());
            };
            let sample = Sample::from_record(record);
            self.bytes.clear();
            add(&mut self.tables, head, (self.len, &self.scratch), sample)?;
        }
        let (records, part) = rest.as_chunks::<RECORD_BYTES>();
        for record in records {
            let sample = Sample::from_record(record);
            add(&mut self.tables, head, (self.len, &self.scratch), sample)?;
        }
        self.bytes.extend(part);
        Ok(())
    }

    /// Takes the missing bytes of prefix and head, and returns the rest.
    fn take_head<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], ExchangeError> {
        let missing = PREFIX.saturating_sub(self.bytes.len()).min(rest.len());
        self.bytes.extend(&rest[..missing]);
        let rest = &rest[missing..];
        let Some(prefix) = self.bytes.first_chunk::<PREFIX>() else {
            return Ok(rest);
        };
        let word = |at: usize| {
            u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]])
        };
        if prefix[..8] != MAGIC || word(8) != VERSION {
            return Err(wrong(format!("is none of version {VERSION}")));
        }
        let film = u64::from(word(16)) | u64::from(word(20)) << 32;
        if film != self.len {
            let words = format!("is of a film of {film} bytes, not {}", self.len);
            return Err(wrong(words));
        }
        let length = word(12) as usize;
        if length > MOST_HEAD {
            return Err(wrong(format!("has a head of {length} bytes")));
        }
        let missing = (PREFIX + length - self.bytes.len()).min(rest.len());
        self.bytes.extend(&rest[..missing]);
        if self.bytes.len() == PREFIX + length {
            let head: Head = postcard::from_bytes(&self.bytes[PREFIX..])
                .map_err(|error| wrong(format!("has a head that cannot be read: {error}")))?;
            self.bytes.clear();
            self.check(&head)?;
            self.head = Some(head);
        }
        Ok(&rest[missing..])
    }

    fn check(&self, head: &Head) -> Result<(), ExchangeError> {
        if !(1..=MOST_TRACKS).contains(&head.tracks.len()) {
            return Err(wrong(format!("has {} tracks", head.tracks.len())));
        }
        let samples: u64 = head.parts().map(|part| u64::from(part.samples)).sum();
        if samples > self.options.max_samples.into() {
            let most = self.options.max_samples;
            return Err(wrong(format!("has {samples} samples; {most} are allowed")));
        }
        let bytes = head.view.map_or(0, |view| view.bytes);
        let put = |part: &Part| part.head.stripped.len() as u64 * u64::from(part.samples);
        let put: u64 = head.parts().map(put).sum();
        let is_possible = match head.view {
            None => put == 0,
            Some(view) if view.packet == WITH_HEADS => bytes == self.len.saturating_add(put),
            // A view adds at most one byte to some units.
            Some(_) => put == 0 && bytes <= self.len.saturating_mul(2),
        };
        if !is_possible || head.view.is_some_and(|view| view.file != self.len) {
            return Err(wrong(format!("has a view of {bytes} bytes")));
        }
        let are_whole = head.texts.iter().all(|text| text.document.is_here());
        if head.texts.len() > MOST_TEXTS || !are_whole {
            return Err(wrong("has invalid subtitles"));
        }
        let problems = head
            .tracks
            .iter()
            .map(|track| (track.head.id, track.problem(bytes, self.len)));
        for (number, (id, problem)) in problems.enumerate() {
            if let Some(problem) = problem {
                return Err(wrong(format!("has {problem} in track {id}")));
            }
            if head.tracks[..number]
                .iter()
                .any(|other| other.head.id == id)
            {
                return Err(wrong(format!("has two tracks {id}")));
            }
        }
        let view = head.multiplex_view;
        let bytes = head.view.map_or(0, |view| view.bytes);
        let is_other =
            |view: View| view.file != self.len || view.bytes > self.len || view.bytes == bytes;
        if view.is_some_and(is_other) || (view.is_some() && head.multiplex.is_none()) {
            return Err(wrong("has a view of a transport stream that is none"));
        }
        let bytes = view.map_or(0, |view| view.bytes);
        let stream = head.multiplex.as_ref();
        let problem = stream.and_then(|part| part.problem(bytes, self.len));
        let tables = stream.map(|part| part.sample_entry.len());
        let of_entries = || Entries::problem(head.entries.as_ref(), tables);
        if let Some(problem) = problem.or_else(of_entries) {
            return Err(wrong(format!("has {problem} in the transport stream")));
        }
        Ok(())
    }

    /// Returns the index once everything has arrived.
    ///
    /// # Errors
    /// Something is missing, or a track cannot be played.
    pub fn finish(self) -> Result<Index, ExchangeError> {
        let Some(head) = self.head else {
            return Err(wrong("ends before its head does"));
        };
        let wanted = head.parts().map(|part| part.samples);
        let have = self.tables.iter().map(SampleTable::len);
        if !wanted.eq(have) || !self.bytes.is_empty() {
            return Err(wrong("ends before its samples do"));
        }
        let mut duration = 0;
        let mut tracks = Vec::with_capacity(head.tracks.len());
        for (part, table) in head.tracks.into_iter().zip(&self.tables) {
            let entry = entry_of(&part.sample_entry, part.head.kind).map_err(|why| {
                let id = part.head.id;
                wrong(format!("has a track {id} that cannot be played: {why}"))
            })?;
            let (track, end) = finish(part, entry, table)?;
            duration = duration.max(ticks_to_nanos(end + track.shift, track.timescale));
            tracks.push(track);
        }
        self.options.check_duration(duration).map_err(wrong)?;
        let multiplex = match (head.multiplex, self.tables.last()) {
            (Some(part), Some(table)) => {
                let entry = Entry::of_transport_stream(part.sample_entry.clone());
                Some(Box::new(finish(part, entry, table)?.0))
            }
            _ => None,
        };
        let starts = head.chapters.iter().map(|chapter| chapter.start);
        let are_sound = head.chapters.len() <= MAX_CHAPTERS
            && head
                .chapters
                .iter()
                .all(|chapter| chapter.is_sound(duration))
            && starts.is_sorted_by(|a, b| a < b);
        if !are_sound {
            return Err(wrong("has invalid chapters"));
        }
        let title = Title {
            container: head.container,
            view: head.view,
            name: head.name,
            tracks,
            duration,
            recorded_at: head.recorded_at.filter(|at| *at > 0),
            chapters: head.chapters,
            texts: head.texts,
            notes: head.notes,
            multiplex,
            multiplex_view: head.multiplex_view,
            entry_points: head.entries.map(Entries::whole),
        };
        if self.scratch.check().is_err() {
            return Err(wrong("cannot be read back from scratch space"));
        }
        Ok(Index {
            title,
            tables: self.tables,
        })
    }
}

/// Adds a sample to the first track that is not complete.
fn add(
    tables: &mut Vec<SampleTable>,
    head: &Head,
    (len, scratch): (u64, &Scratch),
    sample: Sample,
) -> Result<(), ExchangeError> {
    // All tracks before the last one are complete.
    let is_whole = |table: &SampleTable, part: Option<&Part>| {
        part.is_none_or(|part| table.len() == part.samples)
    };
    let last = tables.last().zip(tables.len().checked_sub(1));
    if last.is_none_or(|(table, number)| is_whole(table, head.parts().nth(number))) {
        tables.push(SampleTable::new(scratch));
    }
    let Some((number, table)) = tables.len().checked_sub(1).zip(tables.last_mut()) else {
        return Ok(());
    };
    let Some(part) = head.parts().nth(number) else {
        return Err(wrong("goes on after its samples"));
    };
    // Samples of the unmodified transport stream lie in the file, or in a view of their own.
    let view = match number < head.tracks.len() {
        true => head.view,
        false => head.multiplex_view,
    };
    let (id, after) = (part.head.id, table.len());
    if sample.bytes().end > view.map_or(len, |view| view.bytes) {
        let words = format!("has a sample {after} of track {id} that lies behind the film's end");
        return Err(wrong(words));
    }
    // Code that fills a view searches for samples from a position on, and relies on their order.
    let before = table.last().map_or(0, |last| last.bytes().end);
    // A frame of Matroska may be empty.
    let is_none = sample.size == 0 && view.is_some_and(|view| view.packet != WITH_HEADS);
    if is_none || (view.is_some() && sample.offset < before) {
        return Err(wrong(format!(
            "has a sample {after} of track {id} out of order"
        )));
    }
    table.push(sample);
    Ok(())
}

/// Builds the track of this sample entry; also returns the media time at which its samples end.
fn finish(part: Part, entry: Entry, table: &SampleTable) -> Result<(Track, i64), ExchangeError> {
    let Part {
        head,
        packets: (payload, packets),
        places,
        moves,
        ..
    } = part;
    let (id, shift, timescale) = (head.id, head.shift, i64::from(head.timescale));
    if !table.iter().any(|sample| sample.sync) {
        return Err(wrong(format!("has no sync sample in track {id}")));
    }
    let (mut samples, mut number) = (table.iter().peekable(), 0);
    for (place, nth) in places.iter().zip(0..) {
        while samples
            .next_if(|sample| sample.bytes().end <= nth * STEP)
            .is_some()
        {
            number += 1;
        }
        if place.sample != number {
            return Err(wrong(format!(
                "has a place {nth} in track {id} that is none of its sample's"
            )));
        }
    }
    let (mut track, end) = head.track(entry, table);
    track.places = places.into_iter().collect();
    track.moves = moves;
    let are_its = packets.is_empty() || packets.len() == track.groups.len();
    let mut counted = track.groups.iter().zip(&packets);
    if !are_its
        || counted.any(|(group, packets)| !packets.are_possible_of(group.count, group.bytes))
    {
        return Err(wrong(format!(
            "has packets that are not those of track {id}"
        )));
    }
    track.packets = Packets {
        payload,
        groups: packets.into_iter().collect(),
    };
    if (end + shift) / timescale > MAX_SECONDS {
        return Err(wrong(format!("has a track {id} that lasts too long")));
    }
    Ok((track, end))
}

#[cfg(test)]
mod tests;
