//! The tables of a progressive film as plain lists of samples.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::tree::{Node, header, u32_at, u64_at};

/// A film in parts.
#[derive(Clone, Debug)]
pub struct Movie {
    /// The `ftyp` box.
    pub ftyp: Node,
    /// `moov` without its tracks.
    pub moov: Node,
    /// The tracks.
    pub tracks: Vec<Track>,
}

/// A track in parts.
#[derive(Clone, Debug)]
pub struct Track {
    /// `trak` without its sample tables and edit list.
    pub trak: Node,
    /// The handler: `vide`, `soun`, …
    pub handler: [u8; 4],
    /// Ticks per second, for durations and composition offsets.
    pub timescale: u32,
    /// The samples in decode order.
    pub samples: Vec<Sample>,
    /// The edit list, if there is one.
    pub edits: Option<Vec<Edit>>,
}

/// A sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Ticks to the next sample's decode time.
    pub duration: u32,
    /// Ticks from decode to presentation time.
    pub cts: i32,
    /// Whether it is a sync sample.
    pub sync: bool,
}

/// One entry of an edit list (ISO/IEC 14496-12 8.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Length in ticks of the movie's timescale.
    pub duration: u64,
    /// Start of the edit in the media, in the track's ticks; -1 for an empty edit.
    pub media_time: i64,
    /// media_rate, a 16.16 fixed-point number.
    pub rate: u32,
}

impl Movie {
    /// Reads the film at `path` with all its bytes.
    pub fn read(path: &Path) -> Result<Movie> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let len = file.metadata()?.len();
        let (mut at, mut ftyp, mut moov) = (0, None, None);
        while at < len {
            let mut head = [0; 16];
            let have = file.read_at(&mut head, at)?;
            let (kind, start, size) = header(&head[..have])?;
            let end = size.map_or(len, |size| at + size).min(len);
            let wanted = match &kind {
                b"ftyp" => Some(&mut ftyp),
                b"moov" => Some(&mut moov),
                _ => None,
            };
            if let Some(wanted) = wanted {
                let mut bytes = vec![0; (end - at) as usize];
                file.read_exact_at(&mut bytes, at)?;
                *wanted = Node::parse_all(&bytes)?.pop();
            }
            ensure!(
                end >= at + start as u64,
                "box at {at} ends before it begins"
            );
            at = end;
        }
        let mut moov = moov.context("no moov")?;
        let mut tracks = Vec::new();
        for trak in moov
            .nodes_mut()
            .extract_if(.., |node| node.kind == *b"trak")
        {
            tracks.push(Track::read(trak, &file)?);
        }
        Ok(Movie {
            ftyp: ftyp.context("no ftyp")?,
            moov,
            tracks,
        })
    }

    /// Ticks per second, for edit durations.
    pub fn timescale(&self) -> u32 {
        let mvhd = self
            .moov
            .find(&[b"mvhd"])
            .expect("mvhd")
            .bytes()
            .expect("bytes");
        u32_at(mvhd, if mvhd[0] == 1 { 20 } else { 12 })
    }

    /// Returns the first track with this handler.
    pub fn track(&mut self, handler: &[u8; 4]) -> &mut Track {
        self.tracks
            .iter_mut()
            .find(|track| track.handler == *handler)
            .expect("such a track")
    }
}

impl Track {
    fn read(mut trak: Node, file: &File) -> Result<Track> {
        let mdhd = trak.need(&[b"mdia", b"mdhd"])?.bytes()?;
        let timescale = u32_at(mdhd, if mdhd[0] == 1 { 20 } else { 12 });
        let hdlr = trak.need(&[b"mdia", b"hdlr"])?.bytes()?;
        let handler = [hdlr[8], hdlr[9], hdlr[10], hdlr[11]];
        let edits = trak.find(&[b"edts", b"elst"]).map(read_edits).transpose()?;
        let stbl = trak.need(&[b"mdia", b"minf", b"stbl"])?;
        let samples = read_samples(stbl, file)?;
        trak.nodes_mut().retain(|node| node.kind != *b"edts");
        let stbl = trak
            .find_mut(&[b"mdia", b"minf", b"stbl"])
            .expect("seen above");
        let tables: [&[u8; 4]; 9] = [
            b"stts", b"ctts", b"stss", b"stsz", b"stz2", b"stsc", b"stco", b"co64", b"cslg",
        ];
        stbl.nodes_mut()
            .retain(|node| !tables.contains(&&node.kind));
        Ok(Track {
            trak,
            handler,
            timescale,
            samples,
            edits,
        })
    }

    /// Returns the first sample entry of `stsd`, a whole box.
    pub fn sample_entry(&self) -> &[u8] {
        &self
            .trak
            .need(&[b"mdia", b"minf", b"stbl", b"stsd"])
            .expect("stsd")
            .bytes()
            .expect("bytes")[8..]
    }

