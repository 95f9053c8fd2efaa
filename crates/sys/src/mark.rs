//! How a file that has grown is recognised as the same file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::Xxh3Default;

/// Bytes that are hashed at each of the two places.
const BYTES: u64 = 4 << 10;

/// A checksum (XXH3-64) of the film's first relevant bytes, and of the last bytes that its file
/// had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The offset of the first of these bytes. What lies before it is rewritten by some programs
    /// when they finish.
    pub from: u64,
    /// The checksum.
    pub sum: u64,
}

impl Mark {
    /// The mark of the bytes from `from` on, and of the last ones of the first `size` bytes of a
    /// file.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter.
    pub fn of(file: &File, from: u64, size: u64) -> io::Result<Mark> {
        let mut sum = Xxh3Default::new();
        let first = from.min(size)..from.saturating_add(BYTES).min(size);
        for range in [first, size.saturating_sub(BYTES)..size] {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start)?;
            sum.update(&bytes);
        }
        Ok(Mark {
            from,
            sum: sum.digest(),
        })
    }

    /// Whether the first `size` bytes of a file have this mark.
    pub fn is_of(&self, file: &File, size: u64) -> bool {
        Mark::of(file, self.from, size).is_ok_and(|own| own == *self)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn what_follows_and_what_lies_ahead_may_change_and_nothing_else() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n * 7 / 3) as u8).collect();
        file.write_all(&bytes).unwrap();
        let mark = Mark::of(&file, 1000, 90_000).unwrap();
        assert!(mark.is_of(&file, 90_000));
        let mut change = |at: u64, is_same: bool| {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[bytes[at as usize] ^ 1]).unwrap();
            assert_eq!(mark.is_of(&file, 90_000), is_same, "{at}");
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[bytes[at as usize]]).unwrap();
        };
        for (at, is_same) in [(999, true), (1000, false), (89_999, false), (90_000, true)] {
            change(at, is_same);
        }
        file.set_len(89_999).unwrap();
        assert!(!mark.is_of(&file, 90_000));
    }

    #[test]
    fn short_files_have_marks_too() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(Mark::of(&file, 10, 0).is_ok());
        file.write_all(b"short").unwrap();
        let mark = Mark::of(&file, 3, 5).unwrap();
        file.write_all(b" and longer").unwrap();
        assert!(mark.is_of(&file, 5));
    }
}
