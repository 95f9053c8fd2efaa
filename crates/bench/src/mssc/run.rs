//! Starts a task in a separate process, and waits for its result.

use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, bail};

use super::task::{MEASURING, Outcome, Task};
use crate::bed::{Child, cores};

/// Real-time priority of runs that have one: low among real-time ones, above everything else.
const PRIORITY: &str = "20";

/// Returns a command on the server's core, optionally with real-time priority.
pub fn on_servers_core(real_time: bool) -> anyhow::Result<Command> {
    let mut command = Command::new("taskset");
    command.args(["-c", &cores::server()]);
    if real_time {
        command.args(["chrt", "--fifo", PRIORITY]);
    }
    command.arg(std::env::current_exe()?);
    Ok(command)
}

/// Runs a task in the process that `command` starts (this program, without its arguments); calls
/// `measuring` with its process ID when its measurement begins.
pub fn run(
    mut command: Command,
    task: &Task,
    patience: Duration,
    measuring: impl FnOnce(u32),
) -> anyhow::Result<Outcome> {
    command.args(["bench", "mssc", "--task", &serde_json::to_string(task)?]);
    let mut child = Child::start(&mut command)?;
    let lines = child.lines();
    let began = reelway_clock::now();
    let mut measuring = Some(measuring);
    loop {
        let left = patience.saturating_sub(reelway_clock::now().since(began));
        match lines.recv_timeout(left) {
            Ok(line) if line == MEASURING => {
                if let Some(measuring) = measuring.take() {
                    measuring(child.id());
                }
            }
            Ok(line) if line.starts_with('{') => {
                let outcome =
                    serde_json::from_str(&line).context("what the process says of its task")?;
                child.wait(Duration::from_secs(10))?;
                return Ok(outcome);
            }
            Ok(line) => eprintln!("{line}"),
            Err(RecvTimeoutError::Timeout) => bail!("no outcome after {} s", patience.as_secs()),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the process ended without an outcome; see its message above")
            }
        }
    }
}
