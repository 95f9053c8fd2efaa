//! Real players, run with a time limit. A test fails if its player is not installed: a test that
//! passes because it did nothing proves nothing.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::films::temp_dir;
use crate::wait::Deadline;

/// How a program ended, and its output.
#[derive(Debug)]
pub struct Ran {
    /// The exit status; `None` if it was killed at the time limit.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Panics unless the program ended by itself and successfully.
    #[track_caller]
    pub fn expect(self, what: &str) -> Ran {
        match self.status {
            Some(status) if status.success() => self,
            Some(status) => panic!(
                "{what}: {status} (signal {:?})\n{}",
                status.signal(),
                self.tail()
            ),
            None => panic!("{what}: not done in time\n{}", self.tail()),
        }
    }

    /// The last lines of standard error and standard output.
    pub fn tail(&self) -> String {
        let last = |text: &str| {
            text.chars()
                .rev()
                .take(4000)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<String>()
        };
        format!(
            "{}{}",
            last(&String::from_utf8_lossy(&self.out)),
            last(&self.err)
        )
    }
}

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    out: File,
    err: File,
}

/// Starts `command` and captures its output.
///
/// Panics if the program does not exist.
#[track_caller]
pub fn start(mut command: Command) -> Running {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = tempfile::tempfile().expect("a file for output");
    let err = tempfile::tempfile().expect("a file for output");
    command.stdin(Stdio::null());
    command.stdout(out.try_clone().expect("a descriptor"));
    command.stderr(err.try_clone().expect("a descriptor"));
    let child = command.spawn().unwrap_or_else(|error| {
        panic!("{name} could not be started: {error}. The tests need it: `make test` installs it, or apt-get install it.")
    });
    Running {
        child,
        name,
        out,
        err,
    }
}

/// Runs `command` to its end, for `limit` at most.
#[track_caller]
pub fn run(command: Command, limit: Duration) -> Ran {
    start(command).finish(limit)
}

impl Running {
    /// Waits for the program to end, for `limit` at most; then kills it.
    pub fn finish(mut self, limit: Duration) -> Ran {
        let deadline = Deadline::after(limit);
        let mut pause = Duration::from_millis(2);
        let status = loop {
            match self.child.try_wait().expect("waiting for a child") {
                Some(status) => break Some(status),
                None if deadline.over() => {
                    self.child.kill().ok();
                    self.child.wait().ok();
                    break None;
                }
                None => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(50));
        };
        let (out, err) = (contents(&self.out), self.said());
        Ran { status, out, err }
    }

    /// Whether it still runs.
    pub fn running(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("waiting for a child")
            .is_none()
    }

    /// What it has written to standard error so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&contents(&self.err)).into_owned()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal (`TERM`, `INT`, …).
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.pid().to_string()])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "kill -s {name} {} ({})",
            self.pid(),
            self.name
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn contents(file: &File) -> Vec<u8> {
    // Reads by offset: the position is shared with the program that writes.
    let mut bytes = vec![0; file.metadata().map_or(0, |data| data.len() as usize)];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

/// Returns ffmpeg with these arguments; it prints nothing but errors.
pub fn ffmpeg<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("ffmpeg");
    command
        .args(["-hide_banner", "-nostdin", "-loglevel", "error", "-y"])
        .args(arguments);
    command
}

/// Returns ffprobe with these arguments; it prints nothing but errors.
pub fn ffprobe<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error"]).args(arguments);
    command
}

/// Returns a viewer from `tests/players` that performs these steps. Not `gst-launch-1.0`: that ends
/// with an error if it is asked to stop at the moment when rtspsrc sends PAUSE.
pub fn scripted(script: &str, url: &str, protocol: &str, steps: &[&str]) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("players")
        .join(script);
    let mut command = Command::new("/usr/bin/python3");
    command
        .arg(path)
        .args([url, protocol])
        .args(steps)
        .env("GST_REGISTRY_FORK", "no");
    command
}

/// Returns VLC without a user interface, which ends with the stream. VLC refuses to run as root;
/// tests that run as root start it as nobody.
pub fn vlc<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let root =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("/proc")) == 0;
    let mut command = match root {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "vlc"]);
            command
        }
        false => Command::new("vlc"),
    };
    command
        .env("HOME", "/tmp")
        .args(["-I", "dummy", "--no-video-title-show", "--play-and-exit"])
        .args(arguments);
    command
}

/// Records what VLC plays of `url` from `start`, in seconds, as a transport stream; returns its
/// path and directory. At the end, VLC leaves out the last few pictures, of local files too.
pub fn vlc_records(url: &str, start: f64) -> (PathBuf, TempDir) {
    let dir = temp_dir("vlc");
    // VLC runs as nobody.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))
        .expect("a directory of ours");
    let path = dir.path().canonicalize().expect("a path").join("out.ts");
    let start = format!("--start-time={start}");
    let out = format!("#std{{access=file,mux=ts,dst={}}}", path.display());
    run(vlc([&start, "--sout", &out, url]), Duration::from_secs(90)).expect("VLC");
    (path, dir)
}
