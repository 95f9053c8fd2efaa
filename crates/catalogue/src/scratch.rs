//! Room for what is learnt of a film while it is indexed: a file without a name, so that the memory that indexing takes does not
//! grow with the length of films.
//!
//! It is made when something is put into it, which short films do not need, and goes with the last that was. Where it cannot be
//! made or written, what it should hold stays in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use reelway_media::{SCRATCH_CHUNK, Scratch, ScratchSpace, Stored};
use reelway_supervise::lock;
use reelway_sys::files;

/// Slots of a file at most, each of a chunk: 2 GiB. The longest film that is indexed needs half of it.
const MOST_SLOTS: u32 = 1 << 16;

/// Scratch space for one film, in this directory.
pub(crate) fn scratch(directory: &Path) -> Scratch {
    Scratch::new(ScratchFile {
        directory: directory.to_owned(),
        state: Mutex::default(),
    })
}

#[derive(Debug)]
struct ScratchFile {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unused,
    Open(Arc<Slots>),
    /// It cannot be made or written.
    Failed,
}

#[derive(Debug)]
struct Slots {
    file: File,
    room: Mutex<Room>,
}

/// Which slots may be taken.
#[derive(Debug, Default)]
struct Room {
    free: Vec<u32>,
    /// Those from here on, too.
    end: u32,
}

/// A chunk in the file.
#[derive(Debug)]
struct Slot {
    of: Arc<Slots>,
    number: u32,
}

impl ScratchSpace for ScratchFile {
    fn keep(&self, bytes: &[u8]) -> Option<Arc<dyn Stored>> {
        let slots = self.open()?;
        let slot = Slot::take(slots)?;
        match slot.of.file.write_all_at(bytes, slot.from()) {
            Ok(()) => Some(Arc::new(slot)),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }
}

impl ScratchFile {
    fn open(&self) -> Option<Arc<Slots>> {
        let mut state = lock(&self.state);
        if let State::Unused = *state {
            match files::unnamed(&self.directory) {
                Ok(file) => {
                    let room = Mutex::default();
                    *state = State::Open(Arc::new(Slots { file, room }));
                }
                Err(error) => {
                    drop(state);
                    self.fail(&error);
                    return None;
                }
            }
        }
        match &*state {
            State::Open(slots) => Some(slots.clone()),
            State::Unused | State::Failed => None,
        }
    }

    fn fail(&self, error: &std::io::Error) {
        *lock(&self.state) = State::Failed;
        if !SAID_UNWRITABLE.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "no scratch file can be written in {} ({error}): films are indexed in memory, a long one in some hundred MiB",
                self.directory.display()
            );
        }
    }
}

impl Slot {
    fn take(of: Arc<Slots>) -> Option<Slot> {
        let mut room = lock(&of.room);
        let number = match room.free.pop() {
            Some(number) => number,
            None if room.end < MOST_SLOTS => {
                room.end += 1;
                room.end - 1
            }
            None => return None,
        };
        drop(room);
        Some(Slot { of, number })
    }

    /// Its first byte in the file.
    fn from(&self) -> u64 {
        u64::from(self.number) * SCRATCH_CHUNK as u64
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.of.room).free.push(self.number);
    }
}

impl Stored for Slot {
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool {
        let read = self
            .of
            .file
            .read_exact_at(into, self.from() + u64::from(at));
        if let Err(error) = &read
            && !SAID_UNREADABLE.swap(true, Ordering::Relaxed)
        {
            tracing::error!("a scratch file in the state directory cannot be read back ({error})");
        }
        read.is_ok()
    }
}

/// Each is said once: every film would say it.
static SAID_UNWRITABLE: AtomicBool = AtomicBool::new(false);
static SAID_UNREADABLE: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &Path) -> ScratchFile {
        ScratchFile {
            directory: directory.to_owned(),
            state: Mutex::default(),
        }
    }

    fn read(kept: &dyn Stored, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        assert!(kept.read_at(0, &mut bytes));
        bytes
    }

    #[test]
    fn chunks_are_read_back_and_their_room_is_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir.path().join("index"));
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
        let State::Open(slots) = &*lock(&file.state) else {
            panic!("it is open");
        };
        let length = slots.file.metadata().unwrap().len();
        assert_eq!(length, 4 * SCRATCH_CHUNK as u64);
        let names = std::fs::read_dir(dir.path().join("index")).unwrap();
        assert_eq!(names.count(), 0, "it has no name");
    }

    #[test]
    fn where_no_file_can_be_made_nothing_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"").unwrap();
        assert!(file(&path).keep(b"bytes").is_none());
    }

    #[test]
    fn what_a_file_has_lost_is_not_read_as_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        let kept = file.keep(b"bytes").unwrap();
        let State::Open(slots) = &*lock(&file.state) else {
            panic!("it is open");
        };
        slots.file.set_len(3).unwrap();
        assert!(!kept.read_at(0, &mut [0; 5]));
    }
}
