//! Tiny films for tests, built box by box: their tables can be specified completely, and their
//! media consists of zeros.
#![allow(dead_code, reason = "each test uses its own part")]

use std::ops::Range;

use reelway_media::{Index, IndexError, IndexOptions, Indexer, Step};
pub use reelway_mux::boxes::{be, boxed, full};

/// The position of each sample of each track.
pub type Places = Vec<Vec<Range<u64>>>;

/// A box with a 64-bit size.
pub fn wide(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [
        &1u32.to_be_bytes()[..],
        kind,
        &(body.len() as u64 + 16).to_be_bytes(),
        &body,
    ]
    .concat()
}

/// A table: version, count, and the numbers of its entries.
pub fn table(kind: &[u8; 4], version: u8, count: usize, words: &[u32]) -> Vec<u8> {
    full(kind, version, 0, &[&[count as u32], words].concat())
}

/// A sample to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub size: u32,
    pub duration: u32,
    pub cts: i32,
    pub sync: bool,
}

/// A track to be written.
#[derive(Clone, Debug)]
pub struct Track {
    pub id: u32,
    pub handler: [u8; 4],
    pub name: &'static [u8],
    pub timescale: u32,
    pub language: u16,
    pub enabled: bool,
    pub entries: Vec<Vec<u8>>,
    pub samples: Vec<Spec>,
    /// (length in ms, media time in ticks), for an `elst` of version 1.
    pub edits: Vec<(u64, i64)>,
    /// Boxes in `stbl` that replace those of the same kind, or are added.
    pub tables: Vec<Vec<u8>>,
    /// Kinds of boxes omitted from `stbl`.
    pub without: Vec<[u8; 4]>,
    /// Additional boxes in `trak` and in `mdia`.
    pub in_trak: Vec<Vec<u8>>,
    pub in_mdia: Vec<Vec<u8>>,
    /// Samples per chunk.
    pub chunk: usize,
    pub wide_chunks: bool,
}

impl Track {
    /// `count` pictures of 40 ms at 1000 ticks per second, with a sync sample every `gop`.
    pub fn picture(id: u32, count: usize, gop: usize) -> Track {
        let spec = |n: usize| Spec {
            size: 100 + n as u32,
            duration: 40,
            cts: 0,
            sync: n.is_multiple_of(gop),
        };
        let entry = avc1(&[]);
        Track::new(id, b"vide", entry, 1000, (0..count).map(spec).collect())
    }

    /// `count` audio frames of 1024 ticks at 48 kHz.
    pub fn sound(id: u32, count: usize) -> Track {
        let spec = |n: usize| Spec {
            size: 20 + n as u32 % 7,
            duration: 1024,
            cts: 0,
            sync: true,
        };
        Track::new(
            id,
            b"soun",
            mp4a(&[0x11, 0x90]),
            48000,
            (0..count).map(spec).collect(),
        )
    }

    pub fn new(
        id: u32,
        handler: &[u8; 4],
        entry: Vec<u8>,
        timescale: u32,
        samples: Vec<Spec>,
    ) -> Track {
        Track {
            id,
            handler: *handler,
            name: b"Handler\0",
            timescale,
            language: 0x55c4,
            enabled: true,
            entries: vec![entry],
            samples,
            edits: vec![],
            tables: vec![],
            without: vec![],
            in_trak: vec![],
            in_mdia: vec![],
            chunk: 5,
            wide_chunks: false,
        }
    }

    /// Puts `table` into `stbl`, replacing one of the same kind.
    pub fn with_table(mut self, table: Vec<u8>) -> Track {
        self.tables.push(table);
        self
    }

    pub fn with_cts(mut self, cts: impl Fn(usize) -> i32) -> Track {
        self.samples
            .iter_mut()
            .enumerate()
            .for_each(|(n, spec)| spec.cts = cts(n));
        self
    }

    fn chunks(&self) -> impl Iterator<Item = &[Spec]> {
        self.samples.chunks(self.chunk)
    }

