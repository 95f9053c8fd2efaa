//! A control group with memory accounting, version 1 or 2. Needs root.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A control group; removed when dropped, once it is empty.
#[derive(Debug)]
pub struct Cgroup {
    dir: PathBuf,
    peak: &'static str,
}

impl Cgroup {
    /// Creates a group.
    pub fn new(name: &str) -> Result<Cgroup> {
        let (parent, peak) = match Path::new("/sys/fs/cgroup/memory").is_dir() {
            true => ("/sys/fs/cgroup/memory", "memory.max_usage_in_bytes"),
            false => {
                // Version 2 enables a controller for children only if the parent says so.
                fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory").ok();
                ("/sys/fs/cgroup", "memory.peak")
            }
        };
        let dir = Path::new(parent).join(format!("reelway-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir)
            .with_context(|| format!("{}: making a control group needs root", dir.display()))?;
        Ok(Cgroup { dir, peak })
    }

    /// The group's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The peak of its memory in bytes, page cache included.
    pub fn peak(&self) -> Result<u64> {
        let path = self.dir.join(self.peak);
        Ok(fs::read_to_string(&path)
            .with_context(|| path.display().to_string())?
            .trim()
            .parse()?)
    }

    /// The breakdown of its memory, for people to read.
    pub fn story(&self) -> String {
        fs::read_to_string(self.dir.join("memory.stat")).unwrap_or_default()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel needs a moment to notice that the last process is gone.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
