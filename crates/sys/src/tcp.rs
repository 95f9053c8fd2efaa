//! Gathering writes to a TCP connection that never block.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check;
use crate::options::set;

/// Most slices a single call takes (`UIO_MAXIOV`).
pub const MAX_SLICES: usize = 1024;

/// Writes as much of `slices`, in order, as the connection takes now; the bytes taken, or
/// `WouldBlock` if none. Never blocks and never raises SIGPIPE, whatever the descriptor's flags.
pub fn write_now(connection: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice has the layout of iovec on Unix (std's promise).
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len().min(MAX_SLICES) as _;
    loop {
        // SAFETY: the slices are borrowed for the call, which only reads them.
        let sent = unsafe {
            libc::sendmsg(
                connection.as_raw_fd(),
                &message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match check(sent as i64) {
            Ok(sent) => return Ok(sent as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a write would find room now, or an error: half of what [`set_unsent_limit`] allows has left.
pub fn is_writable(connection: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd {
        fd: connection.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one valid pollfd, for a call that does not wait.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    ready > 0
}

/// Sends small writes at once (`TCP_NODELAY`).
pub fn set_nodelay(connection: BorrowedFd<'_>) -> io::Result<()> {
    set(connection, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}

/// Lets the kernel hold at most about `bytes` that have not left yet (`TCP_NOTSENT_LOWAT`): what a
/// slow reader's backlog in the kernel is bounded by, without a bound on what is on the way.
pub fn set_unsent_limit(connection: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(
        connection,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        bytes.min(i32::MAX as u32) as libc::c_int,
    )
}

/// Sets the send buffer to about `bytes` (`SO_SNDBUF`; the kernel doubles it).
pub fn set_send_buffer(connection: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(
        connection,
        libc::SOL_SOCKET,
        libc::SO_SNDBUF,
        bytes.min(i32::MAX as u32 / 2) as libc::c_int,
    )
}

/// No limit, for [`set_max_rate`].
pub const NO_LIMIT: u64 = u64::MAX;

/// Lets the connection send at most so many bytes a second (`SO_MAX_PACING_RATE`), evenly: TCP spaces its
/// segments itself, or the egress queue does where it is fq. [`NO_LIMIT`]: as fast as the network goes.
///
/// # Errors
///
/// What the kernel said; the connection then sends as before.
pub fn set_max_rate(connection: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
    set(
        connection,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        bytes_per_second,
    )
}

/// What the connection may send in a second, bytes; [`NO_LIMIT`]: anything.
///
/// # Errors
///
/// What the kernel said.
pub fn max_rate(connection: BorrowedFd<'_>) -> io::Result<u64> {
    let mut rate = 0u64;
    let mut bytes = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `rate` is a number of `bytes` bytes, to be written.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            std::ptr::from_mut(&mut rate).cast(),
            &mut bytes,
        )
    };
    check(i64::from(result)).map(|_| rate)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_connection_is_held_to_its_rate_and_let_go_again() {
        use std::io::{Read, Write};
        use std::net::{TcpListener, TcpStream};
        use std::os::fd::AsFd;

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut input, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            (all.len(), crate::time::monotonic_ns())
        });
        assert_eq!(super::max_rate(out.as_fd()).unwrap(), super::NO_LIMIT);
        super::set_max_rate(out.as_fd(), 1_000_000).unwrap();
        assert_eq!(super::max_rate(out.as_fd()).unwrap(), 1_000_000);
        let began = crate::time::monotonic_ns();
        out.write_all(&vec![7; 700_000]).unwrap();
        super::set_max_rate(out.as_fd(), super::NO_LIMIT).unwrap();
        assert_eq!(super::max_rate(out.as_fd()).unwrap(), super::NO_LIMIT);
        drop(out);
        let (bytes, ended) = reader.join().unwrap();
        assert_eq!(bytes, 700_000);
        // Some of it was in the buffer when the limit fell.
        let took = ended - began;
        println!("700 kB at 1 MB/s took {took} ns");
    }

    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn what_does_not_fit_is_left_and_nothing_blocks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        set_nodelay(writer.as_fd()).unwrap();
        set_send_buffer(writer.as_fd(), 4096).unwrap();
        set_unsent_limit(writer.as_fd(), 4096).unwrap();
        let data = vec![7u8; 100_000];
        let slices = [IoSlice::new(&data), IoSlice::new(&data)];
        let mut sent = 0;
        let error = loop {
            match write_now(writer.as_fd(), &slices) {
                Ok(bytes) => sent += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(writer);
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), sent);
    }
}
