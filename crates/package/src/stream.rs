//! A transport stream in segments that are unchanged slices of it (RFC 8216 3.2).
//!
//! A segment begins with the first packet of a picture at which decoders can start: one with which
//! a segment of the film's picture begins, or the first after a jump of the stream's times or a
//! change of its tables. Its times are those of the picture, so that a second is the same second of
//! the film in both forms.

use std::ops::Range;

use bytes::Bytes;
use reelway_media::{
    Container, EntryPoint, EntryPoints, Nanos, Paged, Record, SECOND, Samples, SamplesError, Title,
    Track, WORDS, ticks_to_nanos,
};

use crate::cuts::scan;
use crate::package::{Package, PackagedTrack};
use crate::rate::BitRate;
use crate::segment::{Part, Segment};

/// Number of samples processed at once: some seconds of a stream.
const PARTS: u32 = 256;

/// Size of a transport stream packet in bytes.
const PACKET: usize = 188;
/// With this many packets, all players recognise a transport stream.
const RECOGNISED: usize = 10;
/// Header of a null packet (H.222.0 table 2-3).
const NOTHING: [u8; 4] = [0x47, 0x1f, 0xff, 0x10];
/// A stream is sent ahead of its presentation by less than this (H.222.0 2.4.2.7 allows ten
/// seconds).
const MOST_EARLY: Nanos = 10 * SECOND;

/// Why a film is not offered as slices of its file.
#[derive(Debug, thiserror::Error)]
pub enum NoSlices {
    /// Its file has another format.
    #[error("it is no transport stream")]
    OtherContainer,
    /// It cannot be sent unchanged, or its tables change too often.
    #[error("its packets cannot be sent as they are (see the film's notes)")]
    NotAsItIs,
    /// HLS players expect a single programme (RFC 8216 3.2).
    #[error("it has {0} programmes, and HLS allows one")]
    Programmes(u32),
    /// All or many of its packets are encrypted.
    #[error("its packets are encrypted")]
    Encrypted,
    /// A stream with sound only has no groups of pictures.
    #[error("it has no picture")]
    NoPicture,
    /// There is no place where a segment could begin.
    #[error("no key frame begins with a packet of its own")]
    NoEntry,
    /// The index cannot be read.
    #[error(transparent)]
    Samples(#[from] SamplesError),
}

/// A segment. It takes about ten bytes in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    /// Its first sample of the stream.
    first: u32,
    /// Bytes of the stream before it, from the first segment's beginning on.
    before: u64,
    /// The picture with which it begins.
    picture: u32,
    /// When that picture is shown, in ticks of the picture's timescale.
    start: i64,
    /// Index of the tables that apply.
    tables: u32,
    /// Whether it does not continue the segment before: the times have jumped, or the tables have
    /// changed.
    anew: bool,
}

impl Record for Slice {
    const USED: usize = 6;

    fn words(&self) -> [i64; WORDS] {
        [
            self.first.into(),
            self.before as i64,
            self.picture.into(),
            self.start,
            self.tables.into(),
            self.anew.into(),
            0,
            0,
        ]
    }

    fn of(words: &[i64; WORDS]) -> Slice {
        Slice {
            first: words[0] as u32,
            before: words[1] as u64,
            picture: words[2] as u32,
            start: words[3],
            tables: words[4] as u32,
            anew: words[5] != 0,
        }
    }
}

/// A transport stream in segments.
#[derive(Debug)]
pub struct SlicedStream {
    slices: Paged<Slice>,
    /// Number of samples in the stream, and of their bytes from the first segment on.
    samples: u32,
    bytes: u64,
    timescale: u32,
    end: Nanos,
    tables: Vec<Bytes>,
    /// Number of segments that are final even if the film grows.
    settled: u32,
    pub(crate) target: Nanos,
    /// Whether no segment has pictures that are shown before its first one.
    pub(crate) independent: bool,
    pub(crate) rate: BitRate,
    pub(crate) codecs: String,
}

/// Returns the stream of a film that is offered as slices of its file, and the places where slices
/// may begin.
///
/// # Errors
/// The film is not offered in this form.
pub fn sliceable(title: &Title) -> Result<(&Track, &EntryPoints), NoSlices> {
    if title.container != Container::TransportStream {
        return Err(NoSlices::OtherContainer);
    }
    let (Some(stream), Some(entries)) = (&title.multiplex, &title.entry_points) else {
        return Err(NoSlices::NotAsItIs);
    };
    match entries {
        _ if entries.is_scrambled => Err(NoSlices::Encrypted),
        _ if entries.programmes != 1 => Err(NoSlices::Programmes(entries.programmes)),
        _ if title.video().is_none() => Err(NoSlices::NoPicture),
        _ if entries.points.is_empty() => Err(NoSlices::NoEntry),
        _ => Ok((stream, entries)),
    }
}

