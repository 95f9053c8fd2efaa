//! Child processes: they end with this one, or on request.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::check;

/// Makes the kernel end the program with SIGTERM when the thread that starts it ends, even by
/// SIGKILL.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    let bind = move || {
        let signal = libc::SIGTERM as libc::c_ulong;
        // SAFETY: no memory is passed.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) }.into())?;
        // The parent may have exited already.
        // SAFETY: it takes nothing and cannot fail.
        match unsafe { libc::getppid() } == parent as libc::pid_t {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: between fork and exec there are only two system calls.
    unsafe { command.pre_exec(bind) }
}

/// Sends SIGTERM to a child that has not been waited for yet.
///
/// # Errors
/// There is no such process.
pub fn terminate(id: u32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::kill(id as libc::pid_t, libc::SIGTERM) }.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_program_ends_with_the_thread_that_started_it_or_when_it_is_asked_to() {
        let sleep = |command: &mut Command| command.arg("60").spawn().unwrap();
        let start = move || sleep(end_with_parent(&mut Command::new("sleep")));
        let mut orphan = std::thread::spawn(start).join().unwrap();
        assert_eq!(orphan.wait().unwrap().signal(), Some(libc::SIGTERM));

        let mut child = sleep(&mut Command::new("sleep"));
        terminate(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}
