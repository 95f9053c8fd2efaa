//! An overloaded machine, as in the paper's Table 4: fifty busy loops, a compilation and, instead
//! of starting X, a modern program with a comparable load.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::bed::children::is_installed;
use crate::bed::{Child, cores};

/// Number of busy loops.
const LOOPS: usize = 50;

/// Keeps a core busy for `seconds`, or until the parent process ends.
pub fn spin(seconds: f64) {
    let parent = std::os::unix::process::parent_id();
    let began = reelway_clock::now();
    while reelway_clock::now().since(began) < Duration::from_secs_f64(seconds)
        && std::os::unix::process::parent_id() == parent
    {
        for _ in 0..1_000_000 {
            std::hint::black_box(());
        }
    }
}

/// The load, which ends when this is dropped.
#[derive(Debug)]
pub struct Load {
    /// Descriptions of the programs that run.
    pub what: Vec<String>,
    children: Vec<Child>,
}

impl Load {
    /// Starts the load on the server's core, for at most `seconds`.
    pub fn start(folder: &Path, seconds: f64) -> anyhow::Result<Load> {
        let mut load = Load {
            what: Vec::new(),
            children: Vec::new(),
        };
        let task = serde_json::to_string(&super::task::Task::Spin { seconds })?;
        for _ in 0..LOOPS {
            let mut command = pinned(std::env::current_exe()?);
            command.args(["bench", "mssc", "--task", &task]);
            load.children.push(Child::start_quiet(&mut command)?);
        }
        load.what
            .push(format!("{LOOPS} busy loops at normal priority"));
        if is_installed("cc") {
            let source = folder.join("load.c");
            std::fs::write(&source, source_text())?;
            let words = format!("cc -O2 -o /dev/null -c '{}'", source.display());
            load.children.push(again_and_again(&words, seconds)?);
            load.what.push(
                "a compile again and again (cc -O2 of a generated file of 2000 functions)"
                    .to_owned(),
            );
        } else {
            load.what.push("no compile (there is no cc)".to_owned());
        }
        let (program, words) = start_up(folder);
        load.children.push(again_and_again(&program, seconds)?);
        load.what.push(words);
        Ok(load)
    }
}

/// Returns the command that is started instead of X, and its description.
fn start_up(folder: &Path) -> (String, String) {
    if is_installed("gst-inspect-1.0") {
        let registry = folder.join("registry.bin");
        let path = registry.display();
        let program = format!("rm -f '{path}'; GST_REGISTRY='{path}' gst-inspect-1.0 --version");
        let words = "instead of starting X: GStreamer started again and again without its registry, so that it \
                     loads and probes each of its hundreds of shared libraries, as X did its modules";
        (program, words.to_owned())
    } else {
        let program = "find /usr/lib /usr/share -type f -size -256k 2>/dev/null | head -n 3000 | xargs -d '\\n' cat".to_owned();
        (program, "instead of starting X: three thousand files of /usr found, opened and read again and again".to_owned())
    }
}

fn pinned(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cores::server()]).arg(program);
    command
}

fn again_and_again(words: &str, seconds: f64) -> anyhow::Result<Child> {
    let mut command = pinned("timeout");
    let script = format!("while :; do {words}; done");
    command.args([
        "--signal=KILL",
        &format!("{seconds:.0}"),
        "sh",
        "-c",
        &script,
    ]);
    Child::start_quiet(&mut command)
}

/// Returns a source file that takes a compiler some time.
fn source_text() -> String {
    let function = |number: u32| {
        format!(
            "int f{number}(int *a, int n) {{ int s = {number}; for (int i = 0; i < n; i++) \
             {{ s += a[i] * (s ^ {number}); if (s & 1) a[i] ^= s >> 3; else s -= a[n - i - 1]; }} return s; }}\n"
        )
    };
    (0..2000).map(function).collect()
}
