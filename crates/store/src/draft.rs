//! A film file being written: in whole blocks past the page cache, under a temporary name in its
//! final directory. It gets its own name only when all of it is on the disk.
//!
//! | step | state after a crash following it |
//! |---|---|
//! | created, reserved, written | the old film or none; a draft (the next start removes it) |
//! | truncated to its length, synchronised (`fsync`) | the same |
//! | renamed | the new or the old state: the directory may not be on the disk yet |
//! | directory synchronised | the new film |
//!
//! A draft is locked (`flock`) as long as its writer lives, so that the clean-up spares it.
//! Its directory is kept open: the file is created and named there even if names on the path
//! change.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use reelway_sys::files::reserve;
use reelway_sys::folder::Folder;
use reelway_sys::region::{ALIGNMENT, Page, Region};

/// Prefix of the names of drafts. The dot hides them from film scans.
const PREFIX: &str = ".reelway-draft-";

/// A file being written. It is removed if it is dropped before [`Draft::publish`].
#[derive(Debug)]
pub struct Draft {
    folder: Folder,
    temporary: OsString,
    target: OsString,
    /// For access through the page cache; holds the lock.
    file: File,
    /// For access past the page cache, if the file system allows it.
    direct: Option<File>,
    /// Bytes not written yet: less than a block.
    block: Page,
    filled: usize,
    /// Bytes written: a multiple of the block size until the last block.
    written: u64,
    len: u64,
    published: bool,
}

impl Draft {
    /// Begins a file of `len` bytes at `target`. The directory is trusted: links in its path are
    /// followed. Fails with [`io::ErrorKind::StorageFull`] if there is not enough space.
    pub fn create(target: &Path, len: u64, block_bytes: u32) -> io::Result<Draft> {
        let directory = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Draft::create_in(Folder::open(directory)?, name, len, block_bytes)
    }

    /// Begins a file of `len` bytes with the name `target` in `folder`. Fails with
    /// [`io::ErrorKind::StorageFull`] if there is not enough space.
    pub fn create_in(
        folder: Folder,
        target: &OsStr,
        len: u64,
        block_bytes: u32,
    ) -> io::Result<Draft> {
        let block = Region::map(1, block_bytes as usize)?.pages.pop();
        let block = block.ok_or(io::ErrorKind::OutOfMemory)?;
        let reserved = len.next_multiple_of(block.len() as u64);
        // Checked first: some file systems fill the disk before they report that it is full.
        if folder.room()? < reserved {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let (temporary, file) = new_file(&folder)?;
        // If locks are not supported, the clean-up cannot lock it either.
        let _ = file.try_lock();
        let draft = Draft {
            direct: folder.again_for_direct_writing(&temporary, &file).ok(),
            folder,
            temporary,
            target: target.to_owned(),
            file,
            block,
            filled: 0,
            written: 0,
            len,
            published: false,
        };
        if reserved > 0 {
            match reserve(&draft.file, reserved) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                done => done?,
            }
        }
        Ok(draft)
    }