    fn trak(&self, offsets: &[u64]) -> Vec<u8> {
        let mut stbl = vec![
            table(
                b"stts",
                0,
                self.samples.len(),
                &pairs(&self.samples, |spec| spec.duration),
            ),
            table(
                b"ctts",
                1,
                self.samples.len(),
                &pairs(&self.samples, |spec| spec.cts as u32),
            ),
            table(b"stsc", 0, 1, &[1, self.chunk as u32, 1]),
            full(
                b"stsz",
                0,
                0,
                &[&[0, self.samples.len() as u32], &sizes(&self.samples)[..]].concat(),
            ),
        ];
        let sync: Vec<u32> = (1..)
            .zip(&self.samples)
            .filter(|(_, spec)| spec.sync)
            .map(|(n, _)| n)
            .collect();
        if sync.len() < self.samples.len() {
            stbl.push(table(b"stss", 0, sync.len(), &sync));
        }
        if self.wide_chunks {
            let words: Vec<u32> = offsets
                .iter()
                .flat_map(|at| [(at >> 32) as u32, *at as u32])
                .collect();
            stbl.push(table(b"co64", 0, offsets.len(), &words));
        } else {
            let words: Vec<u32> = offsets.iter().map(|at| *at as u32).collect();
            stbl.push(table(b"stco", 0, offsets.len(), &words));
        }
        let replaced = |kind: &[u8]| {
            self.without.iter().any(|out| out == kind)
                || self.tables.iter().any(|new| &new[4..8] == kind)
        };
        stbl.retain(|table| !replaced(&table[4..8]));
        stbl.extend(self.tables.iter().cloned());
        let count = (self.entries.len() as u32).to_be_bytes();
        let stsd = boxed(b"stsd", &[&[0; 4], &count, &self.entries.concat()]);
        let stbl = boxed(b"stbl", &[&stsd, &stbl.concat()]);
        let dref = boxed(b"dref", &[&be(&[0, 1]), &full(b"url ", 0, 1, &[])]);
        let minf = boxed(b"minf", &[&boxed(b"dinf", &[&dref]), &stbl]);
        let mdhd = boxed(
            b"mdhd",
            &[
                &be(&[0, 0, 0, self.timescale, 0]),
                &self.language.to_be_bytes(),
                &[0; 2],
            ],
        );
        let hdlr = boxed(b"hdlr", &[&be(&[0, 0]), &self.handler, &[0; 12], self.name]);
        let mdia = boxed(b"mdia", &[&mdhd, &self.in_mdia.concat(), &hdlr, &minf]);
        let identity = [1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30];
        let tail = [&identity[..], &[320 << 16, 180 << 16]].concat();
        let head = [u32::from(self.enabled), 0, 0, self.id, 0, 0, 0, 0, 0, 0];
        let tkhd = boxed(b"tkhd", &[&be(&head), &be(&tail)]);
        let edits = match &self.edits[..] {
            [] => vec![],
            edits => boxed(b"edts", &[&elst(edits)]),
        };
        boxed(b"trak", &[&tkhd, &edits, &self.in_trak.concat(), &mdia])
    }
}

fn pairs(samples: &[Spec], of: impl Fn(&Spec) -> u32) -> Vec<u32> {
    samples.iter().flat_map(|spec| [1, of(spec)]).collect()
}

/// The sizes of samples.
pub fn sizes(samples: &[Spec]) -> Vec<u32> {
    samples.iter().map(|spec| spec.size).collect()
}

/// An edit list of version 1 with normal speed.
pub fn elst(edits: &[(u64, i64)]) -> Vec<u8> {
    let one = |&(length, start): &(u64, i64)| {
        [
            &length.to_be_bytes()[..],
            &start.to_be_bytes(),
            &be(&[1 << 16]),
        ]
        .concat()
    };
    let all: Vec<u8> = edits.iter().flat_map(one).collect();
    boxed(b"elst", &[&be(&[1 << 24, edits.len() as u32]), &all])
}

/// An `avc1` entry of 320×180 with these boxes after its `avcC`.
pub fn avc1(more: &[u8]) -> Vec<u8> {
    let avcc = [
        1, 100, 0, 31, 0xff, 0xe1, 0, 3, 0x67, 1, 2, 1, 0, 2, 0x68, 3,
    ];
    visual(b"avc1", &[boxed(b"avcC", &[&avcc]), more.to_vec()].concat())
}

/// A visual sample entry of 320×180.
pub fn visual(kind: &[u8; 4], boxes: &[u8]) -> Vec<u8> {
    let size = [&320u16.to_be_bytes()[..], &180u16.to_be_bytes()].concat();
    boxed(kind, &[&[0; 7], &[1], &[0; 16], &size, &[0; 50], boxes])
}

/// An audio sample entry: two channels at 48 kHz.
pub fn audio(kind: &[u8; 4], boxes: &[u8]) -> Vec<u8> {
    boxed(
        kind,
        &[
            &[0; 7],
            &[1],
            &[0; 8],
            &[0, 2, 0, 16, 0, 0, 0, 0],
            &be(&[48000 << 16]),
            boxes,
        ],
    )
}

