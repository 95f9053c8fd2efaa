//! The tier's two files: `blocks`, preallocated, and `index`, a header and a record for each block.
//!
//! A block is written first, then its record. Nothing is synchronised: after a crash a record may
//! describe a block that is not there, which its checksum reveals when it is read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use reelway_pool::tier::{HOURS, Hours};
use reelway_sys::region::ALIGNMENT;
use reelway_sys::{FileIdentity, files, open_direct};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: &[u8; 8] = b"RWTIER01";
const HEADER: usize = 4096;
const RECORD: usize = 64;
/// A tier with fewer blocks is not worthwhile.
const LEAST_SLOTS: u64 = 8;

/// A block's record in the index file.
pub(crate) type Record = reelway_pool::tier::Record<FileIdentity>;

/// The files, open and locked.
pub(crate) struct Files {
    index: File,
    buffered: File,
    /// For access past the page cache, reading and writing, if the file system allows it.
    direct: Option<(File, File)>,
    slots: u32,
    block_bytes: u32,
}

/// The contents of the files.
pub(crate) struct Recovered {
    pub records: Vec<(u32, Record)>,
    pub hours: Hours,
}

impl Files {
    /// Opens the files in `dir`, or creates them, with room for at most `bytes`.
    pub fn open(dir: &Path, bytes: u64, block_bytes: u32) -> io::Result<(Files, Recovered)> {
        std::fs::create_dir_all(dir)?;
        let open = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(dir.join(name))
        };
        let index = open("index")?;
        if let Err(std::fs::TryLockError::WouldBlock) = index.try_lock() {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another server uses it",
            ));
        }
        let blocks = open("blocks")?;
        let mut header = vec![0; HEADER];
        let hours = match index.read_exact_at(&mut header, 0) {
            Ok(()) => parse_header(&header, block_bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        if hours.is_none() {
            // New, or of another version or block size.
            index.set_len(0)?;
            blocks.set_len(0)?;
        }
        let wanted = bytes / u64::from(block_bytes);
        // First, since nothing works without it.
        match files::reserve(&index, HEADER as u64 + wanted.saturating_mul(RECORD as u64)) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
            _ => {}
        }
        let slots = allocate(dir, &blocks, wanted, block_bytes)?;
        let path = dir.join("blocks");
        let direct = open_direct(&path)
            .and_then(|reads| Ok((reads, files::open_direct_for_writing(&path)?)))
            .ok();
        let files = Files {
            index,
            buffered: blocks,
            direct,
            slots,
            block_bytes,
        };
        files.index.set_len(files.record_at(slots))?;
        let hours = hours.unwrap_or([(0, 0); HOURS]);
        files.write_header(&hours)?;
        let records = files.records()?;
        Ok((files, Recovered { records, hours }))
    }

    /// Lets another server use the files. Threads of this server may still finish their work;
    /// checksums reveal the effects.
    pub fn unlock(&self) {
        let _ = self.index.unlock();
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    fn record_at(&self, slot: u32) -> u64 {
        HEADER as u64 + u64::from(slot) * RECORD as u64
    }

    fn records(&self) -> io::Result<Vec<(u32, Record)>> {
        let mut found = Vec::new();
        let mut piece = vec![0; 1024 * RECORD];
        for first in (0..self.slots).step_by(1024) {
            let count = (self.slots - first).min(1024) as usize;
            let piece = &mut piece[..count * RECORD];
            self.index.read_exact_at(piece, self.record_at(first))?;
            let records = (first..).zip(piece.chunks_exact(RECORD));
            found.extend(records.filter_map(|(slot, bytes)| {
                let record = parse_record(bytes)?;
                (record.len <= self.block_bytes).then_some((slot, record))
            }));
        }
        Ok(found)
    }

    /// Saves the bytes written per hour.
    pub fn write_header(&self, hours: &Hours) -> io::Result<()> {
        let mut header = vec![0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&self.block_bytes.to_le_bytes());
        for (place, (hour, bytes)) in header[16..].chunks_exact_mut(16).zip(hours) {
            place[..8].copy_from_slice(&hour.to_le_bytes());
            place[8..].copy_from_slice(&bytes.to_le_bytes());
        }
        let sum = xxh3_64(&header[..HEADER - 8]);
        header[HEADER - 8..].copy_from_slice(&sum.to_le_bytes());
        self.index.write_all_at(&header, 0)
    }

    /// Writes the record of a slot; `None`: the slot is empty.
    pub fn write_record(&self, slot: u32, record: Option<&Record>) -> io::Result<()> {
        let mut bytes = [0; RECORD];
        if let Some(record) = record {
            let identity = record.file;
            let parts = [
                identity.device,
                identity.inode,
                identity.size,
                identity.mtime_ns as u64,
                u64::from(record.block) | u64::from(record.len) << 32,
                record.sum,
            ];
            for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
                place.copy_from_slice(&part.to_le_bytes());
            }
            let sum = xxh3_64(&bytes[..48]);
            bytes[48..56].copy_from_slice(&sum.to_le_bytes());
        }
        self.index.write_all_at(&bytes, self.record_at(slot))
    }

    fn place(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.block_bytes)
    }

    /// Reads the first `len` bytes of a slot's block into `into`, a block of the pool.
    pub fn read(&self, slot: u32, len: u32, into: &mut [u8]) -> io::Result<()> {
        let whole = (len as usize).next_multiple_of(ALIGNMENT).min(into.len());
        let into = &mut into[..whole];
        if let Some((reads, _)) = &self.direct {
            match reads.read_exact_at(into, self.place(slot)) {
                Err(error) if refused(&error) => {}
                result => return result,
            }
        }
        self.buffered.read_exact_at(into, self.place(slot))
    }

    /// Writes the first `len` bytes of `from`, a block of the pool, to a slot.
    pub fn write(&self, slot: u32, len: usize, from: &[u8]) -> io::Result<()> {
        let from = &from[..len.next_multiple_of(ALIGNMENT).min(from.len())];
        if let Some((_, writes)) = &self.direct {
            match writes.write_all_at(from, self.place(slot)) {
                Err(error) if refused(&error) => {}
                result => return result,
            }
        }
        self.buffered.write_all_at(from, self.place(slot))
    }
}