    /// Returns the file's final length.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the file's final length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes received so far.
    pub fn received(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Appends bytes and writes all complete blocks. Blocks the thread. Fails with
    /// [`io::ErrorKind::InvalidInput`] if the bytes exceed the file's length.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > self.len - self.received() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        while !bytes.is_empty() {
            let take = bytes.len().min(self.block.len() - self.filled);
            self.block[self.filled..self.filled + take].copy_from_slice(&bytes[..take]);
            self.filled += take;
            bytes = &bytes[take..];
            if self.filled == self.block.len() {
                self.write_block()?;
            }
        }
        Ok(())
    }

    /// Reads back bytes, including those that are not written yet.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let on_disk = self.written.saturating_sub(offset).min(into.len() as u64) as usize;
        self.file.read_exact_at(&mut into[..on_disk], offset)?;
        let rest = &mut into[on_disk..];
        let from = (offset + on_disk as u64 - self.written.min(offset + on_disk as u64)) as usize;
        let waiting = self.block[..self.filled]
            .get(from..from + rest.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        rest.copy_from_slice(waiting);
        Ok(())
    }

    /// Writes the buffered block. An incomplete last block is padded; the padding is truncated at
    /// the end.
    fn write_block(&mut self) -> io::Result<()> {
        let bytes = self.filled.next_multiple_of(ALIGNMENT);
        self.block[self.filled..bytes].fill(0);
        let mut done = 0;
        if let Some(direct) = &self.direct {
            match direct.write_at(&self.block[..bytes], self.written) {
                // The rest of a short write is no longer aligned.
                Ok(written) => done = written.min(self.filled),
                // Some file systems refuse direct writes only now.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let rest = &self.block[done..self.filled];
        self.file.write_all_at(rest, self.written + done as u64)?;
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Returns the directory in which the file is created.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Completes the file when all bytes have been received: brings it to the disk, still under its
    /// temporary name, and returns it for reading.
    pub fn complete(&mut self) -> io::Result<&File> {
        if self.received() != self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.filled > 0 {
            self.write_block()?;
        }
        self.file.set_len(self.len)?;
        self.file.sync_all()?;
        Ok(&self.file)
    }

    /// Gives a [complete](Draft::complete) file its name. If `replace` is true, it replaces a file
    /// of that name. Otherwise it fails with [`io::ErrorKind::AlreadyExists`] if there is one.
    pub fn publish(mut self, replace: bool) -> io::Result<()> {
        if replace {
            self.folder.rename(&self.temporary, &self.target)?;
        } else {
            self.folder.rename_to_new(&self.temporary, &self.target)?;
        }
        self.published = true;
        self.folder.sync()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            let _ = self.folder.remove(&self.temporary);
        }
    }
}

/// Creates a file with a unique name.
fn new_file(folder: &Folder) -> io::Result<(OsString, File)> {
    let mut number = reelway_clock::real().nanos() ^ u64::from(std::process::id()).rotate_left(32);
    loop {
        let name = OsString::from(format!("{PREFIX}{number:016x}"));
        match folder.create_new(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            file => return Ok((name, file?)),
        }
    }
}

/// Removes the drafts in a directory whose writers have ended. Returns how many.
pub fn remove_abandoned_drafts(folder: &Folder) -> io::Result<usize> {
    let mut removed = 0;
    for name in folder.names()? {
        if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let abandoned = folder.read(&name).is_ok_and(|file| file.try_lock().is_ok());
        if abandoned {
            folder.remove(&name)?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_of_any_length_comes_out_as_it_went_in() {
        let dir = tempfile::tempdir().unwrap();
        for len in [0, 1, 4095, 4096, 4097, 65_536, 65_537, 200_001] {
            let data = bytes(len);
            let target = dir.path().join(format!("{len}.mp4"));
            let mut draft = Draft::create(&target, len as u64, 65_536).unwrap();
            for piece in data.chunks(10_007) {
                draft.write(piece).unwrap();
                let mut back = vec![0; draft.received() as usize];
                draft.read_at(0, &mut back).unwrap();
                assert_eq!(back, data[..back.len()]);
                assert!(!target.exists());
            }
            assert!(draft.write(b"more").is_err());
            draft.complete().unwrap();
            draft.publish(false).unwrap();
            assert_eq!(fs::read(&target).unwrap(), data, "{len}");
        }
        assert_eq!(names(dir.path()).len(), 8, "no draft is left");
    }

    #[test]
    fn a_draft_that_is_given_up_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("film.mp4");
        let mut draft = Draft::create(&target, 100_000, 65_536).unwrap();
        draft.write(&bytes(70_000)).unwrap();
        assert_eq!(
            draft.complete().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(names(dir.path()).len(), 1);
        drop(draft);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn what_is_there_is_replaced_only_when_asked_to() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("film.mp4");
        fs::write(&target, "old").unwrap();
        let made = |text: &str| {
            let mut draft = Draft::create(&target, text.len() as u64, 4096).unwrap();
            draft.write(text.as_bytes()).unwrap();
            draft.complete().unwrap();
            draft
        };
        let refused = made("new").publish(false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        made("new").publish(true).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["film.mp4"]);
    }

    #[test]
    fn only_drafts_that_nobody_makes_any_more_are_cleaned_up() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(format!("{PREFIX}0123456789abcdef")), "x").unwrap();
        fs::write(dir.path().join(".other"), "x").unwrap();
        let alive = Draft::create(&dir.path().join("film.mp4"), 10, 4096).unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        assert_eq!(remove_abandoned_drafts(&folder).unwrap(), 1);
        assert_eq!(names(dir.path()).len(), 2);
        drop(alive);
        assert_eq!(names(dir.path()), [".other"]);
    }

    #[test]
    fn more_than_the_disk_holds_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let error = Draft::create(&dir.path().join("film.mp4"), 1 << 60, 4096).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(names(dir.path()).is_empty());
    }
}
