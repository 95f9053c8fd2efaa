//! Scratch space for the data that indexing collects about a film: a file without a name, so that
//! the memory for indexing does not grow with the length of films.
//!
//! The file is created when data are first put into it, which short films do not need, and
//! disappears with the last of the data. If it cannot be created or written, the data stay in
//! memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use reelway_media::{SCRATCH_CHUNK, Scratch, ScratchSpace, Stored};
use reelway_sys::files;

/// Maximum number of chunks in a file: 2 GiB. The longest film that is indexed needs half of it.
const MOST: u64 = (2 << 30) / SCRATCH_CHUNK as u64;

/// Returns scratch space for one film in this directory.
pub(crate) fn scratch(directory: &Path) -> Scratch {
    Scratch::new(ScratchFile::new(directory))
}

#[derive(Debug)]
struct ScratchFile {
    directory: PathBuf,
    /// `None`: the file cannot be created.
    room: OnceLock<Option<Arc<Room>>>,
    /// Whether writing to it has failed.
    is_full: AtomicBool,
}

#[derive(Debug)]
struct Room {
    file: File,
    /// Number of chunks ever written; the next one follows them.
    end: AtomicU64,
    /// Number of chunks that take up disk space.
    held: AtomicU64,
}

/// A chunk in the file.
#[derive(Debug)]
struct Chunk {
    of: Arc<Room>,
    /// Offset of its first byte.
    from: u64,
}

impl ScratchFile {
    fn new(directory: &Path) -> ScratchFile {
        ScratchFile {
            directory: directory.to_owned(),
            room: OnceLock::new(),
            is_full: AtomicBool::new(false),
        }
    }

    fn make(&self) -> Option<Arc<Room>> {
        match files::unnamed(&self.directory) {
            Ok(file) => Some(Arc::new(Room {
                file,
                end: AtomicU64::new(0),
                held: AtomicU64::new(0),
            })),
            Err(error) => {
                self.warn(&error);
                None
            }
        }
    }

    fn warn(&self, error: &io::Error) {
        if !SAID_UNWRITABLE.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "no scratch file can be written in {} ({error}): films are indexed in memory, which takes some hundred MiB for a long one",
                self.directory.display()
            );
        }
    }
}

impl ScratchSpace for ScratchFile {
    fn keep(&self, bytes: &[u8]) -> Option<Arc<dyn Stored>> {
        let of = self.room.get_or_init(|| self.make()).clone()?;
        let is_full = self.is_full.load(Ordering::Relaxed);
        if is_full || of.held.load(Ordering::Relaxed) >= MOST {
            return None;
        }
        of.held.fetch_add(1, Ordering::Relaxed);
        let from = of.end.fetch_add(1, Ordering::Relaxed) * SCRATCH_CHUNK as u64;
        let chunk = Chunk { of, from };
        if let Err(error) = chunk.of.file.write_all_at(bytes, from) {
            self.is_full.store(true, Ordering::Relaxed);
            self.warn(&error);
            return None;
        }
        Some(Arc::new(chunk))
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // If the file system cannot punch holes, the space is held until the file is closed.
        let given_back = files::give_back(&self.of.file, self.from, SCRATCH_CHUNK as u64);
        if given_back.is_ok() {
            self.of.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Stored for Chunk {
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool {
        let read = self.of.file.read_exact_at(into, self.from + u64::from(at));
        if let Err(error) = &read
            && !SAID_UNREADABLE.swap(true, Ordering::Relaxed)
        {
            tracing::error!("a scratch file in the state directory cannot be read back ({error})");
        }
        read.is_ok()
    }
}

/// Each is logged once; otherwise every film would repeat it.
static SAID_UNWRITABLE: AtomicBool = AtomicBool::new(false);
static SAID_UNREADABLE: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    use super::*;

    fn room(file: &ScratchFile) -> &Room {
        file.room.get().unwrap().as_ref().unwrap()
    }

    fn read(kept: &dyn Stored, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        assert!(kept.read_at(0, &mut bytes));
        bytes
    }

    #[test]
    fn chunks_are_read_back_and_their_room_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = ScratchFile::new(&dir.path().join("index"));
        let chunk = |byte: u8| vec![byte; SCRATCH_CHUNK];
        let mut kept: Vec<_> = (0..4)
            .map(|byte| file.keep(&chunk(byte)).unwrap())
            .collect();
        for _ in 0..100 {
            kept.remove(1);
            kept.push(file.keep(&chunk(9)).unwrap());
        }
        let bytes: Vec<u8> = kept
            .iter()
            .map(|kept| read(&**kept, SCRATCH_CHUNK)[77])
            .collect();
        assert_eq!(bytes, [0, 9, 9, 9]);
        let room = room(&file);
        assert_eq!(room.held.load(Ordering::Relaxed), 4);
        let allocated = files::allocated(&room.file.metadata().unwrap()).unwrap();
        assert!(allocated <= 8 * SCRATCH_CHUNK as u64, "{allocated} bytes");
        let names = std::fs::read_dir(dir.path().join("index")).unwrap();
        assert_eq!(names.count(), 0, "it has no name");
    }

    #[test]
    fn where_no_file_can_be_made_nothing_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"").unwrap();
        assert!(ScratchFile::new(&path).keep(b"bytes").is_none());
    }

    #[test]
    fn what_a_file_has_lost_is_not_read_as_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = ScratchFile::new(dir.path());
        let kept = file.keep(b"bytes").unwrap();
        room(&file).file.set_len(3).unwrap();
        assert!(!kept.read_at(0, &mut [0; 5]));
    }
}
