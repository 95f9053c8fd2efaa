//! Films of any length that are not stored anywhere: a beginning, and consecutive pieces that
//! differ in their times only. Also scratch space with configurable failures.
#![allow(dead_code, reason = "each suite uses its part")]

#[path = "../common/mod.rs"]
pub mod common;
#[path = "../made/mod.rs"]
mod made;

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Spec, Track, boxed, ftyp, full, moov, wide};
use reelway_media::{
    Index, IndexOptions, Indexer, ReadIndexError, SCRATCH_CHUNK, Scratch, ScratchSpace, Stored,
    index_growing,
};
use reelway_mux::ebml::element;

/// A film.
pub struct Film {
    pub name: &'static str,
    head: Vec<u8>,
    piece: Vec<u8>,
    /// The number of pieces.
    count: u64,
    /// The positions of 64-bit big-endian times in a piece, and their increments per piece.
    times: Vec<(usize, u64)>,
}

/// The duration of a piece in seconds.
const SECONDS: u64 = 8;
/// The number of pictures and of audio frames in a piece.
const PICTURES: usize = 25 * SECONDS as usize;
const SOUNDS: usize = 375;

/// One film of each kind, of this many minutes.
pub fn films(minutes: u64) -> [Film; 9] {
    [
        transport_stream,
        matroska,
        matroska_of_unknown_lengths,
        fragments,
        bare_pictures,
        fragments_of_sound,
        one_fragment,
        progressive,
        progressive_of_uncompressed_sound,
    ]
    .map(|film| film(minutes * 60 / SECONDS))
}

fn transport_stream(count: u64) -> Film {
    let (piece, _) = made::film(
        &vec![vec![60]; PICTURES],
        &[30; SOUNDS],
        5,
        &[1, 0, 2],
        (0, 0),
    );
    Film {
        name: "transport stream",
        head: Vec::new(),
        piece,
        count,
        times: Vec::new(),
    }
}

fn bare_pictures(count: u64) -> Film {
    let pictures = (0..PICTURES).map(|nth| made::picture(nth, &[20]).stream);
    Film {
        name: "pictures by themselves",
        head: Vec::new(),
        piece: pictures.flatten().collect(),
        count,
        times: Vec::new(),
    }
}

/// With reordered pictures, and AAC.
fn matroska(count: u64) -> Film {
    let audio = [element(0xb5, &48_000f64.to_be_bytes()), element(0x9f, &[2])];
    let sound = [
        element(0x86, b"A_AAC"),
        element(0x63a2, &[0x11, 0x90]),
        element(0xe1, &audio.concat()),
    ];
    of_matroska("Matroska", count, &sound.concat())
}

/// The durations of audio frames are stated only in their blocks.
fn matroska_of_unknown_lengths(count: u64) -> Film {
    let audio = [element(0xb5, &48_000f64.to_be_bytes()), element(0x9f, &[2])];
    let head = b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0";
    let sound = [
        element(0x86, b"A_OPUS"),
        element(0x63a2, head),
        element(0xe1, &audio.concat()),
    ];
    of_matroska("Matroska with Opus", count, &sound.concat())
}