impl SlicedStream {
    /// Cuts the stream of the film with this package. Reads the records of the stream's samples
    /// once, and those of the pictures with which segments begin.
    ///
    /// # Errors
    /// The film is not offered in this form, or its index cannot be read.
    pub fn new(package: &Package, samples: &dyn Samples) -> Result<SlicedStream, NoSlices> {
        let title: &Title = package.title();
        let (stream, entries) = sliceable(title)?;
        let picture = package.picture().ok_or(NoSlices::NoPicture)?;
        let picture_track = package.media(picture);
        let mut slices: Vec<Slice> = Vec::new();
        for begin in begins(picture, entries) {
            // The first fMP4 segment begins with the film, whenever its picture is shown. This one
            // begins with its picture.
            let number = begin.segment.filter(|number| *number > 1);
            let start = match number.and_then(|number| picture.start_ticks(number)) {
                Some(start) => Some(start),
                None => picture.shown_at(picture_track, begin.entry.sample, samples)?,
            };
            let before = slices.last().map_or(0, |last| last.start);
            slices.push(Slice {
                first: 0,
                before: begin.entry.place,
                picture: begin.entry.sample,
                start: start.unwrap_or(before).max(before),
                tables: begin.tables as u32,
                anew: begin.anew,
            });
        }
        let Placed {
            slices,
            bytes,
            since,
        } = placed(slices, (title.tracks.len(), stream), samples)?;
        let Some(last) = slices.last() else {
            return Err(NoSlices::NoEntry);
        };
        let start = ticks_to_nanos(last.start, picture.timescale);
        // The last segment also contains what follows the last picture; if that is much, it belongs
        // to streams that are not in the film.
        let sent = start + ticks_to_nanos(since, stream.timescale);
        let end = match sent > package.duration() + MOST_EARLY {
            true => sent,
            false => package.duration().max(start),
        };
        let mut sliced = SlicedStream {
            settled: 0,
            end,
            slices: slices.into_iter().collect(),
            samples: stream.samples,
            bytes,
            timescale: picture.timescale,
            tables: (entries.tables.iter())
                .map(|tables| filled(&tables.packets))
                .collect(),
            target: picture.target,
            independent: picture.independent(),
            rate: BitRate::default(),
            codecs: codecs(package),
        };
        // A segment ends where the next one begins, which is final once the beginning of that
        // picture's segment is.
        let open = picture.first_sample(picture.settled() + 1);
        sliced.settled = match open {
            Some(open) => {
                let begun = sliced.slices.partition_point(|slice| slice.picture <= open);
                begun.saturating_sub(1) as u32
            }
            None => 0,
        };
        let lengths: Vec<(u64, Nanos)> = sliced
            .numbers()
            .filter_map(|number| Some((sliced.segment_len(number)?, sliced.duration(number)?)))
            .collect();
        sliced.rate = BitRate::measure(&lengths);
        Ok(sliced)
    }

    /// Returns the numbers of its segments, from 1.
    pub fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.slices.len() as u32
    }

    /// Returns how many segments, from the first, are final even if the film grows.
    pub fn settled(&self) -> u32 {
        self.settled
    }

    fn slice(&self, number: u32) -> Option<Slice> {
        self.slices.get(number.checked_sub(1)? as usize)
    }

    /// Returns when a segment's first picture is shown, on the film's timeline.
    pub fn start(&self, number: u32) -> Option<Nanos> {
        Some(ticks_to_nanos(self.slice(number)?.start, self.timescale))
    }

    /// Returns the time from a segment's beginning to the next one's; for the last one, to the end
    /// of the film.
    pub fn duration(&self, number: u32) -> Option<Nanos> {
        let start = self.start(number)?;
        let end = self.start(number + 1).unwrap_or(self.end);
        Some(end - start)
    }

    /// Returns the longest segment's duration.
    pub fn longest(&self) -> Nanos {
        let durations = self.numbers().filter_map(|number| self.duration(number));
        durations.max().unwrap_or(0)
    }

    /// Returns the size of a segment in bytes. `None`: there is no such segment.
    pub fn segment_len(&self, number: u32) -> Option<u64> {
        let before = self.slice(number)?.before;
        let next = self.slice(number + 1);
        Some(next.map_or(self.bytes, |next| next.before) - before)
    }

    /// Returns the number of the tables that apply to a segment, from 1, and whether there is a
    /// discontinuity before it.
    pub(crate) fn beginning(&self, number: u32) -> Option<(u32, bool)> {
        let slice = self.slice(number)?;
        Some((slice.tables + 1, slice.anew))
    }

    /// Returns PAT and PMT by their number, from 1. A player needs them before a segment.
    pub fn tables(&self, number: u32) -> Option<&Bytes> {
        self.tables.get(number.checked_sub(1)? as usize)
    }

    /// Returns the bytes of memory that the tables take.
    pub fn memory(&self) -> usize {
        let tables = self.tables.iter().map(Bytes::len);
        self.slices.memory() + tables.sum::<usize>()
    }

    /// Returns the bytes `range` of a segment, some seconds at a time.
    pub fn slices(&self, number: u32, range: Range<u64>) -> Option<StreamSlices> {
        let first = self.slice(number)?.first;
        let end = self
            .slice(number + 1)
            .map_or(self.samples, |next| next.first);
        Some(StreamSlices {
            samples: first..end,
            at: 0,
            range,
        })
    }
}

