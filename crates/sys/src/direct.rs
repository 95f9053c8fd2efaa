//! File reads that bypass the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file for direct reads (`O_DIRECT`): the offset, length and address of each read must be
/// aligned, as whole [`crate::region::Page`]s are. File systems without support fail here
/// (`InvalidInput`) or at the first read.
pub fn open_direct(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}
