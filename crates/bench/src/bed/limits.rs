//! Limits for a server: of memory, of what a disk gives. Control groups of version 1 or 2, whichever the machine has.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::stat::{major, minor};

use super::children::{Undo, remember, undo};

/// A control group, removed when dropped: after the processes in it.
#[derive(Debug)]
struct Group {
    dir: PathBuf,
    /// Whether the machine has version 1 of them for this.
    is_first: bool,
}

impl Group {
    /// A group that a controller may limit. Wants root.
    fn make(first: &str, controller: &str) -> anyhow::Result<Group> {
        let root = Path::new("/sys/fs/cgroup");
        let is_first = root.join(first).is_dir();
        let parent = match is_first {
            true => root.join(first),
            false => {
                // Version 2 hands a controller on only where its parent says so.
                let control = root.join("cgroup.subtree_control");
                let _ = fs::write(control, format!("+{controller}"));
                root.to_owned()
            }
        };
        let dir = parent.join(format!("reelway-bench-{first}-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let group = Group { dir, is_first };
        remember(group.removal());
        Ok(group)
    }

    fn removal(&self) -> Undo {
        Undo::ControlGroup(self.dir.clone())
    }

    fn set(&self, first: &str, second: &str, value: &str) -> anyhow::Result<()> {
        let file = self.dir.join(if self.is_first { first } else { second });
        fs::write(&file, value).with_context(|| file.display().to_string())
    }

    fn words(&self) -> [String; 4] {
        let procs = self.dir.join("cgroup.procs");
        let enter = format!("echo $$ > {} && exec \"$@\"", procs.display());
        ["sh".into(), "-c".into(), enter, "sh".into()]
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        undo(&self.removal());
    }
}

/// How much memory a server may have, page cache included.
#[derive(Debug)]
pub struct MemoryLimit(Group);

impl MemoryLimit {
    /// So many bytes. Wants root, and a kernel that counts memory.
    pub fn make(bytes: u64) -> anyhow::Result<MemoryLimit> {
        let group = Group::make("memory", "memory")?;
        group.set("memory.limit_in_bytes", "memory.max", &bytes.to_string())?;
        Ok(MemoryLimit(group))
    }

    /// Words that start a program within it: put before the program and its arguments.
    pub fn words(&self) -> [String; 4] {
        self.0.words()
    }

    /// Most bytes that it held at once.
    pub fn peak(&self) -> anyhow::Result<u64> {
        let file = match self.0.is_first {
            true => "memory.max_usage_in_bytes",
            false => "memory.peak",
        };
        let file = self.0.dir.join(file);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        text.trim().parse().context("a number of bytes")
    }
}

/// What a server's disk gives.
#[derive(Debug)]
pub struct DiskLimit {
    group: Group,
    /// Its numbers, as the kernel writes them.
    device: String,
}

impl DiskLimit {
    /// The disk that holds `folder` gives at most so many bytes a second.
    pub fn make(folder: &Path, bytes_per_second: u64) -> anyhow::Result<DiskLimit> {
        let of_folder = fs::metadata(folder)?.dev();
        let numbers = |of: u64| format!("{}:{}", major(of), minor(of));
        // Limits are of whole disks, not of their partitions.
        let link = PathBuf::from(format!("/sys/dev/block/{}", numbers(of_folder)));
        let real = fs::canonicalize(&link).with_context(|| link.display().to_string())?;
        let whole = match (real.join("partition").exists(), real.parent()) {
            (true, Some(disk)) => fs::read_to_string(disk.join("dev"))?.trim().to_owned(),
            _ => numbers(of_folder),
        };
        let mut limit = DiskLimit {
            group: Group::make("blkio", "io")?,
            device: whole,
        };
        limit.set(bytes_per_second)?;
        Ok(limit)
    }

    /// It gives so many from now on.
    pub fn set(&mut self, bytes_per_second: u64) -> anyhow::Result<()> {
        let device = &self.device;
        match self.group.is_first {
            true => self.group.set(
                "blkio.throttle.read_bps_device",
                "",
                &format!("{device} {bytes_per_second}"),
            ),
            false => self
                .group
                .set("", "io.max", &format!("{device} rbps={bytes_per_second}")),
        }
    }

    /// Words that start a program with it: put before the program and its arguments.
    pub fn words(&self) -> [String; 4] {
        self.group.words()
    }
}
