//! A limit of memory for a server: a control group of version 1 or 2, whichever the machine has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::children::{Undo, remember, undo};

/// A group that may hold only so much, page cache included.
#[derive(Debug)]
pub struct MemoryLimit {
    dir: PathBuf,
    peak: &'static str,
}

impl MemoryLimit {
    /// Makes one. Wants root, and a kernel that counts memory.
    pub fn make(bytes: u64) -> anyhow::Result<MemoryLimit> {
        let first = Path::new("/sys/fs/cgroup/memory");
        let (parent, limit, peak) = if first.is_dir() {
            (first, "memory.limit_in_bytes", "memory.max_usage_in_bytes")
        } else {
            let second = Path::new("/sys/fs/cgroup");
            // Version 2 hands a controller on only where its parent says so.
            let _ = fs::write(second.join("cgroup.subtree_control"), "+memory");
            (second, "memory.max", "memory.peak")
        };
        let dir = parent.join(format!("reelway-bench-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let group = MemoryLimit { dir, peak };
        remember(group.removal());
        let file = group.dir.join(limit);
        fs::write(&file, bytes.to_string()).with_context(|| file.display().to_string())?;
        Ok(group)
    }

    fn removal(&self) -> Undo {
        Undo::Run(vec!["rmdir".into(), self.dir.display().to_string()])
    }

    /// Words that start a program within it: put before the program and its arguments.
    pub fn words(&self) -> [String; 4] {
        let enter = format!(
            "echo $$ > {}/cgroup.procs && exec \"$@\"",
            self.dir.display()
        );
        ["sh".into(), "-c".into(), enter, "sh".into()]
    }

    /// Most bytes that it held at once.
    pub fn peak(&self) -> anyhow::Result<u64> {
        let file = self.dir.join(self.peak);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        text.trim().parse().context("a number of bytes")
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        undo(&self.removal());
    }
}
