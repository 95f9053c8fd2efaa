//! File operations that std lacks: preallocation, writes that bypass the page cache, free space,
//! atomic replacement of small files; and the file system on which a file lies.

use std::ffi::CString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check;

/// Opens an existing file for direct writes (`O_DIRECT`): the offset, length and address of each
/// write must be aligned, as whole [`crate::region::Page`]s are. File systems without support fail
/// here (`InvalidInput`) or at the first write.
pub fn open_direct_for_writing(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

/// Creates a file without a name in a directory, which is created if it is missing. The file
/// disappears when it is closed, however the process ends.
pub fn unnamed(directory: &Path) -> io::Result<File> {
    fs::create_dir_all(directory)?;
    let unnamed = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(directory);
    unnamed.or_else(|_| named_no_more(directory))
}

/// The same for file systems without unnamed files, such as NFS.
fn named_no_more(directory: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".scratch-{}-{number}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Reserves space for the first `bytes` of a file without changing its length. Without support by
/// the file system, the error is [`io::ErrorKind::Unsupported`]; with too little space,
/// [`io::ErrorKind::StorageFull`].
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let bytes =
        libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    loop {
        // SAFETY: a descriptor that lives for the call, and numbers.
        let result =
            unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, bytes) };
        match check(i64::from(result)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the space of a byte range of a file to its file system; the range then reads as zeros.
/// Without support by the file system, the error is [`io::ErrorKind::Unsupported`].
pub fn give_back(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let offset = |at: u64| {
        libc::off_t::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
    };
    let (from, bytes) = (offset(from)?, offset(bytes)?);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a descriptor that lives for the call, and numbers.
    check(i64::from(unsafe {
        libc::fallocate(file.as_raw_fd(), mode, from, bytes)
    }))?;
    Ok(())
}

/// Bytes that this process may still write to the file system on which `path` lies.
pub fn room(path: &Path) -> io::Result<u64> {
    let path = c_path(path)?;
    // SAFETY: all-zero is a valid statvfs.
    let mut stats: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a NUL-terminated string, and a structure to be filled; both live for the call.
    check(i64::from(unsafe {
        libc::statvfs(path.as_ptr(), &mut stats)
    }))?;
    Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
}

/// Bytes that a file occupies on its disk; `None` if it is not a regular file.
pub fn allocated(metadata: &Metadata) -> Option<u64> {
    metadata
        .is_file()
        .then(|| metadata.blocks().saturating_mul(512))
}

/// Writes a small file, and creates its directory. Either the complete new file is on the disk, or
/// the old one stays.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// Whether a file lies in a user-space file system (FUSE).
pub fn is_fuse(file: &File) -> io::Result<bool> {
    // SAFETY: all-zero is a valid statfs.
    let mut stats: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor and a structure to be filled; both live for the call.
    check(i64::from(unsafe {
        libc::fstatfs(file.as_raw_fd(), &mut stats)
    }))?;
    Ok(stats.f_type == libc::FUSE_SUPER_MAGIC)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a zero byte in a path"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// Beside the test program, on a disk: `/tmp` may be in memory.
    fn directory(name: &str) -> std::path::PathBuf {
        let program = std::env::current_exe().unwrap();
        let path = program.with_file_name(format!("reelway-sys-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_file_without_a_name_is_in_no_directory() {
        let dir = directory("unnamed").join("below");
        for make in [unnamed, named_no_more] {
            let mut file = make(&dir).unwrap();
            file.write_all(b"some").unwrap();
            assert_eq!(file.metadata().unwrap().len(), 4);
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        }
        fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let dir = directory("replace");
        let path = dir.join("below/list.json");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        // The new file cannot be written.
        fs::create_dir(path.with_extension("new")).unwrap();
        assert!(replace(&path, b"three").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn room_is_reserved_without_making_the_file_longer() {
        let dir = directory("reserve");
        let file = File::create(dir.join("file")).unwrap();
        assert!(room(&dir).unwrap() > 0);
        match reserve(&file, 1 << 20) {
            Ok(()) => {
                let metadata = file.metadata().unwrap();
                assert_eq!(metadata.len(), 0);
                assert!(metadata.blocks() * 512 >= 1 << 20);
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                reelway_skip::skipped!("the file system of {} reserves nothing", dir.display());
            }
        }
        // A file system may have a file size limit, or none but too little space.
        let error = reserve(&file, 1 << 62).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                io::ErrorKind::FileTooLarge
                    | io::ErrorKind::StorageFull
                    | io::ErrorKind::Unsupported
            ),
            "{error}"
        );
        fs::remove_dir_all(dir).unwrap();
    }
}
