//! Local disks. Each has a thread that reads its files past the page cache, many blocks at a time.
//!
//! The pool passes on the most urgent reads, never more than the disk's depth, so reads need no
//! order here. They go through an io_uring if available, otherwise through the same number of
//! threads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use reelway_sys::reads::{Done, Reads, Waker};
use reelway_sys::uring::why_not;

use crate::block_source::BlockSource;
use crate::config::ReadBy;
use crate::error::ReadError;
use crate::fill::Fill;
use crate::local::{LocalFile, Progress, Step};

/// Maximum number of threads in place of a ring: more do not help any disk.
const MOST_THREADS: usize = 8;

/// A disk's inbox.
#[derive(Debug)]
pub(crate) struct Disk {
    name: String,
    inbox: Mutex<Inbox>,
    /// Wakes the thread that owns the ring.
    waker: OnceLock<Waker>,
    /// Where reader threads wait if there is no ring.
    work: Condvar,
    said_buffered: AtomicBool,
}

#[derive(Debug, Default)]
struct Inbox {
    asked: Vec<(Arc<LocalFile>, Fill)>,
    closed: bool,
}

/// Logged once per process: the message would be the same for every disk.
static SAID_NO_RING: AtomicBool = AtomicBool::new(false);
static SAID_NOT_FIXED: AtomicBool = AtomicBool::new(false);

/// Returns the name of the disk that contains the file system with this device number: `sda` for
/// its partition `sda1`, or the number if the file system has no disk.
pub(crate) fn name_of(device: u64) -> String {
    let (major, minor) = reelway_sys::device_numbers(device);
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let Ok(mut path) = link.canonicalize() else {
        return format!("{major}:{minor}");
    };
    if path.join("partition").exists() {
        path.pop();
    }
    path.file_name().map_or_else(
        || format!("{major}:{minor}"),
        |name| name.to_string_lossy().into_owned(),
    )
}