fn of_matroska(name: &'static str, count: u64, sound: &[u8]) -> Film {
    let avcc = [
        1, 100, 0, 31, 0xff, 0xe1, 0, 3, 0x67, 1, 2, 1, 0, 2, 0x68, 3,
    ];
    let video = [
        element(0xb0, &320u32.to_be_bytes()),
        element(0xba, &180u32.to_be_bytes()),
    ];
    let picture = [
        element(0xd7, &[1]),
        element(0x83, &[1]),
        element(0x86, b"V_MPEG4/ISO/AVC"),
        element(0x63a2, &avcc),
        element(0xe0, &video.concat()),
    ];
    let sound = [element(0xd7, &[2]), element(0x83, &[2]), sound.to_vec()];
    let tracks = [
        element(0xae, &picture.concat()),
        element(0xae, &sound.concat()),
    ];
    let head = [
        element(0x1a45dfa3, &element(0x4282, b"matroska")),
        // The segment ends with the file.
        vec![0x18, 0x53, 0x80, 0x67, 0xff],
        element(0x1549a966, &[]),
        element(0x1654ae6b, &tracks.concat()),
    ];
    let block = |track: u8, millis: usize, key: bool| {
        let [high, low] = (millis as i16).to_be_bytes();
        let flags = if key { 0x80 } else { 0 };
        let body = [&[0x80 | track, high, low, flags][..], &[7; 9]].concat();
        (millis, element(0xa3, &body))
    };
    // I P B B P B B …
    let shown = |nth: usize| match nth % 3 {
        _ if nth.is_multiple_of(50) => nth,
        1 if nth + 2 < PICTURES => nth + 2,
        1 => nth,
        _ => nth - 1,
    };
    let pictures = (0..PICTURES).map(|nth| {
        let (_, block) = block(1, shown(nth) * 40, nth.is_multiple_of(50));
        (nth * 40, block)
    });
    let sounds = (0..SOUNDS).map(|nth| block(2, nth * 1024 / 48, true));
    let mut blocks: Vec<(usize, Vec<u8>)> = pictures.chain(sounds).collect();
    blocks.sort_by_key(|(at, _)| *at);
    let blocks: Vec<u8> = blocks.into_iter().flat_map(|(_, block)| block).collect();
    let body = [element(0xe7, &[0; 8]), blocks].concat();
    Film {
        name,
        head: head.concat(),
        piece: element(0x1f43b675, &body),
        count,
        times: vec![(8 + 5, SECONDS * 1000)],
    }
}

/// Movie fragments.
fn fragments(count: u64) -> Film {
    let picture = Track::picture(1, 0, 1);
    let sound = Track::sound(2, 0);
    of_fragments(
        "movie fragments",
        count,
        [picture, sound],
        SOUNDS as u32,
        [9; 2],
    )
}

/// Uncompressed audio, whose samples are joined.
fn fragments_of_sound(count: u64) -> Film {
    let mut sound = Track::sound(2, 0);
    let entry = common::audio(b"sowt", &[]);
    sound.entries = vec![entry];
    let picture = Track::picture(1, 0, 1);
    let name = "movie fragments of uncompressed sound";
    of_fragments(name, count, [picture, sound], SOUNDS as u32, [9, 4])
}

/// A recording that consists of a single fragment.
fn one_fragment(count: u64) -> Film {
    let tracks = [Track::picture(1, 0, 1), Track::sound(2, 0)];
    let trex = |track: u32| full(b"trex", 0, 0, &[track, 1, 0, 0, 0]);
    let mvex = boxed(b"mvex", &[&trex(1), &trex(2)]);
    let numbers = [PICTURES as u64, SOUNDS as u64].map(|each| (each * count) as u32);
    let traf = |track: u32, offset: u32, duration: u32| {
        let number = numbers[track as usize - 1];
        let flags = |nth: u32| match nth.is_multiple_of(50) || track == 2 {
            true => 0x0200_0000,
            false => 0x0101_0000,
        };
        let samples = (0..number).flat_map(|nth| [duration, 9, flags(nth), nth % 2 * duration]);
        let run: Vec<u32> = [number, offset].into_iter().chain(samples).collect();
        let tfhd = full(b"tfhd", 0, 0x2_0000, &[track]);
        boxed(b"traf", &[&tfhd, &full(b"trun", 0, 0xf01, &run)])
    };
    let moof = |first: u32| {
        let (picture, sound) = (traf(1, first, 40), traf(2, first + 9 * numbers[0], 1024));
        boxed(b"moof", &[&full(b"mfhd", 0, 0, &[1]), &picture, &sound])
    };
    let moof = moof(moof(0).len() as u32 + 8);
    let piece = vec![5; 9 * (PICTURES + SOUNDS)];
    let media = piece.len() as u32 * count as u32 + 8;
    let moov = moov(&tracks, &[vec![], vec![]], &mvex);
    Film {
        name: "one movie fragment",
        head: [
            ftyp(),
            moov,
            moof,
            media.to_be_bytes().to_vec(),
            b"mdat".to_vec(),
        ]
        .concat(),
        piece,
        count,
        times: Vec::new(),
    }
}

