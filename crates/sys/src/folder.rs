//! A directory that is held open. Operations in it go through its descriptor, and paths below it
//! are resolved without following symbolic links. So changing the tree meanwhile cannot divert a
//! write out of it.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use crate::{FileIdentity, check};

/// How often a resolution is retried that a rename elsewhere disturbed (`EAGAIN` of `openat2`).
const ATTEMPTS: usize = 16;

/// An open directory.
#[derive(Debug)]
pub struct Folder(File);

/// Whether an error of this module means that a symbolic link is in the way.
pub fn is_link_in_the_way(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EXDEV))
}

impl Folder {
    /// Opens a directory whose path is trusted: links in the path are followed.
    pub fn open(path: &Path) -> io::Result<Folder> {
        // `open` does not accept an empty path for the current directory.
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(path)?;
        Ok(Folder(file))
    }

    /// Opens a directory below this one; an empty path is the directory itself. Only names are
    /// resolved: a symbolic link anywhere is an error ([`is_link_in_the_way`]), and so is `..`.
    pub fn below(&self, path: &Path) -> io::Result<Folder> {
        let path = names_only(path)?;
        match self.below_at_once(&path) {
            // Kernels before 5.6, and sandboxes that do not know the call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                self.below_by_steps(&path, false)
            }
            opened => opened,
        }
    }

    /// Opens a directory below this one as [`Folder::below`] does, and creates missing ones on the
    /// way. New directories are on the disk when this returns.
    pub fn make_below(&self, path: &Path) -> io::Result<Folder> {
        self.below_by_steps(&names_only(path)?, true)
    }

    /// Resolves the whole path in one call, by `openat2`.
    fn below_at_once(&self, path: &[CString]) -> io::Result<Folder> {
        let mut joined = path
            .iter()
            .map(|name| name.as_bytes())
            .collect::<Vec<_>>()
            .join(&b'/');
        if joined.is_empty() {
            joined = b".".to_vec();
        }
        let joined = CString::new(joined)?;
        // SAFETY: all-zero is a valid open_how.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
        how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS;
        let mut attempt = 0;
        loop {
            attempt += 1;
            // SAFETY: a descriptor, a NUL-terminated string and a structure of the given size, all
            // of which live for the call.
            let opened = check(unsafe {
                libc::syscall(
                    libc::SYS_openat2,
                    self.0.as_raw_fd(),
                    joined.as_ptr(),
                    &raw const how,
                    size_of::<libc::open_how>(),
                )
            });
            match opened {
                // SAFETY: a new descriptor, which nothing else owns.
                Ok(fd) => return Ok(Folder(unsafe { File::from_raw_fd(fd as RawFd) })),
                Err(error)
                    if attempt < ATTEMPTS
                        && matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens one directory after another.
    fn below_by_steps(&self, path: &[CString], make: bool) -> io::Result<Folder> {
        let mut at = Folder(self.0.try_clone()?);
        for name in path {
            at = match at.step(name) {
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                    // SAFETY: a descriptor and a NUL-terminated string; both live for the call.
                    let made = unsafe { libc::mkdirat(at.0.as_raw_fd(), name.as_ptr(), 0o777) };
                    match check(made.into()) {
                        Ok(_) => at.sync()?,
                        // Another process was faster.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        Err(error) => return Err(error),
                    }
                    at.step(name)?
                }
                stepped => stepped?,
            };
        }
        Ok(at)
    }

    fn step(&self, name: &CString) -> io::Result<Folder> {
        match self.open_at(name, libc::O_RDONLY | libc::O_DIRECTORY) {
            Ok(file) => Ok(Folder(file)),
            // The kernel also reports this for a link that is not followed.
            Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => match self.is_link(name) {
                true => Err(io::Error::from_raw_os_error(libc::ELOOP)),
                false => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Opens the entry of this name here, unless it is a link.
    fn open_at(&self, name: &CString, flags: i32) -> io::Result<File> {
        let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        loop {
            // SAFETY: a descriptor and a NUL-terminated string; both live for the call.
            let opened = unsafe { libc::openat(self.0.as_raw_fd(), name.as_ptr(), flags, 0o666) };
            match check(opened.into()) {
                // SAFETY: a new descriptor, which nothing else owns.
                Ok(fd) => return Ok(unsafe { File::from_raw_fd(fd as RawFd) }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_link(&self, name: &CString) -> bool {
        self.stat(name, libc::AT_SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFLNK)
    }

    fn stat(&self, name: &CString, flags: i32) -> io::Result<libc::stat> {
        // SAFETY: all-zero is a valid stat.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: a descriptor, a NUL-terminated string and a structure to be filled; all live for
        // the call.
        let done = unsafe { libc::fstatat(self.0.as_raw_fd(), name.as_ptr(), &mut stat, flags) };
        check(done.into())?;
        Ok(stat)
    }

    /// Whether this is the same directory as another.
    pub fn is_same_as(&self, other: &Folder) -> io::Result<bool> {
        let (one, two) = (self.0.metadata()?, other.0.metadata()?);
        let of = |identity: FileIdentity| (identity.device, identity.inode);
        Ok(of((&one).into()) == of((&two).into()))
    }

    /// Returns the identity of the file of this name; `None` if there is none. Here a link is
    /// followed.
    pub fn identity(&self, name: &OsStr) -> io::Result<Option<FileIdentity>> {
        match self.stat(&one_name(name)?, 0) {
            Ok(stat) => Ok(Some(FileIdentity {
                device: stat.st_dev,
                inode: stat.st_ino,
                size: u64::try_from(stat.st_size).unwrap_or(0),
                mtime_ns: stat
                    .st_mtime
                    .saturating_mul(1_000_000_000)
                    .saturating_add(stat.st_mtime_nsec),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether an entry of this name exists here, including dangling links.
    pub fn has(&self, name: &OsStr) -> io::Result<bool> {
        match self.stat(&one_name(name)?, libc::AT_SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a file here for reading; a link is an error, and so is anything on which a read could
    /// block.
    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        let file = self.open_at(&one_name(name)?, libc::O_RDONLY | libc::O_NONBLOCK)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("not a regular file")),
        }
    }

    /// Creates a file here for reading and writing; [`io::ErrorKind::AlreadyExists`] if the name is
    /// taken.
    pub fn create_new(&self, name: &OsStr) -> io::Result<File> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        self.open_at(&one_name(name)?, flags)
    }

    /// Opens a file here once more, for direct writes (see
    /// [`crate::files::open_direct_for_writing`]). Fails if the name now belongs to another file.
    pub fn again_for_direct_writing(&self, name: &OsStr, file: &File) -> io::Result<File> {
        let direct = self.open_at(&one_name(name)?, libc::O_WRONLY | libc::O_DIRECT)?;
        let (one, two) = (file.metadata()?, direct.metadata()?);
        let of = |identity: FileIdentity| (identity.device, identity.inode);
        match of((&one).into()) == of((&two).into()) {
            true => Ok(direct),
            false => Err(io::Error::other("another file has taken the name")),
        }
    }

    /// Renames within this directory, replacing any entry with the new name. A link of that name is
    /// replaced, not followed.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.renameat2(&one_name(from)?, &one_name(to)?, 0)
    }

    /// Renames within this directory if the new name is free, else
    /// [`io::ErrorKind::AlreadyExists`]. If the file system cannot do both in one step, the name is
    /// checked first.
    pub fn rename_to_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let renamed = self.renameat2(&one_name(from)?, &one_name(to)?, libc::RENAME_NOREPLACE);
        match renamed {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
                match self.has(to)? {
                    true => Err(io::ErrorKind::AlreadyExists.into()),
                    false => self.rename(from, to),
                }
            }
            renamed => renamed,
        }
    }

    fn renameat2(&self, from: &CString, to: &CString, flags: u32) -> io::Result<()> {
        let here = self.0.as_raw_fd();
        // SAFETY: descriptors, and NUL-terminated strings; all live for the call.
        let renamed = unsafe {
            match flags {
                // The plain call is supported everywhere.
                0 => libc::renameat(here, from.as_ptr(), here, to.as_ptr()),
                flags => libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), flags),
            }
        };
        check(renamed.into()).map(|_| ())
    }

    /// Removes a name: a file, or a link, but not its target.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = one_name(name)?;
        // SAFETY: a descriptor and a NUL-terminated string; both live for the call.
        check(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), 0) }.into()).map(|_| ())
    }

    /// Writes the directory's entries to the disk.
    pub fn sync(&self) -> io::Result<()> {
        match self.0.sync_all() {
            // Some file systems have nothing to write here.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }

    /// Bytes that this process may still write to the file system of this directory.
    pub fn room(&self) -> io::Result<u64> {
        // SAFETY: all-zero is a valid statvfs.
        let mut stats: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: a descriptor and a structure to be filled; both live for the call.
        check(unsafe { libc::fstatvfs(self.0.as_raw_fd(), &mut stats) }.into())?;
        Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
    }

    /// All names in this directory except `.` and `..`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        // A separate open file description, so that reading does not move the position of ours.
        let own: OwnedFd = self
            .open_at(&c".".into(), libc::O_RDONLY | libc::O_DIRECTORY)?
            .into();
        let fd = own.into_raw_fd();
        // SAFETY: a descriptor that is ours; on success the stream owns it.
        let stream = unsafe { libc::fdopendir(fd) };
        if stream.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: still ours, as the stream was not made.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            return Err(error);
        }
        let mut names = Vec::new();
        let outcome = loop {
            // SAFETY: the calling thread's own errno, to distinguish the end from an error.
            unsafe { *libc::__errno_location() = 0 };
            // SAFETY: an open stream, used by this thread only.
            let entry = unsafe { libc::readdir(stream) };
            if entry.is_null() {
                let error = io::Error::last_os_error();
                break match error.raw_os_error() {
                    Some(0) => Ok(()),
                    _ => Err(error),
                };
            }
            // SAFETY: an entry's name is NUL-terminated, and stays until the next read.
            let name = unsafe { std::ffi::CStr::from_ptr((*entry).d_name.as_ptr()) };
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(OsString::from_vec(name.to_bytes().to_vec()));
            }
        };
        // SAFETY: the stream is open, and not used after this.
        unsafe { libc::closedir(stream) };
        outcome.map(|()| names)
    }
}

/// The components of a path that consists of names only.
fn names_only(path: &Path) -> io::Result<Vec<CString>> {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| match part {
            Component::Normal(name) => one_name(name),
            _ => Err(io::Error::from_raw_os_error(libc::EXDEV)),
        })
        .collect()
}

