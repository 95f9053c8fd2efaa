//! Where a file lies on its disk (FIEMAP).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::check;

/// `FS_IOC_FIEMAP` of linux/fs.h.
const FIEMAP: libc::c_ulong = 0xC020_660B;
/// Extents requested at once.
const ASKED: usize = 512;
/// 64-bit words of the kernel's `struct fiemap` and `struct fiemap_extent`.
const HEAD: usize = 4;
const EXTENT: usize = 7;
/// Flags of an extent (linux/fiemap.h): the last one; location unknown; not yet allocated.
const LAST: u64 = 1;
const UNKNOWN: u64 = 2 | 4;
/// If a file has more pieces than this, the rest is not examined.
const MOST: usize = 1 << 20;

/// A run of bytes that are contiguous both in the file and on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    logical: u64,
    physical: u64,
    len: u64,
}

/// How a file is laid out on its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Runs of bytes that are contiguous on the disk.
    pub pieces: u64,
    /// Number of blocks in the file.
    pub blocks: u64,
    /// Blocks that lie in several places: each costs the disk several reads.
    pub split: u64,
}

impl Layout {
    /// Returns the layout of `file` on its disk, in blocks of `block_bytes` (at least 1). Data that
    /// was written a moment ago may not be allocated yet and is not counted.
    ///
    /// # Errors
    ///
    /// The kernel's error; [`io::ErrorKind::Unsupported`] or `NotATTY` on file systems that do not
    /// support this; also `Unsupported` if it is not a regular file.
    pub fn of(file: &File, block_bytes: u64) -> io::Result<Layout> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(reckon(&pieces(file)?, metadata.len(), block_bytes.max(1)))
    }

    /// Whether more than a tenth of the blocks lie in several places.
    pub fn is_fragmented(&self) -> bool {
        self.split * 10 > self.blocks
    }
}

/// Derives the layout of the blocks from the file's pieces.
fn reckon(pieces: &[Piece], len: u64, block_bytes: u64) -> Layout {
    // A block is split by each piece that begins within it; several within one block count once.
    let mut split = 0;
    let mut last = None;
    for piece in pieces.iter().skip(1) {
        let block = piece.logical / block_bytes;
        if piece.logical % block_bytes != 0 && last != Some(block) {
            split += 1;
            last = Some(block);
        }
    }
    Layout {
        pieces: pieces.len() as u64,
        blocks: len.div_ceil(block_bytes),
        split,
    }
}

fn pieces(file: &File) -> io::Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut words = vec![0u64; HEAD + ASKED * EXTENT];
    let mut start = 0u64;
    loop {
        // fm_start, fm_length, fm_flags and fm_mapped_extents, fm_extent_count and fm_reserved.
        words[..HEAD].copy_from_slice(&[start, u64::MAX - start, 0, count_word()]);
        // SAFETY: a descriptor that lives for the call, and memory for the head and as many extents
        // as are requested.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, words.as_mut_ptr()) };
        check(i64::from(result))?;
        let mapped = (high(words[2]) as usize).min(ASKED);
        let mut last = mapped == 0;
        for extent in words[HEAD..].chunks_exact(EXTENT).take(mapped) {
            let (logical, physical, len) = (extent[0], extent[1], extent[2]);
            let flags = low(extent[5]);
            start = logical.saturating_add(len);
            last |= flags & LAST != 0;
            if flags & UNKNOWN != 0 {
                continue;
            }
            match pieces.last_mut() {
                Some(before)
                    if before.logical + before.len == logical
                        && before.physical + before.len == physical =>
                {
                    before.len += len;
                }
                _ => pieces.push(Piece {
                    logical,
                    physical,
                    len,
                }),
            }
        }
        if last || pieces.len() >= MOST {
            return Ok(pieces);
        }
    }
}

/// The first of the two 32-bit halves of a word in memory.
fn low(word: u64) -> u64 {
    if cfg!(target_endian = "little") {
        word & 0xffff_ffff
    } else {
        word >> 32
    }
}

/// The second half.
fn high(word: u64) -> u64 {
    if cfg!(target_endian = "little") {
        word >> 32
    } else {
        word & 0xffff_ffff
    }
}

/// `ASKED` as the first half of a word.
fn count_word() -> u64 {
    if cfg!(target_endian = "little") {
        ASKED as u64
    } else {
        (ASKED as u64) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const BLOCK: u64 = 64 << 10;

    fn piece(logical: u64, physical: u64, len: u64) -> Piece {
        Piece {
            logical,
            physical,
            len,
        }
    }

    #[test]
    fn a_block_is_split_where_a_piece_begins_within_it() {
        let layout = |pieces: &[Piece]| reckon(pieces, 10 * BLOCK, BLOCK);
        assert_eq!(layout(&[piece(0, 0, 10 * BLOCK)]).split, 0);
        let whole = [piece(0, 0, 4 * BLOCK), piece(4 * BLOCK, 1 << 40, 6 * BLOCK)];
        assert_eq!(layout(&whole).split, 0, "between blocks");
        let within = [
            piece(0, 0, 4096),
            piece(4096, 1 << 30, 4096),
            piece(8192, 1 << 40, 3 * BLOCK),
            piece(3 * BLOCK + 8192, 0, 7 * BLOCK - 8192),
        ];
        let found = layout(&within);
        assert_eq!((found.pieces, found.blocks, found.split), (4, 10, 2));
        assert!(found.is_fragmented() && !layout(&whole).is_fragmented());
    }

    /// A punched hole (`fallocate --punch-hole`) splits a file into pieces on any file system that
    /// supports it.
    #[test]
    fn a_file_with_a_hole_within_a_block_lies_in_pieces() {
        // Beside the test program, on a disk: `/tmp` may be in memory.
        let program = std::env::current_exe().unwrap();
        let path = program.with_file_name(format!("reelway-extents-{}", std::process::id()));
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(&vec![1; 3 << 16], 0).unwrap();
        file.sync_all().unwrap();
        let whole = Layout::of(&file, BLOCK);
        // 16 KiB in the middle of the second block.
        let (from, len) = (BLOCK as i64 + 16_384, 16_384);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a descriptor that lives for the call, and numbers.
        let punched = check(i64::from(unsafe {
            libc::fallocate(file.as_raw_fd(), mode, from, len)
        }));
        file.sync_all().unwrap();
        let pieces = Layout::of(&file, BLOCK);
        let (Ok(whole), Ok(pieces), Ok(_)) = (&whole, &pieces, &punched) else {
            return reelway_skip::skipped!(
                "the file system does not say where a file lies: {whole:?} {pieces:?} {punched:?}"
            );
        };
        assert_eq!((whole.blocks, pieces.blocks), (3, 3));
        assert!(pieces.pieces > whole.pieces, "{whole:?} {pieces:?}");
        assert!(pieces.split > whole.split, "{whole:?} {pieces:?}");
    }
}