fn of_fragments(
    name: &'static str,
    count: u64,
    tracks: [Track; 2],
    sounds: u32,
    sizes: [u32; 2],
) -> Film {
    let tracks = tracks.map(|mut track| {
        track.samples = Vec::new();
        track.chunk = 1;
        track
    });
    let trex = |track: u32, duration: u32, size: u32| {
        full(b"trex", 0, 0, &[track, 1, duration, size, 0x0101_0000])
    };
    let mvex = [trex(1, 40, sizes[0]), trex(2, 1024, sizes[1])].concat();
    let mvex = boxed(b"mvex", &[&mvex]);
    let traf = |track: u32, count: u32, offset: u32, size: u32| {
        let sizes: Vec<u32> = (0..count).map(|_| size).collect();
        let run = [&[count, offset, 0x0200_0000][..], &sizes].concat();
        boxed(
            b"traf",
            &[
                &full(b"tfhd", 0, 0x2_0000, &[track]),
                &full(b"tfdt", 1, 0, &[0, 0]),
                &full(b"trun", 0, 0x205, &run),
            ],
        )
    };
    let pictures = PICTURES as u32;
    let moof = |first: u32| {
        let picture = traf(1, pictures, first, sizes[0]);
        let sound = traf(2, sounds, first + pictures * sizes[0], sizes[1]);
        let at = [8 + 16 + 8, 8 + 16 + picture.len() + 8].map(|traf| traf + 16 + 12);
        let moof = boxed(b"moof", &[&full(b"mfhd", 0, 0, &[1]), &picture, &sound]);
        (moof, at)
    };
    let (moof, at) = moof(moof(0).0.len() as u32 + 8);
    let media = vec![5; (pictures * sizes[0] + sounds * sizes[1]) as usize];
    Film {
        name,
        head: [ftyp(), moov(&tracks, &[vec![], vec![]], &mvex)].concat(),
        piece: [moof, boxed(b"mdat", &[&media])].concat(),
        count,
        times: vec![(at[0], SECONDS * 1000), (at[1], u64::from(sounds) * 1024)],
    }
}

/// All samples in `moov`, each with its own entries in the time tables.
fn progressive(count: u64) -> Film {
    let mut picture = Track::picture(1, PICTURES, 50).with_cts(|nth| [40, 120, 0, 0][nth % 4]);
    picture.chunk = 25;
    let mut sound = Track::sound(2, SOUNDS);
    sound.chunk = 25;
    of_tables("MP4", count, [picture, sound])
}

/// Each audio frame is a sample, and these are joined.
fn progressive_of_uncompressed_sound(count: u64) -> Film {
    let picture = Track::picture(1, PICTURES, 50);
    let rate = 8000;
    let spec = Spec {
        size: 4,
        duration: 1,
        cts: 0,
        sync: true,
    };
    let samples = vec![spec; SECONDS as usize * rate];
    let entry = common::audio(b"sowt", &[]);
    let mut sound = Track::new(2, b"soun", entry, rate as u32, samples);
    let frames = count as u32 * sound.samples.len() as u32;
    sound.tables = vec![
        full(b"stsz", 0, 0, &[4, frames]),
        full(b"stts", 0, 0, &[1, frames, 1]),
    ];
    sound.without = vec![*b"ctts"];
    sound.chunk = 1600;
    of_tables("MP4 with uncompressed sound", count, [picture, sound])
}