/// Checks that this is a single name, not a path.
fn one_name(name: &OsStr) -> io::Result<CString> {
    let bytes = name.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name"));
    }
    CString::new(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a zero byte in a name"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("reelway-sys-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Resolves a path in both ways, if the kernel supports both.
    fn ways(folder: &Folder, path: &str) -> Vec<io::Result<Folder>> {
        let names = names_only(Path::new(path)).unwrap();
        let at_once = folder.below_at_once(&names);
        let refused = at_once
            .as_ref()
            .is_err_and(|error| matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)));
        let mut ways = vec![folder.below_by_steps(&names, false)];
        if !refused {
            ways.push(at_once);
        }
        ways
    }

    #[test]
    fn paths_below_are_found_and_links_are_refused_by_both_ways() {
        let dir = directory("below");
        let (inside, outside) = (dir.join("inside"), dir.join("outside"));
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir_all(outside.join("b")).unwrap();
        fs::write(inside.join("file"), "x").unwrap();
        symlink(&outside, inside.join("absolute")).unwrap();
        symlink("../outside", inside.join("relative")).unwrap();
        symlink("a", inside.join("harmless")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        if ways(&folder, "").len() == 1 {
            reelway_skip::skipped!("openat2 is refused here; only its fallback is tested");
        }
        for found in ["", "a", "a/b", "./a/./b"] {
            for way in ways(&folder, found) {
                let same = Folder::open(&inside.join(found)).unwrap();
                assert!(way.unwrap().is_same_as(&same).unwrap(), "{found}");
            }
        }
        for link in ["absolute", "relative/b", "harmless", "harmless/b"] {
            for way in ways(&folder, link) {
                let error = way.unwrap_err();
                assert!(is_link_in_the_way(&error), "{link}: {error}");
            }
            assert!(is_link_in_the_way(
                &folder.make_below(Path::new(link)).unwrap_err()
            ));
        }
        for way in ways(&folder, "file/x") {
            assert_eq!(way.unwrap_err().kind(), io::ErrorKind::NotADirectory);
        }
        for way in ways(&folder, "none") {
            assert_eq!(way.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        for out in ["..", "a/../..", "/"] {
            assert!(
                is_link_in_the_way(&folder.below(Path::new(out)).unwrap_err()),
                "{out}"
            );
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_done_in_a_folder_stays_in_it_when_its_name_becomes_a_link() {
        let dir = directory("swapped");
        let (inside, outside) = (dir.join("inside"), dir.join("outside"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(&inside).unwrap();
        fs::write(outside.join("film"), "theirs").unwrap();
        let folder = Folder::open(&dir)
            .unwrap()
            .make_below(Path::new("inside/new"))
            .unwrap();
        fs::rename(&inside, dir.join("moved")).unwrap();
        symlink(&outside, &inside).unwrap();
        let name = OsStr::new;
        drop(folder.create_new(name("draft")).unwrap());
        folder.rename_to_new(name("draft"), name("film")).unwrap();
        assert_eq!(fs::read(dir.join("moved/new/film")).unwrap(), b"");
        folder.remove(name("film")).unwrap();
        assert!(folder.identity(name("film")).unwrap().is_none());
        assert_eq!(fs::read(outside.join("film")).unwrap(), b"theirs");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_replaced_or_removed_and_never_followed() {
        let dir = directory("links");
        let name = OsStr::new;
        fs::write(dir.join("theirs"), "theirs").unwrap();
        fs::write(dir.join("new"), "new").unwrap();
        symlink("theirs", dir.join("link")).unwrap();
        let folder = Folder::open(&dir).unwrap();
        assert!(folder.read(name("link")).is_err());
        let error = folder.create_new(name("link")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let error = folder.rename_to_new(name("new"), name("link")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        folder.rename(name("new"), name("link")).unwrap();
        assert_eq!(fs::read(dir.join("link")).unwrap(), b"new");
        symlink("theirs", dir.join("other")).unwrap();
        folder.remove(name("other")).unwrap();
        assert_eq!(fs::read(dir.join("theirs")).unwrap(), b"theirs");
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, ["link", "theirs"]);
        assert_eq!(folder.names().unwrap().len(), 2, "it can be read again");
        assert!(folder.remove(name("../x")).is_err() && folder.remove(name("..")).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
