//! Pipes of a shell's pipeline.

/// From now on the process ends without a word when it writes to a pipe that nobody reads any more (signal SIGPIPE, see
/// signal(7)), as `head` expects of what it reads from. For commands that print and open no connections: a server must not end
/// because a client is gone.
pub fn end_with_the_reader() {
    // SAFETY: no code of ours is run by the signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
