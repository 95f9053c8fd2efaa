//! Writes a film to a file in the layout that a [`Layout`] describes.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::{Result, ensure};

use super::movie::{Edit, Movie, Track};
use super::tree::Node;

/// The layout of a film.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Whether `moov` comes before the media data.
    pub moov_first: bool,
    /// The order of the chunks in the file.
    pub order: Order,
    /// The number of `mdat` boxes, with a `free` box between two.
    pub mdats: usize,
    /// Whether every box has a 64-bit size.
    pub wide: bool,
    /// Whether `co64` replaces `stco`.
    pub co64: bool,
    /// Whether the last box extends to the end of the file (size 0).
    pub to_eof: bool,
    /// The size of a hole in the middle of the media data, in bytes that are never written.
    pub hole: u64,
    /// How sample sizes are written.
    pub sizes: Sizes,
    /// How composition offsets are written.
    pub ctts: Ctts,
    /// Whether `stss` is left out although not every sample is a sync sample.
    pub no_stss: bool,
    /// How many times the tables cover the same media data.
    pub repeat: usize,
}

/// The order of chunks in a file.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Half a second of each track in turn.
    Interleaved,
    /// One sample of each track in turn, each its own chunk.
    Samples,
    /// One whole track after the other.
    Apart,
    /// Half-second chunks in a random order made from this seed.
    Shuffled(u64),
}

/// How sample sizes are written.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    /// `stsz`.
    Stsz,
    /// `stz2` with this many bits per size: 4, 8 or 16.
    Stz2(u8),
}

/// How composition offsets are written.
#[derive(Clone, Copy, Debug)]
pub enum Ctts {
    /// Version 1 if one is negative, otherwise 0.
    Auto,
    /// Version 0 although some are negative, as QuickTime and other software wrote them.
    SignedV0,
    /// Version 1.
    V1,
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            moov_first: false,
            order: Order::Interleaved,
            mdats: 1,
            wide: false,
            co64: false,
            to_eof: false,
            hole: 0,
            sizes: Sizes::Stsz,
            ctts: Ctts::Auto,
            no_stss: false,
            repeat: 1,
        }
    }
}

/// A run of adjacent samples.
struct Chunk {
    track: usize,
    samples: Range<usize>,
    offset: u64,
}

/// Writes `movie` to `path`.
pub fn write(movie: &Movie, layout: &Layout, path: &Path) -> Result<()> {
    let mut chunks = chunks(movie, layout.order);
    let physical = physical(&chunks, layout.order);
    let mut ftyp = Vec::new();
    movie.ftyp.write(layout.wide, &mut ftyp);
    let before = match layout.moov_first {
        true => moov(movie, layout, &chunks)?.len(),
        false => 0,
    };
    let mdats = place(
        movie,
        layout,
        &mut chunks,
        &physical,
        (ftyp.len() + before) as u64,
    );
    let moov = moov(movie, layout, &chunks)?;
    ensure!(
        layout.co64 || chunks.iter().all(|chunk| chunk.offset < 1 << 32),
        "this film needs co64"
    );

    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&ftyp)?;
    if layout.moov_first {
        out.write_all(&moov)?;
    }
    for (number, mdat) in mdats.iter().enumerate() {
        if number > 0 {
            out.write_all(&FREE)?;
        }
        let last = number + 1 == mdats.len();
        let size = mdat.end - mdat.start;
        let size = if last && layout.to_eof && layout.moov_first {
            0
        } else {
            size
        };
        match wide_mdat(layout) {
            true if size != 0 => {
                out.write_all(&[0, 0, 0, 1, b'm', b'd', b'a', b't'])?;
                out.write_all(&size.to_be_bytes())?;
            }
            _ => {
                out.write_all(&u32::try_from(size)?.to_be_bytes())?;
                out.write_all(b"mdat")?;
            }
        }
        for &chunk in &mdat.chunks {
            let chunk = &chunks[chunk];
            out.seek(SeekFrom::Start(chunk.offset))?;
            for sample in &movie.tracks[chunk.track].samples[chunk.samples.clone()] {
                out.write_all(&sample.data)?;
            }
        }
    }
    if !layout.moov_first {
        let mut moov = moov;
        if layout.to_eof {
            moov[..4].copy_from_slice(&0u32.to_be_bytes());
        }
        out.write_all(&moov)?;
    }
    out.flush()?;
    Ok(())
}

/// The `free` box between two `mdat` boxes.
const FREE: [u8; 16] = *b"\0\0\0\x10freejunkjunk";

struct Mdat {
    start: u64,
    end: u64,
    chunks: Vec<usize>,
}

fn wide_mdat(layout: &Layout) -> bool {
    layout.wide || layout.hole > 0
}

