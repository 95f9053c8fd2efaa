//! Writing to the pipes of a shell pipeline.

/// From now on, the process ends silently when it writes to a pipe that nobody reads any more
/// (signal SIGPIPE, see signal(7)), as `head` expects of the program that it reads from. For
/// commands that print and open no connections: a server must not end because a client has left.
pub fn end_with_the_reader() {
    // SAFETY: the signal runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