/// Returns whether direct I/O is refused, as opposed to a failure of the disk.
fn refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    )
}

/// Allocates space for `slots` blocks, or for as many as the disk has room for. Returns how many.
fn allocate(dir: &Path, file: &File, slots: u64, block_bytes: u32) -> io::Result<u32> {
    let block = u64::from(block_bytes);
    let has = file.metadata()?.blocks() * 512;
    // Some space is left for other files and for the file system itself.
    let room = files::room(dir)?;
    let fits = (has + room - room / 50) / block;
    let count = slots.min(fits).min(u64::from(u32::MAX - 1));
    if count < LEAST_SLOTS {
        let words = format!(
            "{} MiB are free, {} MiB are needed at least",
            room >> 20,
            (LEAST_SLOTS * block) >> 20
        );
        return Err(io::Error::new(io::ErrorKind::StorageFull, words));
    }
    if count < slots {
        tracing::warn!(
            "the tier in {} has {} MiB instead of {}: the disk is full",
            dir.display(),
            (count * block) >> 20,
            (slots * block) >> 20
        );
    }
    // Truncated if the tier has become smaller.
    if file.metadata()?.len() > count * block {
        file.set_len(count * block)?;
    }
    match files::reserve(file, count * block) {
        Ok(()) => {}
        // Without a reservation, writes report a full disk.
        Err(error) => tracing::warn!(
            "space for the tier in {} cannot be reserved ({error})",
            dir.display()
        ),
    }
    file.set_len(count * block)?;
    Ok(count as u32)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn parse_header(header: &[u8], block_bytes: u32) -> Option<Hours> {
    let sum = xxh3_64(&header[..HEADER - 8]);
    let ours = &header[..8] == MAGIC
        && header[8..12] == block_bytes.to_le_bytes()
        && u64_at(header, HEADER - 8) == sum;
    ours.then(|| {
        std::array::from_fn(|nth| {
            let at = 16 + nth * 16;
            (u64_at(header, at), u64_at(header, at + 8))
        })
    })
}

fn parse_record(bytes: &[u8]) -> Option<Record> {
    let word = |nth: usize| u64_at(bytes, nth * 8);
    if word(6) != xxh3_64(&bytes[..48]) {
        return None;
    }
    Some(Record {
        file: FileIdentity {
            device: word(0),
            inode: word(1),
            size: word(2),
            mtime_ns: word(3) as i64,
        },
        block: word(4) as u32,
        len: (word(4) >> 32) as u32,
        sum: word(5),
    })
}

/// Returns a block's name as a number: a hash of its film's version and its number.
pub(crate) fn name(identity: FileIdentity, block: u32) -> u64 {
    let mut bytes = [0; 36];
    let parts = [
        identity.device,
        identity.inode,
        identity.size,
        identity.mtime_ns as u64,
    ];
    for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part.to_le_bytes());
    }
    bytes[32..].copy_from_slice(&block.to_le_bytes());
    xxh3_64(&bytes)
}

/// Returns the checksum of a block's bytes, which also covers the film's version and the block's
/// number.
pub(crate) fn checksum(identity: FileIdentity, block: u32, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, name(identity, block))
}
