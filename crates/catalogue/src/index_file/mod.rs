//! Index files keep the result of indexing a film, so that each film is indexed only once.
//!
//! ```text
//! 0   magic "RWINDEX\0"
//! 8   format version, u32            (all numbers little endian)
//! 12  bytes of the brief, u32
//! 16  bytes of the title, u64
//! 24  XXH3-64 of the brief
//! 32  XXH3-64 of title and records
//! 40  brief: file identity and Summary (postcard), everything that lists of films need
//! …   Title (postcard), without the records of its groups and the text of its subtitles
//! …   packed records of every track's groups in order
//! …   packed records of every track's places in order
//! …   packed records of the entry points of a transport stream
//! …   packed packet counts of every track's groups in order, if they were counted
//! …   the text of every track of subtitles in order
//! …   sample records of every track in order, 18 bytes each
//! ```
//!
//! The server reads only the briefs when it starts. The title, some kilobytes, is in memory while a
//! film is in use. Groups, places and sample records are read when needed, through the kernel's
//! page cache. A file with another version, checksum or film identity is made again.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reelway_clock::Real;
use reelway_media::{Lost, RECORD_BYTES, Sample, SampleTable, Samples, SamplesError, Title};
use reelway_sys::{FileIdentity, Mark};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3Default;

use crate::Summary;
use crate::growth::{First, Growth};
use crate::index_part::Part;

const MAGIC: [u8; 8] = *b"RWINDEX\0";
/// Incremented whenever the format or the meaning of any field changes.
const VERSION: u32 = 15;
const PREFIX_BYTES: usize = 40;
/// A longer brief is invalid: a film has a handful of tracks.
const MAX_BRIEF_BYTES: u64 = 1 << 20;
/// A longer title is invalid: a hundred tracks with cover art in their notes take less.
const MAX_TITLE_BYTES: u64 = 64 << 20;

/// Why an index file cannot be used; the film is indexed again.
#[derive(Debug, thiserror::Error)]
pub enum IndexFileError {
    /// It could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It has another version, or is not an index file.
    #[error("no index file of version {VERSION}")]
    Version,
    /// Its bytes have changed since they were written.
    #[error("checksum is wrong")]
    Damaged,
    /// It belongs to another file, or the film has changed since it was indexed.
    #[error("made from another file")]
    OtherFilm,
}

/// The sample records of a title, in its index file.
#[derive(Debug)]
pub struct IndexFile {
    file: Arc<File>,
    /// For each of [`Title::recorded`]: where its records begin, and how many there are.
    tables: Vec<(u64, u32)>,
    /// How the film's file may grow, and has grown.
    pub growth: Growth,
}

#[derive(Serialize, Deserialize)]
struct Brief {
    device: u64,
    inode: u64,
    size: u64,
    mtime_ns: i64,
    /// [`Mark`]: its start and its sum.
    mark: Option<(u64, u64)>,
    /// [`First`]: the file's size and last change, and when the recording began (ns since 1970).
    first: Option<(u64, i64, u64)>,
    /// Maximum payload bytes of the packets that were counted; 0 if they were not counted.
    counted: u32,
    summary: Summary,
}

impl Brief {
    /// Returns the identity of the file it was made from.
    fn identity(&self) -> FileIdentity {
        FileIdentity {
            device: self.device,
            inode: self.inode,
            size: self.size,
            mtime_ns: self.mtime_ns,
        }
    }

    fn growth(&self) -> Growth {
        let first = self.first.map(|(size, mtime_ns, began)| First {
            identity: FileIdentity {
                device: self.device,
                inode: self.inode,
                size,
                mtime_ns,
            },
            began: Real::from_nanos(began),
        });
        Growth {
            mark: self.mark.map(|(from, sum)| Mark { from, sum }),
            first,
        }
    }
}

/// The fixed-size part at the beginning.
struct Prefix {
    brief_bytes: u32,
    title_bytes: u64,
    brief_sum: u64,
    rest_sum: u64,
}

