//! Programs started for an experiment. Each has its own process group, which is ended when its
//! [`Child`] is dropped, and on Ctrl-C. Folders and namespaces are removed in the same way.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A change that must be undone if the experiment is interrupted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// Kill the process group.
    Group(i32),
    /// Remove the folder.
    Folder(PathBuf),
    /// Remove the control group, once the kernel has noticed the end of its last process.
    ControlGroup(PathBuf),
    /// Run a program with arguments.
    Run(Vec<String>),
}

static UNDO: Mutex<Vec<Undo>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();

fn undos() -> MutexGuard<'static, Vec<Undo>> {
    UNDO.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Undo {
    fn apply(&self) {
        match self {
            Undo::Group(pid) => {
                let _ = killpg(Pid::from_raw(*pid), Signal::SIGKILL);
            }
            Undo::Folder(path) => {
                let _ = std::fs::remove_dir_all(path);
            }
            Undo::ControlGroup(path) => {
                for _ in 0..50 {
                    if std::fs::remove_dir(path).is_ok() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            Undo::Run(words) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).stdin(Stdio::null());
                let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            }
        }
    }
}

/// Remembers what to undo on Ctrl-C.
pub(super) fn remember(undo: Undo) {
    WATCH.call_once(|| {
        std::thread::spawn(watch);
    });
    undos().push(undo);
}

/// Undoes a remembered change now.
pub(super) fn undo(undo: &Undo) {
    let mut undos = undos();
    if let Some(place) = undos.iter().position(|other| other == undo) {
        undos.remove(place).apply();
    }
}

/// Waits for a signal that ends the experiment, and cleans up.
fn watch() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return;
    };
    runtime.block_on(async {
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            return;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    });
    // Newest first: processes before the namespaces in which they run. The lock is held, so that
    // nothing new starts.
    for undo in undos().drain(..).rev() {
        undo.apply();
    }
    std::process::exit(130);
}

/// A running program and all processes that it has started.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
    input: Option<ChildStdin>,
}

impl Child {
    /// Starts a program whose input comes from [`Child::tell`] and whose output is read by
    /// [`Child::lines`].
    pub fn start(command: &mut Command) -> anyhow::Result<Child> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Child::spawn(command)?;
        let output = child.child.stdout.take().context("its output")?;
        child.lines = Some(BufReader::new(output).lines());
        child.input = child.child.stdin.take();
        Ok(child)
    }

    /// Starts a program whose output is discarded.
    pub fn start_quiet(command: &mut Command) -> anyhow::Result<Child> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Child::spawn(command)
    }

    /// Starts a program with the standard streams that the command has.
    pub fn spawn(command: &mut Command) -> anyhow::Result<Child> {
        command.process_group(0);
        let program = command.get_program().to_owned();
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        remember(Undo::Group(child.id() as i32));
        Ok(Child {
            child,
            lines: None,
            input: None,
        })
    }

    /// Returns its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to its input.
    pub fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("it takes no input")?;
        writeln!(input, "{line}").context("it does not listen any more")
    }

    /// Returns the lines that it prints. A thread reads them to the end, so that callers can wait
    /// with a timeout, and the program never blocks on a full pipe.
    pub fn lines(&mut self) -> mpsc::Receiver<String> {
        let (send, receive) = mpsc::channel();
        if let Some(lines) = self.lines.take() {
            std::thread::spawn(move || {
                for line in lines.map_while(Result::ok) {
                    let _ = send.send(line);
                }
            });
        }
        receive
    }

    /// Waits for it to end, without a timeout.
    pub fn end(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Waits for it to end, at most `patience`.
    pub fn wait(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        let began = reelway_clock::now();
        while reelway_clock::now().since(began) < patience {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("still running after {} s", patience.as_secs())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The group first: its leader's ID stays reserved until the process is reaped.
        undo(&Undo::Group(self.child.id() as i32));
        let _ = self.child.wait();
    }
}

/// Runs a program to its end and returns its output.
pub fn output(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output();
    let output = output.with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {}: {}", args.join(" "), words.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program of this name can be started.
pub fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join(program).is_file())
}

/// A temporary folder, removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates it in the system's directory for temporary files.
    pub fn make(name: &str) -> anyhow::Result<Folder> {
        Folder::make_in(&std::env::temp_dir(), name)
    }

    /// Creates it in `dir`.
    pub fn make_in(dir: &Path, name: &str) -> anyhow::Result<Folder> {
        let path = dir.join(format!("reelway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        remember(Undo::Folder(path.clone()));
        Ok(Folder(path))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        undo(&Undo::Folder(self.0.clone()));
    }
}
