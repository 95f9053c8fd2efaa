//! The file that is read.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use reelway_determinism::Random;

/// Size of a record, and of a block of the paper's cache, in bytes.
pub const RECORD: u64 = 1 << 20;

/// Reads in flight at once, ours and fio's.
pub const DEPTH: usize = 8;

/// Writes a file of random bytes, which no disk can compress, and drops it from the page cache.
pub fn make(path: &Path, megabytes: u64) -> anyhow::Result<()> {
    let mut file = File::create(path).with_context(|| path.display().to_string())?;
    let mut random = Random::new(1);
    let mut record = vec![0; RECORD as usize];
    for _ in 0..megabytes {
        for bytes in record.chunks_exact_mut(8) {
            bytes.copy_from_slice(&random.bits().to_le_bytes());
        }
        file.write_all(&record)
            .with_context(|| format!("{} MB at {}", megabytes, path.display()))?;
    }
    file.sync_all()?;
    forget(&file)
}

/// Drops a file's pages from the page cache.
pub fn forget(file: &File) -> anyhow::Result<()> {
    let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
    nix::fcntl::posix_fadvise(file, 0, 0, advice)?;
    Ok(())
}

pub fn direct(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_DIRECT)
        .open(path)
        .with_context(|| format!("{}: direct reads; choose a disk with --dir", path.display()))
}