    /// Replaces the sample entry.
    pub fn set_sample_entry(&mut self, entry: &[u8]) {
        let stsd = self
            .trak
            .find_mut(&[b"mdia", b"minf", b"stbl", b"stsd"])
            .expect("stsd")
            .bytes_mut();
        stsd.truncate(8);
        stsd.extend_from_slice(entry);
    }

    /// The total duration of all samples in ticks.
    pub fn duration(&self) -> u64 {
        self.samples
            .iter()
            .map(|sample| u64::from(sample.duration))
            .sum()
    }
}

fn read_edits(elst: &Node) -> Result<Vec<Edit>> {
    let bytes = elst.bytes()?;
    let count = u32_at(bytes, 4) as usize;
    Ok((0..count)
        .map(|n| match bytes[0] {
            1 => Edit {
                duration: u64_at(bytes, 8 + 20 * n),
                media_time: u64_at(bytes, 16 + 20 * n) as i64,
                rate: u32_at(bytes, 24 + 20 * n),
            },
            _ => Edit {
                duration: u64::from(u32_at(bytes, 8 + 12 * n)),
                media_time: i64::from(u32_at(bytes, 12 + 12 * n) as i32),
                rate: u32_at(bytes, 16 + 12 * n),
            },
        })
        .collect())
}

fn read_samples(stbl: &Node, file: &File) -> Result<Vec<Sample>> {
    let stsz = stbl.need(&[b"stsz"])?.bytes()?;
    let (fixed, count) = (u32_at(stsz, 4), u32_at(stsz, 8) as usize);
    let size = |n: usize| {
        if fixed > 0 {
            fixed
        } else {
            u32_at(stsz, 12 + 4 * n)
        }
    };
    let durations = runs(stbl.need(&[b"stts"])?)?;
    let offsets = stbl
        .find(&[b"ctts"])
        .map(runs)
        .transpose()?
        .unwrap_or_else(|| vec![0; count]);
    ensure!(
        durations.len() >= count && offsets.len() >= count,
        "tables shorter than stsz"
    );
    let sync = stbl.find(&[b"stss"]).map(|stss| -> Result<Vec<u32>> {
        let bytes = stss.bytes()?;
        Ok((0..u32_at(bytes, 4) as usize)
            .map(|n| u32_at(bytes, 8 + 4 * n))
            .collect())
    });
    let sync = sync.transpose()?;
    let chunks: Vec<u64> = match stbl.find(&[b"co64"]) {
        Some(co64) => {
            let bytes = co64.bytes()?;
            (0..u32_at(bytes, 4) as usize)
                .map(|n| u64_at(bytes, 8 + 8 * n))
                .collect()
        }
        None => {
            let bytes = stbl.need(&[b"stco"])?.bytes()?;
            (0..u32_at(bytes, 4) as usize)
                .map(|n| u64::from(u32_at(bytes, 8 + 4 * n)))
                .collect()
        }
    };
    let stsc = stbl.need(&[b"stsc"])?.bytes()?;
    let runs: Vec<(usize, usize)> = (0..u32_at(stsc, 4) as usize)
        .map(|n| {
            (
                u32_at(stsc, 8 + 12 * n) as usize - 1,
                u32_at(stsc, 12 + 12 * n) as usize,
            )
        })
        .collect();
    let mut samples = Vec::with_capacity(count);
    for (chunk, &start) in chunks.iter().enumerate() {
        let in_chunk = runs
            .iter()
            .rev()
            .find(|(first, _)| *first <= chunk)
            .context("chunk in no run")?
            .1;
        let mut at = start;
        for _ in 0..in_chunk.min(count - samples.len()) {
            let n = samples.len();
            let mut data = vec![0; size(n) as usize];
            file.read_exact_at(&mut data, at)?;
            at += data.len() as u64;
            let sync = sync
                .as_ref()
                .is_none_or(|sync| sync.binary_search(&(n as u32 + 1)).is_ok());
            samples.push(Sample {
                data,
                duration: durations[n],
                cts: offsets[n] as i32,
                sync,
            });
        }
    }
    ensure!(
        samples.len() == count,
        "chunks hold {} of {count} samples",
        samples.len()
    );
    Ok(samples)
}

/// Expands a table of (count, value) runs: `stts` or `ctts`.
fn runs(table: &Node) -> Result<Vec<u32>> {
    let bytes = table.bytes()?;
    let mut values = Vec::new();
    for n in 0..u32_at(bytes, 4) as usize {
        let (count, value) = (u32_at(bytes, 8 + 8 * n), u32_at(bytes, 12 + 8 * n));
        values.extend(std::iter::repeat_n(value, count as usize));
    }
    Ok(values)
}