impl Disk {
    /// Starts the disk's threads.
    pub fn start(name: &str, depth: usize, by: ReadBy) -> io::Result<Arc<Disk>> {
        let disk = Arc::new(Disk {
            name: name.to_owned(),
            inbox: Mutex::default(),
            waker: OnceLock::new(),
            work: Condvar::new(),
            said_buffered: AtomicBool::new(false),
        });
        let thread =
            |number: usize| std::thread::Builder::new().name(format!("read-{name}-{number}"));
        if by == ReadBy::Threads {
            disk.start_threads(depth)?;
            return Ok(disk);
        }
        // The ring belongs to the thread that creates it.
        let (made, result) = std::sync::mpsc::sync_channel(1);
        let with_ring = Arc::clone(&disk);
        thread(0).spawn(move || match Reads::new(depth) {
            Ok(mut reads) => {
                with_ring.waker.set(reads.waker()).ok();
                made.send(Ok(())).ok();
                // The ring outlives a panic: reads under way return to it.
                let mut done = Vec::new();
                supervise::run(|| with_ring.run(&mut reads, &mut done));
            }
            Err(error) => {
                made.send(Err(error)).ok();
            }
        })?;
        match result.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                if !SAID_NO_RING.swap(true, Ordering::Relaxed) {
                    tracing::info!(
                        "films are read by threads instead of io_uring: {}",
                        why_not(&error)
                    );
                }
                disk.start_threads(depth)?;
            }
            Err(_) => return Err(io::Error::other("a reader thread ended at once")),
        }
        Ok(disk)
    }

    fn start_threads(self: &Arc<Disk>, depth: usize) -> io::Result<()> {
        for number in 0..depth.clamp(1, MOST_THREADS) {
            let disk = Arc::clone(self);
            supervise::thread(format!("read-{}-{number}", self.name), move || {
                disk.run_blocking();
            })?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Changed in one step.
        supervise::whole(self.inbox.lock())
    }

    /// Logs once per disk that it is read through the page cache.
    fn say_buffered(&self, file: &LocalFile, why: &io::Error) {
        if !self.said_buffered.swap(true, Ordering::Relaxed) {
            tracing::info!(
                disk = self.name,
                file = %file.path.display(),
                "direct reads are refused here ({why}); films are read through the page cache instead"
            );
        }
    }

    /// Processes the result of a read. Returns the block's result if it is complete.
    fn took(
        &self,
        progress: &mut Progress,
        read: io::Result<usize>,
    ) -> Option<Result<(), ReadError>> {
        match progress.took(read) {
            Step::Read => None,
            Step::ReadBuffered(why) => {
                self.say_buffered(&progress.file, &why);
                None
            }
            Step::Done(result) => Some(result),
        }
    }

    /// Accepts a read.
    fn push(&self, file: Arc<LocalFile>, fill: Fill) {
        let mut inbox = self.lock();
        if inbox.closed {
            drop(inbox);
            return drop(fill);
        }
        inbox.asked.push((file, fill));
        drop(inbox);
        match self.waker.get() {
            Some(waker) => waker.wake(),
            None => self.work.notify_one(),
        }
    }

    /// Stops accepting reads, and ends the threads when the reads under way are done.
    pub fn close(&self) {
        let asked = {
            let mut inbox = self.lock();
            inbox.closed = true;
            std::mem::take(&mut inbox.asked)
        };
        drop(asked);
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
        self.work.notify_all();
    }

    /// Reads until the disk is closed. If it panics, the blocks being handled are dropped and their
    /// requests fail; `done` keeps those that have not been handled yet.
    fn run(&self, reads: &mut Reads<(Progress, Fill)>, done: &mut Vec<Done<(Progress, Fill)>>) {
        loop {
            while let Some(Done { page, tag, result }) = done.pop() {
                let (mut progress, mut fill) = tag;
                fill.put_page(page);
                supervise::inject("disk");
                match self.took(&mut progress, result) {
                    None => self.go_on(reads, progress, fill),
                    Some(result) => fill.finish(result),
                }
            }
            let asked = {
                let mut inbox = self.lock();
                if inbox.closed {
                    return;
                }
                std::mem::take(&mut inbox.asked)
            };
            for (file, fill) in asked {
                let progress = Progress::new(file, fill.offset(), fill.len());
                self.go_on(reads, progress, fill);
            }
            reads.wait(done);
            // Reversed so that the first completion is popped first.
            done.reverse();
        }
    }

    /// Passes the next read of a block to the ring.
    fn go_on(&self, reads: &mut Reads<(Progress, Fill)>, progress: Progress, mut fill: Fill) {
        if let Err(error) = progress.check() {
            return fill.finish(Err(error));
        }
        let Some(page) = fill.take_page() else {
            return drop(fill);
        };
        let (file, offset, from) = progress.next();
        // The pool issues no more reads than the ring has room for.
        if let Err(Done { page, tag, .. }) = reads.read(&file, offset, page, from, (progress, fill))
        {
            let (_, mut fill) = tag;
            fill.put_page(page);
            drop(fill);
        }
        if let Some(error) = reads.take_fixed_refused()
            && !SAID_NOT_FIXED.swap(true, Ordering::Relaxed)
        {
            tracing::info!(
                "the block pool is not registered with io_uring ({error}; the limit of locked memory is {} KiB): each read costs a little more. Raise it with `ulimit -l` or LimitMEMLOCK= of systemd",
                reelway_sys::limits::locked_memory() >> 10,
            );
        }
    }

    /// Like `run`, with blocking reads.
    fn run_blocking(&self) {
        loop {
            let (file, mut fill) = {
                let mut inbox = self.lock();
                loop {
                    if inbox.closed {
                        return;
                    }
                    if !inbox.asked.is_empty() {
                        break inbox.asked.remove(0);
                    }
                    inbox = supervise::whole(self.work.wait(inbox));
                }
            };
            supervise::inject("disk");
            let mut progress = Progress::new(file, fill.offset(), fill.len());
            let result = loop {
                if let Err(error) = progress.check() {
                    break Err(error);
                }
                let read = progress.read_blocking(fill.buffer());
                if let Some(result) = self.took(&mut progress, read) {
                    break result;
                }
            };
            fill.finish(result);
        }
    }
}

/// A film on a disk.
#[derive(Debug)]
pub(crate) struct OnDisk {
    file: Arc<LocalFile>,
    disk: Arc<Disk>,
}

impl OnDisk {
    /// Combines an opened file and its disk. `refused`: why the file cannot be read past the page
    /// cache.
    pub fn new(file: LocalFile, refused: Option<io::Error>, disk: Arc<Disk>) -> OnDisk {
        if let Some(why) = refused {
            disk.say_buffered(&file, &why);
        }
        OnDisk {
            file: Arc::new(file),
            disk,
        }
    }
}

impl BlockSource for OnDisk {
    fn path(&self) -> &Path {
        &self.file.path
    }

    fn identity(&self) -> FileIdentity {
        self.file.identity
    }

    fn read(self: Arc<Self>, fill: Fill) {
        self.disk.push(Arc::clone(&self.file), fill);
    }
}
