//! Gathering writes to a TCP connection that never block.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check;
use crate::options::set;

/// The maximum number of slices per call (`UIO_MAXIOV`).
pub const MAX_SLICES: usize = 1024;

/// Writes as much of `slices`, in order, as the connection takes now. Returns the bytes taken, or
/// `WouldBlock` if none. Never blocks and never raises SIGPIPE, whatever the descriptor's flags.
pub fn write_now(connection: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    write_with(connection, slices, 0)
}

/// Like `write_now`, for bytes that others follow at once: they may wait until a packet is full
/// (`MSG_MORE`).
pub fn write_before_more(connection: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    write_with(connection, slices, libc::MSG_MORE)
}

fn write_with(
    connection: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    flags: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice has the layout of iovec on Unix (guaranteed by std).
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len().min(MAX_SLICES) as _;
    loop {
        // SAFETY: the slices are borrowed for the call, which only reads them.
        let sent = unsafe {
            libc::sendmsg(
                connection.as_raw_fd(),
                &message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | flags,
            )
        };
        match check(sent as i64) {
            Ok(sent) => return Ok(sent as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a write would find room or an error now: half of what [`set_unsent_limit`] allows has
/// left.
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

/// Limits the data that the kernel holds and has not sent yet to about `bytes`
/// (`TCP_NOTSENT_LOWAT`). This bounds a slow reader's backlog in the kernel, without bounding what
/// is in flight.
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

/// Limits the connection to `bytes_per_second` (`SO_MAX_PACING_RATE`), evenly: TCP spaces its
/// segments itself, or the egress queue does if it is fq. With [`NO_LIMIT`], it sends as fast as
/// the network allows.
///
/// # Errors
///
/// The kernel's error; the connection's rate is then unchanged.
pub fn set_max_rate(connection: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
    set(
        connection,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        bytes_per_second,
    )
}

/// Returns how many bytes per second the connection may send; [`NO_LIMIT`] if it is not limited.
///
/// # Errors
///
/// The kernel's error.
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
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use crate::time::monotonic_ns;

    /// Both ends of a loopback connection whose segments are as small as on Ethernet. By default
    /// loopback has segments of 64 KiB, and TCP sends the first ten segments of a connection
    /// without pacing.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Inherited by the connections that are accepted, and announced to their clients.
        set(listener.as_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, 1400).unwrap();
        let out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (out, listener.accept().unwrap().0)
    }

    /// The kernel's statistics of a connection (`TCP_INFO`, linux/tcp.h): `tcpi_max_pacing_rate`
    /// and `tcpi_bytes_acked`.
    fn accounted(connection: &TcpStream) -> (u64, u64) {
        let mut info = [0u8; 128];
        let mut bytes = info.len() as libc::socklen_t;
        // SAFETY: `info` has room for the `bytes` bytes that the kernel writes at most.
        let result = unsafe {
            libc::getsockopt(
                connection.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &mut bytes,
            )
        };
        check(i64::from(result)).unwrap();
        assert_eq!(bytes, 128, "a kernel without these fields");
        let word = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().unwrap());
        (word(112), word(120))
    }

    /// Reads until `wanted` bytes have arrived in all, `had` of them before. Returns by how many
    /// bytes, at most, the connection was ahead of `rate` bytes per second since `began`. The clock
    /// is read after the bytes, so a busy machine makes the result smaller, never larger.
    fn read_until(
        input: &mut TcpStream,
        had: usize,
        wanted: usize,
        (began, rate): (u64, u64),
    ) -> u64 {
        let (mut buffer, mut all, mut most) = (vec![0; 4096], had, 0);
        while all < wanted {
            let room = buffer.len().min(wanted - all);
            let read = input.read(&mut buffer[..room]).unwrap();
            assert!(read > 0, "the connection ended after {all} bytes");
            all += read;
            let due = u128::from(monotonic_ns() - began) * u128::from(rate) / 1_000_000_000;
            most = most.max((all as u64).saturating_sub(due as u64));
        }
        most
    }

    #[test]
    fn a_connection_sends_no_faster_than_its_rate_until_the_limit_is_removed() {
        const RATE: u64 = 500_000;
        const PACED: usize = 300_000;
        const REST: usize = 4_000_000;
        let (mut out, mut input) = connection();
        assert_eq!(max_rate(out.as_fd()).unwrap(), NO_LIMIT);
        set_max_rate(out.as_fd(), RATE).unwrap();
        assert_eq!(max_rate(out.as_fd()).unwrap(), RATE);
        assert_eq!(accounted(&out).0, RATE);

        let began = monotonic_ns();
        let mut writer = out.try_clone().unwrap();
        let writing = std::thread::spawn(move || writer.write_all(&vec![7; PACED + REST]).unwrap());
        // 5 % of slack, and 96 KiB for the first ten segments and for what a late timer sends at
        // once: a segment that the device divides may have 64 KiB.
        let ahead = read_until(&mut input, 0, PACED, (began, RATE * 21 / 20));
        assert!(ahead <= 96 << 10, "{ahead} bytes ahead of the rate");
        let (_, acked) = accounted(&out);
        let took = monotonic_ns() - began;
        let due = (u128::from(took) * u128::from(RATE) * 21 / 20_000_000_000) as u64;
        assert!(acked >= (PACED - 64 * 1024) as u64, "{acked} bytes");
        assert!(acked <= due + (96 << 10), "{acked} bytes in {took} ns");

        // At the old rate, the rest would take eight seconds.
        set_max_rate(out.as_fd(), NO_LIMIT).unwrap();
        assert_eq!(max_rate(out.as_fd()).unwrap(), NO_LIMIT);
        assert_eq!(accounted(&out).0, NO_LIMIT);
        let began = monotonic_ns();
        read_until(&mut input, PACED, PACED + REST, (began, RATE));
        let took = monotonic_ns() - began;
        assert!(
            took < 4_000_000_000,
            "without a limit {REST} bytes took {took} ns"
        );
        writing.join().unwrap();
        out.flush().unwrap();
    }

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