impl Prefix {
    fn to_bytes(&self) -> [u8; PREFIX_BYTES] {
        let mut out = [0; PREFIX_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.brief_bytes.to_le_bytes());
        out[16..24].copy_from_slice(&self.title_bytes.to_le_bytes());
        out[24..32].copy_from_slice(&self.brief_sum.to_le_bytes());
        out[32..40].copy_from_slice(&self.rest_sum.to_le_bytes());
        out
    }

    fn read(file: &mut impl Read) -> Result<Prefix, IndexFileError> {
        let mut bytes = [0; PREFIX_BYTES];
        file.read_exact(&mut bytes)
            .map_err(|_| IndexFileError::Version)?;
        let number = |range: Range<usize>| {
            let mut wide = [0; 8];
            wide[..range.len()].copy_from_slice(&bytes[range]);
            u64::from_le_bytes(wide)
        };
        if bytes[..8] != MAGIC || number(8..12) != u64::from(VERSION) {
            return Err(IndexFileError::Version);
        }
        let prefix = Prefix {
            brief_bytes: number(12..16) as u32,
            title_bytes: number(16..24),
            brief_sum: number(24..32),
            rest_sum: number(32..40),
        };
        if u64::from(prefix.brief_bytes) > MAX_BRIEF_BYTES || prefix.title_bytes > MAX_TITLE_BYTES {
            return Err(IndexFileError::Damaged);
        }
        Ok(prefix)
    }

    /// Reads the brief, which follows immediately.
    fn read_brief(&self, file: &mut impl Read) -> Result<Brief, IndexFileError> {
        let mut bytes = vec![0; self.brief_bytes as usize];
        file.read_exact(&mut bytes)
            .map_err(|_| IndexFileError::Damaged)?;
        if checksum(&bytes) != self.brief_sum {
            return Err(IndexFileError::Damaged);
        }
        postcard::from_bytes(&bytes).map_err(|_| IndexFileError::Version)
    }

    /// Reads the brief and checks that it belongs to this film.
    fn read_brief_of(
        &self,
        file: &mut impl Read,
        identity: &FileIdentity,
    ) -> Result<Brief, IndexFileError> {
        let brief = self.read_brief(file)?;
        if brief.identity() != *identity {
            return Err(IndexFileError::OtherFilm);
        }
        Ok(brief)
    }
}

impl IndexFile {
    /// Returns the path of a film's index file in the index directory.
    pub fn path_for(directory: &Path, identity: &FileIdentity) -> PathBuf {
        directory.join(format!("{:x}-{:x}.rwx", identity.device, identity.inode))
    }

    /// Writes the index of a film atomically.
    pub fn write(
        path: &Path,
        identity: &FileIdentity,
        title: &Title,
        tables: &[SampleTable],
        growth: Growth,
    ) -> Result<(), IndexFileError> {
        write(path, identity, title, growth, |take| {
            let mut pieces = tables.iter().flat_map(SampleTable::pieces);
            pieces.try_for_each(|piece| take(&piece.map_err(io::Error::other)?))
        })
    }

    /// Atomically writes an index file with the same samples and an extended title.
    pub(crate) fn write_again(
        &self,
        path: &Path,
        identity: &FileIdentity,
        title: &Title,
    ) -> Result<(), IndexFileError> {
        let start = self.tables.first().map_or(0, |(start, _)| *start);
        let samples = self.tables.iter().map(|(_, count)| u64::from(*count));
        let end = start + samples.sum::<u64>() * RECORD_BYTES as u64;
        write(path, identity, title, self.growth, |take| {
            let mut buffer = vec![0; 64 * 1024];
            let mut at = start;
            while at < end {
                let part = buffer.len().min((end - at) as usize);
                self.file.read_exact_at(&mut buffer[..part], at)?;
                take(&buffer[..part])?;
                at += part as u64;
            }
            Ok(())
        })
    }

