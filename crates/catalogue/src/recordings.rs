//! The indexing state of recordings that may grow. When one has grown, only the new part is read.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use reelway_media::Unfinished;
use reelway_sys::{FileIdentity, Mark};

/// Maximum memory in bytes for all recordings. Each takes some hundred KB, or 6 MB per hour without
/// a scratch file. Recordings that do not fit are read from the beginning.
const MOST: usize = 128 << 20;
/// Maximum bytes in scratch files for all recordings. Each takes 6 MB per hour.
const MOST_ASIDE: u64 = 2 << 30;

/// A recording has ended if it has not grown during this number of looks at all films.
const LOOKS: u32 = 20;

/// Recordings that may grow.
#[derive(Debug, Default)]
pub(crate) struct Recordings(HashMap<PathBuf, Recording>);

#[derive(Debug)]
struct Recording {
    /// Identity of the file when it was read.
    identity: FileIdentity,
    mark: Mark,
    so_far: Unfinished,
    /// Number of looks since it last grew.
    rested: u32,
}

impl Recordings {
    /// Removes and returns the state of the recording at `path`, if the file, which is now `now`,
    /// still begins with the same bytes.
    pub fn take(&mut self, path: &Path, file: &File, now: &FileIdentity) -> Option<Unfinished> {
        let recording = self.0.remove(path)?;
        let Recording { identity, mark, .. } = recording;
        let is_it = identity.may_have_grown_into(now) && mark.is_of(file, identity.size);
        is_it.then_some(recording.so_far)
    }

    /// Returns whether the state of the recording at `path` is kept.
    pub fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Keeps the state of a recording if there is room for it.
    pub fn keep(
        &mut self,
        path: &Path,
        (file, identity): (&File, FileIdentity),
        so_far: Unfinished,
    ) {
        let all = self.0.values().map(|recording| &recording.so_far);
        let all = all.chain([&so_far]);
        let takes = all.fold((0, 0), |(here, aside), one| {
            (here + one.memory(), aside + one.aside())
        });
        let Ok(mark) = Mark::of(file, 0, identity.size) else {
            return;
        };
        if takes.0 <= MOST && takes.1 <= MOST_ASIDE {
            let recording = Recording {
                identity,
                mark,
                so_far,
                rested: 0,
            };
            self.0.insert(path.to_owned(), recording);
        }
    }

    /// Called after a look at all films: `now` returns the identity of the file at a path. Forgets
    /// recordings that are missing or have ended.
    pub fn look(&mut self, now: impl Fn(&Path) -> Option<FileIdentity>) {
        self.0.retain(|path, recording| {
            let now = now(path);
            recording.rested = match now == Some(recording.identity) {
                true => recording.rested + 1,
                false => 0,
            };
            now.is_some() && recording.rested < LOOKS
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use reelway_media::{IndexOptions, Indexer, index_growing};

    use super::*;

    fn identity(file: &File) -> FileIdentity {
        FileIdentity::from(&file.metadata().unwrap())
    }

    /// The fuzzer's corpus has a small transport stream. Empty packets behind it make it long
    /// enough for indexing to be continued.
    fn recording() -> (File, Unfinished) {
        let film = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/corpus/boxes/transport.ts"
        );
        let mut bytes = std::fs::read(film).unwrap();
        let mut empty = [0xff; 188];
        empty[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
        while bytes.len() < 2 << 20 {
            bytes.extend(empty);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let read = |range: std::ops::Range<u64>, into: &mut Vec<u8>| {
            into.extend(&bytes[range.start as usize..range.end as usize]);
            Ok(())
        };
        let indexer = Indexer::new(bytes.len() as u64, IndexOptions::default());
        let (_, unfinished) = index_growing(indexer, true, read).unwrap();
        (file, unfinished.unwrap())
    }

    #[test]
    fn a_recording_goes_on_once_and_only_where_its_beginning_is_the_same() {
        let (mut file, so_far) = recording();
        let mut all = Recordings::default();
        let path = Path::new("film.ts");
        let keep = |all: &mut Recordings, file: &File| {
            all.keep(path, (file, identity(file)), so_far.clone());
        };
        keep(&mut all, &file);
        file.write_all(b"more").unwrap();
        assert!(all.take(path, &file, &identity(&file)).is_some());
        assert!(all.take(path, &file, &identity(&file)).is_none(), "once");
        keep(&mut all, &file);
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"another beginning").unwrap();
        assert!(all.take(path, &file, &identity(&file)).is_none());
        keep(&mut all, &file);
        all.look(|_| None);
        assert!(all.take(path, &file, &identity(&file)).is_none());
    }

    #[test]
    fn a_recording_that_does_not_grow_any_more_is_forgotten() {
        let (mut file, so_far) = recording();
        let path = Path::new("film.ts");
        let mut all = Recordings::default();
        all.keep(path, (&file, identity(&file)), so_far);
        let before = identity(&file);
        for _ in 1..LOOKS {
            all.look(|_| Some(before));
        }
        file.write_all(b"more").unwrap();
        let after = identity(&file);
        all.look(|_| Some(after));
        assert_eq!(all.0.len(), 1);
        for _ in 0..LOOKS {
            all.look(|_| Some(before));
        }
        assert!(all.0.is_empty());
    }
}