/// Divides the tracks into chunks, in the order of the tables.
fn chunks(movie: &Movie, order: Order) -> Vec<Chunk> {
    let mut all = Vec::new();
    for (number, track) in movie.tracks.iter().enumerate() {
        let (mut first, mut ticks) = (0, 0);
        for (n, sample) in track.samples.iter().enumerate() {
            ticks += sample.duration;
            let full = ticks >= track.timescale / 2 || matches!(order, Order::Samples);
            if full || n + 1 == track.samples.len() {
                all.push(Chunk {
                    track: number,
                    samples: first..n + 1,
                    offset: 0,
                });
                (first, ticks) = (n + 1, 0);
            }
        }
    }
    all
}

/// Returns the order of the chunks in the file, as indices into `chunks`.
fn physical(chunks: &[Chunk], order: Order) -> Vec<usize> {
    let mut all: Vec<usize> = (0..chunks.len()).collect();
    match order {
        Order::Apart => {}
        Order::Interleaved | Order::Samples => {
            let mut seen = std::collections::HashMap::new();
            let turn: Vec<usize> = chunks
                .iter()
                .map(|chunk| {
                    let turn = seen.entry(chunk.track).or_insert(0);
                    *turn += 1;
                    *turn
                })
                .collect();
            all.sort_by_key(|&n| (turn[n], chunks[n].track));
        }
        Order::Shuffled(mut seed) => {
            for n in (1..all.len()).rev() {
                seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                all.swap(n, (seed >> 33) as usize % (n + 1));
            }
        }
    }
    all
}

/// Assigns every chunk its offset; the first `mdat` begins at `at`.
fn place(
    movie: &Movie,
    layout: &Layout,
    chunks: &mut [Chunk],
    physical: &[usize],
    mut at: u64,
) -> Vec<Mdat> {
    let per_mdat = physical.len().div_ceil(layout.mdats);
    let half = physical.len() / 2;
    let mut mdats = Vec::new();
    let mut placed = 0;
    for group in physical.chunks(per_mdat) {
        if !mdats.is_empty() {
            at += FREE.len() as u64;
        }
        let start = at;
        let last = placed + group.len() == physical.len();
        let to_eof = last && layout.to_eof && layout.moov_first;
        at += if wide_mdat(layout) && !to_eof { 16 } else { 8 };
        for &number in group {
            if placed == half {
                at += layout.hole;
            }
            let chunk = &mut chunks[number];
            chunk.offset = at;
            let samples = &movie.tracks[chunk.track].samples[chunk.samples.clone()];
            at += samples
                .iter()
                .map(|sample| sample.data.len() as u64)
                .sum::<u64>();
            placed += 1;
        }
        mdats.push(Mdat {
            start,
            end: at,
            chunks: group.to_vec(),
        });
    }
    mdats
}

/// Builds the whole `moov` box.
fn moov(movie: &Movie, layout: &Layout, chunks: &[Chunk]) -> Result<Vec<u8>> {
    let mut moov = movie.moov.clone();
    let scale = u64::from(movie.timescale());
    let mut longest = 0;
    let mut traks = Vec::new();
    for (number, track) in movie.tracks.iter().enumerate() {
        let media = track.duration() * layout.repeat as u64;
        let mut edits = track.edits.clone();
        if let (Some(edits), true) = (&mut edits, layout.repeat > 1) {
            let start = edits.last().map_or(0, |edit| edit.media_time.max(0)) as u64;
            edits.last_mut().expect("an edit").duration =
                (media - start) * scale / u64::from(track.timescale);
        }
        let shown = match &edits {
            Some(edits) => edits.iter().map(|edit| edit.duration).sum(),
            None => media * scale / u64::from(track.timescale),
        };
        longest = longest.max(shown);
        let mine: Vec<&Chunk> = chunks
            .iter()
            .filter(|chunk| chunk.track == number)
            .collect();
        traks.push(trak(track, edits.as_deref(), layout, &mine, media, shown)?);
    }
    set_duration(moov.find_mut(&[b"mvhd"]).expect("mvhd"), 16, longest);
    let at = moov
        .nodes()
        .iter()
        .position(|node| node.kind == *b"mvhd")
        .expect("mvhd")
        + 1;
    moov.nodes_mut().splice(at..at, traks);
    let mut out = Vec::new();
    moov.write(layout.wide, &mut out);
    Ok(out)
}

/// Writes a duration into a full box that has it at `at` in version 0. In version 1 the duration,
/// and the creation and modification times before it, are wider.
fn set_duration(node: &mut Node, at: usize, duration: u64) {
    let bytes = node.bytes_mut();
    match bytes[0] {
        1 => bytes[at + 8..at + 16].copy_from_slice(&duration.to_be_bytes()),
        _ => bytes[at..at + 4].copy_from_slice(&(duration as u32).to_be_bytes()),
    }
}