    /// Returns what lists show of a film, and how its file grows, without reading the rest.
    pub fn summary(
        path: &Path,
        identity: &FileIdentity,
    ) -> Result<(Summary, Growth), IndexFileError> {
        let brief = IndexFile::brief(path, identity)?;
        let growth = brief.growth();
        Ok((brief.summary, growth))
    }

    /// Returns the maximum payload bytes of the counted packets; 0 if none were counted.
    pub(crate) fn counted(path: &Path, identity: &FileIdentity) -> Result<u32, IndexFileError> {
        Ok(IndexFile::brief(path, identity)?.counted)
    }

    fn brief(path: &Path, identity: &FileIdentity) -> Result<Brief, IndexFileError> {
        let mut file = File::open(path)?;
        Prefix::read(&mut file)?.read_brief_of(&mut file, identity)
    }

    /// Returns the earlier state of a film that may have grown into `now`. `None` if the time of
    /// the change is the same: the index then covers only the beginning of a complete file.
    pub fn before(path: &Path, now: &FileIdentity) -> Option<(FileIdentity, Summary, Growth)> {
        let mut file = File::open(path).ok()?;
        let prefix = Prefix::read(&mut file).ok()?;
        let brief = prefix.read_brief(&mut file).ok()?;
        let (identity, growth) = (brief.identity(), brief.growth());
        let may_be = identity.mtime_ns < now.mtime_ns && identity.may_have_grown_into(now);
        may_be.then_some((identity, brief.summary, growth))
    }

    /// Opens the index file of a film and verifies every byte.
    pub fn open(
        path: &Path,
        identity: &FileIdentity,
    ) -> Result<(Title, IndexFile), IndexFileError> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let prefix = Prefix::read(&mut file)?;
        let growth = prefix.read_brief_of(&mut file, identity)?.growth();
        if prefix.title_bytes > length {
            return Err(IndexFileError::Damaged);
        }
        let mut title = vec![0; prefix.title_bytes as usize];
        file.read_exact(&mut title)
            .map_err(|_| IndexFileError::Damaged)?;
        let mut sum = Xxh3Default::new();
        sum.write(&title);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => sum.write(&buffer[..read]),
            }
        }
        if sum.finish() != prefix.rest_sum {
            return Err(IndexFileError::Damaged);
        }
        let mut title: Title = postcard::from_bytes(&title).map_err(|_| IndexFileError::Version)?;
        let file = Arc::new(file);
        let mut at = PREFIX_BYTES as u64 + u64::from(prefix.brief_bytes) + prefix.title_bytes;
        let mut part = |bytes: u32| {
            let (file, start) = (Arc::clone(&file), at);
            at += u64::from(bytes);
            Arc::new(Part { file, start })
        };
        for track in title.recorded_mut() {
            track.groups.attach(part(track.groups.bytes()));
        }
        for track in title.recorded_mut() {
            track.places.attach(part(track.places.bytes()));
        }
        if let Some(entries) = &mut title.entry_points {
            entries.points.attach(part(entries.points.bytes()));
        }
        for track in title.recorded_mut() {
            let packets = &mut track.packets.groups;
            packets.attach(part(packets.bytes()));
        }
        for text in &mut title.texts {
            text.document.attach(part(text.document.bytes()));
        }
        let mut tables = Vec::with_capacity(title.tracks.len() + 1);
        for track in title.recorded() {
            tables.push((at, track.samples));
            at += u64::from(track.samples) * RECORD_BYTES as u64;
        }
        if at != length {
            return Err(IndexFileError::Damaged);
        }
        let index_file = IndexFile {
            file,
            tables,
            growth,
        };
        Ok((title, index_file))
    }
}