/// An `mp4a` entry with this AudioSpecificConfig.
pub fn mp4a(config: &[u8]) -> Vec<u8> {
    audio(b"mp4a", &esds(0x40, config))
}

/// An `esds` box.
pub fn esds(object_type: u8, config: &[u8]) -> Vec<u8> {
    let specific = [&[5, config.len() as u8], config].concat();
    let decoder = [
        &[4, 13 + specific.len() as u8, object_type][..],
        &[0; 12],
        &specific,
    ]
    .concat();
    let es = [&[3, 3 + decoder.len() as u8, 0, 1, 0][..], &decoder].concat();
    boxed(b"esds", &[&[0; 4], &es])
}

pub fn ftyp() -> Vec<u8> {
    boxed(b"ftyp", &[b"isom\0\0\0\x01isom"])
}

/// The `moov` of tracks with these chunk offsets, at 1000 ticks per second.
pub fn moov(tracks: &[Track], offsets: &[Vec<u64>], more: &[u8]) -> Vec<u8> {
    let mvhd = boxed(b"mvhd", &[&be(&[0, 0, 0, 1000, 0]), &[0; 80]]);
    let traks: Vec<u8> = tracks
        .iter()
        .zip(offsets)
        .flat_map(|(track, offsets)| track.trak(offsets))
        .collect();
    boxed(b"moov", &[&mvhd, &traks, more])
}

/// A film with `moov` first and one `mdat`, with the tracks' chunks interleaved. Returns its bytes,
/// and the position of each sample of each track.
pub fn write(tracks: &[Track]) -> (Vec<u8>, Places) {
    write_with(tracks, &[])
}

/// Like [`write`], with additional boxes in `moov`.
pub fn write_with(tracks: &[Track], more: &[u8]) -> (Vec<u8>, Places) {
    let nowhere: Vec<Vec<u64>> = tracks
        .iter()
        .map(|track| vec![0; track.chunks().count()])
        .collect();
    let head = ftyp().len() + moov(tracks, &nowhere, more).len();
    let (media, offsets, places) = media(tracks, head as u64 + 8);
    let moov = moov(tracks, &offsets, more);
    ([ftyp(), moov, boxed(b"mdat", &[&media])].concat(), places)
}

/// Media of tracks from byte `at` on: the bytes, the chunk offsets and the sample positions.
pub fn media(tracks: &[Track], at: u64) -> (Vec<u8>, Vec<Vec<u64>>, Places) {
    let mut end = at;
    let mut offsets = vec![vec![]; tracks.len()];
    let mut places = vec![vec![]; tracks.len()];
    let longest = tracks
        .iter()
        .map(|track| track.chunks().count())
        .max()
        .unwrap_or(0);
    for chunk in 0..longest {
        for (n, track) in tracks.iter().enumerate() {
            let Some(samples) = track.chunks().nth(chunk) else {
                continue;
            };
            offsets[n].push(end);
            for spec in samples {
                places[n].push(end..end + u64::from(spec.size));
                end += u64::from(spec.size);
            }
        }
    }
    (vec![0; (end - at) as usize], offsets, places)
}

/// Indexes a film in memory.
pub fn index(film: &[u8]) -> Result<Index, IndexError> {
    index_with(film, IndexOptions::default())
}

pub fn index_with(film: &[u8], options: IndexOptions) -> Result<Index, IndexError> {
    let mut indexer = Indexer::new(film.len() as u64, options);
    loop {
        match indexer.step()? {
            Step::Need(range) => {
                assert!(
                    range.start < range.end && range.end <= film.len() as u64,
                    "{range:?} of {}",
                    film.len()
                );
                indexer.feed(&film[range.start as usize..range.end as usize])?;
            }
            Step::Done(index) => return Ok(index),
        }
    }
}

/// A track's samples: position, decode and presentation ticks after the shift, sync.
pub fn samples(index: &Index, track: usize) -> Vec<(Range<u64>, i64, i64, bool)> {
    let of = &index.title.tracks[track];
    let mut dts = of.groups.first().map_or(0, |group| group.dts) + of.shift;
    let samples = index.tables[track].iter().map(|sample| {
        let at = dts;
        dts += i64::from(sample.duration);
        (sample.bytes(), at, at + i64::from(sample.cts), sample.sync)
    });
    samples.collect()
}

/// The positions of a track's samples.
pub fn places(index: &Index, track: usize) -> Vec<Range<u64>> {
    index.tables[track]
        .iter()
        .map(|sample| sample.bytes())
        .collect()
}