fn trak(
    track: &Track,
    edits: Option<&[Edit]>,
    layout: &Layout,
    chunks: &[&Chunk],
    media: u64,
    shown: u64,
) -> Result<Node> {
    let mut trak = track.trak.clone();
    set_duration(trak.find_mut(&[b"tkhd"]).expect("tkhd"), 20, shown);
    set_duration(trak.find_mut(&[b"mdia", b"mdhd"]).expect("mdhd"), 16, media);
    if let Some(edits) = edits {
        trak.nodes_mut()
            .insert(1, Node::of(b"edts", vec![elst(edits)]));
    }
    let stbl = trak
        .find_mut(&[b"mdia", b"minf", b"stbl"])
        .expect("stbl")
        .nodes_mut();
    let samples = &track.samples;
    let all = samples.len() * layout.repeat;
    let again = || (0..layout.repeat).flat_map(|_| samples.iter());
    stbl.push(run_table(b"stts", 0, again().map(|sample| sample.duration)));
    if samples.iter().any(|sample| sample.cts != 0) {
        let negative = samples.iter().any(|sample| sample.cts < 0);
        let version = match layout.ctts {
            Ctts::Auto => u8::from(negative),
            Ctts::SignedV0 => 0,
            Ctts::V1 => 1,
        };
        stbl.push(run_table(
            b"ctts",
            version,
            again().map(|sample| sample.cts as u32),
        ));
    }
    if !layout.no_stss && samples.iter().any(|sample| !sample.sync) {
        let sync = again()
            .enumerate()
            .filter(|(_, sample)| sample.sync)
            .map(|(n, _)| n as u32 + 1);
        stbl.push(table(b"stss", sync.map(|n| n.to_be_bytes().to_vec())));
    }
    let sizes = again().map(|sample| sample.data.len() as u32);
    stbl.push(match layout.sizes {
        Sizes::Stsz => {
            let mut bytes = vec![0; 8];
            bytes.extend((all as u32).to_be_bytes());
            sizes.for_each(|size| bytes.extend(size.to_be_bytes()));
            Node::leaf(b"stsz", bytes)
        }
        Sizes::Stz2(bits) => stz2(bits, all, sizes)?,
    });
    let mut stsc: Vec<(u32, u32)> = Vec::new();
    for (n, chunk) in chunks
        .iter()
        .cycle()
        .take(chunks.len() * layout.repeat)
        .enumerate()
    {
        let count = chunk.samples.len() as u32;
        if stsc.last().is_none_or(|(_, last)| *last != count) {
            stsc.push((n as u32 + 1, count));
        }
    }
    let entry = |(first, count): (u32, u32)| {
        [first.to_be_bytes(), count.to_be_bytes(), 1u32.to_be_bytes()].concat()
    };
    stbl.push(table(b"stsc", stsc.into_iter().map(entry)));
    let offsets = chunks
        .iter()
        .cycle()
        .take(chunks.len() * layout.repeat)
        .map(|chunk| chunk.offset);
    stbl.push(match layout.co64 {
        true => table(b"co64", offsets.map(|offset| offset.to_be_bytes().to_vec())),
        false => table(
            b"stco",
            offsets.map(|offset| (offset as u32).to_be_bytes().to_vec()),
        ),
    });
    Ok(trak)
}

fn elst(edits: &[Edit]) -> Node {
    let mut bytes = vec![1, 0, 0, 0];
    bytes.extend((edits.len() as u32).to_be_bytes());
    for edit in edits {
        bytes.extend(edit.duration.to_be_bytes());
        bytes.extend(edit.media_time.to_be_bytes());
        bytes.extend(edit.rate.to_be_bytes());
    }
    Node::leaf(b"elst", bytes)
}

/// Builds a full box of version 0: the number of entries, then the entries.
fn table(kind: &[u8; 4], entries: impl Iterator<Item = Vec<u8>>) -> Node {
    let mut bytes = vec![0; 8];
    let mut count = 0u32;
    for entry in entries {
        bytes.extend(entry);
        count += 1;
    }
    bytes[4..8].copy_from_slice(&count.to_be_bytes());
    Node::leaf(kind, bytes)
}

/// Builds `stts` or `ctts` from runs of equal values.
fn run_table(kind: &[u8; 4], version: u8, values: impl Iterator<Item = u32>) -> Node {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((count, last)) if *last == value => *count += 1,
            _ => runs.push((1, value)),
        }
    }
    let entries = runs
        .into_iter()
        .map(|(count, value)| [count.to_be_bytes(), value.to_be_bytes()].concat());
    let mut node = table(kind, entries);
    node.bytes_mut()[0] = version;
    node
}

fn stz2(bits: u8, count: usize, sizes: impl Iterator<Item = u32>) -> Result<Node> {
    let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, bits];
    bytes.extend((count as u32).to_be_bytes());
    for (n, size) in sizes.enumerate() {
        ensure!(
            size >> bits == 0,
            "a sample of {size} bytes does not fit stz2 of {bits} bits"
        );
        match bits {
            16 => bytes.extend((size as u16).to_be_bytes()),
            8 => bytes.push(size as u8),
            _ if n % 2 == 0 => bytes.push((size as u8) << 4),
            _ => *bytes.last_mut().expect("the first half") |= size as u8,
        }
    }
    Ok(Node::leaf(b"stz2", bytes))
}