/// A film of tracks with the given samples repeated `count` times.
fn of_tables(name: &'static str, count: u64, mut tracks: [Track; 2]) -> Film {
    let (piece, starts, _) = common::media(&tracks, 0);
    for track in &mut tracks {
        // A chunk at the end of a piece would continue in the next one.
        assert!(track.samples.len().is_multiple_of(track.chunk));
        let has_own_tables = track.tables.iter().any(|table| &table[4..8] == b"stsz");
        if !has_own_tables {
            track.samples = track.samples.repeat(count as usize);
        }
        track.wide_chunks = true;
    }
    let length = piece.len() as u64;
    let offsets = |head: u64| {
        let all = |starts: &Vec<u64>| {
            let of = |nth| starts.iter().map(move |at| head + nth * length + at);
            (0..count).flat_map(of).collect()
        };
        starts.iter().map(all).collect::<Vec<Vec<u64>>>()
    };
    let before = (ftyp().len() + moov(&tracks, &offsets(0), &[]).len()) as u64;
    let moov = moov(&tracks, &offsets(before + 16), &[]);
    let media = length * count + 16;
    let mdat = [&wide(b"mdat", &[])[..8], &media.to_be_bytes()].concat();
    Film {
        name,
        head: [ftyp(), moov, mdat].concat(),
        piece,
        count,
        times: Vec::new(),
    }
}

impl Film {
    pub fn len(&self) -> u64 {
        self.head.len() as u64 + self.count * self.piece.len() as u64
    }

    /// The number of bytes before its media.
    pub fn tables(&self) -> u64 {
        self.head.len() as u64
    }

    /// Appends bytes of the film to `into`.
    pub fn read(&self, range: Range<u64>, into: &mut Vec<u8>) {
        let (head, piece) = (self.head.len() as u64, self.piece.len() as u64);
        let mut at = range.start;
        if at < head {
            let end = range.end.min(head);
            into.extend(&self.head[at as usize..end as usize]);
            at = end;
        }
        while at < range.end {
            let (number, within) = ((at - head) / piece, (at - head) % piece);
            let end = (range.end - at + within).min(piece);
            let (begin, from) = (into.len(), within as usize);
            into.extend(&self.piece[from..end as usize]);
            for (place, step) in &self.times {
                for (nth, byte) in (number * step).to_be_bytes().into_iter().enumerate() {
                    let place = (place + nth).checked_sub(from).map(|place| begin + place);
                    if let Some(place) = place.and_then(|place| into.get_mut(place)) {
                        *place = byte;
                    }
                }
            }
            at += end - within;
        }
    }

    pub fn index(&self, scratch: Scratch) -> Result<Index, ReadIndexError> {
        let indexer = Indexer::with_scratch(self.len(), IndexOptions::default(), scratch);
        let read = |range: Range<u64>, into: &mut Vec<u8>| {
            self.read(range, into);
            Ok(())
        };
        index_growing(indexer, false, read).map(|(index, _)| index)
    }
}

/// Scratch space in a file.
#[derive(Clone, Debug)]
pub struct Space(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    /// The number of chunks kept, and of reads.
    kept: AtomicU64,
    reads: AtomicU64,
    /// The limits of both.
    most: (u64, u64),
}

#[derive(Debug)]
struct Chunk(Space, u64);

impl Space {
    /// Creates scratch space that keeps `kept` chunks and fails after `reads` reads.
    pub fn new(kept: u64, reads: u64) -> Space {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("scratch-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.expect("a scratch file");
        fs::remove_file(path).expect("the file");
        Space(Arc::new(Inner {
            file,
            kept: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            most: (kept, reads),
        }))
    }

    /// Returns the number of chunks kept.
    pub fn kept(&self) -> u64 {
        self.0.kept.load(Ordering::Relaxed)
    }

    /// Returns the number of reads.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }
}

impl ScratchSpace for Space {
    fn keep(&self, bytes: &[u8]) -> Option<Arc<dyn Stored>> {
        assert!(bytes.len() <= SCRATCH_CHUNK);
        let number = self.0.kept.fetch_add(1, Ordering::Relaxed);
        if number >= self.0.most.0 {
            return None;
        }
        let at = number * SCRATCH_CHUNK as u64;
        let written: io::Result<()> = self.0.file.write_all_at(bytes, at);
        written.expect("room");
        Some(Arc::new(Chunk(self.clone(), at)))
    }
}

impl Stored for Chunk {
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool {
        let Chunk(Space(inner), start) = self;
        let is_known = inner.reads.fetch_add(1, Ordering::Relaxed) < inner.most.1;
        is_known
            && inner
                .file
                .read_exact_at(into, start + u64::from(at))
                .is_ok()
    }
}