/// The beginning of a segment.
struct Begin {
    entry: EntryPoint,
    /// Index of the tables that apply.
    tables: usize,
    /// Whether there is a discontinuity.
    anew: bool,
    /// The number of the picture's segment that also begins here.
    segment: Option<u32>,
}

/// Returns where segments begin according to the pictures.
fn begins<'a>(
    picture: &'a PackagedTrack,
    entries: &'a EntryPoints,
) -> impl Iterator<Item = Begin> + 'a {
    let first = picture.first_sample(1).unwrap_or(0);
    let mut cuts = picture
        .numbers()
        .filter_map(|number| Some((picture.first_sample(number)?, number)))
        .peekable();
    let mut before: Option<usize> = None;
    let points = entries.points.iter();
    points
        .skip_while(move |entry| entry.sample < first)
        .filter_map(move |entry| {
            let tables = entries.tables_at(entry.place)?;
            let anew = before.is_some_and(|before| entry.jumps || before != tables);
            // A cut without an entry point is ignored: the segment continues.
            while cuts.next_if(|(cut, _)| *cut < entry.sample).is_some() {}
            let cut = cuts.next_if(|(cut, _)| *cut == entry.sample);
            let begins = cut.is_some() || anew || before.is_none();
            before = Some(tables);
            begins.then_some(Begin {
                entry,
                tables,
                anew,
                segment: cut.map(|(_, number)| number),
            })
        })
}

/// The segments that were found in the stream.
#[derive(Default)]
struct Placed {
    slices: Vec<Slice>,
    /// Number of bytes in all segments.
    bytes: u64,
    /// Ticks of the stream during which the last segment is sent.
    since: i64,
}

/// Finds the first samples of the segments in the stream by their places. Segments without such a
/// sample are left out.
fn placed(
    slices: Vec<Slice>,
    (index, stream): (usize, &Track),
    samples: &dyn Samples,
) -> Result<Placed, SamplesError> {
    let mut wanted = slices.into_iter().peekable();
    let mut placed = Placed::default();
    // If a segment is left out, its discontinuity applies to the next one.
    let mut anew = false;
    scan(stream, index, (0, 0), samples, |number, _, sample| {
        while let Some(gone) = wanted.next_if(|slice| slice.before < sample.offset) {
            anew |= gone.anew;
        }
        if let Some(slice) = wanted.next_if(|slice| slice.before == sample.offset) {
            let is_first = placed.slices.is_empty();
            placed.slices.push(Slice {
                first: number,
                before: placed.bytes,
                anew: (slice.anew || anew) && !is_first,
                ..slice
            });
            (anew, placed.since) = (false, 0);
        }
        if !placed.slices.is_empty() {
            placed.bytes += u64::from(sample.size);
            placed.since += i64::from(sample.duration);
        }
    })?;
    Ok(placed)
}

/// Appends null packets: GStreamer does not recognise a transport stream of only two packets.
fn filled(packets: &[u8]) -> Bytes {
    let mut filled = packets.to_vec();
    while filled.len() < RECOGNISED * PACKET {
        filled.extend(NOTHING);
        filled.resize(filled.len().next_multiple_of(PACKET), 0xff);
    }
    filled.into()
}

/// Returns all codecs of the film's tracks, the picture's first.
fn codecs(package: &Package) -> String {
    let mut all: Vec<String> = Vec::new();
    let tracks = package.picture().into_iter().chain(package.sound());
    for track in tracks {
        let codec = package.media(track).codec.rfc6381();
        if !all.contains(&codec) {
            all.push(codec);
        }
    }
    all.join(",")
}

/// A byte range of a segment, delivered some samples of the stream at a time.
#[derive(Clone, Debug)]
pub struct StreamSlices {
    samples: Range<u32>,
    /// Offset in the segment of the next sample.
    at: u64,
    range: Range<u64>,
}

impl StreamSlices {
    /// Returns the next pieces, never empty. `samples` are those of the stream alone.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn next(&mut self, samples: &dyn Samples) -> Result<Option<Segment>, SamplesError> {
        let mut read = Vec::with_capacity(PARTS as usize);
        while !self.samples.is_empty() && self.at < self.range.end {
            let end = self
                .samples
                .end
                .min(self.samples.start.saturating_add(PARTS));
            read.clear();
            samples.read(0, self.samples.start..end, &mut read)?;
            self.samples.start = end;
            let start = self.at;
            let mut whole = Segment::default();
            let mut run: Option<Range<u64>> = None;
            for sample in &read {
                self.at += u64::from(sample.size);
                match &mut run {
                    Some(run) if run.end == sample.offset => run.end = sample.bytes().end,
                    _ => {
                        let behind = run.replace(sample.bytes());
                        behind
                            .into_iter()
                            .for_each(|run| whole.push(Part::Film(run)));
                    }
                }
            }
            run.into_iter().for_each(|run| whole.push(Part::Film(run)));
            let range = self.range.start.saturating_sub(start)..self.range.end - start;
            let wanted = whole.slice(range);
            if wanted.len > 0 {
                return Ok(Some(wanted));
            }
        }
        Ok(None)
    }
}
