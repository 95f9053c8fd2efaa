//! Child processes.

use std::process::Stdio;

use reelway_sys::children;
use tokio::process::Command;

/// Prepares a command: standard input is empty, output is piped, and the process ends with this
/// one.
pub(crate) fn attach(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    children::end_with_parent(command.as_std_mut());
    command
}
