//! A faulty disk: a FUSE file system with one film whose reads fail as a test demands.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEntry, ReplyOpen, Request,
};

/// What is wrong with the disk.
#[derive(Debug)]
struct Faults {
    broken_from: AtomicU64,
    ends_at: AtomicU64,
    stalls_from: AtomicU64,
    at_once: AtomicU64,
    /// The number of the film's bytes that were read.
    given: AtomicU64,
}

/// A mounted file system with one film.
#[derive(Debug)]
pub struct FaultyDisk {
    dir: PathBuf,
    faults: Arc<Faults>,
    session: Option<BackgroundSession>,
    _mount_point: tempfile::TempDir,
}

impl FaultyDisk {
    /// Mounts a file system whose only file is `film`, under its own name. It has no faults at
    /// first.
    pub fn with(film: &Path) -> Result<FaultyDisk> {
        let mount_point = crate::films::temp_dir("faulty");
        let never = || AtomicU64::new(u64::MAX);
        let faults = Arc::new(Faults {
            broken_from: never(),
            ends_at: never(),
            stalls_from: never(),
            at_once: never(),
            given: AtomicU64::new(0),
        });
        let file = File::open(film)?;
        let disk = Disk {
            len: file.metadata()?.len(),
            file,
            name: film
                .file_name()
                .context("a film with a name")?
                .to_string_lossy()
                .into_owned(),
            faults: Arc::clone(&faults),
        };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::FSName("reelway-faulty".into()),
        ];
        let session = fuser::spawn_mount(disk, mount_point.path(), &config);
        let session =
            session.context("mounting a file system in user space (needs root and /dev/fuse)")?;
        Ok(FaultyDisk {
            dir: mount_point.path().to_owned(),
            faults,
            session: Some(session),
            _mount_point: mount_point,
        })
    }

    /// The directory that contains the film.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number of the film's bytes that were read so far.
    pub fn given(&self) -> u64 {
        self.faults.given.load(Ordering::Relaxed)
    }

    /// From now on, reads that extend beyond this byte of the film fail.
    pub fn break_from(&self, byte: u64) {
        self.faults.broken_from.store(byte, Ordering::Relaxed);
    }

    /// From now on, reads return nothing beyond this byte, although the file's length is unchanged.
    pub fn end_at(&self, byte: u64) {
        self.faults.ends_at.store(byte, Ordering::Relaxed);
    }

    /// From now on, reads that extend beyond this byte block until it is changed (60 s at most).
    pub fn stall_from(&self, byte: u64) {
        self.faults.stalls_from.store(byte, Ordering::Relaxed);
    }

    /// From now on, a read returns at most this many bytes.
    pub fn give_at_once(&self, bytes: u64) {
        self.faults.at_once.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        // Blocked reads would hold up the unmounting.
        self.stall_from(u64::MAX);
        if let Some(session) = self.session.take() {
            session.umount_and_join().ok();
        }
    }
}

const TTL: Duration = Duration::from_secs(60);
const FILM: u64 = 2;

struct Disk {
    file: File,
    len: u64,
    name: String,
    faults: Arc<Faults>,
}

impl Disk {
    fn attributes(&self, inode: u64) -> FileAttr {
        let film = inode == FILM;
        FileAttr {
            ino: INodeNo(inode),
            size: if film { self.len } else { 0 },
            blocks: self.len / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if film {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: if film { 0o444 } else { 0o555 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() == Some(&self.name) {
            true => reply.entry(&TTL, &self.attributes(FILM), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(inode.into()));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Bypasses the page cache, so that every read arrives here with its original size.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let now = |fault: &AtomicU64| fault.load(Ordering::Relaxed);
        let end = (offset + u64::from(size)).min(self.len);
        crate::wait::until(Duration::from_secs(60), || {
            (end <= now(&self.faults.stalls_from)).then_some(())
        });
        if end > now(&self.faults.broken_from) {
            return reply.error(Errno::EIO);
        }
        let most = offset.saturating_add(now(&self.faults.at_once));
        let end = end.min(most).min(now(&self.faults.ends_at));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {
                let given = &self.faults.given;
                given.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                reply.data(&bytes);
            }
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (1, FileType::Directory, "."),
            (1, FileType::Directory, ".."),
            (FILM, FileType::RegularFile, &self.name),
        ];
        for (n, (inode, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(inode), n as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
