//! Gathering writes to a TCP connection that never block.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check;

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

fn set(
    connection: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: `value` is an int to be read, as these options want.
    let result = unsafe {
        libc::setsockopt(
            connection.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    check(i64::from(result)).map(drop)
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

#[cfg(test)]
mod tests {
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