/// Consumes a piece of the sample records.
type Take<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// Writes an index file atomically. `records` passes on the sample records of every track in order.
fn write(
    path: &Path,
    identity: &FileIdentity,
    title: &Title,
    growth: Growth,
    records: impl FnOnce(&mut Take<'_>) -> io::Result<()>,
) -> Result<(), IndexFileError> {
    let brief = Brief {
        device: identity.device,
        inode: identity.inode,
        size: identity.size,
        mtime_ns: identity.mtime_ns,
        mark: growth.mark.map(|mark| (mark.from, mark.sum)),
        first: growth
            .first
            .map(|First { identity, began }| (identity.size, identity.mtime_ns, began.nanos())),
        counted: (title.recorded().map(|track| track.packets.payload))
            .max()
            .unwrap_or(0),
        summary: Summary::of(title),
    };
    let brief = postcard::to_stdvec(&brief).map_err(io::Error::other)?;
    let head = without_records(title);
    let head = postcard::to_stdvec(&head).map_err(io::Error::other)?;
    let temporary = path.with_extension("new");
    let written = (|| {
        let mut out = Summed {
            out: BufWriter::new(File::create(&temporary)?),
            sum: Xxh3Default::new(),
        };
        // The prefix contains the checksums of what follows, so it is written last.
        out.out.write_all(&[0; PREFIX_BYTES])?;
        out.out.write_all(&brief)?;
        out.write(&head)?;
        out.write_packed(title)?;
        records(&mut |records| out.write(records))?;
        let prefix = Prefix {
            brief_bytes: brief.len() as u32,
            title_bytes: head.len() as u64,
            brief_sum: checksum(&brief),
            rest_sum: out.sum.finish(),
        };
        let file = (out.out.into_inner()).map_err(io::IntoInnerError::into_error)?;
        file.write_all_at(&prefix.to_bytes(), 0)?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    Ok(written?)
}

/// Returns the title without the groups, places, entry points, packets and subtitles that follow
/// it.
fn without_records(title: &Title) -> Title {
    let mut title = title.clone();
    for track in title.recorded_mut() {
        track.groups = track.groups.without_records();
        track.places = track.places.without_records();
        track.packets.groups = track.packets.groups.without_records();
    }
    if let Some(entries) = &mut title.entry_points {
        entries.points = entries.points.without_records();
    }
    for text in &mut title.texts {
        text.document.detach();
    }
    title
}

/// Writes data under one checksum.
struct Summed {
    out: BufWriter<File>,
    sum: Xxh3Default,
}

impl Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.write(bytes);
        self.out.write_all(bytes)
    }

    /// Writes what lies between title and samples, piece by piece: it may be in scratch space.
    fn write_packed(&mut self, title: &Title) -> io::Result<()> {
        let mut write = |piece: Result<Vec<u8>, Lost>| {
            let bytes = piece.map_err(io::Error::other)?;
            self.write(&bytes)
        };
        for track in title.recorded() {
            track.groups.pieces().try_for_each(&mut write)?;
        }
        for track in title.recorded() {
            track.places.pieces().try_for_each(&mut write)?;
        }
        if let Some(entries) = &title.entry_points {
            entries.points.pieces().try_for_each(&mut write)?;
        }
        for track in title.recorded() {
            track.packets.groups.pieces().try_for_each(&mut write)?;
        }
        for text in &title.texts {
            write(text.document.read().ok_or(Lost))?;
        }
        Ok(())
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = Xxh3Default::new();
    sum.write(bytes);
    sum.finish()
}

impl Samples for IndexFile {
    fn read(
        &self,
        track: usize,
        range: Range<u32>,
        out: &mut Vec<Sample>,
    ) -> Result<(), SamplesError> {
        let (start, count) = self.tables.get(track).copied().unwrap_or((0, 0));
        if range.end > count || range.start > range.end {
            return Err(SamplesError::OutOfRange {
                track,
                range,
                count,
            });
        }
        // One group at a time, on the stack: no caller asks for much more.
        let mut buffer = [[0; RECORD_BYTES]; 256];
        let mut first = range.start;
        while first < range.end {
            let records = &mut buffer[..((range.end - first) as usize).min(256)];
            self.file.read_exact_at(
                records.as_flattened_mut(),
                start + u64::from(first) * RECORD_BYTES as u64,
            )?;
            out.extend(records.iter().map(Sample::from_record));
            first += records.len() as u32;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
