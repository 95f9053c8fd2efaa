//! Programs that run beside this one.

use std::process::Stdio;

use reelway_sys::children;
use tokio::process::Command;

/// Has a program read nothing, hand over what it says, and end with this one.
pub(crate) fn attach(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    children::end_with_parent(command.as_std_mut());
    command
}
