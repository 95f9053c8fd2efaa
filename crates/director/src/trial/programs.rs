//! The programs of a trial. Each runs on its machine and writes a log.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use reelway_sys::children;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use super::network::namespace;
use crate::child::attach;

/// How long to wait for a program to become ready; emulated processors are slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long to wait for a program to end.
const END: Duration = Duration::from_secs(20);
/// Capacity of the queue of lines; lines beyond it are only in the log.
const WAITING: usize = 1024;
/// Number of lines that are shown of a program that failed.
const SHOWN: usize = 10;

/// A running program.
pub struct Program {
    name: String,
    child: Child,
    lines: Receiver<String>,
    latest: VecDeque<String>,
}

impl Program {
    /// Starts this program with these arguments on a machine; its log is in `dir`.
    pub async fn start(
        machine: &str,
        name: &str,
        arguments: &[String],
        dir: &Path,
    ) -> anyhow::Result<Program> {
        let program = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &namespace(machine)])
            .arg(program)
            .args(arguments);
        let mut child = attach(&mut command)
            .spawn()
            .context("ip cannot be started (Debian's package iproute2)")?;
        let (said, lines) = channel(WAITING);
        let log: PathBuf = dir.join(format!("{name}.log"));
        for output in [
            child.stdout.take().map(boxed),
            child.stderr.take().map(boxed),
        ] {
            let log = File::options().create(true).append(true).open(&log);
            let log = log.with_context(|| format!("{name}'s log"))?;
            tokio::spawn(copy(output, log, said.clone()));
        }
        Ok(Program {
            name: name.to_owned(),
            child,
            lines,
            latest: VecDeque::new(),
        })
    }

    /// Waits until the program has printed a line that contains `words`.
    ///
    /// # Errors
    /// It has ended, or the wait timed out.
    pub async fn says(&mut self, words: &str) -> anyhow::Result<()> {
        let said = async {
            while let Some(line) = self.lines.recv().await {
                if line.contains(words) {
                    return true;
                }
                self.latest.push_back(line);
                if self.latest.len() > SHOWN {
                    self.latest.pop_front();
                }
            }
            false
        };
        match timeout(PATIENCE, said).await {
            Ok(true) => return Ok(()),
            Ok(false) => bail!("{} has ended:\n{}", self.name, self.last_words()),
            Err(_) => {}
        }
        bail!("{} does not get ready:\n{}", self.name, self.last_words())
    }

    fn last_words(&self) -> String {
        let lines: Vec<String> = self.latest.iter().map(|line| format!("  {line}")).collect();
        lines.join("\n")
    }

    /// Waits until the program has ended by itself, and returns whether it succeeded.
    pub async fn ended(&mut self) -> anyhow::Result<bool> {
        let status = self.child.wait().await;
        Ok(status.with_context(|| self.name.clone())?.success())
    }

    /// Ends the program; it puts its settings back.
    pub async fn end(mut self) {
        if let Some(id) = self.child.id() {
            let _ = children::terminate(id);
        }
        if timeout(END, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

type Output = Box<dyn AsyncRead + Send + Unpin>;

fn boxed(output: impl AsyncRead + Send + Unpin + 'static) -> Output {
    Box::new(output)
}

/// Copies the output of a program to its log and to the queue.
async fn copy(output: Option<Output>, mut log: File, said: Sender<String>) {
    let Some(output) = output else { return };
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // The trial continues if the disk is full.
        let _ = writeln!(log, "{line}");
        let _ = said.try_send(line);
    }
}
