//! The library as built for a release, C programs, and programs that run under it.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use reelway_tests::wait;
use tempfile::{NamedTempFile, TempDir};

fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .expect("crates/clock-preload")
            .into()
    })
}

/// The library, built as for a release (or the one named by `REELWAY_CLOCK_PRELOAD`).
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("REELWAY_CLOCK_PRELOAD") {
            return path.into();
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .parent()
            .expect("target");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--profile", "preload"])
            .args(["--package", "reelway-clock-preload", "--target-dir"])
            .arg(target)
            .current_dir(root())
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the library builds");
        let path = target.join("preload/libreelway_clock_preload.so");
        assert!(path.is_file(), "{} is missing", path.display());
        path
    })
}

/// Panics unless these programs are installed. This installs nothing: `scripts/need-tests` does
/// that.
pub fn need(programs: &[&str]) {
    let output = Command::new(root().join("scripts/need"))
        .args(programs)
        .env("REELWAY_INSTALL", "no")
        .output()
        .expect("scripts/need runs");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// `PATH`, and the directories in which Debian installs servers.
pub fn path() -> String {
    let mut path = std::env::var("PATH").unwrap_or_default();
    path.push_str(":/usr/sbin:/usr/local/go/bin");
    for version in (11..=20).rev() {
        let dir = format!("/usr/lib/postgresql/{version}/bin");
        if Path::new(&dir).is_dir() {
            path.push(':');
            path.push_str(&dir);
        }
    }
    path
}

/// A new directory for a test's files, readable by servers that drop their privileges; it is
/// removed when the returned value is dropped.
pub fn directory(name: &str) -> TempDir {
    let anyone = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    tempfile::Builder::new()
        .prefix(&format!("reelway-{name}-"))
        .permissions(anyone)
        .tempdir()
        .expect("a directory for the test")
}

/// The directory in which this test binary keeps its compiled programs. Its name is fixed, so that
/// runs do not pile up.
pub fn build_directory() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
    std::fs::create_dir_all(&path).expect("a directory to compile into");
    path
}

/// `tests/c/NAME.c`.
pub fn c_source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"))
}

/// Compiles `tests/c/NAME.c`.
pub fn c_program(name: &str) -> PathBuf {
    static BUILT: std::sync::Mutex<BTreeMap<String, PathBuf>> =
        std::sync::Mutex::new(BTreeMap::new());
    let mut built = BUILT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    built
        .entry(name.to_owned())
        .or_insert_with(|| {
            need(&["cc"]);
            let program = build_directory().join(name);
            let shared = if name.starts_with("lib") {
                &["-shared", "-fPIC"][..]
            } else {
                &[]
            };
            let status = Command::new("cc")
                .args(["-O2", "-Wall", "-Wno-nonnull", "-pthread"])
                .args(shared)
                .arg("-o")
                .arg(&program)
                .arg(c_source(name))
                .arg("-ldl")
                .status()
                .expect("cc runs");
            assert!(status.success(), "{name}.c compiles");
            program
        })
        .clone()
}

/// A program that runs under the library.
pub struct Preloaded {
    pub command: Command,
    counts: NamedTempFile,
}

impl Preloaded {
    /// `program` with the library in front of libc, which counts its calls.
    pub fn new(program: impl AsRef<std::ffi::OsStr>) -> Preloaded {
        let counts = NamedTempFile::new().expect("a file for the counts");
        // A server that drops its privileges writes its counts too.
        let anyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(counts.path(), anyone).expect("a file of ours");
        let mut command = Command::new(program);
        command
            .env("PATH", path())
            .env("LD_PRELOAD", library())
            .env("REELWAY_CLOCK_STATISTICS", counts.path());
        Preloaded { command, counts }
    }

    /// Without counting: a system call filter may forbid writing the counts.
    pub fn uncounted(program: impl AsRef<std::ffi::OsStr>) -> Preloaded {
        let mut preloaded = Preloaded::new(program);
        preloaded.command.env_remove("REELWAY_CLOCK_STATISTICS");
        preloaded
    }

    pub fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Preloaded {
        self.command.arg(argument);
        self
    }

    pub fn args<S: AsRef<std::ffi::OsStr>>(
        mut self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Preloaded {
        self.command.args(arguments);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Preloaded {
        self.command.env(name, value);
        self
    }

    /// The library's call counts of all processes that have ended.
    pub fn counts(&self) -> Counts {
        Counts(std::fs::read_to_string(self.counts.path()).expect("the counts"))
    }

    pub fn start(&mut self) -> Running {
        let child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Running(child.unwrap_or_else(|error| panic!("{:?}: {error}", self.command)))
    }

    /// Runs it until it ends, for at most `limit`.
    pub fn run(mut self, limit: Duration) -> (Output, Counts) {
        let child = self.start();
        let output = finish(child, limit);
        (output, self.counts())
    }

    /// Runs it until it ends successfully; returns its standard output.
    pub fn expect(self, limit: Duration) -> (String, Counts) {
        let what = format!("{:?}", self.command);
        let (output, counts) = self.run(limit);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{what} ended with {}:\n{said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        (said, counts)
    }
}

/// A child that does not outlive its test.
pub struct Running(Child);

impl Running {
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.0.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a child for at most `limit`, and collects its output.
pub fn finish(mut running: Running, limit: Duration) -> Output {
    let child = &mut running.0;
    fn gather(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut from) = from {
                // The output until the pipe broke is enough.
                let _ = from.read_to_end(&mut bytes);
            }
            bytes
        })
    }
    let (stdout, stderr) = (gather(child.stdout.take()), gather(child.stderr.take()));
    let ended = || child.try_wait().expect("a child of ours");
    let Some(status) = wait::until(limit, ended) else {
        let _ = child.kill();
        let said = String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned();
        panic!("not done after {limit:?}: {said}");
    };
    Output {
        status,
        stdout: stdout.join().expect("gathered"),
        stderr: stderr.join().expect("gathered"),
    }
}

/// The library's output at exit: a line per process.
#[derive(Debug)]
pub struct Counts(pub String);

impl Counts {
    /// Calls of `name` in all processes.
    pub fn of(&self, name: &str) -> u64 {
        self.0
            .split([',', ':', '\n'])
            .filter_map(|part| part.trim().strip_prefix(name)?.trim().parse::<u64>().ok())
            .sum()
    }

    /// The number of processes that have written a line.
    pub fn processes(&self) -> usize {
        self.0.lines().count()
    }
}
