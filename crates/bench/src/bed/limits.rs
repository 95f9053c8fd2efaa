//! Limits on a server's memory and disk rate, by control groups of version 1 or 2, whichever the
//! machine has.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::stat::{major, minor};

use super::children::{Undo, remember, undo};

/// A control group, removed when dropped; the processes in it must have ended.
#[derive(Debug)]
struct Group {
    dir: PathBuf,
    /// Whether the machine uses version 1 for this controller.
    is_first: bool,
}

impl Group {
    /// Creates a group that a controller can limit. Needs root.
    fn make(first: &str, controller: &str) -> anyhow::Result<Group> {
        let root = Path::new("/sys/fs/cgroup");
        let is_first = root.join(first).is_dir();
        let parent = match is_first {
            true => root.join(first),
            false => {
                // In version 2, a child group has only the controllers that its parent enables.
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

/// A limit on a server's memory, including page cache.
#[derive(Debug)]
pub struct MemoryLimit(Group);

impl MemoryLimit {
    /// Creates a limit in bytes. Needs root and a kernel with the memory controller.
    pub fn make(bytes: u64) -> anyhow::Result<MemoryLimit> {
        let group = Group::make("memory", "memory")?;
        group.set("memory.limit_in_bytes", "memory.max", &bytes.to_string())?;
        Ok(MemoryLimit(group))
    }

    /// Returns the words that start a program within the limit, to be put before its command line.
    pub fn words(&self) -> [String; 4] {
        self.0.words()
    }

    /// Returns the peak memory in bytes.
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

/// A limit on the read rate of a server's disk.
#[derive(Debug)]
pub struct DiskLimit {
    group: Group,
    /// Its device numbers, in the kernel's format.
    device: String,
}

impl DiskLimit {
    /// Limits reads from the disk that holds `folder`.
    pub fn make(folder: &Path, bytes_per_second: u64) -> anyhow::Result<DiskLimit> {
        let of_folder = fs::metadata(folder)?.dev();
        let numbers = |of: u64| format!("{}:{}", major(of), minor(of));
        // Limits apply to whole disks, not to partitions.
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

    /// Changes the limit.
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

    /// Returns the words that start a program within the limit, to be put before its command line.
    pub fn words(&self) -> [String; 4] {
        self.group.words()
    }
}
