//! Reading files past the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file for direct reads (`O_DIRECT`): offset, length and address of each must be aligned, as
/// whole [`crate::region::Page`]s are. File systems that cannot say so here (`InvalidInput`) or at the
/// first read.
pub fn open_direct(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}
